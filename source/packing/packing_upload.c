/*  packing_upload.c -- a pack goes to an object store: each volume when it is finished, the index last.
 *
 *  The target of the packing is then a folder for what is under way.  A volume is handed over when the
 *  journal says that it is durable; a thread works out its SHA-256 and sends it by one PUT, up to
 *  PACKING_UPLOADS at once.  When the store has confirmed it, its size and version (ETag) are recorded in
 *  PACKING_FOLDER/uploads, durably, and then the volume is deleted.  When all have been sent, all are asked
 *  for their first block, size and version, and then the index is sent.  So the store holds an index and all
 *  that belongs to it, or no index: a whole pack, or none.
 *
 *  failure modes:  what may pass is tried again for patience_ms.  Then the packing ends with a sentence, and
 *                  --resume goes on: a volume with a record is asked for, and not sent again if the store
 *                  has it as it was sent.  If the process is killed between a PUT and its record, the volume
 *                  is sent once more.
 *  on close:       transfers under way are dropped; the store keeps nothing of them.
 *
 *  The bucket has no lock.  Just before each PUT the store is asked whether the index of another pack has
 *  come meanwhile: then nothing more is sent.  What comes between that answer and the end of the PUT is not
 *  seen.
 *  Two packings into one prefix that are both under way are seen by the volumes' versions at the end: the one
 *  that ends last fails, or both.
 */
#include "packing_state.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "file.h"
#include "pack.h"
#include "pack_index.h"
#include "pool.h"
#include "store.h"

enum {
    UPLOAD_MAGIC = 0x0b10ad55, ADDRESS_BYTES = 2048,
    WAIT_MS = 200,                      //  between two looks whether to stop
    OPEN_PATIENCE_MS = 15000            //  a user waits
};

#define OBJECT_BYTES_MAX (UINT64_C (5) << 30)   //  what S3 takes by one PUT
#define RECORDS_MAGIC "TUREENU1"

//  PACKING_FOLDER/uploads: this, then a record of each volume; zeros: it has not been sent.
typedef struct {
    char magic [8];
    char address [ADDRESS_BYTES];
    uint64_t checksum;                  //  XXH3-64 of what stands before
} records_header_t;

typedef struct {
    uint64_t bytes;
    char version [TRANSFER_VERSION_BYTES];
    uint64_t checksum;                  //  XXH3-64 of what stands before
} record_t;

_Static_assert (sizeof (records_header_t) == 2064 && sizeof (record_t) == 96, "no padding: they are written");

//  A volume on its way, or the index.  A thread's from submit until done.
typedef struct {
    packing_upload_t *upload;
    char name [PACKING_NAME_BYTES];
    uint32_t volume;
    int folder_fd;
    transfer_t transfer;
    transfer_upload_t body;
    char checksum [STORE_CHECKSUM_BYTES];
    char *url;
    int rc;
    bool is_of_file;                    //  what failed was reading the file
    bool is_of_look;                    //  or the look for another pack's index: rc, and
    transfer_t look;
} task_t;

typedef enum { VOLUME_UNFINISHED, VOLUME_HANDED_OVER, VOLUME_SENT } volume_state_t;

struct packing_upload {
    uint32_t magic;
    packing_t *packing;
    store_t *store;
    pack_header_t found;
    bool has_found;
    int records_fd;                     //  -1: none
    //  pass 2
    const packing_plan_t *plan;         //  lent from packing_upload_go_on on
    volume_state_t *states;             //  of each volume
    record_t *records;
    task_t *tasks;
    pool_t *pool;
    uint32_t next;                      //  the first volume that has not been handed over
    size_t under_way;
    //  shared
    atomic_bool is_ending;
    atomic_uint_fast64_t sent;          //  bytes
};

//  -- sentences

static int
s_fail_store (const packing_upload_t *self, const char *name, const transfer_t *transfer)
{
    char what [600];
    store_explain (self->store, name, transfer, what, sizeof what);
    return packing_fail (self->packing, transfer->rc, "%s%s", what,
        self->plan || self->packing->result->resumed? "; then go on with --resume": "");
}

static int
s_fail_stopped (const packing_upload_t *self)
{
    return packing_fail (self->packing, -ECANCELED, "stopped: go on with --resume");
}

static int
s_fail_records (const packing_upload_t *self, int rc, const char *what)
{
    return packing_fail_file (self->packing, rc, what, PACKING_FOLDER "/" PACKING_UPLOADS_NAME);
}

static const char *
s_volume_name (uint32_t volume, char name [PACKING_NAME_BYTES])
{
    snprintf (name, PACKING_NAME_BYTES, PACK_VOLUME_NAME, volume);
    return name;
}

//  In any thread.
static bool
s_is_ending (void *context)
{
    return atomic_load (&((packing_upload_t *) context)->is_ending);
}

static bool
s_is_stopped (void *context)
{
    return packing_is_stopped (((packing_upload_t *) context)->packing);
}


//  -- opening

//  Whether there is an index, and its header: 1, 0, or -errno, of which transfer says more.  In any thread.
static int
s_ask_for_index (const packing_upload_t *self, const store_persistence_t *how, pack_header_t *header,
    transfer_t *transfer)
{
    char *url = store_url (self->store, PACK_INDEX_NAME);
    if (!url)
        return -ENOMEM;
    *transfer = (transfer_t) { .url = url, .bytes = sizeof *header, .memory = (uint8_t *) header };
    int rc = store_carry_out (self->store, transfer, 1, how);
    free (url);
    transfer->url = NULL;
    return rc == -ENOENT? 0: rc? rc: 1;
}

int
packing_upload_fail_no_pack (const packing_t *packing)
{
    return packing_fail (packing, -EEXIST, "'%.600s/" PACK_INDEX_NAME "' is there and no pack's: choose "
        "another address, or delete it", packing->options->address);
}

static int
s_explain_index (const packing_upload_t *self, int rc, const transfer_t *transfer)
{
    if (rc == -ECANCELED)
        return s_fail_stopped (self);
    if (rc == -EREMCHG)                 //  shorter than an index
        return packing_upload_fail_no_pack (self->packing);
    if (rc == -ENOMEM)
        return packing_fail_memory (self->packing);
    s_fail_store (self, PACK_INDEX_NAME, transfer);
    size_t used = strlen (self->packing->error);
    if (rc == -EKEYREJECTED)
        snprintf (self->packing->error + used, PACK_SOURCE_ERROR_BYTES - used,
            "; and s3:ListBucket, without which a store says the same of what is not there");
    return rc;
}

//  In the packing's thread.
static int
s_look (packing_upload_t *self)
{
    transfer_t transfer;
    store_persistence_t how = { .patience_ms = OPEN_PATIENCE_MS, .stopped = s_is_stopped, .context = self };
    int rc = s_ask_for_index (self, &how, &self->found, &transfer);
    self->has_found = rc > 0;
    return rc < 0? s_explain_index (self, rc, &transfer): 0;
}

int
packing_upload_open (packing_t *packing)
{
    const char *address = packing->options->address;
    assert (address && store_is_meant (address));
    packing_upload_t *self = calloc (1, sizeof *self);
    if (!self)
        return packing_fail_memory (packing);
    self->magic = UPLOAD_MAGIC;
    self->packing = packing;
    self->records_fd = -1;
    int rc = store_open (&self->store, address, packing->error, PACK_SOURCE_ERROR_BYTES);
    if (rc == 0 && !store_account (self->store))
        rc = packing_fail (packing, -EINVAL, "'%.600s' is a web server's, and packs are not written there: "
            "give s3://BUCKET/PREFIX, or pack into a folder and copy that", address);
    if (rc == 0 && strlen (address) >= ADDRESS_BYTES)
        rc = packing_fail (packing, -ENAMETOOLONG, "the address has more than %d bytes: choose a shorter one",
            ADDRESS_BYTES - 1);
    if (rc == 0)
        rc = s_look (self);
    if (rc == 0) {
        packing->upload = self;
        self = NULL;
    }
    packing_upload_destroy (&self);
    return rc;
}

static void
s_end_threads (packing_upload_t *self)
{
    if (!self->pool)
        return;
    atomic_store (&self->is_ending, true);
    pool_stop (self->pool);
    while (pool_done (self->pool) || pool_drain (self->pool));
    pool_destroy (&self->pool);
}

void
packing_upload_destroy (packing_upload_t **self_p)
{
    assert (self_p);
    packing_upload_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == UPLOAD_MAGIC);
    s_end_threads (self);
    for (uint32_t volume = 0; self->tasks && volume < self->plan->volume_count; volume++)
        free (self->tasks [volume].url);
    free (self->tasks);
    free (self->records);
    free (self->states);
    if (self->records_fd >= 0)
        close (self->records_fd);
    store_destroy (&self->store);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

const pack_header_t *
packing_upload_found (const packing_upload_t *self)
{
    assert (self && self->magic == UPLOAD_MAGIC);
    return self->has_found? &self->found: NULL;
}


//  -- one object

//  The bucket has no lock.  -EEXIST: another pack has come, and the PUT would replace what belongs to it.  In
//  any thread.
static int
s_look_for_other (task_t *task, const store_persistence_t *how)
{
    const packing_upload_t *self = task->upload;
    pack_header_t header;
    int rc = s_ask_for_index (self, how, &header, &task->look);
    if (rc > 0)
        rc = memcmp (header.pack, self->plan->pack, PACK_ID_BYTES) == 0? 0: -EEXIST;
    task->is_of_look = rc != 0;
    return rc;
}

//  Sends a file of the target, or of PACKING_FOLDER.  In any thread.
static void
s_send (task_t *task, const store_persistence_t *how)
{
    int fd = openat (task->folder_fd, task->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    task->rc = fd < 0? -errno: store_checksum (fd, task->transfer.bytes, how, task->checksum);
    task->is_of_file = task->rc && task->rc != -ECANCELED;
    if (task->rc == 0 && task->upload->plan)
        task->rc = s_look_for_other (task, how);
    if (task->rc == 0) {
        //  Before there is a plan it is no volume that is sent.
        task->body = (transfer_upload_t) { .descriptor = fd, .checksum = task->checksum,
            .sent = task->upload->plan? &task->upload->sent: NULL };
        task->transfer.upload = &task->body;
        task->rc = store_carry_out (task->upload->store, &task->transfer, 1, how);
    }
    if (fd >= 0)
        close (fd);
}

static int
s_explain (const packing_upload_t *self, const task_t *task)
{
    if (task->rc == -ECANCELED)
        return s_fail_stopped (self);
    if (task->is_of_look)
        return task->rc == -EEXIST? packing_upload_fail_other (self->packing):
            s_explain_index (self, task->rc, &task->look);
    if (task->is_of_file)
        return packing_fail_file (self->packing, task->rc, "read", task->name);
    return s_fail_store (self, task->name, &task->transfer);
}

int
packing_upload_fail_other (const packing_t *packing)
{
    return packing_fail (packing, -EEXIST, "'%.500s' has become another pack meanwhile: delete that and go "
        "on with --resume, or delete '%.300s' and choose another address", packing->options->address,
        packing->options->target);
}

//  The object's name is that of the file, unless another one is given.
static int
s_prepare (packing_upload_t *self, task_t *task, int folder_fd, const char *object, uint64_t bytes)
{
    task->upload = self;
    task->url = store_url (self->store, object? object: task->name);
    if (!task->url)
        return packing_fail_memory (self->packing);
    task->transfer = (transfer_t) { .url = task->url, .bytes = bytes };
    task->folder_fd = folder_fd;
    return 0;
}

//  In the packing's thread.
static int
s_send_now (packing_upload_t *self, int folder_fd, const char *name, const char *object, uint64_t bytes,
    uint32_t patience_ms)
{
    task_t task = { .upload = self };
    snprintf (task.name, sizeof task.name, "%s", name);
    store_persistence_t how = { .patience_ms = patience_ms, .takes_long = true, .stopped = s_is_stopped,
        .context = self };
    int rc = s_prepare (self, &task, folder_fd, object, bytes);
    if (rc == 0) {
        s_send (&task, &how);
        snprintf (task.name, sizeof task.name, "%s", object? object: name);
        rc = task.rc? s_explain (self, &task): 0;
    }
    free (task.url);
    return rc;
}


//  -- records

static uint64_t
s_record_checksum (const record_t *record)
{
    return XXH3_64bits (record, offsetof (record_t, checksum));
}

static int
s_begin_records (packing_upload_t *self)
{
    records_header_t header = { .magic = RECORDS_MAGIC };
    int rc = s_look (self);             //  again: the source may have taken long to open
    if (rc == 0 && self->has_found)
        rc = packing_fail (self->packing, -EEXIST, "'%.600s' has become a pack meanwhile: choose another "
            "address, or delete it", self->packing->options->address);
    if (rc)
        return rc;
    snprintf (header.address, sizeof header.address, "%s", self->packing->options->address);
    header.checksum = XXH3_64bits (&header, offsetof (records_header_t, checksum));
    rc = file_write_at (self->records_fd, &header, sizeof header, 0);
    if (rc == 0 && fdatasync (self->records_fd) != 0)
        rc = -errno;
    rc = rc? rc: file_sync (self->packing->folder_fd);
    if (rc)
        return s_fail_records (self, rc, "write");
    char first [PACKING_NAME_BYTES];
    return s_send_now (self, self->packing->folder_fd, PACKING_UPLOADS_NAME, s_volume_name (0, first),
        sizeof header, OPEN_PATIENCE_MS);
}

static int
s_check_records (packing_upload_t *self)
{
    records_header_t header;
    int rc = packing_read (self->records_fd, &header, sizeof header, 0);
    if (rc == 0 && (memcmp (header.magic, RECORDS_MAGIC, sizeof header.magic) != 0
            || header.checksum != XXH3_64bits (&header, offsetof (records_header_t, checksum))))
        rc = -EBADMSG;
    if (rc)
        return s_fail_records (self, rc, "read");
    if (strcmp (header.address, self->packing->options->address) == 0)
        return 0;
    return packing_fail (self->packing, -EINVAL, "'%.400s' was begun for '%.400s': give that",
        self->packing->options->target, header.address);
}

int
packing_upload_begin (packing_upload_t *self)
{
    assert (self && self->magic == UPLOAD_MAGIC);
    int folder_fd = self->packing->folder_fd, flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
    if (self->packing->result->resumed)
        self->records_fd = openat (folder_fd, PACKING_UPLOADS_NAME, flags);
    if (self->records_fd >= 0)
        return s_check_records (self);
    if (self->packing->result->resumed && errno != ENOENT)
        return s_fail_records (self, -errno, "open");
    int fd = openat (folder_fd, PACKING_UPLOADS_NAME, flags | O_CREAT | O_TRUNC, 0666);
    if (fd < 0)
        return s_fail_records (self, -errno, "make");
    self->records_fd = fd;
    return s_begin_records (self);
}

static int
s_read_records (packing_upload_t *self)
{
    int rc = 0;
    for (uint32_t volume = 0; rc == 0 && volume < self->plan->volume_count; volume++) {
        record_t *record = &self->records [volume];
        rc = packing_read (self->records_fd, record, sizeof *record,
            sizeof (records_header_t) + volume * sizeof *record);
        if (rc == -ENODATA || (rc == 0 && record->checksum != s_record_checksum (record))) {
            *record = (record_t) { 0 };         //  not written, or not to its end
            rc = 0;
        }
        record->version [TRANSFER_VERSION_BYTES - 1] = 0;
    }
    return rc? s_fail_records (self, rc, "read"): 0;
}

//  The store has it: it is not needed here.
static int
s_delete_here (const packing_upload_t *self, uint32_t volume)
{
    char name [PACKING_NAME_BYTES];
    if (unlinkat (self->packing->target_fd, s_volume_name (volume, name), 0) != 0 && errno != ENOENT)
        return packing_fail_file (self->packing, -errno, "delete", name);
    return 0;
}

static int
s_note_sent (packing_upload_t *self, uint32_t volume)
{
    record_t *record = &self->records [volume];
    *record = (record_t) { .bytes = self->plan->volumes [volume].bytes };
    memcpy (record->version, self->tasks [volume].transfer.object_version, sizeof record->version);
    record->checksum = s_record_checksum (record);
    int rc = file_write_at (self->records_fd, record, sizeof *record,
        sizeof (records_header_t) + volume * sizeof *record);
    if (rc == 0 && fdatasync (self->records_fd) != 0)
        rc = -errno;
    if (rc)
        return s_fail_records (self, rc, "write");
    self->states [volume] = VOLUME_SENT;
    return s_delete_here (self, volume);
}


//  -- what the store has

//  Whether this is the volume that was sent: its header holds the pack's id, a hash of all its contents.
static bool
s_is_as_sent (const packing_upload_t *self, uint32_t volume, const transfer_t *transfer)
{
    const record_t *record = &self->records [volume];
    pack_volume_header_t header = pack_volume_header (volume, self->plan->pack);
    return transfer->rc == 0 && transfer->object_bytes == record->bytes
        && record->bytes == self->plan->volumes [volume].bytes
        && (!*record->version || (*transfer->object_version
            && !transfers_version_is_other (transfer->object_version, record->version)))
        && memcmp (transfer->memory, &header, sizeof header) == 0;
}

//  Fails if this machine does not have the volume either.
static int
s_forget_record (packing_upload_t *self, uint32_t volume)
{
    char name [PACKING_NAME_BYTES];
    struct stat status;
    self->records [volume] = (record_t) { 0 };
    if (fstatat (self->packing->target_fd, s_volume_name (volume, name), &status, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    return packing_fail (self->packing, -ESTALE, "'%.500s' does not hold " PACK_VOLUME_NAME " as it was "
        "sent, and it is not here any more: stop what else writes there, delete '%.300s' and "
        "begin anew", self->packing->options->address, volume, self->packing->options->target);
}

//  Carries out all questions, also where some objects are not there.
static int
s_ask_all (packing_upload_t *self, transfer_t *all, size_t count)
{
    char name [PACKING_NAME_BYTES];
    store_persistence_t how = { .patience_ms = self->packing->options->patience_ms, .takes_long = true,
        .stopped = s_is_stopped, .context = self };
    for (int rc; (rc = store_carry_out (self->store, all, count, &how)); ) {
        bool goes_on = false;
        if (rc == -ECANCELED)
            return s_fail_stopped (self);
        for (uint32_t volume = 0; volume < count; volume++)
            if (all [volume].rc == -ENOENT || all [volume].rc == -EREMCHG) {
                goes_on = goes_on || all [volume].done < all [volume].bytes;
                all [volume].done = all [volume].bytes;         //  is not asked for again
            }
            else
            if (all [volume].rc)
                return s_fail_store (self, s_volume_name (volume, name), &all [volume]);
        if (!goes_on)
            return packing_fail_memory (self->packing);
    }
    return 0;
}

//  Asks for the header of each volume with a record.  If the store has another object or none, and the volume
//  is here, it has to be sent again.
static int
s_ask_for_sent (packing_upload_t *self)
{
    uint32_t count = self->plan->volume_count;
    transfer_t *all = calloc (count, sizeof *all);
    uint8_t *headers = calloc (count, sizeof (pack_volume_header_t));
    int rc = all && headers? 0: packing_fail_memory (self->packing);
    for (uint32_t volume = 0; rc == 0 && volume < count; volume++) {
        char name [PACKING_NAME_BYTES];
        all [volume] = (transfer_t) { .bytes = sizeof (pack_volume_header_t), .done =
            sizeof (pack_volume_header_t), .memory = headers + volume * sizeof (pack_volume_header_t) };
        if (self->records [volume].bytes == 0)
            continue;
        all [volume].done = 0;
        all [volume].url = store_url (self->store, s_volume_name (volume, name));
        rc = all [volume].url? 0: packing_fail_memory (self->packing);
    }
    rc = rc? rc: s_ask_all (self, all, count);
    for (uint32_t volume = 0; rc == 0 && volume < count; volume++)
        if (self->records [volume].bytes && !s_is_as_sent (self, volume, &all [volume]))
            rc = s_forget_record (self, volume);
    for (size_t index = 0; all && index < count; index++)
        free ((char *) all [index].url);
    free (all);
    free (headers);
    return rc;
}


//  -- volumes

int
packing_upload_check (const packing_t *packing, const pack_volume_t *volumes, uint32_t count)
{
    for (uint32_t volume = 0; volume < count; volume++)
        if (volumes [volume].bytes > OBJECT_BYTES_MAX)
            return packing_fail (packing, -EFBIG, PACK_VOLUME_NAME " will have %llu bytes, and a store takes "
                "%llu at once: begin anew with a smaller --chunk or --volume, or pack into a folder and copy "
                "that by a tool that sends objects in parts", volume,
                (unsigned long long) volumes [volume].bytes, (unsigned long long) OBJECT_BYTES_MAX);
    return 0;
}

//  In a thread.
static void
s_work (void *context, void *argument)
{
    (void) context;
    task_t *task = argument;
    packing_upload_t *self = task->upload;
    store_persistence_t how = { .patience_ms = self->packing->options->patience_ms, .takes_long = true,
        .stopped = s_is_ending, .context = self };
    s_send (task, &how);
}

static int
s_make_tables (packing_upload_t *self)
{
    uint32_t count = self->plan->volume_count;
    pool_options_t options = { .name = "tureen-upload", .threads = PACKING_UPLOADS, .tasks_max = count,
        .work = s_work };
    self->states = calloc (count, sizeof *self->states);
    self->records = calloc (count, sizeof *self->records);
    self->tasks = calloc (count, sizeof *self->tasks);
    if (self->states && self->records && self->tasks)
        self->pool = pool_new (&options);
    return self->pool? 0: packing_fail_memory (self->packing);
}

int
packing_upload_go_on (packing_upload_t *self, const packing_plan_t *plan)
{
    assert (self && self->magic == UPLOAD_MAGIC);
    assert (plan && plan->volume_count > 0); assert (!self->plan);
    self->plan = plan;
    int rc = packing_upload_check (self->packing, plan->volumes, plan->volume_count);
    rc = rc? rc: s_make_tables (self);
    rc = rc? rc: s_read_records (self);
    rc = rc? rc: s_ask_for_sent (self);
    for (uint32_t volume = 0; rc == 0 && volume < plan->volume_count; volume++)
        if (self->records [volume].bytes) {
            self->states [volume] = VOLUME_SENT;
            atomic_fetch_add (&self->sent, plan->volumes [volume].bytes);
            rc = s_delete_here (self, volume);
        }
    return rc;
}

bool
packing_upload_is_sent (const packing_upload_t *self, uint32_t volume)
{
    assert (self && self->magic == UPLOAD_MAGIC); assert (self->plan && volume < self->plan->volume_count);
    return self->states [volume] == VOLUME_SENT;
}

//  Takes back what has been sent, or says why it could not be.
static int
s_collect (packing_upload_t *self)
{
    int rc = 0;
    for (task_t *task; rc == 0 && (task = pool_done (self->pool)); ) {
        self->under_way--;
        rc = task->rc? s_explain (self, task): s_note_sent (self, task->volume);
    }
    return rc;
}

int
packing_upload_hand_over (packing_upload_t *self, uint32_t end)
{
    assert (self && self->magic == UPLOAD_MAGIC); assert (self->plan && end <= self->plan->volume_count);
    for (; self->next < end; self->next++) {
        task_t *task = &self->tasks [self->next];
        if (self->states [self->next] == VOLUME_SENT)
            continue;
        task->volume = self->next;
        s_volume_name (task->volume, task->name);
        int rc = s_prepare (self, task, self->packing->target_fd, NULL,
            self->plan->volumes [task->volume].bytes);
        if (rc)
            return rc;
        self->states [self->next] = VOLUME_HANDED_OVER;
        self->under_way++;
        pool_submit (self->pool, task);
    }
    return s_collect (self);
}


//  -- the end

static void
s_tell (packing_upload_t *self)
{
    const packing_t *packing = self->packing;
    packing_progress_t progress = { .pass = 3, .passes = 3, .samples = packing->samples,
        .bytes = atomic_load (&self->sent) };
    for (uint32_t volume = 0; volume < self->plan->volume_count; volume++)
        progress.bytes_total += self->plan->volumes [volume].bytes;
    if (packing->options->progress)
        packing->options->progress (packing->options->context, &progress);
}

int
packing_upload_finish (packing_upload_t *self)
{
    assert (self && self->magic == UPLOAD_MAGIC); assert (self->plan);
    struct pollfd wait = { .fd = pool_descriptor (self->pool), .events = POLLIN };
    int rc = packing_upload_hand_over (self, self->plan->volume_count);
    while (rc == 0 && self->under_way > 0) {
        s_tell (self);
        poll (&wait, 1, WAIT_MS);
        rc = packing_is_stopped (self->packing)? s_fail_stopped (self): s_collect (self);
    }
    return rc? rc: s_ask_for_sent (self);
}

int
packing_upload_index (packing_upload_t *self)
{
    assert (self && self->magic == UPLOAD_MAGIC); assert (self->under_way == 0);
    struct stat status;
    if (fstatat (self->packing->target_fd, PACK_INDEX_NAME, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return packing_fail_file (self->packing, -errno, "look at", PACK_INDEX_NAME);
    if ((uint64_t) status.st_size > OBJECT_BYTES_MAX)
        //  UNTESTED: takes some fifty million samples.
        return packing_fail (self->packing, -EFBIG, "the index has %lld bytes, and a store takes %llu at "
            "once: pack into a folder and copy that by a tool that sends objects in parts",
            (long long) status.st_size, (unsigned long long) OBJECT_BYTES_MAX);
    return s_send_now (self, self->packing->target_fd, PACK_INDEX_NAME, NULL, (uint64_t) status.st_size,
        self->packing->options->patience_ms);
}
