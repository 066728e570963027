//  answer -- values of a server's answer to STATUS, for the commands that show it; of its sampling trees and
//  of --memory, in words.  Whatever the answer holds: what is missing counts as nothing.  No state.
#ifndef ANSWER_H
#define ANSWER_H
#include <stdbool.h>
#include <stddef.h>
#include <jansson.h>

//  What a job waits for, as `waits` names it, in the order in which it is shown.
enum { ANSWER_WAITS = 6 };
static const char *const answer_waits [ANSWER_WAITS] = { "draw", "read", "memory", "decode", "copy",
    "client" };

//  Parses an answer, and makes all texts in it visible (utf8.h): names hold anything, and so may a server.
//  NULL, with a sentence in error: it is no JSON, or there is no memory for all of it.
json_t *answer_parse (const char *text, char *error, size_t error_bytes);

//  0: there is no such number.
double answer_real (const json_t *object, const char *key);

//  "": there is no such text.  Lent.
const char *answer_text (const json_t *object, const char *key);

//  ---- sampling trees (docs/operations.md, `sharing_trees`)

//  The jobs of a tree, those beside its path too.
size_t answer_tree_jobs (const json_t *tree);
//  The tree that the job is in; NULL: none.
const json_t *answer_tree_of (const json_t *status, double job);
//  What it has to draw; below 0: the tree does not have it.
double answer_tree_remaining (const json_t *tree, double job);
//  What both have to draw; below 0: that is not told.
double answer_tree_common (const json_t *tree, double job, double other);
//  The job that shares most with this one; below 0: none is told.
double answer_tree_most (const json_t *tree, double job);
//  "beta", or "job 7".  text: room for a few bytes.
enum { ANSWER_TREE_NAME_BYTES = 160 };
const char *answer_tree_name (const json_t *status, double job, char text [ANSWER_TREE_NAME_BYTES]);
//  "of what this job has to draw, beta needs 87 %, gamma 20 %": those that share most with the job.  "about"
//  before estimates.  "": no job does.
void answer_tree_words (const json_t *status, double job, char *text, size_t text_bytes);
//  "5 jobs; 1200 samples are still needed by all; alpha and beta share most: 3000"; "": they do not share.
void answer_tree_summary (const json_t *status, const json_t *dataset, char *text, size_t text_bytes);
//  Prints the data set's trees, a line each vertex and job, as far as they are short.
void answer_tree_print (const json_t *status, const json_t *dataset);

//  ---- what --memory holds and saves: "" where the server has no --memory, or does not tell

//  "memory 8.0 GB: 6.9 GB of 6.9 GB pinned (54 % of photos), 600 MB for mixing, 500 MB for prepared samples;
//  54 % of the bytes read so far came from pins, about 41 s of reading saved".
void answer_memory_words (const json_t *status, char *text, size_t text_bytes);
//  Of a data set: "pinned 6.9 GB, 54 % of it; 54 % of the bytes read so far came from there (21 GB), about 41
//  s of reading saved".
void answer_memory_dataset (const json_t *dataset, char *text, size_t text_bytes);
//  Of a job: "in epoch 3, 54 % of the bytes read for it came from pins, about 4.1 s of reading saved".
void answer_memory_job (const json_t *status, const json_t *job, char *text, size_t text_bytes);

#endif
