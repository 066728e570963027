/*  entry -- one object of a pipeline's list, as JSON: reads its keys, writes its canonical text, says what is
 *  wrong with it.
 *
 *  A function reads one key into *value_p and leaves the default that is there where an optional key is left
 *  out.  All return 0, or -EINVAL with a complaint: "p" is not valid; expected a number from 0 to 1.
 *  Numbers: 1 and 1.0 are the same; booleans and strings are no numbers.  Foreign input throughout: text from
 *  it is quoted into messages in printable ASCII only and cut short.
 */
#ifndef ENTRY_H
#define ENTRY_H
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "image.h"
#include "pipeline.h"

#define ENTRY_NOT_SENT SIZE_MAX
enum {
    ENTRY_QUOTE_BYTES_MAX = 41,         //  of foreign text in a message
    ENTRY_TEXT_BYTES_MAX = 2048         //  of a decode of PIPELINE_FIELDS_MAX fields
};

//  ---- complaints

//  The text that a complaint is written to, and the operation that it names.
typedef struct {
    char *text;
    size_t text_bytes;
    size_t place;                   //  in the list as it was sent, from 0; ENTRY_NOT_SENT: the whole list
    const char *name;               //  of the operation; NULL while it is not known
} complaint_t;

//  Writes "operation 2 (flip): " (nothing, where no single one is meant) and the rest; returns -EINVAL.
int entry_complain (const complaint_t *complaint, const char *format, ...)
    __attribute__ ((format (printf, 2, 3)));
int entry_vcomplain (const complaint_t *complaint, const char *format, va_list arguments)
    __attribute__ ((format (printf, 2, 0)));
//  text in printable ASCII, cut to what target holds (others become '?'); returns target.
const char *entry_printable (const char *text, char *target, size_t target_bytes);
//  Appends word, in quotes, with ", " before all but the first; what does not fit is left out.
void entry_append (char *text, size_t text_bytes, const char *word, const char *quote);

//  ---- keys

typedef struct {
    const json_t *object;
    const complaint_t *complaint;
    const pipeline_source_t *source;    //  its fields may be named
} entry_t;

typedef enum { ENTRY_OPTIONAL, ENTRY_REQUIRED } entry_need_t;

//  Says that key is missing or not valid, and what was expected.
int entry_refuse (const entry_t *self, const char *key, const char *format, ...)
    __attribute__ ((format (printf, 3, 4)));
//  Refuses a key that is neither "op" nor in the list, which NULL ends.
int entry_only (const entry_t *self, const char *const *keys);

int entry_flag (const entry_t *self, const char *key, bool *value_p);
int entry_whole (const entry_t *self, const char *key, entry_need_t need,
    uint32_t least, uint32_t most, uint32_t *value_p);
int entry_number (const entry_t *self, const char *key, double least, double most, double *value_p);
//  One of count words; *index_p says which.
int entry_word (const entry_t *self, const char *key, entry_need_t need,
    const char *const *words, size_t count, unsigned *index_p);
//  [a, b] with least <= a <= b <= most; expected says so.
int entry_pair (const entry_t *self, const char *key, double least, double most,
    const char *expected, double pair_p [2]);
//  Whether it is a list of up to count_max numbers from least to most, in any order; *count_p: how many.  It
//  complains of nothing.
bool entry_list (const entry_t *self, const char *key, double least, double most,
    size_t count_max, double *values_p, size_t *count_p);
//  Such a list of two; *given_p: whether it is there.
int entry_two (const entry_t *self, const char *key, double least, double most, const char *expected,
    double two_p [2], bool *given_p);
//  A number that is always it, or [least, most].
int entry_range (const entry_t *self, const char *key, double least, double most, double range_p [2]);
//  A number from 0 for both sides, or [across, down].
int entry_sides (const entry_t *self, const char *key, double most, double sides_p [2]);
//  "size", required: S or [height, width].  *is_one_p (may be NULL): whether it was S, which goes to both.
int entry_size (const entry_t *self, uint32_t *height_p, uint32_t *width_p, bool *is_one_p);
//  n, [across, down] or [left, top, right, bottom].
int entry_padding (const entry_t *self, const char *key, entry_need_t need, uint32_t border_p [4]);
//  A value of all three channels or [red, green, blue].
int entry_fill (const entry_t *self, const char *key, uint8_t fill_p [IMAGE_COLOURS]);
//  x, which means [max (0, centre - x), centre + x] (signed: no max), or [least, most].
typedef struct {
    double centre;
    double x_most;
    double least;
    double most;
    bool is_signed;
} entry_factor_t;
int entry_factor (const entry_t *self, const char *key, const entry_factor_t *limits,
    double *least_p, double *most_p);
//  A number, or a list of 1 or 3; *count_p: how many (1 where it is left out).
int entry_channels (const entry_t *self, const char *key, double least, double most,
    float values_p [IMAGE_COLOURS], uint32_t *count_p);
//  Required: 1 to PIPELINE_DIMENSIONS_MAX whole numbers from 1 to most.
int entry_shape (const entry_t *self, const char *key, uint32_t most,
    uint32_t *dimensions_p, uint32_t shape_p [PIPELINE_DIMENSIONS_MAX]);

//  ---- the canonical text: all that is written fits into ENTRY_TEXT_BYTES_MAX, or it is our bug

typedef struct {
    char *text;
    size_t length;
    const pipeline_source_t *source;    //  its fields are named
} entry_text_t;

void entry_put (entry_text_t *self, const char *format, ...)
    __attribute__ ((format (printf, 2, 3)));
//  The shortest decimal that reads back as the same double (is_float: the same float).
void entry_put_number (entry_text_t *self, double number, bool is_float);
//  ,"key":[a,b]
void entry_put_pair (entry_text_t *self, const char *key, const double pair [2]);
//  ,"key":true
void entry_put_flag (entry_text_t *self, const char *key, bool flag);

#endif
