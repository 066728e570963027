#include "tiling_source.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "pool.h"
#include "tiling.h"

enum {
    AHEAD_PER_WORKER = 8,           //  samples on their way
    SAMPLE_COPIES = 3,              //  the source's bytes, and the tiled ones in a buffer of at most twice
                                    //  their size
    MEMORY_PART = 4,
    NAME_BYTES = 400
};

//  Memory that workers share: each takes its part before it begins, and one alone may take more than there
//  is.
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t freed;
    uint64_t limit, used;
    bool is_given_up;               //  no thread waits any more
} budget_t;

//  A sample on its way.
typedef struct {
    budget_t *budget;
    uint32_t tile;
    uint8_t *files [CATALOGUE_FIELDS_MAX];      //  its own
    pack_item_t item;               //  of these
    uint64_t number;                //  in the source's order
    uint64_t held;                  //  bytes that it counts for
    bool is_done;                   //  the owner's: a worker has given it back
    int rc;                         //  -ENOMEM, -EEXIST, or -ECANCELED
    uint64_t memory;                //  that the file took for which there was none
} journey_t;

typedef struct {
    pack_source_t *inner;
    tiling_source_options_t options;
    budget_t budget;
    pool_t *pool;
    journey_t *ring;                //  limit of them
    size_t limit, first, count;
    uint64_t held;
    bool has_ended;
    int end;                        //  what the inner source said last: 0 or -errno with error
    char error [PACK_SOURCE_ERROR_BYTES];
    bool is_lent;                   //  the caller has the ring's first sample
} tiling_source_t;

//  ---- workers

//  False: all is given up.
static bool
s_take_memory (budget_t *self, uint64_t bytes)
{
    pthread_mutex_lock (&self->lock);
    while (!self->is_given_up && self->used && (bytes > self->limit || self->used > self->limit - bytes))
        pthread_cond_wait (&self->freed, &self->lock);
    bool is_taken = !self->is_given_up;
    self->used += is_taken? bytes: 0;
    pthread_mutex_unlock (&self->lock);
    return is_taken;
}

static void
s_give_memory (budget_t *self, uint64_t bytes)
{
    pthread_mutex_lock (&self->lock);
    self->used -= bytes;
    pthread_cond_broadcast (&self->freed);
    pthread_mutex_unlock (&self->lock);
}

static void
s_give_up (budget_t *self)
{
    pthread_mutex_lock (&self->lock);
    self->is_given_up = true;
    pthread_cond_broadcast (&self->freed);
    pthread_mutex_unlock (&self->lock);
}

static int
s_convert_file (journey_t *self, size_t field)
{
    pack_item_t *item = &self->item;
    tiling_file_t file;
    uint64_t memory = tiling_memory (item->files [field], item->bytes [field]);
    if (!s_take_memory (self->budget, memory))
        return -ECANCELED;
    int rc = tiling_convert (item->files [field], item->bytes [field], self->tile, &file);
    s_give_memory (self->budget, memory);
    if (rc) {
        self->memory = memory + SAMPLE_COPIES * item->bytes [field];
        return rc;
    }
    item->marks [field] = file.mark;
    if (!file.bytes)
        return 0;
    free (self->files [field]);
    self->files [field] = file.bytes;
    item->files [field] = file.bytes;
    item->bytes [field] = file.size;
    return 0;
}

static void
s_convert (void *context, void *task)
{
    (void) context;
    journey_t *self = task;
    for (size_t field = 0; self->rc == 0 && field < self->item.field_count; field++)
        self->rc = s_convert_file (self, field);
}


//  ---- the ring

static journey_t *
s_at (tiling_source_t *self, size_t index)
{
    return &self->ring [(self->first + index) % self->limit];
}

static void
s_clear (journey_t *journey)
{
    for (size_t field = 0; field < CATALOGUE_FIELDS_MAX; field++)
        free (journey->files [field]);
    *journey = (journey_t) { .rc = 0 };
}

//  Frees the first.
static void
s_drop_first (tiling_source_t *self)
{
    journey_t *journey = s_at (self, 0);
    self->held -= journey->held;
    s_clear (journey);
    self->first = (self->first + 1) % self->limit;
    self->count--;
}

//  The source's bytes are lent until its next sample.
static int
s_copy (tiling_source_t *self, journey_t *journey, const pack_item_t *item)
{
    journey->number = pack_source_taken (self->inner) - 1;
    journey->budget = &self->budget;
    journey->tile = self->options.tile;
    journey->item = *item;
    for (size_t field = 0; field < item->field_count; field++) {
        size_t bytes = item->bytes [field];
        journey->files [field] = malloc (bytes? bytes: 1);
        if (!journey->files [field])
            return -ENOMEM;
        if (bytes)
            memcpy (journey->files [field], item->files [field], bytes);
        journey->item.files [field] = journey->files [field];
        journey->held += SAMPLE_COPIES * bytes;
    }
    return 0;
}

//  By its path where that is known already; else by its number in the source's order.
static const char *
s_name (const tiling_source_t *self, uint64_t number, char text [NAME_BYTES])
{
    const catalogue_t *catalogue = pack_source_catalogue (self->inner);
    char path [NAME_BYTES - 2];
    snprintf (text, NAME_BYTES, "sample %" PRIu64 " (counted from 0)", number);
    if (catalogue && number < catalogue_samples (catalogue)) {
        size_t length = catalogue_path (catalogue, (uint32_t) number, 0, path, sizeof path);
        snprintf (text, NAME_BYTES, "'%.*s'", (int) (length < sizeof path? length: sizeof path - 1), path);
    }
    return text;
}

static int
s_fail_memory (const tiling_source_t *self, uint64_t number, uint64_t bytes, char *error)
{
    char name [NAME_BYTES];
    snprintf (error, PACK_SOURCE_ERROR_BYTES,
        "not enough memory to tile %s, which takes %.1f MB: give the process more or fewer "
        "--workers, then go on with --resume", s_name (self, number, name), (double) bytes / 1e6);
    return -ENOMEM;
}

static int
s_fail (const tiling_source_t *self, const journey_t *journey, char *error)
{
    char name [NAME_BYTES];
    if (journey->rc == -ENOMEM)
        return s_fail_memory (self, journey->number, journey->memory, error);
    snprintf (error, PACK_SOURCE_ERROR_BYTES,
        "%s keeps an original already, and cannot be tiled again: take it out, or pack without "
        "--keep-original-bytes", s_name (self, journey->number, name));
    return -EBADMSG;
}

//  One sample more on its way, or the end.
static void
s_read (tiling_source_t *self)
{
    pack_item_t item = { .field_count = 0 };
    int rc = pack_source_next (self->inner, &item, self->error);
    journey_t *journey = s_at (self, self->count);
    if (rc > 0 && s_copy (self, journey, &item)) {
        rc = s_fail_memory (self, journey->number, journey->held, self->error);
        s_clear (journey);
    }
    if (rc <= 0) {
        self->has_ended = true;
        self->end = rc;
        return;
    }
    self->count++;
    self->held += journey->held;
    pool_submit (self->pool, journey);
}

static void
s_collect (tiling_source_t *self)
{
    for (journey_t *journey; (journey = pool_done (self->pool)); )
        journey->is_done = true;
}

static void
s_wait (tiling_source_t *self)
{
    struct pollfd item = { .fd = pool_descriptor (self->pool), .events = POLLIN };
    while (s_collect (self), !s_at (self, 0)->is_done)
        poll (&item, 1, -1);        //  a signal ends it early: the condition is looked at again
}


//  ---- as a source

static int
s_next (void *state, pack_item_t *item, char *error)
{
    tiling_source_t *self = state;
    if (self->is_lent)
        s_drop_first (self);
    self->is_lent = false;
    uint64_t room = self->options.memory_bytes / MEMORY_PART;
    while (!self->has_ended && self->count < self->limit && (self->count == 0 || self->held < room))
        s_read (self);
    if (self->count == 0) {
        memcpy (error, self->error, PACK_SOURCE_ERROR_BYTES);
        return self->end;
    }
    s_wait (self);
    if (s_at (self, 0)->rc)
        return s_fail (self, s_at (self, 0), error);
    *item = s_at (self, 0)->item;
    self->is_lent = true;
    return 1;
}

//  Only before the first sample.
static int
s_skip (void *state, uint64_t count, char *error)
{
    tiling_source_t *self = state;
    assert (self->count == 0);
    return pack_source_skip (self->inner, count, error);
}

static void
s_progress (const void *state, uint64_t *done_p, uint64_t *total_p)
{
    pack_source_progress (((const tiling_source_t *) state)->inner, done_p, total_p);
}

static const catalogue_t *
s_catalogue (const void *state)
{
    return pack_source_catalogue (((const tiling_source_t *) state)->inner);
}

static void
s_destroy (void *state)
{
    tiling_source_t *self = state;
    if (self->pool) {
        s_give_up (&self->budget);
        pool_stop (self->pool);
        s_collect (self);
        while (pool_drain (self->pool))
            continue;
        pool_destroy (&self->pool);
    }
    while (self->count)
        s_drop_first (self);
    free (self->ring);
    pack_source_destroy (&self->inner);
    pthread_cond_destroy (&self->budget.freed);
    pthread_mutex_destroy (&self->budget.lock);
    free (self);
}


//  ---- beginning

static const pack_source_kind_t s_kind = { s_next, s_skip, s_progress, s_catalogue, s_destroy };

static tiling_source_t *
s_new (const tiling_source_options_t *options)
{
    tiling_source_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->options = *options;
    self->budget.limit = options->memory_bytes;
    pthread_mutex_init (&self->budget.lock, NULL);
    pthread_cond_init (&self->budget.freed, NULL);
    self->limit = (size_t) options->workers * AHEAD_PER_WORKER;
    self->ring = calloc (self->limit, sizeof *self->ring);
    pool_options_t pool = { .name = "tile", .threads = options->workers, .tasks_max = self->limit,
        .work = s_convert };
    self->pool = self->ring? pool_new (&pool): NULL;
    if (self->pool)
        return self;
    int reason = errno;
    s_destroy (self);
    errno = reason;
    return NULL;
}

int
tiling_source_wrap (pack_source_t **source_p, const tiling_source_options_t *options, char *error)
{
    assert (options->tile != PACKING_TILE_OFF && options->workers > 0);
    errno = ENOMEM;
    tiling_source_t *self = s_new (options);
    pack_source_t *source = self? pack_source_new (&s_kind, self, pack_source_signature (*source_p)): NULL;
    if (!source) {                  //  pack_source_new has destroyed what it was given
        int rc = errno? -errno: -ENOMEM;
        snprintf (error, PACK_SOURCE_ERROR_BYTES,
            "cannot start %u threads to tile files (%s): give fewer --workers",
            options->workers, strerror (-rc));
        return rc;
    }
    self->inner = *source_p;
    *source_p = source;
    return 0;
}
