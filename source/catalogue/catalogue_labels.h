/*  catalogue_labels -- what the readers of labels.tsv and labels.jsonl share; for the catalogue's files and
 *  its fuzz target.
 *
 *  The file is foreign input and bounded: its size, a line, a path, a value, the number of columns.  Every
 *  refusal names FILE:LINE and what to do.
 */
#ifndef CATALOGUE_LABELS_H
#define CATALOGUE_LABELS_H
#include "catalogue_state.h"

enum { LABELS_LINE_BYTES_MAX = 1024 * 1024 };
#define LABELS_FILE_BYTES_MAX ((uint64_t) 4 << 30)

typedef struct {
    const char *at;
    size_t length;
} slice_t;

typedef struct {
    draft_t *draft;
    catalogue_t *self;
    const char *shown;              //  the file's path, for errors
    bool is_list;                   //  a list anywhere on the disk: paths may be absolute
    bool is_absolute;               //  of a list: all paths are, without their first '/'
    const char *text;               //  all of it; text [size] is zero
    size_t size;
    size_t at;                      //  where the next line begins
    uint64_t line;                  //  the line being read, from 1
    uint64_t lines_before;          //  the first sample's
    lookup_t directories;
    lookup_t samples;
} labels_t;

//  A format of labels files; a whole text becomes samples and columns, by the functions below.
typedef struct {
    const char *ending;             //  of the files' names: ".tsv"
    uint64_t lines_before;          //  the first sample's
    int (*read) (labels_t *labels);
} labels_reader_t;

extern const labels_reader_t catalogue_tsv, catalogue_jsonl;

//  The labels file of the draft's options, or labels.tsv and the like in field 0's root: 1; or 0: there is no
//  such file, and nothing has changed.  readers: up to a NULL.
int catalogue_labels_read (draft_t *draft, const labels_reader_t *const *readers);
//  The parser without the disk: reads samples (of size 0) and columns from text.  text [size] is zero.  0, or
//  -errno and a sentence.
int catalogue_labels_parse (draft_t *draft, const labels_reader_t *reader, const char *text, size_t size);

//  Writes "FILE:LINE: ..." and returns rc.
__attribute__ ((format (printf, 4, 5)))
int catalogue_labels_fail (const labels_t *labels, int rc, uint64_t line, const char *format, ...);
//  Starts again at the first line.
void catalogue_labels_rewind (labels_t *labels);
//  1 and the next line without its end, 0 behind the last one, or -errno.  Empty lines are allowed at the end
//  only.
int catalogue_labels_next (labels_t *labels, slice_t *line_p);
//  Adds this line's sample.
int catalogue_labels_add_path (labels_t *labels, slice_t path);
//  A column of this name; COLUMN_NEW.
int catalogue_labels_add_column (labels_t *labels, slice_t name);
//  Sets what the column holds: its kind, and the length of its vectors.
int catalogue_labels_shape (labels_t *labels, column_t *column, column_kind_t kind, bool is_vector,
    size_t length);
//  A whole number as a column's float64: 0; or -EINVAL, for one beyond 2^53 is rounded.  is_wide: it is
//  beyond int64.  text: as it is written.
int catalogue_labels_real (const labels_t *labels, const column_t *column, int64_t whole, bool is_wide,
    slice_t text, double *real_p);
//  Appends one value of the column's kind; text by its own function.
int catalogue_labels_put (labels_t *labels, column_t *column, value_t value);
int catalogue_labels_put_text (labels_t *labels, column_t *column, slice_t text);

#endif
