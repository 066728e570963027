/*  catalogue -- the samples of a data set on disk: which files, in which order, with which labels.
 *
 *  With ROOT/labels.tsv or ROOT/labels.jsonl (docs/data.md), the samples are the files in its lines, in their
 *  order, with their labels, if any.  Otherwise an ImageFolder, by torchvision's rules exactly: a class is a
 *  directory directly below the root, a label is the class's index by name; below a class, directories are
 *  walked by sorted path (links followed), files sorted by name, and a file counts if its name ends in one of
 *  torchvision's extensions in any case.  A sample's id is its index in that order.  Names sort as Python's
 *  str: by bytes, if they are UTF-8.
 *
 *  A file that torchvision lists and cannot open (a dangling link, a fifo) is listed here too, so that ids
 *  agree, and fails when it is read.  A directory that cannot be read is refused; torchvision skips it
 *  silently.  A directory that links back to a parent is refused as well.
 *
 *  A folder with index.tureen is a pack (docs/format.md): the samples of the source that was packed, with its
 *  ids, labels and fingerprint.  pack.h says where their bytes are.
 *
 *  The folders can also be addresses of object stores (store.h): what lies below one is listed, and an
 *  object's name is a file's path.  A pack can lie on a web server as well, which does not list its files.
 *
 *  Immutable after catalogue_open; any thread may read it.
 */
#ifndef CATALOGUE_H
#define CATALOGUE_H
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "block_data.h"
#include "progress.h"

typedef struct catalogue catalogue_t;
struct store;                       //  store.h
struct pack;                        //  pack.h

enum {
    CATALOGUE_FIELDS_MAX = 8,           //  the samples' own files included
    CATALOGUE_LABELS_MAX = 8, CATALOGUE_DIMENSIONS_MAX = 1,
    CATALOGUE_LABEL_BYTES_MAX = 64 * 1024,
    CATALOGUE_NAME_BYTES_MAX = 64,      //  of a field or label, with the zero at its end
    CATALOGUE_SAMPLE_BYTES_MAX = 256 * 1024 * 1024
};

//  A further file of every sample, in a folder of its own: ROOT/a/b.jpg has PATH/a/b.png (any extension; two
//  files with one stem are refused).
typedef struct {
    const char *name;           //  not "image", and no label's; letters, digits, '_'
    bool is_mask;
    const char *path;
} catalogue_field_t;

//  Which files the cache on the local disk keeps.
typedef enum {
    CATALOGUE_KEEP_FAR,                 //  those of a network file system
    CATALOGUE_KEEP_ALL,
    CATALOGUE_KEEP_NONE
} catalogue_keep_t;

typedef struct {
    const char *path;
    const char *extensions;     //  ".wav,.flac": which files of an ImageFolder count, in any case; NULL:
                                //  torchvision's
    const catalogue_field_t *fields;    //  neither this nor extensions for a pack, which has its own
    size_t field_count;
    const char *labels;         //  a labels file that lies anywhere, instead of those in path: .tsv, .jsonl,
                                //  or .txt with one path a line and nothing else; paths in it are from `path`
                                //  on or, all of them, absolute
    bool index_only;            //  of a pack: does not open its volumes, because the caller reads them by
                                //  itself (pack_scan.h); then do not call catalogue_read or
                                //  pack_volume_descriptor
    block_cache_t *cache;       //  what is read of a store, or of files as keep says, is kept there; lent for
                                //  the catalogue's life; NULL: nowhere
    catalogue_keep_t keep;
    bool list_anew;             //  objects are listed anew, though a list is kept there
    bool is_to_pack;            //  in a store, a key with an empty part ("a//b") is refused: no folder of a
                                //  pack has that name
    bool allow_empty;           //  a class folder without a sample is a class all the same
    const struct catalogue *classes_of;     //  classes are numbered as in it, by their names, and empty ones
                                //  are allowed; lent for the catalogue's life, it has no classes_of
                                //  itself; NULL: by this data's own
    progress_t *progress;       //  how many samples are found is shown there; lent; NULL: nowhere
} catalogue_options_t;

//  One label of every sample: a number, a vector, or bytes.
typedef struct {
    const char *name;
    const char *dtype;          //  NumPy's: "int64", "float64"; "uint8" for bytes, padded with zeros to the
                                //  longest
    uint32_t dimensions;        //  0: one number
    uint32_t shape [CATALOGUE_DIMENSIONS_MAX];
    size_t bytes;               //  of one sample
} catalogue_label_t;

//  Walks the folders and reads the labels.  0 and *self_p owned by the caller; or -errno, *self_p NULL and in
//  error (always ended) what is wrong and how to mend it: -ENOENT no such folder, -ENOTDIR not a folder,
//  -ENODATA no class folders, a class without samples, a sample without its further file, or a labels file
//  that names no file or one that is not there, -EINVAL a labels file that cannot be understood (its line is
//  named) or two of them, two files with one stem, options that cannot be, or a class unknown to classes_of,
//  -ELOOP a directory inside itself, -ENAMETOOLONG a path over PATH_MAX, -EOVERFLOW 2^32 samples,
//  -ENOMEM, or the code with which a directory could not be read.
//  A pack: all of its index is checked, then each volume's header and size, but no sample's bytes.  -EBADMSG
//  what is damaged, -ENOTSUP a later version, -ENODATA unfinished, or a volume that is not there, -ESTALE a
//  volume that has another size or belongs to another pack, -EINVAL options that are in the pack already.
//  In a store: what store.h and transfers.h say as well; some seconds of patience with failures that may
//  pass.
int catalogue_open (catalogue_t **self_p, const catalogue_options_t *options, char *error,
    size_t error_bytes);
void catalogue_destroy (catalogue_t **self_p);

//  NULL: the catalogue is one of plain files.  Lent for the catalogue's life.
const struct pack *catalogue_pack (const catalogue_t *self);
uint32_t catalogue_samples (const catalogue_t *self);
//  0 if the labels come from a labels file.  Those of classes_of, if there is one.
uint32_t catalogue_classes (const catalogue_t *self);
//  Each sample's class is its folder's; else the numbers stand in a label of their own, or there are no
//  classes.
bool catalogue_class_is_folder (const catalogue_t *self);
//  Sum of the files' sizes when the folders were walked, all fields together.
uint64_t catalogue_bytes (const catalogue_t *self);
//  What a person may have meant otherwise, a sentence with its place, from index 0 on; NULL: no more.
enum { CATALOGUE_WARNING_BYTES = 512, CATALOGUE_WARNINGS_MAX = 3 };
const char *catalogue_warning (const catalogue_t *self, size_t index);
//  The folder, as given.
const char *catalogue_root (const catalogue_t *self);
//  The field's folder, as given; of a pack the same for all.
const char *catalogue_folder (const catalogue_t *self, size_t field);
//  The file system (st_dev) of the field's folder; 0: unknown.
dev_t catalogue_device (const catalogue_t *self, size_t field);
//  The object store that the field's files lie in, lent; NULL: a folder.
const struct store *catalogue_store (const catalogue_t *self, size_t field);
//  Of a sample's object in a store: its URL, the caller's (NULL: no memory); and its version when it was
//  listed, lent.
char *catalogue_url (const catalogue_t *self, uint32_t id, size_t field);
const char *catalogue_version (const catalogue_t *self, uint32_t id, size_t field);
//  Where the field's objects or files are kept on the local disk, lent; NULL: nowhere, and *rc_p is 0 (no
//  cache, a pack (pack.h), or all files are empty), -ENODATA (the store gives an object no ETag),
//  -CATALOGUE_NOT_KEPT, -EAGAIN (the disk did not answer when the list of files was wanted), -EFBIG (also:
//  too many files for the list), or why not (block_data_open).
block_data_t *catalogue_blocks (const catalogue_t *self, size_t field, int *rc_p);
//  By `keep` its files are not to be kept.
enum { CATALOGUE_NOT_KEPT = EXDEV };
//  Where the sample's object or file begins there; CATALOGUE_NO_PLACE: nowhere, for want of room in the list.
#define CATALOGUE_NO_PLACE UINT64_MAX
uint64_t catalogue_place (const catalogue_t *self, uint32_t id, size_t field);
//  The owner of its bytes there (block_data.h), of a file.
uint64_t catalogue_owner (const catalogue_t *self, uint32_t id, size_t field);
//  When the field's objects were listed, in seconds since 1970, if the list was kept on the local disk; 0:
//  now.
int64_t catalogue_listed_s (const catalogue_t *self, size_t field);
//  Names are lent for the catalogue's life.  UTF-8 is not guaranteed: a file name is bytes.
const char *catalogue_class_name (const catalogue_t *self, uint32_t label);

//  Files of a sample: 0 is the sample's own, "image"; then the further fields as in the options.
size_t catalogue_fields (const catalogue_t *self);
const char *catalogue_field_name (const catalogue_t *self, size_t field);
bool catalogue_field_is_mask (const catalogue_t *self, size_t field);
//  True for a packed tar: the field's files lie in the sample's own folder, so that all fields have one root.
bool catalogue_field_is_beside (const catalogue_t *self, size_t field);
//  Path of a sample's file relative to the root of its field, "class/name.jpg"; written into buffer (always
//  ended); returns the full length, so that a length >= size means it was cut.
size_t catalogue_path (const catalogue_t *self, uint32_t id, size_t field, char *buffer, size_t size);
uint64_t catalogue_file_bytes (const catalogue_t *self, uint32_t id, size_t field);

//  Labels of a sample: the class's index as "label" (int64), or the columns of the labels file.
size_t catalogue_labels (const catalogue_t *self);
const catalogue_label_t *catalogue_label (const catalogue_t *self, size_t label);
//  Writes its bytes to target.
void catalogue_label_value (const catalogue_t *self, size_t label, uint32_t id, uint8_t *target);

//  32 hexadecimal digits: XXH3-128 over, for every sample in order, its relative path, a zero and its size as
//  8 little-endian bytes; where there are further fields or a labels file, over these too.  Equal data, equal
//  text.
//  Where classes' numbers do not follow from the paths (allow_empty, classes_of, names of numbers): over
//  their names, too.
const char *catalogue_fingerprint (const catalogue_t *self);
//  The same, whatever the classes' numbers are.
const char *catalogue_files_fingerprint (const catalogue_t *self);

//  The error for a file of another size than was catalogued, or that ends too early.  Not ESTALE, which file
//  systems return.
enum { CATALOGUE_CHANGED = ERANGE };

//  A buffer that is kept from file to file; begins as all zero; free `bytes` at the end.
typedef struct {
    uint8_t *bytes;
    size_t size;                //  bytes read
    size_t limit;               //  room
} catalogue_buffer_t;

//  Reads a whole file of a sample into buffer, which grows if it must.  0, or -errno and buffer->size 0:
//  -EFBIG above CATALOGUE_SAMPLE_BYTES_MAX, -ESTALE if the file's size is not the one that was
//  catalogued, -EINVAL if it is no file, -ENOMEM, or what open and read say; from a store what transfers.h
//  says, after some seconds of patience.  From a pack: -EBADMSG if the
//  bytes are not those that were packed, -ESTALE if the volume ends before.  Blocks for as long as a disk
//  does, never for a fifo.  Any thread.
int catalogue_read (const catalogue_t *self, uint32_t id, size_t field, catalogue_buffer_t *buffer);
//  The same of the samples first .. first + count - 1, into a buffer for each; objects of a store come at the
//  same time.  *failed_p: the first one that failed.  how: with a store (store.h).  are_here: those that need
//  not be read; NULL: none.
struct store_persistence;
int catalogue_read_row (const catalogue_t *self, uint32_t first, size_t count, size_t field,
    catalogue_buffer_t *buffers, const struct store_persistence *how, const bool *are_here,
    uint32_t *failed_p);
//  Whether the local disk has the file whole, as far as is known without reading it.
bool catalogue_is_kept (const catalogue_t *self, uint32_t id, size_t field);
//  Reads it there, and grows the buffer if it must.  False: it is not there, or not whole.
bool catalogue_read_kept (const catalogue_t *self, uint32_t id, size_t field, catalogue_buffer_t *buffer);
//  What -errno of a read of this field means, for people; static.
const char *catalogue_error (const catalogue_t *self, size_t field, int rc);

#endif
