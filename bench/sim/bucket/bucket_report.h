/*  bucket_report -- an answer of store_sim, for people or as JSON.  */
#ifndef BUCKET_REPORT_H
#define BUCKET_REPORT_H
#include "bucket_question.h"

void bucket_report_table (const bucket_question_t *question, const bucket_answer_t *answers);
void bucket_report_json (const bucket_question_t *question, uint64_t seed, const bucket_answer_t *answers);

#endif
