/*  operation_keys -- reads the keys of one JSON object: each value is checked, each refusal says what was
 *  expected.
 *
 *  A function reads one key into *value_p and leaves the default that is there where an optional key is left
 *  out.
 *  All return 0, or -EINVAL with a complaint: "p" is not valid; expected a number from 0 to 1.
 *  Numbers: 1 and 1.0 are the same; booleans and strings are none.  Foreign input throughout.
 */
#ifndef OPERATION_KEYS_H
#define OPERATION_KEYS_H
#include "operation.h"

typedef struct {
    const json_t *object;
    const complaint_t *complaint;
    const pipeline_source_t *source;    //  its fields may be named
} operation_keys_t;

typedef enum { OPERATION_KEY_OPTIONAL, OPERATION_KEY_REQUIRED } operation_key_need_t;

//  Says that key is missing or not valid, and what was expected.
int operation_keys_refuse (const operation_keys_t *self, const char *key, const char *format, ...)
    __attribute__ ((format (printf, 3, 4)));
//  Refuses a key that is neither "op" nor in the list, which NULL ends.
int operation_keys_only (const operation_keys_t *self, const char *const *keys);

int operation_keys_flag (const operation_keys_t *self, const char *key, bool *value_p);
int operation_keys_whole (const operation_keys_t *self, const char *key, operation_key_need_t need,
    uint32_t least, uint32_t most, uint32_t *value_p);
int operation_keys_number (const operation_keys_t *self, const char *key, double least, double most,
    double *value_p);
//  One of count words; *index_p says which.
int operation_keys_word (const operation_keys_t *self, const char *key, operation_key_need_t need,
    const char *const *words, size_t count, unsigned *index_p);
//  [a, b] with least <= a <= b <= most; expected says so.
int operation_keys_pair (const operation_keys_t *self, const char *key, double least, double most,
    const char *expected, double pair_p [2]);
//  Whether it is a list of up to count_max numbers from least to most, in any order; *count_p: how many.  It
//  complains of nothing.
bool operation_keys_list (const operation_keys_t *self, const char *key, double least, double most,
    size_t count_max, double *values_p, size_t *count_p);
//  "size", required: S or [height, width].  *is_one_p (may be NULL): whether it was S, which goes to both.
int operation_keys_size (const operation_keys_t *self, uint32_t *height_p, uint32_t *width_p, bool *is_one_p);
//  n, [across, down] or [left, top, right, bottom].
int operation_keys_padding (const operation_keys_t *self, const char *key, operation_key_need_t need,
    uint32_t border_p [4]);
//  A value of all three channels or [red, green, blue].
int operation_keys_fill (const operation_keys_t *self, const char *key, uint8_t fill_p [IMAGE_COLOURS]);
//  x, which means [max (0, centre - x), centre + x] (signed: no max), or [least, most].
typedef struct {
    double centre;
    double x_most;
    double least;
    double most;
    bool is_signed;
} operation_factor_t;
int operation_keys_factor (const operation_keys_t *self, const char *key, const operation_factor_t *limits,
    double *least_p, double *most_p);
//  A number, or a list of 1 or 3; *count_p: how many (1 where it is left out).
int operation_keys_channels (const operation_keys_t *self, const char *key, double least, double most,
    float values_p [IMAGE_COLOURS], uint32_t *count_p);
//  Required: 1 to PIPELINE_DIMENSIONS_MAX whole numbers from 1 to most.
int operation_keys_shape (const operation_keys_t *self, const char *key, uint32_t most,
    uint32_t *dimensions_p, uint32_t shape_p [PIPELINE_DIMENSIONS_MAX]);

//  Appends word, in quotes, with ", " before all but the first; what does not fit is left out.
void operation_keys_append (char *text, size_t text_bytes, const char *word, const char *quote);

#endif
