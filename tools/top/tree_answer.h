//  tree_answer -- the sampling trees in a server's answer to STATUS (docs/operations.md, `sharing_trees`),
//  for the commands that show them.  Whatever the answer holds: what is missing counts as nothing.  No state.
#ifndef TREE_ANSWER_H
#define TREE_ANSWER_H
#include <stdbool.h>
#include <stddef.h>
#include <jansson.h>

//  The jobs of a tree, those beside its path too.
size_t tree_answer_jobs (const json_t *tree);
//  The tree that the job is in; NULL: none.
const json_t *tree_answer_of (const json_t *status, double job);
//  What it has to draw; below 0: the tree does not have it.
double tree_answer_remaining (const json_t *tree, double job);
//  What both have to draw; below 0: that is not told.
double tree_answer_common (const json_t *tree, double job, double other);
//  The job that shares most with this one; below 0: none is told.
double tree_answer_most (const json_t *tree, double job);
//  "beta", or "job 7".  text: room for a few bytes.
enum { TREE_ANSWER_NAME_BYTES = 160 };
const char *tree_answer_name (const json_t *status, double job, char text [TREE_ANSWER_NAME_BYTES]);
//  "of what this job has to draw, beta needs 87 %, gamma 20 %": those that share most with the job.  "about"
//  before estimates.  "": no job does.
void tree_answer_words (const json_t *status, double job, char *text, size_t text_bytes);
//  "5 jobs; 1200 samples are still needed by all; alpha and beta share most: 3000"; "": they do not share.
void tree_answer_summary (const json_t *status, const json_t *dataset, char *text, size_t text_bytes);
//  Prints the data set's trees, a line each vertex and job, as far as they are short.
void tree_answer_print (const json_t *status, const json_t *dataset);

#endif
