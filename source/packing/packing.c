/*  packing.c -- the target, beginning or going on, both passes, the index, the end.
 *
 *  happy path:  look at the target, open the source, make and lock the target, write a first journal; pass 1;
 *               plan (order, places, volumes, all from the table); pass 2; the index; PACKING goes, its
 *               buckets first, then its journal.
 *  failure:     everything recorded in the journal stays, and --resume begins there.  All after pass 1
 *               follows from the table and the journal alone, so the plan is made again and comes out the
 *               same.
 *  on close:    locks go with their descriptors.
 */
#include "packing_state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <xxhash.h>

#include "file.h"
#include "location.h"
#include "pack_index.h"
#include "store.h"

enum {
    SPARE_DESCRIPTORS = 64,             //  that buckets leave free
    BUCKET_BUFFER_BYTES_MIN = 64 << 10, //  with smaller buffers writes would be tiny
    BUCKETS_UNKNOWN = 64,               //  if the source does not know its size
    SPARE_BYTES = 64 << 10,             //  journals, folders, and what the index is rounded up to
    ROWS_PART = 100,                    //  the rows of a JPEG take less than such a part of it
    BUCKET_MORE = 4                     //  a bucket may be larger than the mean, by such a part
};

//  -- options

static int
s_check_options (const packing_t *self)
{
    const packing_options_t *options = self->options;
    if (options->chunk_samples % PACK_CHUNK_SAMPLES || options->chunk_samples > PACK_CHUNK_SAMPLES_MAX)
        return packing_fail (self, -EINVAL,
            "a chunk cannot have %u samples: give a multiple of %d, at most %d",
            options->chunk_samples, PACK_CHUNK_SAMPLES, PACK_CHUNK_SAMPLES_MAX);
    if (options->memory_bytes < PACKING_MEMORY_BYTES_MIN)
        return packing_fail (self, -EINVAL, "%llu bytes of memory are too few: give at least %d",
            (unsigned long long) options->memory_bytes, PACKING_MEMORY_BYTES_MIN);
    assert (options->volume_bytes == 0 || options->volume_bytes >= PACK_BLOCK_BYTES);
    assert (options->buckets <= PACKING_BUCKETS_MAX);
    return 0;
}


//  -- the target

static bool
s_is_there (int fd, const char *name)
{
    struct stat status;
    return fstatat (fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

//  The target, if it is there, locked.
static int
s_open_target (packing_t *self)
{
    const char *target = self->options->target;
    self->target_fd = open (target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (self->target_fd < 0 && errno == ENOENT)
        return 0;
    if (self->target_fd < 0 && errno == ENOTDIR)
        return packing_fail (self, -ENOTDIR, "'%.600s' is not a folder: a pack is one; choose another name",
            target);
    if (self->target_fd < 0)
        return packing_fail_file (self, -errno, "open", "");
    if (file_is_foreign (target))
        return packing_fail (self, -EPERM, "'%.600s' " FILE_FOREIGN_WORDS, target);
    if (flock (self->target_fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno == EWOULDBLOCK)
        return packing_fail (self, -EBUSY, "another process packs into '%.600s': wait for it, or stop it",
            target);
    return packing_fail_file (self, -errno, "lock", "");
}

static int
s_open_folder (packing_t *self)
{
    char path [PATH_MAX];
    self->folder_fd = openat (self->target_fd, PACKING_FOLDER,
        O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    snprintf (path, sizeof path, "%.*s/" PACKING_FOLDER, PATH_MAX - 16, self->options->target);
    if (self->folder_fd >= 0 && file_is_foreign (path))
        return packing_fail (self, -EPERM, "'%.600s' " FILE_FOREIGN_WORDS, path);
    return self->folder_fd >= 0
        || errno == ENOENT? 0: packing_fail_file (self, -errno, "open", PACKING_FOLDER);
}

//  1: there are entries.
static int
s_has_entries (const packing_t *self)
{
    int fd = openat (self->target_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0? NULL: fdopendir (fd);
    if (!folder) {
        int rc = packing_fail_file (self, -errno, "read", "");
        if (fd >= 0)
            close (fd);
        return rc;
    }
    int count = 0;
    const struct dirent *item;
    while (count == 0 && (errno = 0, item = readdir (folder)))
        count = strcmp (item->d_name, ".") != 0 && strcmp (item->d_name, "..") != 0;
    int rc = errno? packing_fail_file (self, -errno, "read", ""): count;
    closedir (folder);
    return rc;
}

//  Whether it was begun for a store, as it is used now.
static int
s_check_use (const packing_t *self, bool is_pack)
{
    const char *target = self->options->target;
    if (self->options->address && is_pack && self->journal.pass == 0)
        return packing_fail (self, -EEXIST, "'%.600s' is a pack already: choose another folder for what is "
            "under way", target);
    if (!self->options->address && self->journal.pass != 0
            && s_is_there (self->folder_fd, PACKING_UPLOADS_NAME))
        return packing_fail (self, -EINVAL, "'%.600s' was begun for an object store: give its address as the "
            "target, and this folder by --work", target);
    return 0;
}

//  Examines its content: 0, and reads the journal if there is one (pass 0: none); or why it cannot be the
//  target.
static int
s_inspect (packing_t *self)
{
    const char *target = self->options->target;
    bool is_pack = s_is_there (self->target_fd, PACK_INDEX_NAME);
    int rc = s_open_folder (self);
    //  Of a pack that goes to a store, the index may be here and has not been sent.
    bool is_finished = is_pack && (!self->options->address || self->folder_fd < 0);
    if (rc == 0 && is_finished && !self->options->resume)
        return packing_fail (self, -EEXIST, "'%.600s' is a pack already: choose another folder, or delete it",
            target);
    if (rc == 0 && self->folder_fd >= 0 && !self->options->resume)
        return packing_fail (self, -EEXIST,
            "'%.600s' is an unfinished pack: go on with --resume, or delete it", target);
    if (rc == 0 && self->folder_fd >= 0)
        rc = packing_journal_load (self);
    rc = rc < 0? rc: s_check_use (self, is_pack);
    if (rc || is_pack)
        return rc < 0? rc: 0;
    rc = self->folder_fd >= 0? 0: s_has_entries (self);
    return rc <= 0? rc: packing_fail (self, -EEXIST,
        "'%.600s' holds something that is no pack: choose an empty "
        "folder, or one that is not there", target);
}

//  Of the folders that were made: a journal stays only in a folder that stays.
static int
s_sync_names (const packing_t *self)
{
    int rc = file_sync (self->target_fd);
    if (rc)
        return packing_fail_file (self, rc, "write", "");
    rc = file_sync_name (self->target_fd);
    return rc? packing_fail_file (self, rc, "write", ".."): 0;
}

//  Makes what is missing.
static int
s_make_target (packing_t *self)
{
    int rc = 0;
    if (self->target_fd < 0) {
        if (mkdir (self->options->target, 0777) == 0)
            self->made_target = true;
        else
        if (errno == ENOENT)
            return packing_fail (self, -ENOENT,
                "cannot make '%.600s': its parent is not there: make that first, or "
                "check the path", self->options->target);
        else
        if (errno != EEXIST)
            return packing_fail_file (self, -errno, "make", "");
        rc = s_open_target (self);
        if (rc == 0 && self->target_fd < 0)
            rc = packing_fail_file (self, -ENOENT, "open", "");
        if (rc == 0)
            rc = s_inspect (self);      //  it may have been made meanwhile
        if (rc == 0 && self->journal.pass == 0 && s_is_there (self->target_fd, PACK_INDEX_NAME))
            rc = packing_fail (self, -EEXIST, "'%.600s' has become a pack meanwhile: choose another folder",
                self->options->target);
    }
    if (rc)
        return rc;
    //  Without a journal, a packing may have been killed between making PACKING and syncing its name.
    if (self->folder_fd >= 0)
        return self->journal.pass == 0? s_sync_names (self): 0;
    if (mkdirat (self->target_fd, PACKING_FOLDER, 0777) != 0)
        return packing_fail_file (self, -errno, "make", PACKING_FOLDER);
    rc = s_open_folder (self);
    if (rc == 0 && self->folder_fd < 0)
        rc = packing_fail_file (self, -ENOENT, "open", PACKING_FOLDER);
    return rc? rc: s_sync_names (self);
}

//  Whether path, or its parent if it does not exist, is this folder or below it.
static bool
s_is_in (const char *path, const char *folder)
{
    char at [PATH_MAX + 4], real [PATH_MAX];
    struct stat wanted, status;
    snprintf (at, sizeof at, "%.*s", PATH_MAX, path);
    if (stat (folder, &wanted) != 0)
        return false;
    if (!realpath (at, real)) {
        size_t length = strlen (at);
        while (length > 1 && at [length - 1] == '/')
            at [--length] = 0;
        char *slash = strrchr (at, '/');
        strcpy (slash? slash + (slash == at): at, slash? "": ".");
        if (!realpath (at, real))
            return false;
    }
    for (;;) {
        if (stat (real, &status) == 0 && status.st_dev == wanted.st_dev && status.st_ino == wanted.st_ino)
            return true;
        char *slash = strrchr (real, '/');
        if (!slash || !slash [1])
            return false;
        slash [slash == real] = 0;
    }
}

//  Whether the address is this one, or below it.
static bool
s_is_in_store (const char *address, const char *folder)
{
    store_address_t inner = { .host = NULL }, outer = { .host = NULL };
    char error [PACK_SOURCE_ERROR_BYTES];
    bool is_in = store_is_meant (folder)
        && store_address_parse (&inner, address, error, sizeof error) == 0
        && store_address_parse (&outer, folder, error, sizeof error) == 0
        && inner.is_s3 == outer.is_s3 && strcmp (inner.host, outer.host) == 0;
    if (is_in && *outer.path) {
        size_t length = strlen (outer.path);
        is_in = strncmp (inner.path, outer.path, length) == 0
            && (inner.path [length] == '/' || !inner.path [length]);
    }
    store_address_clear (&inner);
    store_address_clear (&outer);
    return is_in;
}

//  A pack in its own source would be a class the next time.  One beside tar files is not among them.
static int
s_check_overlap (const packing_t *self)
{
    const packing_options_t *options = self->options;
    for (size_t index = 0; index < options->source.path_count + options->source.field_count; index++) {
        const char *folder = index < options->source.path_count? options->source.paths [index]:
            options->source.fields [index - options->source.path_count].path;
        struct stat status;
        if (!store_is_meant (folder) && stat (folder, &status) == 0 && S_ISDIR (status.st_mode)
                && s_is_in (options->target, folder))
            return packing_fail (self, -EINVAL,
                "'%.400s' is in '%.400s', which is to be packed: choose a folder "
                "outside", options->target, folder);
        bool is_tar = index < options->source.path_count && location_is_tar (folder);
        if (options->address && !is_tar && s_is_in_store (options->address, folder))
            return packing_fail (self, -EINVAL, "'%.400s' is in '%.400s', which is to be packed: choose an "
                "address outside", options->address, folder);
    }
    return 0;
}


//  -- beginning and going on

//  Each is half of memory on average, so that few are larger.
static uint32_t
s_choose_buckets (const packing_t *self, uint64_t bytes)
{
    const packing_options_t *options = self->options;
    struct rlimit limit = { .rlim_cur = 1024 };
    getrlimit (RLIMIT_NOFILE, &limit);
    uint64_t most = limit.rlim_cur > 2 * SPARE_DESCRIPTORS? limit.rlim_cur - SPARE_DESCRIPTORS:
        SPARE_DESCRIPTORS;
    if (most > options->memory_bytes / 2 / BUCKET_BUFFER_BYTES_MIN)
        most = options->memory_bytes / 2 / BUCKET_BUFFER_BYTES_MIN;
    if (most > PACKING_BUCKETS_MAX)
        most = PACKING_BUCKETS_MAX;
    uint64_t wanted = bytes? bytes / (options->memory_bytes / 2) + 1: BUCKETS_UNKNOWN;
    uint64_t count = options->buckets? options->buckets: wanted;
    return (uint32_t) (count < most? count: most);
}

static int
s_begin (packing_t *self)
{
    const packing_options_t *options = self->options;
    uint64_t done = 0, total = 0, seed = options->seed;
    pack_source_progress (self->source, &done, &total);
    if (!options->has_seed && getrandom (&seed, sizeof seed, 0) != sizeof seed)
        return packing_fail (self, -EIO, "the system has no random numbers: give --seed");
    self->journal = (packing_journal_t) {
        .pass = 1, .seed = seed, .buckets = s_choose_buckets (self, total),
        .chunk_samples = options->chunk_samples? options->chunk_samples: PACK_CHUNK_SAMPLES,
        .volume_bytes = options->volume_bytes? options->volume_bytes: PACK_VOLUME_BYTES,
        .rows = options->rows? PACKING_ROWS: 0
    };
    const char *signature = pack_source_signature (self->source);
    assert (strlen (signature) < sizeof self->journal.signature);
    strcpy (self->journal.signature, signature);
    return 0;
}

//  A resumed packing has these already.
static int
s_check_wishes (const packing_t *self, uint64_t seed, uint32_t chunk_samples)
{
    const packing_options_t *options = self->options;
    const char *name = options->address && self->journal.pass == 0? options->address: options->target;
    if (options->has_seed && options->seed != seed)
        return packing_fail (self, -EINVAL, "'%.600s' was begun with seed %llu: give that or none", name,
            (unsigned long long) seed);
    if (options->chunk_samples && options->chunk_samples != chunk_samples)
        return packing_fail (self, -EINVAL, "'%.600s' was begun with chunks of %u samples: give that or none",
            name, chunk_samples);
    return 0;
}

static int
s_check_journal (const packing_t *self)
{
    const packing_journal_t *journal = &self->journal;
    if (strcmp (journal->signature, pack_source_signature (self->source)) != 0)
        return packing_fail (self, -ESTALE,
            "the source is not what '%.600s' was begun with, or has changed since: "
            "delete the folder and begin anew", self->options->target);
    if (journal->rows && journal->rows != PACKING_ROWS)
        return packing_fail (self, -EINVAL,
            "'%.600s' was begun with --tile by an earlier version: delete the folder and begin anew",
            self->options->target);
    if (journal->rows && !self->options->rows)
        return packing_fail (self, -EINVAL,
            "'%.600s' was begun without --no-jpeg-rows: leave that out, or delete the folder and begin anew",
            self->options->target);
    if (self->options->volume_bytes && self->options->volume_bytes != journal->volume_bytes)
        return packing_fail (self, -EINVAL, "'%.600s' was begun with volumes of %llu bytes: give that or "
            "none", self->options->target, (unsigned long long) journal->volume_bytes);
    return s_check_wishes (self, journal->seed, journal->chunk_samples);
}

//  Bytes of pass 1 and the index beside the samples, and of rounding up to whole blocks.  The number of
//  samples in tar files is unknown; a tar's own bytes for each sample are more than this.
static uint64_t
s_beside_bytes (const packing_t *self, uint64_t bytes)
{
    const catalogue_t *catalogue = pack_source_catalogue (self->source);
    uint64_t volumes = bytes / self->journal.volume_bytes + 1, blocks = self->journal.buckets + 2 * volumes;
    if (!catalogue)
        return blocks * PACK_BLOCK_BYTES + SPARE_BYTES;
    uint64_t samples = catalogue_samples (catalogue), fields = catalogue_fields (catalogue);
    blocks += samples / self->journal.chunk_samples;
    return blocks * PACK_BLOCK_BYTES + samples * (fields + 1) * sizeof (packing_file_t)
        + pack_index_bytes (catalogue, volumes)
        + SPARE_BYTES;
}

//  Refuses now a packing that would run out of space.  Buckets are deleted as volumes grow, so it takes the
//  data once, and one bucket, which is some samples more than an equal part.
static int
s_check_space (const packing_t *self)
{
    struct statvfs status;
    uint64_t done = 0, total = 0;
    pack_source_progress (self->source, &done, &total);
    if (fstatvfs (self->target_fd, &status) != 0)
        return packing_fail_file (self, -errno, "look at", "");
    uint64_t free_bytes = (uint64_t) status.f_bavail * status.f_frsize,
        bucket = total / self->journal.buckets;
    uint64_t needed = bucket + (self->journal.buckets > 1? bucket / BUCKET_MORE: 0) + s_beside_bytes (self,
        total);
    if (self->journal.pass == 1 && total > done)
        needed += (total - done) + (self->journal.rows? (total - done) / ROWS_PART: 0);
    if (free_bytes >= needed)
        return 0;
    return packing_fail (self, -ENOSPC,
        "there are %.1f MiB free for '%.600s', and it takes about %.1f: free room "
        "there, or choose another file system", (double) free_bytes / (1 << 20), self->options->target,
        (double) needed / (1 << 20));
}

//  Nothing was begun: removes the folder.  If it holds other files, they and the folder stay.
static void
s_leave (packing_t *self)
{
    if (self->folder_fd >= 0 && !s_is_there (self->folder_fd, "journal"))
        unlinkat (self->folder_fd, PACKING_UPLOADS_NAME, 0);
    if (self->folder_fd < 0 || unlinkat (self->target_fd, PACKING_FOLDER, AT_REMOVEDIR) != 0)
        return;
    if (self->made_target)
        rmdir (self->options->target);
}

//  Makes the target ready, and the source skip to where the table ends.
static int
s_prepare (packing_t *self)
{
    self->result->resumed = self->journal.pass != 0;
    int rc = self->result->resumed? s_check_journal (self): s_begin (self);
    if (rc)
        return rc;
    self->result->seed = self->journal.seed;
    rc = pack_source_skip (self->source, self->journal.samples, self->error);
    rc = rc < 0? rc: s_check_space (self);
    if (rc == 0 && self->upload)
        rc = packing_upload_begin (self->upload);
    if (rc == 0 && !self->result->resumed)
        rc = packing_journal_save (self);
    return rc? rc: packing_table_open (self);
}

static int
s_enter (packing_t *self)
{
    int rc = s_make_target (self);
    if (rc == 0)
        rc = s_prepare (self);
    if (rc)
        s_leave (self);                 //  with a journal in it the folder stays
    return rc;
}


//  -- both passes

//  For good, before the journal goes, without which they are not known.  name: of what stays.
static int
s_remove_buckets (const packing_t *self, char name [PACKING_NAME_BYTES])
{
    for (uint32_t bucket = 0; bucket < self->journal.buckets; bucket++)
        if (unlinkat (self->folder_fd, packing_bucket_name (bucket, false, name), 0) != 0
            && errno != ENOENT) {
            int rc = -errno;
            packing_bucket_name (bucket, true, name);
            return rc;
        }
    snprintf (name, PACKING_NAME_BYTES, "%s", PACKING_FOLDER);
    return file_sync (self->folder_fd);
}

//  The source or the options must change, and no sample is durable: removes the files, which would only be in
//  the way.
static void
s_forget (packing_t *self)
{
    static const char *const names [] = { "journal", "journal.new", "table" };
    char name [PACKING_NAME_BYTES];
    if (s_remove_buckets (self, name))
        return;                         //  with its journal: --resume finds them
    for (size_t index = 0; index < sizeof names / sizeof *names; index++)
        unlinkat (self->folder_fd, names [index], 0);
    s_leave (self);
}

static int
s_pass_1 (packing_t *self)
{
    int rc = packing_fill_buckets (self);
    if (rc == 0 && self->samples == 0)
        rc = packing_fail (self, -ENODATA, "there are no samples in '%.600s': check the path",
            self->options->source.paths [0]);
    if ((rc == -EINVAL || rc == -ENODATA || rc == -EBADMSG) && self->journal.samples == 0)
        s_forget (self);
    if (rc)
        return rc;
    self->journal.pass = 2;
    return packing_journal_save (self);
}

//  Pass 1 was done before, and the source was skipped; its end makes the catalogue.
static int
s_finish_source (packing_t *self)
{
    pack_item_t item;
    int rc = pack_source_next (self->source, &item, self->error);
    return rc <= 0? rc: packing_fail (self, -ESTALE,
        "the source has more samples than '%.600s' was begun with: "
        "delete the folder and begin anew", self->options->target);
}

//  Catalogue and table must describe the same files.
static int
s_check_catalogue (const packing_t *self, const catalogue_t *catalogue)
{
    size_t sample_files = self->journal.sample_files, field_count = sample_files - !!self->journal.rows;
    bool is_same = catalogue_samples (catalogue) == self->samples
        && catalogue_fields (catalogue) == field_count;
    for (size_t file = 0; is_same && file < self->file_count; file++)
        is_same = file % sample_files == field_count || self->files [file].bytes
            == catalogue_file_bytes (catalogue, (uint32_t) (file / sample_files), file % sample_files);
    return is_same? 0: packing_fail (self, -ESTALE,
        "the source is not what '%.600s' was begun with: delete the "
        "folder and begin anew", self->options->target);
}

static uint64_t
s_bytes (const void *context, uint32_t id)
{
    return packing_sample_bytes (context, id);
}

//  The same data, seed and layout give the same id, so that the whole pack comes out the same.
static int
s_make_id (const packing_t *self, const catalogue_t *catalogue, size_t checksums, packing_plan_t *plan)
{
    XXH3_state_t *hash = XXH3_createState ();
    if (!hash)
        return packing_fail_memory (self);
    uint64_t numbers [3] = { self->journal.seed, self->journal.chunk_samples, self->journal.volume_bytes };
    XXH3_128bits_reset (hash);
    XXH3_128bits_update (hash, catalogue_fingerprint (catalogue), 32);
    XXH3_128bits_update (hash, numbers, sizeof numbers);
    XXH3_128bits_update (hash, plan->checksums, checksums * sizeof *plan->checksums);
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash (&canonical, XXH3_128bits_digest (hash));
    XXH3_freeState (hash);
    _Static_assert (sizeof canonical == PACK_ID_BYTES, "an id is such a hash");
    memcpy (plan->pack, &canonical, PACK_ID_BYTES);
    return 0;
}

static int
s_plan_rows (const packing_t *self, packing_plan_t *plan)
{
    const packing_file_t *last = self->files + self->journal.sample_files - 1;
    uint32_t *rows_bytes = self->journal.rows? calloc (self->samples, sizeof *rows_bytes): NULL;
    if (!self->journal.rows)
        return 0;
    if (!rows_bytes)
        return -ENOMEM;
    for (uint32_t id = 0; id < self->samples; id++, last += self->journal.sample_files) {
        rows_bytes [id] = last->bytes;
        if (last->bytes)
            plan->rows_bytes = rows_bytes;
    }
    if (!plan->rows_bytes)
        free (rows_bytes);
    return 0;
}

static int
s_plan (const packing_t *self, const catalogue_t *catalogue, packing_plan_t *plan)
{
    plan->order = reallocarray (NULL, self->samples, sizeof *plan->order);
    plan->places = reallocarray (NULL, self->samples, sizeof *plan->places);
    plan->checksums = reallocarray (NULL, self->file_count, sizeof *plan->checksums);
    if (!plan->order || !plan->places || !plan->checksums || s_plan_rows (self, plan))
        return packing_fail_memory (self);
    //  If no rows are known, the index is that of a pack without.
    size_t sample_files = self->journal.sample_files, checksums = 0;
    size_t wanted = sample_files - (self->journal.rows && !plan->rows_bytes);
    for (size_t file = 0; file < self->file_count; file++)
        if (file % sample_files < wanted)
            plan->checksums [checksums++] = self->files [file].checksum;
    packing_order (self->journal.seed, (uint32_t) self->samples, plan->order);
    packing_layout_t layout = { (uint32_t) self->samples, self->journal.chunk_samples,
        self->journal.volume_bytes, plan->order, s_bytes, self };
    if (packing_layout (&layout, plan->places, &plan->volumes, &plan->volume_count))
        return packing_fail_memory (self);
    return s_make_id (self, catalogue, checksums, plan);
}

static void
s_clear_plan (packing_plan_t *plan)
{
    free (plan->order);
    free (plan->places);
    free (plan->volumes);
    free (plan->checksums);
    free (plan->rows_bytes);
}

//  Removes PACKING: the buckets, the journal, then the other files.  What is not packing's stays.  Of a pack
//  in a store, the index that was sent goes first, or it would look like a pack of a folder.
static int
s_clean (const packing_t *self)
{
    static const char *const names [] = { "journal", "journal.new", "table", PACKING_UPLOADS_NAME };
    if (self->upload && ((unlinkat (self->target_fd, PACK_INDEX_NAME, 0) != 0 && errno != ENOENT)
            || file_sync (self->target_fd) != 0))
        return packing_fail_file (self, -errno, "delete", PACK_INDEX_NAME);
    char name [PACKING_NAME_BYTES];
    int rc = s_remove_buckets (self, name);
    if (rc)
        return packing_fail_file (self, rc, "delete", name);
    for (size_t index = 0; index < sizeof names / sizeof *names; index++)
        if ((unlinkat (self->folder_fd, names [index], 0) != 0 && errno != ENOENT)
                || (index == 0 && file_sync (self->folder_fd) != 0))
            return packing_fail_file (self, -errno, "delete", PACKING_FOLDER);
    if (unlinkat (self->target_fd, PACKING_FOLDER, AT_REMOVEDIR) != 0 && errno != ENOTEMPTY
        && errno != EEXIST)
        return packing_fail_file (self, -errno, "delete", PACKING_FOLDER);
    if (self->upload)
        rmdir (self->options->target);  //  it stays if there is more in it
    rc = file_sync (self->target_fd);
    if (rc)
        return packing_fail_file (self, rc, "write", "");
    rc = self->upload? 0: file_sync_name (self->target_fd);
    return rc? packing_fail_file (self, rc, "write", ".."): 0;
}

static int
s_write_index (const packing_t *self, const catalogue_t *catalogue, const packing_plan_t *plan)
{
    pack_index_t index = {
        .catalogue = catalogue,
        .chunk_samples = self->journal.chunk_samples, .pack = plan->pack,
        .seed = self->journal.seed, .order = plan->order, .places = plan->places,
        .rows_bytes = plan->rows_bytes, .checksums = plan->checksums,
        .volumes = plan->volumes, .volume_count = plan->volume_count
    };
    return pack_index_write (self->options->target, &index, self->error, PACK_SOURCE_ERROR_BYTES);
}

//  Volumes, then the index.
static int
s_write (packing_t *self, const catalogue_t *catalogue, const packing_plan_t *plan)
{
    const pack_header_t *found = self->upload? packing_upload_found (self->upload): NULL;
    if (found && memcmp (found->pack, plan->pack, PACK_ID_BYTES) != 0)
        return packing_upload_fail_other (self);
    if (found)
        return 0;                       //  all of it was sent, and only the end is missing
    int rc = packing_write_volumes (self, plan);
    if (rc == 0)
        rc = s_write_index (self, catalogue, plan);
    if (rc == 0 && self->upload)
        rc = packing_upload_index (self->upload);
    return rc;
}

static void
s_tell_result (const packing_t *self, const packing_plan_t *plan)
{
    packing_result_t *result = self->result;
    result->samples = self->samples;
    result->volumes = plan->volume_count;
    result->chunks = (self->samples + self->journal.chunk_samples - 1) / self->journal.chunk_samples;
    for (size_t file = 0; file < self->file_count; file++)
        result->bytes += self->files [file].bytes;
    for (uint32_t id = 0; plan->rows_bytes && id < self->samples; id++) {
        result->with_rows += plan->rows_bytes [id] > 0;
        result->rows_bytes += plan->rows_bytes [id];
    }
}

static int
s_pass_2 (packing_t *self)
{
    packing_plan_t plan = { .order = NULL };
    const catalogue_t *catalogue = pack_source_catalogue (self->source);
    int rc = s_check_catalogue (self, catalogue);
    if (rc == 0)
        rc = s_plan (self, catalogue, &plan);
    if (rc == 0)
        rc = s_write (self, catalogue, &plan);
    if (rc == 0)
        rc = s_clean (self);
    if (rc == 0)
        s_tell_result (self, &plan);
    packing_upload_destroy (&self->upload);         //  it has borrowed the plan
    s_clear_plan (&plan);
    return rc;
}

//  Of the finished pack in the target, or in the store.
static int
s_read_header (const packing_t *self, pack_header_t *header)
{
    if (self->upload) {
        *header = *packing_upload_found (self->upload);
        return 0;
    }
    int fd = openat (self->target_fd, PACK_INDEX_NAME, O_RDONLY | O_CLOEXEC);
    int rc = fd < 0? -errno: packing_read (fd, header, sizeof *header, 0);
    if (fd >= 0)
        close (fd);
    return rc;
}

//  A finished pack: its own figures.
static int
s_tell_finished (packing_t *self)
{
    pack_header_t header;
    int rc = s_read_header (self, &header);
    if (rc == 0 && (memcmp (header.magic, PACK_INDEX_MAGIC, sizeof header.magic) != 0
        || header.chunk_samples == 0
            || header.checksum != XXH3_64bits (&header, offsetof (pack_header_t, checksum))))
        rc = -EBADMSG;
    if (rc && self->upload)
        return packing_upload_fail_no_pack (self);
    if (rc)
        return packing_fail_file (self, rc, "read", PACK_INDEX_NAME);
    rc = s_check_wishes (self, header.seed, header.chunk_samples);
    if (rc)
        return rc;
    *self->result = (packing_result_t) { .samples = header.samples, .bytes = header.bytes,
        .seed = header.seed,
        .volumes = header.sections [PACK_VOLUMES].bytes / sizeof (pack_volume_t),
        .chunks = (header.samples + header.chunk_samples - 1) / header.chunk_samples, .was_finished = true };
    return self->folder_fd >= 0? s_clean (self): 0;
}


static int
s_open_store (packing_t *self)
{
    int rc = packing_upload_open (self);
    if (rc || !packing_upload_found (self->upload) || (self->options->resume && self->journal.pass != 1))
        return rc;
    return packing_fail (self, -EEXIST, "'%.600s' is a pack already: choose another address, or delete it",
        self->options->address);
}

static bool
s_is_finished (const packing_t *self)
{
    if (self->upload)
        return packing_upload_found (self->upload);
    return self->target_fd >= 0 && s_is_there (self->target_fd, PACK_INDEX_NAME);
}

//  Tells the names of samples, if that was not done and they are known.
static void
s_tell_names (packing_t *self)
{
    const catalogue_t *catalogue = pack_source_catalogue (self->source);
    if (!catalogue || self->names_are_told || !self->options->found)
        return;
    self->names_are_told = true;
    self->options->found (self->options->context, catalogue);
}

static int
s_run (packing_t *self)
{
    int rc = s_check_options (self);
    if (rc == 0)
        rc = s_open_target (self);
    if (rc == 0 && self->target_fd >= 0)
        rc = s_inspect (self);
    if (rc == 0 && self->options->address)
        rc = s_open_store (self);
    if (rc)
        return rc;
    if (self->journal.pass == 0 && s_is_finished (self))
        return s_tell_finished (self);
    rc = pack_source_open (&self->source, &self->options->source, self->error);
    if (rc == 0)
        rc = s_check_overlap (self);
    if (rc == 0)
        rc = s_enter (self);
    if (rc == 0)
        s_tell_names (self);
    if (rc == 0)
        rc = self->journal.pass == 1? s_pass_1 (self): s_finish_source (self);
    if (rc == 0)
        s_tell_names (self);
    return rc? rc: s_pass_2 (self);
}

int
packing_run (const packing_options_t *options, packing_result_t *result, char *error)
{
    assert (options && options->target); assert (result); assert (error);
    *result = (packing_result_t) { 0 };
    error [0] = 0;
    packing_t self = { .options = options, .result = result, .error = error, .target_fd = -1, .folder_fd = -1,
        .table_fd = -1 };
    int rc = s_run (&self);
    packing_upload_destroy (&self.upload);
    pack_source_destroy (&self.source);
    free (self.files);
    if (self.table_fd >= 0)
        close (self.table_fd);
    if (self.folder_fd >= 0)
        close (self.folder_fd);
    if (self.target_fd >= 0)
        close (self.target_fd);
    return rc;
}
