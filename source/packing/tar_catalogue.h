/*  tar_catalogue -- what the members of tar files are to each other: fields and labels of samples; for
 *  pack_source.c.
 *
 *  A member's *key* is what stands behind the first dot of its last component, in small letters, as in
 *  WebDataset.
 *
 *  1. The image, field 0, is the one member with one of the wanted extensions ("jpg") as its key.  If there
 *     is none, it is the one member with a key that ends in such an extension ("left.jpg").  Masks do not
 *     count.  It is an error if two members qualify, or none.
 *  2. Every other member is a further field, named by its key with '_' for dots; "_file" is appended if the
 *     name is taken: image, label, txt, json.  All samples have the same keys, except for the image's; fields
 *     are in the order of the keys.
 *  3. Labels, beside the fields: "cls" is a number and becomes `label`: int64, or float64 where one of
 *     them is not whole.  options->classes has the names of the numbers.  "txt" and "json" become texts of
 *     that name, unless in some sample it is longer than CATALOGUE_LABEL_BYTES_MAX, no UTF-8, or has a zero
 *     byte in it, or is empty in all.
 *  4. Where none of these three is there, classes are what ImageFolder makes of the folders: `label` is the
 *     number of the first folder below those that all samples are in, by sorted name.  Without such folders,
 *     or with samples beside them, there are no labels.
 *
 *  Owner: one thread.
 */
#ifndef TAR_CATALOGUE_H
#define TAR_CATALOGUE_H
#include <limits.h>
#include "catalogue_state.h"
#include "pack_source.h"

typedef struct tar_catalogue tar_catalogue_t;

typedef struct {
    char path [PATH_MAX];               //  without '.' and empty parts
    size_t name;                        //  where its last component begins,
    size_t stem;                        //  and where the first dot of that is
    char key [CATALOGUE_NAME_BYTES_MAX];
    uint64_t size;
    catalogue_buffer_t data;            //  of size bytes, if it has been read
} tar_member_t;

//  NULL, and error has the reason: impossible options, no memory.  Options are lent for its life.
tar_catalogue_t *tar_catalogue_new (const pack_source_options_t *options, char *error);
void tar_catalogue_destroy (tar_catalogue_t **self_p);

//  Whether a member of this key has to be read even if the sample is skipped.
bool tar_catalogue_needs (const char *key);
//  One sample more: its members, of one stem.  order [field] is the index of the field's member.  `archive`
//  is for errors. The number of fields, or -errno and error.
int tar_catalogue_add (tar_catalogue_t *self, const char *archive, const tar_member_t *members, size_t count,
    size_t order [CATALOGUE_FIELDS_MAX], char *error);
//  Call it after the last sample.
int tar_catalogue_finish (tar_catalogue_t *self, char *error);
uint64_t tar_catalogue_samples (const tar_catalogue_t *self);
//  Finished; lent.
const catalogue_t *tar_catalogue_result (const tar_catalogue_t *self);

#endif
