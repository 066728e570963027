/*  packing_state -- a packing under way, and what its files share; for them alone.
 *
 *      packing.c           the target, beginning or going on, the index, the end
 *      packing_state.c     the order of a pack, errors, whole reads and writes, the journal and the table
 *      packing_buckets.c   pass 1
 *      packing_volumes.c   pass 2
 *      packing_upload.c    volumes and index go to an object store
 *
 *  In PACKING_FOLDER:
 *      journal             packing_journal_t; replaced by rename, so that there is the old one or the new one
 *      table               packing_file_t of each file, by id, then by field
 *      bucket-00000 ..     the files of its samples, by id, then by field, without gaps: the table says where
 *      uploads             of a pack that goes to an object store: which volumes it has
 *
 *  When a packing is resumed, it overwrites everything beyond the journal's figures.
 */
#ifndef PACKING_STATE_H
#define PACKING_STATE_H
#include <assert.h>
#include "pack_format.h"
#include "packing.h"

#define PACKING_JOURNAL_MAGIC "TUREENJ1"
#define PACKING_BUCKET_NAME "bucket-%05u"

enum { PACKING_ROWS = 0x726f7773 };
enum { PACKING_NAME_BYTES = 64, PACKING_SIGNATURE_BYTES = 36 };

typedef struct {
    char magic [8];
    uint32_t pass;                      //  1, 2
    uint32_t sample_files;              //  of each sample: its fields, and the rows; 0: no sample yet
    uint32_t chunk_samples;
    uint32_t buckets;
    uint64_t volume_bytes;
    uint64_t seed;
    char signature [PACKING_SIGNATURE_BYTES];       //  the source's, zeros behind it
    uint32_t rows;                      //  PACKING_ROWS: the last file of each sample says where its rows
                                        //  begin; 0: none does; else an earlier version began it with --tile
    uint64_t samples;                   //  in buckets and table, durable; in pass 2: all
    uint64_t positions;                 //  pass 2: in the volumes, durable
    uint64_t checksum;                  //  XXH3-64 of what stands before
} packing_journal_t;

_Static_assert (sizeof (packing_journal_t) == 104, "no padding: it is hashed");

typedef struct {
    uint32_t bytes;                     //  at most CATALOGUE_SAMPLE_BYTES_MAX
    uint32_t zero;
    uint64_t checksum;
} packing_file_t;

_Static_assert (sizeof (packing_file_t) == 16, "no padding: it is written");

typedef struct packing_upload packing_upload_t;

typedef struct {
    const packing_options_t *options;
    packing_result_t *result;
    char *error;
    pack_source_t *source;
    packing_upload_t *upload;           //  NULL: the pack stays in the target
    bool names_are_told;                //  by options->found
    int target_fd;                      //  locked; -1: not there yet
    int folder_fd;                      //  PACKING_FOLDER; -1: not there yet
    int table_fd;
    bool made_target;                   //  by this call
    packing_journal_t journal;
    uint64_t samples;                   //  read so far, durable or not
    packing_file_t *files;              //  theirs: [id * journal.sample_files + file]
    size_t file_count, file_limit;
} packing_t;


//  ---- packing_state.c

//  The order of a pack is that of its samples' keys.  It is a format: the same seed gives the same order for
//  ever.

//  Which of so many equal ranges of keys the sample's is in; ranges are in the order of keys.
uint32_t packing_bucket (uint64_t seed, uint32_t id, uint32_t buckets);
//  Writes the ids 0 .. count-1 by key.
void packing_order (uint64_t seed, uint32_t count, uint32_t *order);

//  Where each sample will lie, from order and sizes alone; pack_format.h says by which rules.
typedef struct {
    uint32_t samples;                   //  > 0
    uint32_t chunk_samples;
    uint64_t volume_bytes;
    const uint32_t *order;
    uint64_t (*bytes) (const void *context, uint32_t id);   //  of all files of a sample
    const void *context;
} packing_layout_t;

//  Writes places, by id.  0 and *volumes_p (*count_p of them) to be freed; or -ENOMEM.
int packing_layout (const packing_layout_t *self, pack_place_t *places, pack_volume_t **volumes_p,
    uint32_t *count_p);

//  Writes the sentence and returns rc.  Names come from a disk: terminal control characters are replaced.
__attribute__ ((format (printf, 3, 4)))
int packing_fail (const packing_t *self, int rc, const char *format, ...);
//  "cannot WHAT 'TARGET/NAME' (why): remedy"
int packing_fail_file (const packing_t *self, int rc, const char *what, const char *name);
int packing_fail_memory (const packing_t *self);

//  Reads everything.  0 or -errno; beyond the end -ENODATA.
int packing_read (int fd, void *bytes, size_t size, uint64_t offset);

//  1 and the journal, 0: there is none, or -errno with a sentence.
int packing_journal_load (packing_t *self);
//  Makes it durable.  0, or -errno with a sentence.
int packing_journal_save (packing_t *self);

//  Opens the table with the files of journal.samples.  0, or -errno with a sentence.
int packing_table_open (packing_t *self);
//  Adds a sample, in memory.
int packing_table_add (packing_t *self, const packing_file_t *files);
//  Makes all samples durable.
int packing_table_sync (packing_t *self);

//  Bytes of all files of a sample.
uint64_t packing_sample_bytes (const packing_t *self, uint32_t id);
//  "packing/bucket-00000", or without the folder.
const char *packing_bucket_name (uint32_t bucket, bool with_folder, char name [PACKING_NAME_BYTES]);
bool packing_is_stopped (const packing_t *self);


//  ---- the passes: 0, or -errno with a sentence.

//  Reads the source to its end.  Begins at journal.samples; the source has skipped those before.
int packing_fill_buckets (packing_t *self);

typedef struct {
    uint32_t *order;
    pack_place_t *places;               //  by id
    pack_volume_t *volumes;
    uint32_t volume_count;
    uint64_t *checksums;                //  [id * files + file], as the index wants them
    uint32_t *rows_bytes;               //  by id; NULL: nothing is known of any
    uint8_t pack [PACK_ID_BYTES];
} packing_plan_t;

//  Writes the volumes, from journal.positions on, and deletes the buckets.
int packing_write_volumes (packing_t *self, const packing_plan_t *plan);

//  ---- to an object store (packing_upload.c)

#define PACKING_UPLOADS_NAME "uploads"

enum { PACKING_UPLOADS = 4 };

//  0, or -errno with a sentence: no such store, no keys, it does not answer ..  packing->upload is NULL then.
//  Asks the store whether a pack is there.
int packing_upload_open (packing_t *packing);
void packing_upload_destroy (packing_upload_t **self_p);

//  The header of the pack that the store held when it was asked; NULL: it held none.
const pack_header_t *packing_upload_found (const packing_upload_t *self);
//  -EEXIST, and the sentence that another pack is there now.
int packing_upload_fail_other (const packing_t *packing);
//  The same: an object with the index's name is there, and no index.
int packing_upload_fail_no_pack (const packing_t *packing);
//  Makes the records, or reads those of a resumed packing.  A new one writes a few bytes to the first
//  volume's object, so that keys that may not write are told now.
int packing_upload_begin (packing_upload_t *self);
//  0, or -EFBIG and a sentence: a volume is larger than a store takes by one PUT.
int packing_upload_check (const packing_t *packing, const pack_volume_t *volumes, uint32_t count);
//  Asks the store for the volumes that have records; those that it has are deleted here, if they are there.
int packing_upload_go_on (packing_upload_t *self, const packing_plan_t *plan);
bool packing_upload_is_sent (const packing_upload_t *self, uint32_t volume);
//  The volumes below `end` are finished and durable.  Also looks after those that were handed over before.
int packing_upload_hand_over (packing_upload_t *self, uint32_t end);
//  Waits until all volumes are in the store.
int packing_upload_finish (packing_upload_t *self);
//  Sends the target's index, which makes it a pack.
int packing_upload_index (packing_upload_t *self);

#endif
