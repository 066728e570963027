#include "read_record.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "complain.h"
#include "file.h"
#include "machine.h"
#include "state.h"

#define READ_RECORD_MAGIC 0x52524543u

enum { READ_RECORD_STATE_BYTES_MAX = 1 << 30 };

struct read_record {
    uint32_t magic;
    //  Set at birth.
    read_record_options_t given;
    char *target_path;                  //  of the state: behind links
    char *fresh_path;                   //  of the state while it is written
    char *state;                        //  NULL: there was none
    //  Later.
    FILE *ids;
    bool ids_open;                      //  a line has begun
    uint64_t unwritten;                 //  batches since the state was written
};

static bool
s_fail_ids (const read_record_t *self)
{
    return complain ("read", "--ids %s: %s%s", self->given.ids_path, strerror (errno),
        machine_remedy (errno));
}

static bool
s_fail_state (const read_record_t *self, int error)
{
    return complain ("read", "--state %s: %s%s; what it said before still holds", self->given.state_path,
        strerror (error), machine_remedy (error));
}

//  --------------------------------------------------------------------------
//  The state

//  True, and no state, if there is no file.
static bool
s_load_state (read_record_t *self)
{
    size_t size;
    int rc = file_whole (self->given.state_path, READ_RECORD_STATE_BYTES_MAX, &self->state, &size);
    if (rc == 0 && file_is_foreign (self->given.state_path))
        return complain ("read", "--state: '%s' " FILE_FOREIGN_WORDS, self->given.state_path);
    return rc == 0 || rc == -ENOENT || complain ("read", "--state %s: %s%s", self->given.state_path,
        file_error (rc), rc == -EFBIG? "": machine_remedy (-rc));
}

//  Writes text to the fresh file, down to the disk.  0, or -errno.
static int
s_write_fresh (const read_record_t *self, const char *text)
{
    //  The file replaces the state, so it must be a new one: not what a killed run left, or another user put
    //  there.
    bool is_free = unlink (self->fresh_path) == 0 || errno == ENOENT;
    int fd = is_free? open (self->fresh_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666): -1;
    if (fd < 0)
        return -errno;
    int rc = file_write (fd, text, strlen (text));
    //  Before the rename, or a crash of the machine could leave an empty file under the right name.
    rc = rc? rc: file_sync (fd);
    //  It is closed when a signal interrupts that, too; and what it held is on the disk.
    if (close (fd) && !rc && errno != EINTR)
        rc = -errno;
    return rc;
}

//  The old state or the new one, never a part of one.  A crash of the machine must not leave a state that
//  counts ids which were on no disk yet.
static bool
s_save_state (read_record_t *self, tureen_loader_t *loader)
{
    char *text;
    if (self->ids && file_sync (fileno (self->ids)))
        return s_fail_ids (self);
    int rc = tureen_loader_state (loader, &text);
    if (rc)
        return s_fail_state (self, -rc);
    rc = s_write_fresh (self, text);
    free (text);
    if (!rc && rename (self->fresh_path, self->target_path))
        rc = -errno;
    if (rc) {
        unlink (self->fresh_path);
        return s_fail_state (self, -rc);
    }
    self->unwritten = 0;
    return true;
}

//  --------------------------------------------------------------------------
//  The ids

//  A state counts ids, so the name of their file is on the disk before: one synced file does not keep another
//  folder's names.  The folder may be one that a person may write and not read.
static bool
s_sync_ids_name (const read_record_t *self)
{
    struct stat status;
    if (!self->given.state_path || fstat (fileno (self->ids), &status) || !S_ISREG (status.st_mode))
        return true;
    char *path = realpath (self->given.ids_path, NULL);
    if (!path)
        return s_fail_ids (self);
    path [strrchr (path, '/') - path + 1] = 0;
    int fd = open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free (path);
    if (fd < 0)
        return errno == EACCES || s_fail_ids (self);
    int rc = file_sync (fd);
    close (fd);
    errno = -rc;
    return rc == 0 || s_fail_ids (self);
}

//  Opens the file, as it is: until the job is joined nothing in it is lost.
static bool
s_open_ids (read_record_t *self)
{
    if (!strcmp (self->given.ids_path, "-")) {
        self->ids = stdout;
        return true;
    }
    int fd = open (self->given.ids_path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)                         //  one that can be written only: a pipe, a terminal
        fd = open (self->given.ids_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    bool is_strange = fd >= 0 && file_is_foreign (self->given.ids_path);
    self->ids = fd < 0 || is_strange? NULL: fdopen (fd, "w");
    if (self->ids)
        return s_sync_ids_name (self);
    if (is_strange)
        complain ("read", "--ids: '%s' " FILE_FOREIGN_WORDS, self->given.ids_path);
    else
        s_fail_ids (self);
    if (fd >= 0)
        close (fd);
    return false;
}

//  Did the state have that id, after *behind_p others of the line (of a list: places)?  Then one sample more
//  is behind it; in a list the places up to the nearest one with that id, since what cannot be read is in the
//  list and not in the file.  A rank's line has but some of those that the state counts: then it is the
//  state's words that tell.
static bool
s_is_behind (const read_record_t *self, const position_taken_t *taken, uint64_t id, uint64_t *behind_p)
{
    while (self->given.list && *behind_p < self->given.list_count && self->given.list [*behind_p] != id)
        ++*behind_p;
    ++*behind_p;
    return *behind_p <= taken->count && (taken->list
        || (id / 64 < taken->word_count && taken->words [id / 64] >> id % 64 & 1));
}

//  The bytes of a line up to the first id that the state did not have, or to what is no id: its end, or what
//  a loss of power has left.
static size_t
s_cut (const read_record_t *self, const char *line, const position_taken_t *taken)
{
    size_t place = strcspn (line, ":") + 1;
    for (uint64_t behind = 0;;) {
        size_t blank = line [place] == ' ', digits = strspn (line + place + blank, "0123456789");
        if (!digits || !s_is_behind (self, taken, strtoull (line + place + blank, NULL, 10), &behind))
            return place;
        place += blank + digits;
    }
}

//  What earlier runs wrote of the state's epoch and those before stays, up to where the state has come: what
//  is behind that is delivered again.  The epoch's line goes on.  length_p: what is to stay of the file.
static bool
s_find_end (read_record_t *self, FILE *file, off_t *length_p)
{
    state_t state;
    message_error_t error;
    char *line = NULL;
    size_t room = 0;
    ssize_t size;
    *length_p = 0;
    //  The loader took the same text.
    if (!state_read (&state, self->state, &error))
        return complain ("read", "--state %s: %s", self->given.state_path, error.text);
    while ((size = getline (&line, &room, file)) > 0) {
        char *end;
        uint64_t number = strtoull (line, &end, 10);
        bool is_last = number == state.epoch;
        if (end == line || *end != ':' || number > state.epoch || (is_last && state.taken.count == 0))
            break;
        self->ids_open = is_last;
        //  They may be fewer than the state has had: an earlier run wrote elsewhere.
        *length_p += is_last? (off_t) s_cut (self, line, &state.taken): (off_t) size;
        if (is_last)
            break;
    }
    free (line);
    state_clear (&state);
    return !ferror (file) || s_fail_ids (self);
}

//  Empties the file, or removes the ids that will be delivered again.  A pipe or a terminal cannot be
//  emptied.
static bool
s_empty_ids (read_record_t *self)
{
    struct stat status;
    off_t length = 0;
    if (!self->ids || self->ids == stdout || fstat (fileno (self->ids), &status) || !S_ISREG (status.st_mode))
        return true;
    if (self->state) {
        FILE *file = fopen (self->given.ids_path, "r");
        bool fine = file && s_find_end (self, file, &length);
        if (file)
            fclose (file);
        if (!fine)
            return file? false: s_fail_ids (self);
    }
    return (ftruncate (fileno (self->ids), length) == 0 && fseeko (self->ids, length, SEEK_SET) == 0)
        || s_fail_ids (self);
}

static bool
s_write_ids (read_record_t *self, const tureen_batch_t *batch)
{
    if (tureen_batch_padding (batch))
        return true;
    if (!self->ids_open)
        fprintf (self->ids, "%" PRIu64 ":", tureen_batch_epoch (batch));
    self->ids_open = true;
    const uint64_t *ids = tureen_batch_ids (batch);
    for (size_t index = 0; index < tureen_batch_count (batch); index++)
        fprintf (self->ids, " %" PRIu64, ids [index]);
    //  What a full buffer could not write is lost to the flush: it may find room again.
    return (!ferror (self->ids) && fflush (self->ids) == 0) || s_fail_ids (self);
}

//  --------------------------------------------------------------------------

//  Where the state is written.  False: no memory.
static bool
s_name_files (read_record_t *self)
{
    self->target_path = realpath (self->given.state_path, NULL);
    if (!self->target_path)             //  not there yet
        self->target_path = strdup (self->given.state_path);
    if (self->target_path && asprintf (&self->fresh_path, "%s.new", self->target_path) >= 0)
        return true;
    self->fresh_path = NULL;
    return false;
}

read_record_t *
read_record_new (const read_record_options_t *options)
{
    read_record_t *self = calloc (1, sizeof *self);
    if (!self) {
        complain ("read", "out of memory");
        return NULL;
    }
    self->magic = READ_RECORD_MAGIC;
    self->given = *options;
    bool fine = true;
    if (self->given.state_path)
        fine = s_name_files (self) || complain ("read", "out of memory");
    if (fine && self->given.state_path)
        fine = s_load_state (self);
    if (fine && self->given.ids_path)
        fine = s_open_ids (self);
    if (!fine)
        read_record_destroy (&self);
    return self;
}

void
read_record_destroy (read_record_t **self_p)
{
    assert (self_p);
    read_record_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == READ_RECORD_MAGIC);
    if (self->ids && self->ids != stdout)
        fclose (self->ids);
    free (self->target_path);
    free (self->fresh_path);
    free (self->state);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

const char *
read_record_state (const read_record_t *self)
{
    assert (self && self->magic == READ_RECORD_MAGIC);
    return self->state;
}

bool
read_record_begin (read_record_t *self, tureen_loader_t *loader)
{
    assert (self && self->magic == READ_RECORD_MAGIC);
    return (!self->given.state_path || s_save_state (self, loader)) && s_empty_ids (self);
}

bool
read_record_batch (read_record_t *self, tureen_loader_t *loader, const tureen_batch_t *batch)
{
    assert (self && self->magic == READ_RECORD_MAGIC);
    if (self->ids && !s_write_ids (self, batch))
        return false;
    return !self->given.state_path || ++self->unwritten < self->given.state_every
        || s_save_state (self, loader);
}

bool
read_record_epoch_end (read_record_t *self, tureen_loader_t *loader)
{
    assert (self && self->magic == READ_RECORD_MAGIC);
    if (!self->ids)
        return true;
    if (!self->ids_open)
        fprintf (self->ids, "%" PRIu64 ":", tureen_loader_epoch (loader).epoch);    //  an epoch without a
                                                                                    //  batch
    fputs ("\n", self->ids);
    self->ids_open = false;
    return (!ferror (self->ids) && fflush (self->ids) == 0) || s_fail_ids (self);
}

bool
read_record_end (read_record_t *self, tureen_loader_t *loader)
{
    assert (self && self->magic == READ_RECORD_MAGIC);
    if (self->ids && self->ids_open)
        fputs (" ...\n", self->ids);
    //  The ids first; and closed, since some file systems tell only then that there is no room.
    bool fine = !self->ids || (!ferror (self->ids) && fflush (self->ids) == 0
        && (!self->given.state_path || file_sync (fileno (self->ids)) == 0));
    if (self->ids && self->ids != stdout)
        fine = fclose (self->ids) == 0 && fine;
    self->ids = NULL;
    if (!fine)
        return s_fail_ids (self);
    return !self->given.state_path || s_save_state (self, loader);
}
