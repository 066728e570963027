//  Ranges of objects in a store, and whole objects.  A range is a request, or what the peer server wants
//  fetched; its bytes come in parts.
//
//      no cluster      one part: from the first byte that is not on the local disk to the last
//      a cluster       a part for each block of which something is not on the local disk: a question to the
//                      block's home, or a transfer; what this server is the home of is kept
//
//  Where the local disk has no room for all of the data, pins and the disk keep different blocks, so that
//  together they save both their parts: what is pinned is not kept on the disk, and what comes from the disk
//  is not pinned while pins can still fill with what does not (pins_is_filling).
//
//  A block that is being read to be kept is not asked for twice: other parts of it wait, and look on the
//  local disk again.  A transfer that breaks is begun again for what is missing.
//
//  What has to be read of the local disk is under way beside the transfers (reader_looks.h).  The thread that
//  moves these waits only for what is written there, for a bounded time (block_cache_threads.h).

#include "reader_step.h"
#include "catalogue_state.h"
#include "clock.h"
#include "peers.h"

#include <errno.h>
#include <stdlib.h>

enum {
    UNIT = BLOCK_DATA_UNIT_BYTES,
    RANGES_MAX = READER_DEPTH_MAX + CLUSTER_FETCHES_MAX     //  requests, and what the peer server wants
};

//  A range of an object that is under way, in parts.
typedef struct {
    reader_request_t *request;          //  that it is for; NULL: a fetch
    cluster_fetch_t *fetch;             //  NULL too: free
    transfer_t whole;                   //  of whole units, as far as there is room for them
    char *url;                          //  of a sample's object; owned
    reader_blocks_t blocks;             //  where it is kept
    pins_file_t pins;                   //  of a request; without data: it has none
    bool is_apart;                      //  what is pinned is not kept on the local disk as well,
    bool is_filling;                    //  nor is what comes from there pinned now
    size_t data;                        //  in the cluster; SIZE_MAX: not kept in common
    size_t wanted_begin, wanted_end;    //  of the range's bytes
    size_t read_begin, read_end;        //  what is read of them
    size_t begun;                       //  bytes of it that are here, or that there is a part for
    size_t parts;                       //  under way
    int rc;                             //  of the first part that failed
} range_t;

typedef enum {
    PART_FREE,
    PART_DISK,                          //  it is looked for on the local disk
    PART_MISSED,                        //  it is not there, and `depth` are under way in the store
    PART_STORE,                         //  a transfer
    PART_PEER,                          //  a question to its home
    PART_WAITS                          //  another part of its block is being read to be kept
} part_way_t;

typedef struct {
    part_way_t way;
    range_t *range;
    transfer_t transfer;
    peer_question_t question;
    reader_look_t look;
    bool is_stale;                      //  something of its block was kept since it began to look
    bool is_kept;                       //  what comes of the store
    uint32_t tries;
    uint64_t began_ns;                  //  of the transfer
} part_t;

typedef struct {
    reader_t *reader;
    transfers_t *transfers;
    peers_t *peers;                     //  NULL: no cluster
    range_t *ranges;                    //  RANGES_MAX of them
    part_t *parts;                      //  as many
    size_t parts_busy, fetches_busy;
    uint32_t looking;                   //  requests' parts that are looked for on the local disk, and the
    uint32_t missed;                    //  missed ones, which wait until the store has room
} store_reader_t;

_Static_assert ((int) PEERS_DESCRIPTORS_MAX + 2 <= (int) TRANSFERS_DESCRIPTORS_MAX,
    "one more wakes the reader, and one is the looks'");
_Static_assert ((int) READER_DEPTH_MAX <= (int) PEERS_QUESTIONS_MAX, "each part may be a question");

static void
s_close_store (void *state)
{
    store_reader_t *self = state;
    peers_destroy (&self->peers);
    transfers_destroy (&self->transfers);
    free (self->ranges);
    free (self->parts);
    free (self);
}

static int
s_open_store (void **state_p, reader_t *reader, const reader_options_t *options)
{
    store_reader_t *self = calloc (1, sizeof *self);
    if (!self)
        return -ENOMEM;
    self->reader = reader;
    self->ranges = calloc (RANGES_MAX, sizeof *self->ranges);
    self->parts = calloc (RANGES_MAX, sizeof *self->parts);
    int rc = self->ranges && self->parts? transfers_new (&self->transfers, store_account (options->store),
        store_keys (options->store)): -ENOMEM;
    if (rc == 0 && options->cluster) {
        self->peers = peers_new (options->cluster, store_name (options->store));
        rc = self->peers? 0: -errno;
    }
    if (rc)
        s_close_store (self);
    else
        *state_p = self;
    return rc;
}


//  -- ranges

//  Keeps the units that the transfer has brought as a whole; with pins, block by block of theirs, those that
//  are not pinned.
static void
s_keep (const reader_blocks_t *blocks, const pins_file_t *pins, const transfer_t *transfer)
{
    uint64_t end = transfer->offset + transfer->bytes, first = block_data_next (transfer->offset, 0),
        last = end == blocks->bytes? end: end / UNIT * UNIT;
    while (first < last) {
        uint64_t next = pins? (first / PINS_BLOCK_BYTES + 1) * PINS_BLOCK_BYTES: last;
        size_t bytes = (size_t) ((next < last? next: last) - first);
        if (!pins || !pins_has (pins, first, bytes))
            block_data_store (blocks->data, blocks->begin + first, bytes,
                transfer->memory + (first - transfer->offset), transfer->is_afresh);
        first += bytes;
    }
}

static void
s_finish_request (store_reader_t *self, range_t *range)
{
    reader_request_t *request = range->request;
    //  It was there when its pack was opened, or its store listed.
    request->rc = range->rc == -ENOENT? -EREMCHG: range->rc;
    if (request->kind == READER_FILE && range->rc == 0)
        request->buffer->size = catalogue_file_bytes (request->catalogue, request->id, request->field);
    reader_finish (self->reader, request);
    const transfer_t *whole = &range->whole;
    bool is_file = request->kind == READER_FILE, comes_from_disk = !is_file || request->cached_bytes > 0;
    if (!range->pins.data || range->rc || range->read_begin >= range->read_end
    ||  (range->is_filling && comes_from_disk))
        return;
    if (is_file)
        pins_keep_file (&range->pins, whole->memory);
    else
        pins_keep (&range->pins, whole->offset + range->read_begin, range->read_end - range->read_begin,
            whole->memory + range->read_begin);
}

static void
s_finish (store_reader_t *self, range_t *range)
{
    if (range->request)
        s_finish_request (self, range);
    else {
        peers_fetched (self->peers, range->fetch, range->rc == -ESTALE? PEER_REASON_NOT_HOME: range->rc?
            PEER_REASON_FAILED: PEER_REASON_NONE);
        self->fetches_busy--;
    }
    free (range->url);
    *range = (range_t) { .request = NULL };
}

//  The part is no more.
static void
s_end_part (store_reader_t *self, part_t *part)
{
    part->range->parts--;
    part->way = PART_FREE;
    self->parts_busy--;
}

static bool
s_is_done (const range_t *range)
{
    return range->parts == 0 && (range->begun == range->whole.bytes || range->rc);
}

static void
s_fail (range_t *range, int rc)
{
    range->rc = range->rc? range->rc: rc;
}


//  -- parts

static uint64_t
s_block (const range_t *range, const transfer_t *transfer)
{
    return (range->blocks.begin + transfer->offset) / PEER_BLOCK_BYTES;
}

//  Whether another part reads something of this block to keep it.
static bool
s_is_being_read (const store_reader_t *self, const part_t *part)
{
    uint64_t block = s_block (part->range, &part->transfer);
    for (size_t at = 0; at < RANGES_MAX; at++) {
        const part_t *other = &self->parts [at];
        bool is_under_way = other->way == PART_STORE || other->way == PART_PEER;
        if (other != part && is_under_way && other->is_kept && other->range->data == part->range->data
        &&  s_block (other->range, &other->transfer) == block)
            return true;
    }
    return false;
}

//  The look has its answer: narrows the transfer to what is not on the local disk; to nothing if all is
//  there.
static void
s_narrow (part_t *part)
{
    const block_data_gap_t *gap = &part->look.range.gap;
    transfer_t *transfer = &part->transfer;
    reader_request_t *request = part->range->request;
    transfer->offset += gap->begin;
    transfer->memory += gap->begin;
    transfer->bytes = gap->end - gap->begin;
    if (request)
        request->cached_ns += part->look.nanoseconds;
    //  The time of a read is the store's alone.
    if (request && request->gets == 0)
        request->progress.began_ns = clock_now_ns ();
}

//  True: it is under way.
static bool
s_look_on_disk (store_reader_t *self, part_t *part)
{
    const reader_blocks_t *blocks = &part->range->blocks;
    const transfer_t *transfer = &part->transfer;
    part->look = (reader_look_t) { .user = part, .range = { .data = blocks->data,
        .offset = blocks->begin + transfer->offset, .bytes = transfer->bytes, .memory = transfer->memory } };
    part->is_stale = false;
    if (reader_looks_begin (reader_looks (self->reader), &part->look)) {
        part->way = PART_DISK;
        self->looking += part->range->request != NULL;
        return true;
    }
    s_narrow (part);
    return false;
}

//  Copies what is pinned of a request's range, and narrows the range to the gap.
static void
s_look_at_pins (range_t *range)
{
    transfer_t *whole = &range->whole;
    reader_request_t *request = range->request;
    if (whole->is_afresh) {
        pins_drop (&range->pins, whole->offset, whole->bytes);
        return;
    }
    //  A part of an object and a part of one that replaced it would be neither.
    pins_gap_t gap = request->kind == READER_RANGE? pins_read (&range->pins, whole->offset, whole->bytes,
        whole->memory): (pins_gap_t) { .begin = 0, .end = pins_read_file (&range->pins, whole->memory)? 0:
        whole->bytes };
    request->pinned_bytes = whole->bytes - (gap.end - gap.begin);
    if (request->pinned_bytes == 0)
        return;
    request->progress.began_ns = clock_now_ns ();
    size_t begin = range->wanted_begin > gap.begin? range->wanted_begin: gap.begin,
        end = range->wanted_end < gap.end? range->wanted_end: gap.end;
    range->wanted_begin = begin < end? begin - gap.begin: 0;
    range->wanted_end = begin < end? end - gap.begin: 0;
    whole->offset += gap.begin;
    whole->memory += gap.begin;
    whole->bytes = begin < end? gap.end - gap.begin: 0;
}

//  What units have more than is wanted is not read where it is neither kept nor pinned.
static void
s_trim (range_t *range, transfer_t *transfer)
{
    uint64_t begin = range->whole.offset + range->wanted_begin,
        end = range->whole.offset + range->wanted_end;
    const pins_file_t *pins = range->pins.data? &range->pins: NULL;
    if (transfer->offset + transfer->bytes > end && !(pins && pins_keeps (pins, end))) {
        transfer->bytes = (size_t) (end - transfer->offset);
        range->read_end = range->wanted_end;
    }
    if (transfer->offset < begin && !(pins && pins_keeps (pins, transfer->offset))) {
        size_t skip = (size_t) (begin - transfer->offset);
        transfer->offset += skip;
        transfer->memory += skip;
        transfer->bytes -= skip;
        range->read_begin = range->wanted_begin;
    }
}

static bool
s_begin_transfer (store_reader_t *self, part_t *part)
{
    reader_request_t *request = part->range->request;
    if (request && request->gets++ == 0) {
        uint32_t all = reader_in_flight (self->reader);
        request->in_flight = all > self->looking? all - self->looking: 1;
    }
    int rc = transfers_begin (self->transfers, &part->transfer);
    if (rc) {
        part->transfer.rc = rc;
        return false;
    }
    if (self->peers)
        peers_store_begin (self->peers, part->transfer.bytes);
    part->began_ns = clock_now_ns ();
    return true;
}

//  False: it is done, and has failed if its rc is not 0.
static bool
s_read_store (store_reader_t *self, part_t *part, bool is_kept)
{
    range_t *range = part->range;
    part->way = PART_STORE;
    part->is_kept = is_kept;
    //  What is read afresh replaces whole units.
    if (!part->transfer.is_afresh && (!is_kept || !range->blocks.data
        || block_data_is_full (range->blocks.data) || block_data_is_aside (range->blocks.data)))
        s_trim (range, &part->transfer);
    return part->transfer.bytes > 0 && s_begin_transfer (self, part);
}

static bool
s_ask_home (store_reader_t *self, part_t *part)
{
    const transfer_t *transfer = &part->transfer;
    part->question.data = part->range->data;
    part->question.object = part->range->blocks.object;
    part->question.offset = transfer->offset;
    part->question.bytes = transfer->bytes;
    part->question.memory = transfer->memory;
    part->question.user = part;
    part->way = PART_PEER;
    return peers_ask (self->peers, &part->question);
}

//  Of a cluster's data.  False: it is done.
static bool
s_begin_common (store_reader_t *self, part_t *part)
{
    range_t *range = part->range;
    const transfer_t *transfer = &part->transfer;
    peers_way_t way = peers_choose (self->peers, range->data, s_block (range, transfer), transfer->bytes,
        &part->question);
    bool is_home = way == PEERS_HERE || way == PEERS_BEFORE;
    if (range->fetch && !is_home) {
        part->transfer.rc = -ESTALE;    //  the member has another list
        return false;
    }
    if (transfer->is_afresh && way == PEERS_PEER)
        peers_renew (self->peers, range->data, range->blocks.object, transfer->offset, transfer->bytes);
    if (is_home && s_is_being_read (self, part)) {
        part->way = PART_WAITS;
        return true;
    }
    if (is_home && block_data_is_full (range->blocks.data))
        peers_make_room (self->peers, range->data);
    bool is_asked = !transfer->is_afresh && (way == PEERS_PEER || way == PEERS_BEFORE);
    part->is_kept = is_home;
    return (is_asked && s_ask_home (self, part)) || s_read_store (self, part, is_home);
}

//  What is not on the local disk comes from elsewhere.  False: it is done.
static bool
s_begin_far (store_reader_t *self, part_t *part)
{
    if (part->transfer.bytes == 0)
        return false;
    return part->range->data == SIZE_MAX? s_read_store (self, part, true): s_begin_common (self, part);
}

//  Begins it, or begins it again after it waited.  False: it is done.
static bool
s_begin_part (store_reader_t *self, part_t *part)
{
    bool is_looked_for = part->range->blocks.data && !part->transfer.is_afresh;
    return (is_looked_for && s_look_on_disk (self, part)) || s_begin_far (self, part);
}

//  What came has been counted: bytes of the request that neither the store nor a peer gave are the local
//  disk's.
static void
s_count_cached (range_t *range)
{
    reader_request_t *request = range->request;
    if (!request || !range->blocks.data)
        return;
    uint64_t wanted = range->wanted_end - range->wanted_begin, came = request->read_bytes
        + request->peer_bytes;
    request->cached_bytes = wanted > came? wanted - came: 0;
}

//  The range's next bytes that are not here get a part, as long as there are free ones, and no more are
//  looked for than the local disk can use.
static void
s_go_on (store_reader_t *self, range_t *range)
{
    size_t most = range->fetch? RANGES_MAX: READER_DEPTH_MAX;
    while (range->begun < range->whole.bytes && !range->rc && self->parts_busy < most
        && reader_looks_have_room (reader_looks (self->reader))) {
        part_t *part = self->parts;
        while (part->way != PART_FREE)
            part++;
        size_t bytes = range->whole.bytes - range->begun;
        uint64_t offset = range->whole.offset + range->begun;
        if (range->data != SIZE_MAX) {
            uint64_t left = PEER_BLOCK_BYTES - (range->blocks.begin + offset) % PEER_BLOCK_BYTES;
            bytes = left < bytes? (size_t) left: bytes;
        }
        *part = (part_t) { .way = PART_WAITS, .range = range, .transfer = range->whole };
        part->transfer.offset = offset;
        part->transfer.memory += range->begun;
        part->transfer.bytes = bytes;
        part->transfer.user = part;
        range->begun += bytes;
        range->parts++;
        self->parts_busy++;
        if (!s_begin_part (self, part)) {
            s_fail (range, part->transfer.rc);
            s_end_part (self, part);
        }
    }
    s_count_cached (range);
}

//  The connection broke, and some bytes came or it is to be tried at least so often.
static bool
s_goes_on (store_reader_t *self, part_t *part)
{
    return part->transfer.rc == -ECONNRESET && ++part->tries < READER_TRIES && s_begin_transfer (self, part);
}

//  The part is done without anything that is under way.
static void
s_end_here (store_reader_t *self, part_t *part)
{
    range_t *range = part->range;
    s_fail (range, part->transfer.rc);
    s_end_part (self, part);
    s_count_cached (range);
    if (s_is_done (range))
        s_finish (self, range);
}

//  Parts of its block that waited look again, as do those that are looking now.
static void
s_wake (store_reader_t *self, size_t data, uint64_t block)
{
    for (size_t at = 0; at < RANGES_MAX; at++) {
        part_t *part = &self->parts [at];
        if ((part->way != PART_WAITS && part->way != PART_DISK) || part->range->data != data
            || s_block (part->range, &part->transfer) != block)
            continue;
        part->is_stale = true;
        if (part->way == PART_WAITS && !s_begin_part (self, part))
            s_end_here (self, part);
    }
}

//  The part of the requests' bytes that is still to come, in requests.
static double
s_to_come (const store_reader_t *self)
{
    double to_come = 0;
    for (size_t at = 0; at < RANGES_MAX; at++) {
        const range_t *range = &self->ranges [at];
        if (range->request && range->whole.bytes > 0)
            to_come += (double) (range->whole.bytes - range->begun) / (double) range->whole.bytes;
    }
    for (size_t at = 0; at < RANGES_MAX; at++) {
        const part_t *part = &self->parts [at];
        bool is_beside = part->way == PART_FREE || part->way == PART_DISK || part->way == PART_MISSED;
        if (!is_beside && part->range->request)
            to_come += (double) (part->transfer.bytes - part->transfer.done)
                / (double) part->range->whole.bytes;
    }
    return to_come;
}

//  Answers share the link, so requests that begin together end together, and the next would all begin when
//  nothing is on its way any more: the link would stand still for a whole latency.  So the depth counts what
//  is still to come: a request begins whenever as much as one has come, and up to twice as many are under
//  way.  Those that are looked for on the local disk do not count.
static bool
s_store_has_room (const store_reader_t *self)
{
    uint32_t all = reader_in_flight (self->reader), depth = reader_depth (self->reader),
        in_flight = all > self->looking? all - self->looking: 0;
    return in_flight < depth || (in_flight < 2 * depth && s_to_come (self) <= depth - 1);
}

//  Its look has an answer.  What has to come of the store may have to wait until that has room; not what
//  members have in common, since others wait for its blocks.
static void
s_on_look (store_reader_t *self, part_t *part)
{
    s_narrow (part);
    bool is_again = part->is_stale && part->transfer.bytes > 0, is_request = part->range->request;
    bool is_alone = is_request && part->range->data == SIZE_MAX;
    if (is_alone && part->transfer.bytes > 0 && !part->range->rc && !s_store_has_room (self)) {
        part->way = PART_MISSED;
        self->missed++;
        return;
    }
    self->looking -= is_request;
    part->way = PART_WAITS;
    if (part->range->rc || !(is_again? s_begin_part (self, part): s_begin_far (self, part)))
        s_end_here (self, part);
}

//  The part has ended.  Its bytes are kept if they are good: before the peer server has the memory of a
//  fetch, but after a request's clock was stopped, since the time is the local disk's.
static void
s_on_end (store_reader_t *self, part_t *part)
{
    //  Copies: the last part ends its range.
    range_t *range = part->range;
    const transfer_t transfer = part->transfer;
    const reader_blocks_t blocks = range->blocks;
    size_t data = range->data;
    const pins_file_t pins = range->pins;
    bool is_kept = part->is_kept && transfer.rc == 0 && blocks.data, is_fetch = range->fetch,
        is_apart = range->is_apart, is_range = !is_fetch && range->request->kind == READER_RANGE;
    uint64_t block = s_block (range, &transfer);
    s_count_cached (range);
    s_fail (range, transfer.rc);
    if (is_kept && is_fetch)
        s_keep (&blocks, NULL, &transfer);
    s_end_part (self, part);
    if (s_is_done (range))
        s_finish (self, range);
    if (is_apart && is_range && transfer.rc == 0)
        pins_keep (&pins, transfer.offset, transfer.bytes, transfer.memory);
    if (is_kept && !is_fetch)
        s_keep (&blocks, is_apart? &pins: NULL, &transfer);
    if (data != SIZE_MAX)
        s_wake (self, data, block);
}

static void
s_on_transfer (store_reader_t *self, part_t *part)
{
    if (self->peers)
        peers_store_end (self->peers, part->transfer.bytes, part->transfer.done,
            clock_now_ns () - part->began_ns);
    if (part->range->request) {
        part->range->request->gets += part->transfer.given_up;
        part->range->request->slow_gets += part->transfer.given_up;
    }
    if (s_goes_on (self, part))
        return;
    if (part->range->request)
        part->range->request->read_bytes += part->transfer.done;
    s_on_end (self, part);
}

static void
s_on_answer (store_reader_t *self, part_t *part)
{
    reader_request_t *request = part->range->request;
    const peer_question_t *question = &part->question;
    if (!question->is_answered && !part->range->rc && s_read_store (self, part, part->is_kept))
        return;
    if (question->is_answered && request) {
        request->peer_bytes += question->bytes;
        request->peer_ns += question->nanoseconds;
    }
    //  One without an answer that was not asked of the store, since another part had failed, has no bytes.
    part->transfer.rc = question->is_answered? 0: part->transfer.rc? part->transfer.rc: part->range->rc;
    s_on_end (self, part);
}


//  -- beginning

//  Widens the range to whole units of an object of this size.
static void
s_widen (range_t *range, uint64_t bytes)
{
    transfer_t *whole = &range->whole;
    uint64_t begin = whole->offset / UNIT * UNIT, end = block_data_next (whole->offset, whole->bytes);
    end = end < bytes? end: bytes;
    range->wanted_begin = (size_t) (whole->offset - begin);
    range->wanted_end = range->wanted_begin + whole->bytes;
    whole->offset = begin;
    whole->bytes = (size_t) (end - begin);
    if (range->request)
        range->request->skip = range->wanted_begin;
}

static void
s_of_file (const store_reader_t *self, uint32_t number, range_t *range)
{
    const reader_file_t *file = reader_file (self->reader, number);
    range->whole.url = file->path;
    range->whole.version = file->version;
    range->blocks = file->blocks;
}

//  A sample's object.  0 or -errno.
static int
s_of_object (const catalogue_t *catalogue, uint32_t id, size_t field, range_t *range)
{
    int rc;
    uint64_t bytes = catalogue_file_bytes (catalogue, id, field);
    range->url = catalogue_url (catalogue, id, field);
    range->whole.url = range->url;
    range->whole.expected_bytes = bytes;
    range->whole.version = catalogue_version (catalogue, id, field);
    block_data_t *blocks = catalogue_blocks (catalogue, field, &rc);
    if (blocks)
        range->blocks = (reader_blocks_t) { .data = blocks, .bytes = bytes, .object = id,
            .begin = catalogue_place (catalogue, id, field) };
    return range->url? 0: -ENOMEM;
}

//  All of it, into the request's buffer.
static int
s_prepare_object (const reader_request_t *request, range_t *range)
{
    uint64_t bytes = catalogue_file_bytes (request->catalogue, request->id, request->field);
    request->buffer->size = 0;
    if (bytes > CATALOGUE_SAMPLE_BYTES_MAX)
        return -EFBIG;
    int rc = catalogue_make_room (request->buffer, (size_t) bytes);
    range->whole.bytes = (size_t) bytes;
    range->whole.memory = request->buffer->bytes;
    return rc? rc: s_of_object (request->catalogue, request->id, request->field, range);
}

static range_t *
s_free_range (store_reader_t *self)
{
    range_t *range = self->ranges;
    while (range->request || range->fetch)
        range++;
    return range;
}

//  True: it is under way; false: it is done.
static bool
s_begin (store_reader_t *self, range_t *range, int rc)
{
    range->data = self->peers? peers_data (self->peers, range->blocks.data): SIZE_MAX;
    range->wanted_end = range->whole.bytes;
    bool is_file = range->request && range->request->kind == READER_FILE;
    if (range->whole.bytes == 0 || range->whole.offset + range->whole.bytes > range->pins.bytes
    ||  (is_file && range->whole.bytes != range->pins.bytes))
        range->pins.data = NULL;
    if (rc == 0 && range->whole.bytes > 0 && (range->blocks.data || range->pins.data))
        s_widen (range, range->blocks.data? range->blocks.bytes: range->pins.bytes);
    range->is_apart = range->pins.data && range->blocks.data && !range->whole.is_afresh
        && !block_data_fits (range->blocks.data);
    range->is_filling = range->is_apart && pins_is_filling (range->pins.data);
    if (rc == 0 && range->pins.data)
        s_look_at_pins (range);
    range->read_end = range->whole.bytes;
    range->rc = rc;
    s_go_on (self, range);
    if (!s_is_done (range))
        return true;
    s_finish (self, range);
    return false;
}

static bool
s_start (store_reader_t *self, reader_request_t *request)
{
    range_t *range = s_free_range (self);
    *range = (range_t) { .request = request, .pins = request->pins,
        .whole = { .is_afresh = request->is_afresh } };
    if (request->kind == READER_FILE)
        return s_begin (self, range, s_prepare_object (request, range));
    range->whole.offset = request->offset;
    range->whole.bytes = request->bytes;
    range->whole.memory = request->memory;
    s_of_file (self, request->file, range);
    return s_begin (self, range, 0);
}

static void
s_start_fetch (store_reader_t *self, cluster_fetch_t *fetch)
{
    range_t *range = s_free_range (self);
    const cluster_data_t *data = fetch->data;
    *range = (range_t) { .fetch = fetch, .whole = { .offset = fetch->offset, .bytes = fetch->bytes,
        .memory = fetch->memory } };
    self->fetches_busy++;
    int rc = 0;
    if (!data->catalogue)
        s_of_file (self, data->first_file + (uint32_t) fetch->object, range);
    else
        rc = s_of_object (data->catalogue, (uint32_t) fetch->object, data->field, range);
    s_begin (self, range, rc);
}


//  -- turns

static void
s_cancel_store (void *state)
{
    store_reader_t *self = state;
    for (size_t at = 0; at < RANGES_MAX; at++) {
        part_t *part = &self->parts [at];
        if (part->way == PART_FREE)
            continue;
        if (part->way == PART_DISK)
            reader_looks_drop (reader_looks (self->reader), &part->look);
        if (part->way == PART_DISK || part->way == PART_MISSED)
            self->looking -= part->range->request != NULL;
        self->missed -= part->way == PART_MISSED;
        if (part->way == PART_STORE)
            transfers_drop (self->transfers, &part->transfer);
        if (part->way == PART_PEER)
            peers_drop (self->peers, &part->question);
        s_fail (part->range, -ECANCELED);
        s_end_part (self, part);
    }
    for (size_t at = 0; at < RANGES_MAX; at++) {
        range_t *range = &self->ranges [at];
        if (range->request || range->fetch) {
            s_fail (range, -ECANCELED);
            s_finish (self, range);
        }
    }
}

static void
s_start_missed (store_reader_t *self)
{
    for (size_t at = 0; self->missed > 0 && at < RANGES_MAX && s_store_has_room (self); at++) {
        part_t *part = &self->parts [at];
        if (part->way != PART_MISSED)
            continue;
        self->missed--;
        self->looking--;
        part->way = PART_WAITS;
        part->range->request->progress.began_ns = clock_now_ns ();
        if (!s_begin_far (self, part))
            s_end_here (self, part);
    }
}

//  What others wait for comes first: each fetch is for a question of theirs.
static void
s_start_waiting (store_reader_t *self)
{
    cluster_fetch_t *fetch;
    while (self->peers && self->fetches_busy < CLUSTER_FETCHES_MAX
        && (fetch = peers_next_fetch (self->peers)))
        s_start_fetch (self, fetch);
    for (size_t at = 0; self->peers && at < RANGES_MAX; at++) {
        range_t *range = &self->ranges [at];
        if ((range->request || range->fetch) && range->begun < range->whole.bytes) {
            s_go_on (self, range);
            if (s_is_done (range))
                s_finish (self, range);
        }
    }
    s_start_missed (self);
    //  On the local disk are no more than it can use.  While missed ones wait none begins: they come first.
    //  One that is done at once ends the turn: transfers go on between reads of the local disk.
    reader_request_t *request;
    while (self->missed == 0 && reader_in_flight (self->reader) < READER_DEPTH_MAX
        && reader_looks_have_room (reader_looks (self->reader)) && s_store_has_room (self)
        && (request = reader_begin (self->reader)))
        if (!s_start (self, request))
            break;
}

static void
s_turn_store (void *state)
{
    store_reader_t *self = state;
    for (reader_look_t *look; (look = reader_looks_take (reader_looks (self->reader)));)
        s_on_look (self, look->user);
    s_start_waiting (self);
    transfers_wait (self->transfers, NULL, 0, 0);
    for (transfer_t *transfer; (transfer = transfers_take (self->transfers));)
        s_on_transfer (self, transfer->user);
    for (peer_question_t *question; self->peers && (question = peers_take (self->peers));)
        s_on_answer (self, question->user);
}

static void
s_wait_store (void *state, int wake_descriptor)
{
    store_reader_t *self = state;
    s_turn_store (self);
    if (reader_has_done (self->reader) || (reader_in_flight (self->reader) == 0 && wake_descriptor < 0))
        return;
    int descriptors [TRANSFERS_DESCRIPTORS_MAX], patience_ms = -1;
    size_t count = 0;
    if (wake_descriptor >= 0)
        descriptors [count++] = wake_descriptor;
    if (reader_looks_under_way (reader_looks (self->reader)) > 0)
        descriptors [count++] = reader_looks_descriptor (reader_looks (self->reader));
    if (self->peers) {
        count += peers_descriptors (self->peers, descriptors + count);
        patience_ms = peers_patience_ms (self->peers);
    }
    transfers_wait (self->transfers, descriptors, count, patience_ms);
    s_turn_store (self);
}

const reader_backend_t reader_store = {
    .open = s_open_store, .close = s_close_store, .cancel = s_cancel_store, .turn = s_turn_store,
    .wait = s_wait_store, .mode = transfers_library
};
