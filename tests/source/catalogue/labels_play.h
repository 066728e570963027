/*  labels_play -- what the tests of labels files share: files that lines can name, and parsing without the
 *  disk.
 *
 *  A test program includes cmocka, then this.
 */
#ifndef LABELS_PLAY_H
#define LABELS_PLAY_H
#include "catalogue_labels.h"
#include "data_folder.h"

//  Three files that lines can name.
static inline catalogue_options_t
play_with_files (void *state)
{
    make_file (state, "a.jpg", 1);
    make_file (state, "b/c.jpg", 2);
    make_file (state, "b/d/e.txt", 3);
    return (catalogue_options_t) { .path = in (state, "") };
}

//  *self_p is for catalogue_destroy; its samples have no files.
static inline int
play_parse (catalogue_t **self_p, const labels_reader_t *reader, const char *text, char *error,
    size_t error_bytes)
{
    catalogue_t *self = catalogue_new ();
    assert_non_null (self);
    strcpy (self->fields [0].name, "image");
    self->fields [0].path = strdup ("/data");
    self->field_count = 1;
    draft_t draft = { .self = self, .error = error, .error_bytes = error_bytes };
    error [0] = 0;
    *self_p = self;
    return catalogue_labels_parse (&draft, reader, text, strlen (text));
}

#endif
