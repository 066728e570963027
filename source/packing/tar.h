/*  tar -- tar files as the source of a pack: which there are, and what their members are to each other; for
 *  pack_source.c.
 *
 *  Owner: one thread; blocks for as long as disks and stores do.
 */
#ifndef TAR_H
#define TAR_H
#include <limits.h>
#include <time.h>
#include "catalogue_state.h"
#include "pack_source.h"
#include "store.h"

//  ---- shards: the tar files of a source, on this machine, in object stores and on web servers
//
//  Addresses (s3://, http://, https://) may have counting braces, since no shell expands them there:
//  s3://bucket/train-{000..099}.tar stands for a hundred, in that order.  Both numbers are decimal, the
//  smaller one first; if one of them begins with a zero, all have as many digits as the longer one.
//
//  "-" is standard input, read once: of it nothing is known before.

enum { TAR_SHARDS_MAX = 1000000 };

typedef struct {
    char *path;                         //  or address
    uint64_t bytes;
    struct timespec changed;            //  of a file
    bool is_input;                      //  standard input
    store_t *store;                     //  NULL: a file, or standard input.  Lent
    char *url;
    char version [TRANSFER_VERSION_BYTES];      //  "": it has none
} tar_shard_t;

typedef struct {
    tar_shard_t *list;                  //  in the order of the paths
    size_t count, limit;
    uint64_t bytes;                     //  of all
    store_t **stores;
    size_t store_count;
} tar_shards_t;

//  Expands the paths and looks at each file and object: is it there, how large is it.  0 and the caller
//  clears it; or -errno with a sentence, and it is cleared.
int tar_shards_find (tar_shards_t *self, const pack_source_options_t *options, char *error);
void tar_shards_clear (tar_shards_t *self);
//  Of a file: "cannot read 'x.tar' (why): remedy"; returns rc.
int tar_shards_fail_open (const char *path, int rc, char *error);
//  32 digits, which change when the list of archives changes, or one of them is written to, or other members
//  become images or masks.  0 or -ENOMEM.
int tar_shards_sign (const tar_shards_t *self, const pack_source_options_t *options, char signature [33]);

//  ---- catalogue: fields and labels of samples
//
//  A member's *key* is what stands behind the first dot of its last component, in small letters, as in
//  WebDataset.
//
//  1. The image, field 0, is the one member with one of the wanted extensions ("jpg") as its key.  If there
//     is none, it is the one member with a key that ends in such an extension ("left.jpg").  Masks do not
//     count.  It is an error if two members qualify, or none.
//  2. Every other member is a further field, named by its key with '_' for dots; "_file" is appended if the
//     name is taken: image, label, txt, json.  All samples have the same keys, except for the image's; fields
//     are in the order of the keys.
//  3. Labels, beside the fields: "cls" is a number and becomes `label`: int64, or float64 where one of
//     them is not whole.  options->classes has the names of the numbers.  "txt" and "json" become texts of
//     that name, unless in some sample it is longer than CATALOGUE_LABEL_BYTES_MAX, no UTF-8, or has a zero
//     byte in it, or is empty in all.
//  4. Where none of these three is there, classes are what ImageFolder makes of the folders: `label` is the
//     number of the first folder below those that all samples are in, by sorted name.  Without such folders,
//     or with samples beside them, there are no labels.

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
