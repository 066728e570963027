//  memory_answer -- what --memory holds and saves, in a server's answer to STATUS, in words, for the commands
//  that show it.  Each text is "" where the server has no --memory, or does not tell.  No state.
#ifndef MEMORY_ANSWER_H
#define MEMORY_ANSWER_H
#include <stddef.h>
#include <jansson.h>

//  "memory 8.0 GB: 6.9 GB of 6.9 GB pinned (54 % of photos), 600 MB for mixing, 500 MB for prepared samples;
//  54 % of the bytes read so far came from pins, about 41 s of reading saved".
void memory_answer_words (const json_t *status, char *text, size_t text_bytes);
//  Of a data set: "pinned 6.9 GB, 54 % of it; 54 % of the bytes read so far came from there (21 GB), about 41
//  s of reading saved".
void memory_answer_dataset (const json_t *dataset, char *text, size_t text_bytes);
//  Of a job: "in epoch 3, 54 % of the bytes read for it came from pins, about 4.1 s of reading saved".
void memory_answer_job (const json_t *status, const json_t *job, char *text, size_t text_bytes);

#endif
