/*  catalogue_state -- the catalogue's structures, and what its files share; for them alone.
 *
 *      catalogue.c             life, answers, reading; errors, memory, folders, finding by name
 *      catalogue_open.c        opens what is given, calls those below, and finds each further field's file
 *                              of every sample
 *      catalogue_classes.c     an ImageFolder becomes samples, of a disk or of the list of a store's objects
 *      splits.c                folders that are splits and would become classes
 *      catalogue_labels.c      a labels file becomes samples and columns, by catalogue_tsv.c or
 *                              catalogue_jsonl.c
 *      pack.c                  a pack: all of this points into its index, which pack_index.c has looked
 *                              through
 *
 *  Memory: all names are in one arena, each ended by a zero, and are known by their offset in it; a
 *  directory's path is stored once.  ImageNet's training set takes 45 bytes a sample: 24 for the record, 21
 *  for the name.  A further field takes 16 bytes a sample, as only its extension is news, and extensions
 *  repeat.  A number of a label takes 8, a text 8 and its length and one more.
 *
 *  The records of samples, directories and companions and the values are those of pack_format.h, byte for
 *  byte.
 */
#ifndef CATALOGUE_STATE_H
#define CATALOGUE_STATE_H
#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include "catalogue.h"
#include "pack_format.h"
#include "block_cache.h"
#include "store.h"
#include "store_listing.h"

enum { CATALOGUE_MAGIC = 0x0ca7a106 };

typedef struct {
    uint64_t name;                  //  in the arena
    uint64_t bytes;
    uint32_t directory;             //  during the walk of its class: the visit that found it
    uint32_t zero;                  //  until the field's tags are made: the sample's
} sample_t;

typedef struct {
    uint64_t path;                  //  in the arena, relative to the root; "" is the root, in a labels file
    uint32_t label;
    uint32_t zero;
} directory_t;

//  A sample's file in a further field: in the directory of the same path, with the sample's stem.
typedef struct {
    uint64_t bytes;                 //  COMPANION_MISSING: not found, which no finished catalogue has
    uint64_t extension;             //  in the arena, with its dot; "" for none
} companion_t;

#define COMPANION_MISSING UINT64_MAX

_Static_assert (sizeof (sample_t) == 24 && sizeof (companion_t) == 16, "the figures above count on it");

#define SAME_PLACE(type, packed, member) (offsetof (type, member) == offsetof (packed, member))
_Static_assert (sizeof (sample_t) == sizeof (pack_sample_t) && SAME_PLACE (sample_t, pack_sample_t, name)
    && SAME_PLACE (sample_t, pack_sample_t, bytes) && SAME_PLACE (sample_t, pack_sample_t, directory)
    && SAME_PLACE (sample_t, pack_sample_t, zero), "a pack's samples are used where they are");
_Static_assert (sizeof (directory_t) == sizeof (pack_directory_t)
    && SAME_PLACE (directory_t, pack_directory_t, path)
    && SAME_PLACE (directory_t, pack_directory_t, label) && SAME_PLACE (directory_t, pack_directory_t, zero),
    "a pack's directories are used where they are");
_Static_assert (sizeof (companion_t) == sizeof (pack_companion_t)
    && SAME_PLACE (companion_t, pack_companion_t, bytes)
    && SAME_PLACE (companion_t, pack_companion_t, extension), "a pack's companions are used where they are");

typedef struct {
    char name [CATALOGUE_NAME_BYTES_MAX];
    bool is_mask;
    bool is_beside;                 //  of a tar: the member stands beside the sample's own file, and the
                                    //  stem ends at that file's first dot
    char *path;                     //  as it was given
    int root_fd;                    //  files are opened relative to it: a later chdir or rename does no harm
    uint64_t root_inode;            //  of it; 0: not known
    dev_t root_device;              //  the same
    store_t *store;                 //  in place of a folder: what its address names; NULL: a folder
    store_listing_t listing;        //  of the store, while the catalogue is made
    uint64_t *versions;             //  of the store, by sample: the object's, in the arena; NULL: a pack
    block_data_t *list_blocks;      //  where its list is kept on the local disk, open so that it stays
                                    //  there; of a folder, catalogue_places.c's
    int64_t listed_s;               //  when, if it was found there; 0: now
    bool list_was_aside;            //  the disk did not answer: what is kept there stays
    block_data_t *blocks;           //  where its objects or files are kept; NULL: nowhere, for the reason
                                    //  blocks_rc
    int blocks_rc;
    uint64_t *places;               //  by sample: where the object or the file begins there
    uint32_t *tags;                 //  of a folder that is kept, by sample: catalogue_places_tag
    companion_t *files;             //  by sample; NULL for field 0: its files are the samples
} field_t;

typedef enum {
    COLUMN_CLASS,                   //  the class's index; has no values of its own
    COLUMN_NEW,                     //  no value has been seen
    COLUMN_WHOLE,
    COLUMN_REAL,
    COLUMN_TEXT
} column_kind_t;

typedef union {
    int64_t whole;
    double real;
    uint64_t text;                  //  in the arena
} value_t;

//  Whether float64 has this whole number and all smaller ones.
static inline bool
catalogue_is_exact (int64_t whole)
{
    const int64_t most = INT64_C (1) << 53;
    return whole >= -most && whole <= most;
}

_Static_assert (COLUMN_CLASS == 0 && COLUMN_WHOLE == 2 && COLUMN_REAL == 3 && COLUMN_TEXT == 4
    && sizeof (value_t) == 8, "written in docs/format.md");
_Static_assert ((int) CATALOGUE_NAME_BYTES_MAX == (int) PACK_NAME_BYTES, "copied as they are");

typedef struct {
    catalogue_label_t label;        //  complete when the file has been read
    char name [CATALOGUE_NAME_BYTES_MAX];
    column_kind_t kind;
    bool is_vector;
    size_t length;                  //  values of a sample: 1, or the vector's
    size_t longest;                 //  text: bytes, without the zero
    value_t *values;                //  sample by sample
    size_t value_count;
    size_t value_limit;
} column_t;

//  What a catalogue leaves to its pack (pack.c).
typedef struct {
    //  A whole file of a sample, into room for its bytes.  As catalogue_read.
    int (*read) (const struct pack *pack, uint32_t id, size_t field, uint8_t *target);
    //  Frees the pack, and clears all pointers into it.
    void (*detach) (catalogue_t *catalogue);
} catalogue_packed_t;

struct catalogue {
    uint32_t magic;
    char warnings [CATALOGUE_WARNINGS_MAX] [CATALOGUE_WARNING_BYTES];
    size_t warning_count;
    field_t fields [CATALOGUE_FIELDS_MAX];
    size_t field_count;
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
    column_t columns [CATALOGUE_LABELS_MAX];
    size_t column_count;
    uint64_t bytes;
    char fingerprint [33];          //  of files and labels files
    char numbered_fingerprint [33]; //  the same and the classes' names; "": their numbers follow from paths
    const struct catalogue *classes_of;     //  as in the options
    uint32_t *numbers;              //  by own class: its number there; NULL: its own
    struct pack *pack;              //  NULL: plain files; else arena, classes .. files and values are in its
                                    //  index
    const catalogue_packed_t *packed;       //  of the pack
};

//  Bytes of one of a packed sample's files: of its fields, and behind them the rows of its JPEG.
static inline size_t
catalogue_packed_bytes (const catalogue_t *self, uint32_t id, size_t file)
{
    return file? self->fields [file].files [id].bytes: self->samples [id].bytes;
}

//  Empty, for catalogue_destroy.  NULL: no memory.
catalogue_t *catalogue_new (void);
//  Room of CATALOGUE_WARNING_BYTES for one more, which is empty.
char *catalogue_warning_new (catalogue_t *self);

//  A catalogue while it is made, and the place of the sentence if that fails.
typedef struct draft {
    catalogue_t *self;
    const char *path;               //  as in the options
    const char *extensions;         //  of the samples, as in the options; NULL: torchvision's
    const char *labels;             //  as in the options
    bool index_only;                //  as in the options
    block_cache_t *cache;           //  as in the options
    catalogue_keep_t keep;          //  as in the options
    bool list_anew;                 //  as in the options
    bool is_to_pack;                //  as in the options
    bool allow_empty;               //  as in the options, or classes_of is given
    bool has_kept_list;             //  of objects, which may have changed since
    progress_t *progress;           //  as in the options
    char *error;
    size_t error_bytes;
} draft_t;

//  These fill the catalogue, in this order: 0, or -errno with the reason in error; then destroy it.  An
//  ImageFolder, on a disk or in the list of a store's objects: classes, directories, samples.
int catalogue_walk (draft_t *draft);
//  Lists the objects of the field's store.
int catalogue_listing_fetch (draft_t *draft, field_t *field);
//  Where the list of a store is kept on the local disk.  0, or -errno and NULL (block_data_open).
int catalogue_listing_open (block_data_t **blocks_p, const store_t *store, block_cache_t *cache);
//  Fills an empty listing with the kept list, and tells when that was made.  0; -ENODATA: no list is kept;
//  -ENOMEM.
int catalogue_listing_load (store_listing_t *listing, block_data_t *blocks, int64_t *listed_s_p);
//  Keeps it there, as far as there is room.
void catalogue_listing_keep (const store_listing_t *listing, block_data_t *blocks, int64_t listed_s);
//  The whole of an object of field 0's store, and a zero behind it; *text_p is the caller's.
int catalogue_listing_read (const draft_t *draft, const store_object_t *object, char **text_p);
//  Notes every object's version, and frees the lists; finds where objects and files are kept.
int catalogue_listing_finish (draft_t *draft);
//  The fingerprint, 32 hexadecimal digits of XXH3-128, of what the state has hashed; frees the state.
struct XXH3_state_s;
void catalogue_fingerprint_end (struct XXH3_state_s *state, char text [33]);
//  The fingerprint of files and labels files; -ENOMEM without a sentence.
int catalogue_hash (catalogue_t *self);
//  Gives back spare memory of arrays.
void catalogue_trim (catalogue_t *self);
//  Opens the pack in field 0's root, which is everything then: 1; or 0: no pack, nothing has changed.
int catalogue_pack_open (draft_t *draft);
//  The description of a column for users, from its kind, shape and longest text.
void catalogue_column_describe (column_t *column);


//  -- errors

//  Writes the sentence and returns rc.  Names come from a disk, so terminal control characters are replaced.
__attribute__ ((format (printf, 3, 4)))
int catalogue_fail (const draft_t *draft, int rc, const char *format, ...);
int catalogue_fail_memory (const draft_t *draft);
//  The root is an unfinished pack.
int catalogue_fail_unfinished (const draft_t *draft);
//  A folder below root that could not be opened or read.
int catalogue_fail_folder (const draft_t *draft, const char *root, const char *path, int rc);

enum { SHOWN_BYTES_MAX = 160 };
typedef struct {
    char text [SHOWN_BYTES_MAX + 4];
} shown_t;
//  A name from the disk as an error shows it: cut, so that the remedy behind it is not.
shown_t catalogue_shown (const char *text, size_t length);


//  -- classes and splits (catalogue_classes.c, splits.c)

//  Where the files lie that are judged here.
typedef enum {
    CATALOGUE_SPLITS_OF_FOLDER,     //  class folders
    CATALOGUE_SPLITS_OF_TAR,        //  folders within tar files, which are classes
    CATALOGUE_SPLITS_OF_LIST        //  folders that are no classes, or of a pack: a warning, no error
} catalogue_splits_source_t;
//  Whether the folders are several splits: 0, or -errno with the sentence.
int catalogue_judge_splits (const draft_t *draft, catalogue_splits_source_t source);
//  How much of the first `common` bytes of a path another one has too, up to the end of a folder's name.
size_t catalogue_common (const char *path, size_t common, const char *other);
//  When all is there: the numbers by the classes of another catalogue (NULL: none), and the fingerprint.
int catalogue_number_classes (const draft_t *draft, const catalogue_t *of);


//  -- memory

//  Room for needed items, at least doubling.  NULL: items is as it was.
void *catalogue_grown (void *items, size_t *limit_p, size_t needed, size_t item_bytes);
//  Appends "parent/text", or text alone if parent is NULL, and a zero.  text is not in the arena, which may
//  move.  -ENOMEM without a sentence.
int catalogue_add_text (catalogue_t *self, const uint64_t *parent, const char *text, size_t length,
    uint64_t *offset_p);
//  One sample more, as the last.  -ENOMEM without a sentence.
int catalogue_add_sample (catalogue_t *self, uint32_t directory, const char *name, size_t length,
    uint64_t bytes);


//  -- finding by name

typedef struct {
    uint32_t hash;
    uint32_t item;                  //  plus 1; 0: free
} lookup_slot_t;

//  Open addressing, at most half full.  Begins as all zero; slots is to be freed.
typedef struct {
    lookup_slot_t *slots;
    size_t slot_count;
    size_t used;
} lookup_t;

enum { LOOKUP_NONE = -1 };
typedef bool (catalogue_same_fn) (const void *wanted, uint32_t item);

//  The item with this hash for which same returns true, or LOOKUP_NONE.
int64_t catalogue_lookup_find (const lookup_t *self, uint64_t hash, catalogue_same_fn *same,
    const void *wanted);
//  -ENOMEM without a sentence.
int catalogue_lookup_add (lookup_t *self, uint64_t hash, uint32_t item);


//  -- files and names

//  NULL and errno.
DIR *catalogue_folder_open (int root_fd, const char *path);
//  1 and *item_p, 0 at the end, or -errno.
int catalogue_folder_next (DIR *folder, struct dirent **item_p);
//  How samples are opened: a fifo with the name x.jpg must not block us until a writer comes.
enum { CATALOGUE_OPEN_FLAGS = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC };
//  0 for a regular file of so many bytes; -EINVAL, -CATALOGUE_CHANGED.
int catalogue_check_file (int fd, uint64_t bytes);
//  Makes room for bytes.  The buffer's content is lost, so nothing is copied.  -ENOMEM.
int catalogue_make_room (catalogue_buffer_t *buffer, size_t bytes);
//  Reads exactly size bytes, from offset on; CATALOGUE_HERE: from the file's position.  -ESTALE if the file
//  ends before.
#define CATALOGUE_HERE UINT64_MAX
int catalogue_read_at (int fd, uint8_t *bytes, size_t size, uint64_t offset);
//  torchvision's IMG_EXTENSIONS: ".jpg,.jpeg,...".
extern const char catalogue_image_extensions [];
//  Whether the text is one of these lists.
bool catalogue_extensions_are_valid (const char *extensions);
//  Length of a file name up to its last dot.
static inline size_t
catalogue_stem (const char *name)
{
    const char *dot = strrchr (name, '.');
    return dot? (size_t) (dot - name): strlen (name);
}
//  Letters, digits, '_', and short enough.
bool catalogue_name_is_valid (const char *name, size_t length);
//  Whether a name of a field or a label is taken.
bool catalogue_name_is_taken (const catalogue_t *self, const char *name);

#endif
