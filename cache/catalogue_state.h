/*  catalogue_state -- the catalogue's structures, for catalogue.c and catalogue_walk.c alone.
 *
 *  Memory: all names are in one arena, each ended by a zero, and are known by their offset in it; a
 *  directory's path is stored once.  ImageNet's training set takes 45 bytes a sample: 24 for the record, 21
 *  for the name.
 */
#ifndef CATALOGUE_STATE_H
#define CATALOGUE_STATE_H
#include <assert.h>
#include "catalogue.h"

typedef struct {
    uint64_t name;                  //  in the arena
    uint64_t bytes;
    uint32_t directory;             //  while its class is walked: the visit that found it
} sample_t;

_Static_assert (sizeof (sample_t) == 24, "the figure above counts on it");

typedef struct {
    uint64_t path;                  //  in the arena, relative to the root
    uint32_t label;
} directory_t;

struct catalogue {
    uint32_t magic;
    uint32_t foreign;
    int root_fd;                    //  all opening is relative to it: a later chdir or rename does no harm
    char *root;
    char *arena;
    size_t arena_used;
    size_t arena_limit;
    uint64_t *classes;              //  names, in the arena
    size_t class_count;
    size_t class_limit;
    directory_t *directories;
    size_t directory_count;
    size_t directory_limit;
    sample_t *samples;
    size_t sample_count;
    size_t sample_limit;
    uint64_t bytes;
    char fingerprint [33];
};

//  Fills a catalogue whose root is set and whose root_fd is -1: opens the root, finds classes and samples.
//  0, or -errno and error says why; then the catalogue is to be destroyed.
int catalogue_walk (catalogue_t *self, char *error, size_t error_bytes);

#endif
