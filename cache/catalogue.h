/*  catalogue -- the samples of a data set on disk: which files, in which order, with which labels.
 *
 *  An ImageFolder, by torchvision's rules exactly: a class is a directory directly below the root, a label is
 *  the class's index by name; below a class, directories are walked by sorted path (links followed), files
 *  sorted by name, and a file counts if its name ends in one of torchvision's extensions in any
 *  case.  A sample's id is its index in that order.  Names sort as Python's str: by bytes, if they are UTF-8.
 *
 *  What torchvision lists and cannot open is listed here too, so that ids agree, and fails when it is read: a
 *  link that leads nowhere, a fifo.  What it passes over in silence is refused: a directory that cannot be
 *  read.  A directory that links back to one it is in is refused as well.
 *
 *  Immutable after catalogue_open; any thread may read it.
 */
#ifndef CATALOGUE_H
#define CATALOGUE_H
#include <stddef.h>
#include <stdint.h>

typedef struct catalogue catalogue_t;

//  Walks the folder.  0 and *self_p owned by the caller; or -errno, *self_p NULL and in error (always ended)
//  what is wrong and how to mend it: -ENOENT no such folder, -ENOTDIR not a folder, -ENODATA no class
//  folders or a class without samples, -ELOOP a directory inside itself, -ENAMETOOLONG a path over PATH_MAX,
//  -EOVERFLOW 2^32 samples, -ENOMEM, or the code with which a directory could not be read.
int catalogue_open (catalogue_t **self_p, const char *path, char *error, size_t error_bytes);
void catalogue_destroy (catalogue_t **self_p);

uint32_t catalogue_samples (const catalogue_t *self);
uint32_t catalogue_classes (const catalogue_t *self);
//  Sum of the files' sizes when the folder was walked.
uint64_t catalogue_bytes (const catalogue_t *self);
//  Files that torchvision counts but whose extension says that they are no JPEG.
uint32_t catalogue_foreign (const catalogue_t *self);
//  The folder as it was given.
const char *catalogue_root (const catalogue_t *self);
//  Names are lent for the catalogue's life.  UTF-8 is not guaranteed: a file name is bytes.
const char *catalogue_class_name (const catalogue_t *self, uint32_t label);
//  Path of a sample relative to the root, "class/name.jpg"; written into buffer (always ended); returns the
//  full length, so that a length >= size means it was cut.
size_t catalogue_path (const catalogue_t *self, uint32_t id, char *buffer, size_t size);
uint32_t catalogue_label (const catalogue_t *self, uint32_t id);
uint64_t catalogue_sample_bytes (const catalogue_t *self, uint32_t id);
//  32 hexadecimal digits: XXH3-128 over, for every sample in order, its relative path, a zero and its size as
//  8 little-endian bytes.  Equal data, equal text.
const char *catalogue_fingerprint (const catalogue_t *self);

//  Reads a whole sample: *bytes_p (malloc'ed, the caller's) and *size_p.  0, or -errno with both cleared:
//  -EFBIG above CATALOGUE_SAMPLE_BYTES_MAX, -ESTALE when the file's size is no longer the one that was
//  catalogued, -EINVAL for what is no file, or what open and read say.  An empty file is read: size 0, and
//  *bytes_p is to be freed.  Blocks for as long as a disk does, never for a fifo.  Any thread.
int catalogue_read (const catalogue_t *self, uint32_t id, uint8_t **bytes_p, size_t *size_p);

enum { CATALOGUE_SAMPLE_BYTES_MAX = 256 * 1024 * 1024 };

#endif
