#include "reader_step.h"
#include "catalogue_places.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>
#include "clock.h"

enum {
    AGAIN_MAX = 64,                     //  interruptions in a row before it gives up
    READ_BYTES_MAX = 1 << 30            //  of one read; whole blocks
};

static size_t
s_file_bytes (const reader_request_t *request)
{
    return (size_t) catalogue_file_bytes (request->catalogue, request->id, request->field);
}

//  The file system refuses O_DIRECT, for all readers of the file: reads in flight either succeed or are
//  refused as well.
static void
s_leave_direct (reader_file_t *file)
{
    int flags = fcntl (file->descriptor, F_GETFL);
    if (flags >= 0 && fcntl (file->descriptor, F_SETFL, flags & ~O_DIRECT) == 0) {
        atomic_store (&file->direct, false);
        posix_fadvise (file->descriptor, 0, 0, POSIX_FADV_RANDOM);
    }
}

size_t
reader_span (uint64_t offset, size_t bytes)
{
    enum { BLOCK = READER_ALIGN_BYTES };
    return (size_t) ((offset + bytes + BLOCK - 1) / BLOCK * BLOCK - offset / BLOCK * BLOCK);
}


//  -- pins

//  Where the request's memory begins in the file.
static uint64_t
s_place (const reader_request_t *request)
{
    return request->kind == READER_RANGE? request->offset - request->skip: 0;
}

//  Whether the pins are those of this file.  `bytes` of its memory are wanted.
static bool
s_may_be_pinned (const reader_request_t *request, const reader_file_t *file, size_t bytes)
{
    const pins_file_t *pins = &request->pins;
    return pins->data && bytes > 0 && s_place (request) + bytes <= pins->bytes
        && pins->bytes == (file? file->bytes: s_file_bytes (request));
}

//  What units have more than is wanted is not read where they are not pinned.
static void
s_trim (const reader_request_t *request, pins_gap_t *gap)
{
    uint64_t place = s_place (request);
    size_t begin = request->skip, end = request->skip + request->bytes;
    if (gap->begin >= gap->end)
        return;
    if (gap->begin < begin && !pins_keeps (&request->pins, place + gap->begin))
        gap->begin = begin;
    if (gap->end > end && !pins_keeps (&request->pins, place + gap->end - 1))
        gap->end = end;
}

//  Copies what is pinned of a range; what is to be read is whole units.  False: nothing is.
static bool
s_look_at_pins (reader_request_t *request)
{
    reader_progress_t *progress = &request->progress;
    uint64_t place = s_place (request), left = request->pins.bytes - place;
    size_t bytes = (progress->end + PINS_UNIT_BYTES - 1) / PINS_UNIT_BYTES * PINS_UNIT_BYTES;
    bytes = bytes < left? bytes: (size_t) left;
    progress->is_pinned = true;
    if (request->is_afresh)
        pins_drop (&request->pins, place, bytes);
    pins_gap_t gap = request->is_afresh? (pins_gap_t) { .begin = 0, .end = bytes }:
        pins_read (&request->pins, place, bytes, request->memory);
    request->pinned_bytes = bytes - (gap.end - gap.begin);
    //  The time of a read is the disk's alone.
    if (request->pinned_bytes > 0)
        progress->began_ns = clock_now_ns ();
    s_trim (request, &gap);
    progress->begin = progress->done = progress->unpinned_begin = gap.begin;
    progress->end = progress->unpinned_end = gap.end;
    return gap.begin < gap.end;
}

//  Whether pins and the local disk keep different bytes, since it has no room for all (reader_store.c).
static bool
s_is_apart (const reader_request_t *request, const block_data_t *blocks)
{
    return request->progress.is_pinned && blocks && !block_data_fits (blocks);
}

//  A sample's file that was read: it is kept in memory, and on the local disk.
static void
s_keep_file (reader_request_t *request)
{
    const reader_progress_t *progress = &request->progress;
    const catalogue_t *catalogue = request->catalogue;
    size_t bytes = s_file_bytes (request);
    int rc;
    if (bytes == 0)
        return;
    block_data_t *blocks = catalogue_blocks (catalogue, request->field, &rc);
    bool is_apart = s_is_apart (request, blocks);
    if (progress->is_pinned && request->pinned_bytes == 0
    &&  !(is_apart && request->cached_bytes > 0 && pins_is_filling (request->pins.data)))
        pins_keep_file (&request->pins, request->buffer->bytes);
    request->is_here = request->cached_bytes > 0;
    if (progress->is_kept && !(is_apart && pins_has (&request->pins, 0, bytes)))
        request->is_here = block_data_store_soon (blocks,
            catalogue_owner (catalogue, request->id, request->field),
            catalogue_place (catalogue, request->id, request->field), bytes, request->buffer->bytes);
}

//  What was read of a range, and what of it came from the local disk.
static void
s_keep_range (const reader_request_t *request, const reader_file_t *file)
{
    const reader_progress_t *progress = &request->progress;
    uint64_t place = s_place (request), left = file->bytes - place;
    size_t end = progress->done < left? progress->done: (size_t) left,      //  the file may have grown
        whole = end < left? end / BLOCK_DATA_UNIT_BYTES * BLOCK_DATA_UNIT_BYTES: end;
    bool is_apart = s_is_apart (request, file->blocks.data),
        is_filling = is_apart && pins_is_filling (request->pins.data);
    //  What came from the local disk lies before and behind what was read.
    size_t begin = is_filling? progress->begin: progress->unpinned_begin;
    if (!is_filling && progress->done >= progress->end && progress->unpinned_end > end)
        end = progress->unpinned_end;
    if (progress->is_pinned && begin < end)
        pins_keep (&request->pins, place + begin, end - begin, request->memory + begin);
    if (progress->is_kept && progress->begin < whole
    &&  !(is_apart && pins_has (&request->pins, place + progress->begin, whole - progress->begin)))
        block_data_store (file->blocks.data, file->blocks.begin + place + progress->begin,
            whole - progress->begin, request->memory + progress->begin, request->is_afresh);
}

void
reader_step_keep (reader_request_t *request, const reader_file_t *file)
{
    if (request->rc)
        return;
    if (request->kind == READER_FILE)
        s_keep_file (request);
    else
        s_keep_range (request, file);
}


//  Copies a sample's file if all of it is pinned.  The file may have been replaced by one of the same size: a
//  part of each would be neither.
static bool
s_is_file_pinned (reader_request_t *request)
{
    request->progress.is_pinned = true;
    size_t bytes = s_file_bytes (request);
    if (request->is_afresh)
        pins_drop (&request->pins, 0, bytes);
    if (request->is_afresh || !pins_read_file (&request->pins, request->buffer->bytes))
        return false;
    request->pinned_bytes = bytes;
    request->progress.began_ns = clock_now_ns ();
    return true;
}


//  Where what a range has to read is looked for on the local disk: whole units.  False: nowhere.
static bool
s_begin_look (reader_request_t *request, const reader_file_t *file)
{
    enum { UNIT = BLOCK_DATA_UNIT_BYTES };
    reader_progress_t *progress = &request->progress;
    block_data_t *blocks = file->blocks.data;
    uint64_t place = s_place (request), left = file->bytes - place;
    if (!blocks || !block_data_may_answer (blocks) || place + progress->end > file->bytes)
        return false;
    size_t begin = progress->begin / UNIT * UNIT, end = (progress->end + UNIT - 1) / UNIT * UNIT;
    end = end < left? end: (size_t) left;
    progress->is_kept = true;
    progress->unpinned_begin = progress->begin = progress->done = begin;
    progress->unpinned_end = progress->end = end;
    progress->look.range = (block_data_range_t) { .data = blocks, .bytes = end - begin,
        .offset = file->blocks.begin + place + begin, .memory = request->memory + begin };
    return !request->is_afresh;
}

//  Where a sample's file is looked for on the local disk.  All of it is there, or what is there is of no use
//  (for the same reason as above).  False: nowhere.
static bool
s_begin_file_look (reader_request_t *request)
{
    const catalogue_t *catalogue = request->catalogue;
    int rc;
    block_data_t *blocks = catalogue_blocks (catalogue, request->field, &rc);
    size_t bytes = s_file_bytes (request);
    uint64_t place = blocks? catalogue_place (catalogue, request->id, request->field): CATALOGUE_NO_PLACE;
    if (place == CATALOGUE_NO_PLACE || !block_data_may_answer (blocks))
        return false;
    if (request->is_afresh)
        block_data_drop (blocks, place, bytes);
    request->progress.look.range = (block_data_range_t) { .data = blocks, .offset = place, .bytes = bytes,
        .owner = catalogue_owner (catalogue, request->id, request->field),
        .memory = request->buffer->bytes };
    return !request->is_afresh;
}

//  Whether what has been read of a file may be kept: it is the one that the catalogue has.
static bool
s_may_be_kept (const reader_request_t *request)
{
    int rc;
    const block_data_t *blocks = catalogue_blocks (request->catalogue, request->field, &rc);
    const catalogue_t *catalogue = request->catalogue;
    return blocks && catalogue_place (catalogue, request->id, request->field) != CATALOGUE_NO_PLACE
        && !block_data_is_aside (blocks)
        && catalogue_places_is_unchanged (catalogue, request->id, request->field,
            request->progress.descriptor);
}


//  -- the next operation

//  A sample's file.
static bool
s_begin_file (reader_request_t *request)
{
    size_t bytes = s_file_bytes (request);
    request->buffer->size = 0;
    request->progress.end = bytes;
    if (bytes > CATALOGUE_SAMPLE_BYTES_MAX) {
        request->rc = -EFBIG;
        return false;
    }
    request->rc = bytes > 0? catalogue_make_room (request->buffer, bytes): 0;
    if (request->rc)
        return false;
    if (s_may_be_pinned (request, NULL, bytes) && s_is_file_pinned (request)) {
        request->buffer->size = bytes;
        return false;
    }
    request->progress.step = bytes > 0 && s_begin_file_look (request)? READER_LOOK: request->is_afresh?
        READER_REOPEN: READER_OPEN;
    request->progress.began_ns = clock_now_ns ();
    return true;
}

bool
reader_step_begin (reader_request_t *request, reader_file_t *file)
{
    if (file) {
        request->skip = request->offset % READER_ALIGN_BYTES;
        request->progress.begin = request->skip;
        request->progress.end = request->skip + request->bytes;
        if (s_may_be_pinned (request, file, request->progress.end) && !s_look_at_pins (request))
            return false;
        request->progress.step = s_begin_look (request, file)? READER_LOOK: request->is_afresh?
            READER_REOPEN: READER_READ;
        if (request->is_afresh && !atomic_load (&file->direct))
            posix_fadvise (file->descriptor, (off_t) request->offset, (off_t) request->bytes,
                POSIX_FADV_DONTNEED);
        return true;
    }
    return s_begin_file (request);
}

bool
reader_step_looked (reader_request_t *request, reader_file_t *file)
{
    reader_progress_t *progress = &request->progress;
    const block_data_gap_t *gap = &progress->look.range.gap;
    request->cached_bytes = progress->look.range.bytes - (gap->end - gap->begin);
    request->cached_ns = progress->look.nanoseconds;
    progress->began_ns = clock_now_ns ();
    progress->step = file? READER_READ: READER_OPEN;
    if (file) {
        progress->begin = progress->done = progress->unpinned_begin + gap->begin;
        progress->end = progress->unpinned_begin + gap->end;
    }
    bool goes_on = gap->begin < gap->end;
    if (!goes_on && !file)
        request->buffer->size = s_file_bytes (request);
    return goes_on;
}

const char *
reader_step_again (const reader_request_t *request, const reader_file_t *file, int *flags_p)
{
    *flags_p = O_RDONLY | O_CLOEXEC | (!file? O_DIRECTORY: atomic_load (&file->direct)? O_DIRECT: 0);
    return file? file->path: request->catalogue->fields [request->field].path;
}

int
reader_step_root (const reader_request_t *request)
{
    return request->catalogue->fields [request->field].root_fd;
}

void
reader_step_path (const reader_request_t *request, char *path)
{
    size_t length = catalogue_path (request->catalogue, request->id, request->field, path, PATH_MAX);
    assert (length < PATH_MAX);         //  catalogue_open has refused longer paths
}

int
reader_step_descriptor (const reader_request_t *request, const reader_file_t *file)
{
    return file? file->descriptor: request->progress.descriptor;
}

//  Where the bytes that are still missing begin in the memory: with O_DIRECT, at a whole block.
static size_t
s_position (const reader_request_t *request)
{
    const reader_progress_t *progress = &request->progress;
    size_t position = progress->done > progress->begin? progress->done: progress->begin;
    return progress->direct? position / progress->align * progress->align: position;
}

reader_read_t
reader_step_read (reader_request_t *request, const reader_file_t *file)
{
    request->progress.direct = file && atomic_load (&file->direct);
    unsigned int align = file? atomic_load (&file->align): 1;
    request->progress.align = align;
    size_t position = s_position (request);
    size_t end = request->progress.end;
    if (request->progress.direct)
        end = (end + align - 1) / align * align;
    size_t bytes = end - position;
    return (reader_read_t) {
        .memory = (file? request->memory: request->buffer->bytes) + position,
        .bytes = bytes < READ_BYTES_MAX? (uint32_t) bytes: READ_BYTES_MAX,
        .offset = file? request->offset - request->skip + position: position
    };
}


//  -- results

//  Whether to try the same once more.
static bool
s_is_passing (reader_request_t *request, int result)
{
    reader_progress_t *progress = &request->progress;
    if (result == -EINTR || result == -EAGAIN || result == -ECANCELED)
        return ++progress->again < AGAIN_MAX;
    return (result == -EIO || result == -ENOMEM) && ++progress->tries < READER_TRIES;
}

//  count >= 0 bytes have come.  1: more are wanted, 0: that is all, or -errno.
static int
s_take_bytes (reader_request_t *request, int count)
{
    reader_progress_t *progress = &request->progress;
    request->read_bytes += (uint64_t) count;
    progress->again = 0;
    if (count == 0)
        return -CATALOGUE_CHANGED;
    size_t reached = s_position (request) + (size_t) count;
    //  A read from the beginning of its block may end where the last one ended: that is the end of the file.
    if (reached <= progress->done)
        return ++progress->tries < READER_TRIES? 1: -CATALOGUE_CHANGED;
    progress->done = reached;
    //  To complete a unit more is read than must come.
    size_t wanted = request->kind == READER_RANGE? request->skip + request->bytes: s_file_bytes (request);
    return reached < wanted && reached < progress->end;
}

//  The file is read, or has failed.
static bool
s_leave_file (reader_request_t *request, int rc)
{
    request->rc = rc;
    if (rc == 0)
        request->buffer->size = s_file_bytes (request);
    request->progress.is_kept = rc == 0 && s_may_be_kept (request);
    request->progress.step = READER_CLOSE;
    return true;
}

//  Whether the newly opened file is the one that is open.
static bool
s_is_same (const reader_request_t *request, const reader_file_t *file, int descriptor)
{
    struct stat status;
    if (fstat (descriptor, &status) != 0)
        return false;
    if (file)
        return status.st_ino == file->inode && (uint64_t) status.st_size == file->bytes;
    return status.st_ino == request->catalogue->fields [request->field].root_inode;
}

//  Replaces the open file under the same descriptor number: reads under way end as before.  If the file
//  cannot be opened or is another one, the read itself reports the fault.
static bool
s_reopened (reader_request_t *request, const reader_file_t *file, int result)
{
    int before = file? file->descriptor: reader_step_root (request);
    request->progress.is_replaced = result >= 0 && s_is_same (request, file, result)
        && dup3 (result, before, O_CLOEXEC) >= 0;
    if (result >= 0)
        close (result);
    request->progress.step = file? READER_READ: READER_OPEN;
    return true;
}

static bool
s_opened (reader_request_t *request, int result)
{
    if (s_is_passing (request, result))
        return true;
    if (result < 0) {
        request->rc = result;
        return false;
    }
    request->progress.again = 0;
    request->progress.descriptor = result;
    size_t bytes = s_file_bytes (request);
    int rc = catalogue_check_file (result, bytes);
    if (rc == 0)
        rc = catalogue_make_room (request->buffer, bytes);
    if (rc || bytes == 0)
        return s_leave_file (request, rc);
    request->progress.step = READER_READ;
    return true;
}

static bool
s_was_read (reader_request_t *request, reader_file_t *file, int result)
{
    if (s_is_passing (request, result))
        return true;
    if (result == -EINVAL && file) {
        //  Another thread may have opened it again with O_DIRECT after that was given up.
        int flags = fcntl (file->descriptor, F_GETFL);
        bool is_direct = request->progress.direct || (flags >= 0 && flags & O_DIRECT);
        //  It may refuse small blocks, whatever it says.
        if (is_direct)
            atomic_store (&file->align, READER_ALIGN_BYTES);
        if (request->progress.direct && request->progress.align < READER_ALIGN_BYTES)
            return true;
        if (is_direct)
            s_leave_direct (file);
        if (is_direct && !atomic_load (&file->direct))
            return true;
    }
    int rc = result < 0? result: s_take_bytes (request, result);
    if (rc > 0)
        return true;
    if (!file)
        return s_leave_file (request, rc);
    request->rc = rc;
    return false;
}

bool
reader_step_advance (reader_request_t *request, reader_file_t *file, int result)
{
    if (request->progress.step == READER_REOPEN)
        return s_reopened (request, file, result);
    if (request->progress.step == READER_OPEN)
        return s_opened (request, result);
    if (request->progress.step == READER_READ)
        return s_was_read (request, file, result);
    //  Closed, whatever the result: a second close might hit a file that another thread has opened since.
    request->progress.descriptor = -1;
    return false;
}
