#include "object_stream.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include "clock.h"

enum {
    STREAM_MAGIC = 0x57fea3e0,
    LENT_BYTES = 256 * 1024,            //  at once: between two calls the ranges stand still
    LOOK_MS = 200                       //  how often to ask whether to stop
};

typedef struct {
    transfer_t transfer;
    uint8_t *memory;
    bool is_under_way;
} part_t;

struct object_stream {
    uint32_t magic;
    object_stream_options_t options;
    transfers_t *transfers;
    part_t parts [OBJECT_STREAM_PARTS]; //  a ring, in the order of the object
    size_t first, used;
    size_t lent;                        //  of the first part
    uint64_t asked;                     //  of the object, from its begin
    uint32_t failures;                  //  since the last success
    int64_t limit_ms;
    uint64_t refused_keys;              //  their number: others were found since the last success; 0: none
    transfer_t failed;                  //  rc 0: none
};

int
object_stream_open (object_stream_t **self_p, const object_stream_options_t *options)
{
    assert (self_p); assert (options && options->store && options->url && options->version);
    assert (options->bytes > 0);
    *self_p = NULL;
    object_stream_t *self = calloc (1, sizeof *self);
    if (!self)
        return -ENOMEM;
    *self = (object_stream_t) { .magic = STREAM_MAGIC, .options = *options };
    int rc = store_take (options->store, &self->transfers);
    for (size_t index = 0; rc == 0 && index < OBJECT_STREAM_PARTS; index++) {
        self->parts [index].memory = malloc (OBJECT_STREAM_PART_BYTES);
        rc = self->parts [index].memory? 0: -ENOMEM;
    }
    if (rc == 0) {
        *self_p = self;
        self = NULL;
    }
    object_stream_destroy (&self);
    return rc;
}

void
object_stream_destroy (object_stream_t **self_p)
{
    assert (self_p);
    object_stream_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == STREAM_MAGIC);
    for (size_t index = 0; index < OBJECT_STREAM_PARTS; index++) {
        if (self->parts [index].is_under_way)
            transfers_drop (self->transfers, &self->parts [index].transfer);
        free (self->parts [index].memory);
    }
    if (self->transfers)
        store_give (self->options.store, self->transfers);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

const transfer_t *
object_stream_failed (const object_stream_t *self)
{
    assert (self && self->magic == STREAM_MAGIC);
    return self->failed.rc? &self->failed: NULL;
}

static int
s_fail (object_stream_t *self, const transfer_t *transfer, int rc)
{
    self->failed = *transfer;
    self->failed.rc = rc;
    return rc;
}

static int
s_begin (object_stream_t *self, part_t *part)
{
    int rc = transfers_begin (self->transfers, &part->transfer);
    part->is_under_way = rc == 0;
    return rc? s_fail (self, &part->transfer, rc): 0;
}

//  Asks for as many ranges as there is room for.
static int
s_ask (object_stream_t *self)
{
    int rc = 0;
    while (rc == 0 && self->used < OBJECT_STREAM_PARTS && self->asked < self->options.bytes) {
        part_t *part = &self->parts [(self->first + self->used) % OBJECT_STREAM_PARTS];
        uint64_t left = self->options.bytes - self->asked;
        part->transfer = (transfer_t) { .url = self->options.url, .version = self->options.version,
            .expected_bytes = self->options.bytes, .offset = self->asked, .user = part,
            .memory = part->memory,
            .bytes = left < OBJECT_STREAM_PART_BYTES? (size_t) left: OBJECT_STREAM_PART_BYTES };
        self->used++;
        self->asked += part->transfer.bytes;
        rc = s_begin (self, part);
    }
    return rc;
}

static bool
s_is_stopped (const object_stream_t *self)
{
    return self->options.how.stopped && self->options.how.stopped (self->options.how.context);
}

//  Adds the ranges that have failed to these; returns how many there are then.
static size_t
s_collect (object_stream_t *self, int limit_ms, part_t **failed, size_t count)
{
    transfers_wait (self->transfers, NULL, 0, limit_ms);
    for (transfer_t *transfer; (transfer = transfers_take (self->transfers)); ) {
        part_t *part = transfer->user;
        part->is_under_way = false;
        if (transfer->done == transfer->bytes) {
            self->failures = 0;
            self->refused_keys = 0;
        }
        else
            failed [count++] = part;
    }
    return count;
}

//  Whether there are other keys to go on with.  The time in which they were found is not taken from the
//  patience.  Others that are refused as well are an answer.
static bool
s_has_other_keys (object_stream_t *self, const transfer_t *transfer)
{
    bool is_again = self->refused_keys && transfer->keys_number != self->refused_keys;
    if (is_again || !store_has_other_keys (self->options.store, transfer))
        return false;
    self->refused_keys = transfer->keys_number;
    self->limit_ms = clock_now_ms () + self->options.how.patience_ms;
    return true;
}

//  Whether to try them again: 0, or why it would be in vain.
static int
s_judge (object_stream_t *self, part_t *const *failed, size_t count)
{
    int64_t now_ms = clock_now_ms ();
    if (self->failures == 0)
        self->limit_ms = now_ms + self->options.how.patience_ms;
    for (size_t index = 0; index < count; index++) {
        const transfer_t *transfer = &failed [index]->transfer;
        bool goes_on = transfers_may_pass (transfer->rc)? now_ms < self->limit_ms:
            s_has_other_keys (self, transfer);
        if (!goes_on)
            return s_fail (self, transfer, transfer->rc);
    }
    return s_is_stopped (self)? s_fail (self, &failed [0]->transfer, -ECANCELED): 0;
}

//  Ranges that failed go on where they broke off, after one pause for all: those that fail meanwhile, too.
static int
s_turn (object_stream_t *self, int limit_ms)
{
    part_t *failed [OBJECT_STREAM_PARTS];
    size_t count = s_collect (self, limit_ms, failed, 0);
    if (count == 0)
        return 0;
    int rc = s_judge (self, failed, count);
    if (rc)
        return rc;
    store_pause (self->failures++);
    count = s_collect (self, 0, failed, count);
    rc = s_judge (self, failed, count);
    for (size_t index = 0; rc == 0 && index < count; index++)
        rc = s_begin (self, failed [index]);
    return rc;
}

ssize_t
object_stream_next (object_stream_t *self, const uint8_t **bytes_p)
{
    assert (self && self->magic == STREAM_MAGIC); assert (bytes_p);
    part_t *part = &self->parts [self->first];
    if (self->used > 0 && !part->is_under_way && self->lent == part->transfer.bytes) {
        self->first = (self->first + 1) % OBJECT_STREAM_PARTS;
        self->used--;
        self->lent = 0;
        part = &self->parts [self->first];
    }
    int rc = s_ask (self);
    if (self->used == 0)
        return rc;
    rc = rc? rc: s_turn (self, 0);
    while (rc == 0 && (part->transfer.done == self->lent)) {
        if (s_is_stopped (self))
            return s_fail (self, &part->transfer, -ECANCELED);
        rc = s_turn (self, LOOK_MS);
    }
    if (rc)
        return rc;
    //  Without a version, the size is all that tells of another object.
    if (part->transfer.object_bytes != 0 && part->transfer.object_bytes != self->options.bytes)
        return s_fail (self, &part->transfer, -EREMCHG);
    size_t there = part->transfer.done - self->lent;
    *bytes_p = part->memory + self->lent;
    there = there < LENT_BYTES? there: LENT_BYTES;
    self->lent += there;
    return (ssize_t) there;
}
