/*  operation -- one entry of a pipeline's list: its parameters, checked, and its canonical text.
 *
 *  Parsing is table driven: one row an operation, with its keys, its stage and its parser.  Foreign input
 *  throughout: text from it is quoted into messages in printable ASCII only and cut short.
 */
#ifndef OPERATION_H
#define OPERATION_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "pipeline.h"

typedef enum {
    OPERATION_RESIZE,
    OPERATION_CENTER_CROP,
    OPERATION_RANDOM_RESIZED_CROP,
    OPERATION_FLIP
} operation_kind_t;

typedef struct {
    operation_kind_t kind;
    uint32_t place;             //  index in the canonical list, the share mark counted
    bool shorter_side;          //  resize only: height is the shorter side to reach, width is not used
    uint32_t height;
    uint32_t width;
    double scale [2];           //  random_resized_crop only: share of the area, then width / height
    double ratio [2];
    double probability;         //  flip only
} operation_t;

//  Where a complaint goes and what it is about.
typedef struct {
    char *text;
    size_t text_bytes;
    size_t place;               //  in the list as it was sent, from 0
    const char *name;           //  of the operation; NULL while it is not known
} complaint_t;

enum { OPERATION_TEXT_BYTES_MAX = 200 };

//  Writes "operation 2 (flip): " and the rest; returns -EINVAL.
int operation_complain (const complaint_t *complaint, const char *format, ...)
    __attribute__ ((format (printf, 2, 3)));

//  Fills *self from one object of the list, all but its place; 0, or -EINVAL with a complaint.
int operation_parse (operation_t *self, const json_t *value, complaint_t *complaint);
const char *operation_name (const operation_t *self);
//  Whether its result depends on random numbers at all: flip with p 0 or 1 does not.
bool operation_is_random (const operation_t *self);
bool operation_may_be_private (const operation_t *self);
//  Writes the canonical object and returns its length, below OPERATION_TEXT_BYTES_MAX.
size_t operation_write (const operation_t *self, char text [OPERATION_TEXT_BYTES_MAX]);
//  text in printable ASCII, cut to what target holds (others become '?'); returns target.
const char *operation_printable (const char *text, char *target, size_t target_bytes);

//  The shared stage of a pipeline, for the decoder; lent for the life of the pipeline.
const operation_t *pipeline_shared_operations (const pipeline_t *self, size_t *count_p);

#endif
