#include "connection.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "clock.h"
#include "dataset_source.h"
#include "job.h"
#include "json_text.h"
#include "rank.h"
#include "tenant.h"

int
connection_new (connection_t **self_p, const peer_t *peer, const caller_t *caller, uint64_t key,
    const layout_t *layout, uint32_t slots, bool wants_ring, atomic_size_t *outgoing)
{
    *self_p = NULL;
    connection_t *self = calloc (1, sizeof *self);
    if (!self)
        return -ENOMEM;
    *self = (connection_t) { .peer = *peer, .caller = *caller, .key = key, .layout = *layout, .slots = slots,
        .outgoing = outgoing };
    self->ring_rc = wants_ring? ring_new (&self->ring, slots, layout->slot_bytes): 0;
    //  With a ring, blocks are for the rare batch in no slot, and none is kept.
    self->memory = outbox_memory_new (layout->slot_bytes, 0, outgoing);
    bool is_short = self->ring_rc == -ENOMEM || self->ring_rc == -ENOSPC;
    bool good = self->memory && (self->ring || (!is_short && connection_go_inline (self)));
    if (!good) {
        outbox_memory_destroy (&self->memory);
        ring_destroy (&self->ring);
        free (self);
        return -ENOMEM;
    }
    *self_p = self;
    return 0;
}

void
connection_destroy (connection_t **self_p)
{
    connection_t *self = *self_p;
    if (!self)
        return;
    for (uint32_t slot = 0; self->inline_slots && slot < self->slots; slot++)
        outbox_memory_give_back (self->memory, self->inline_slots [slot]);
    free (self->inline_slots);
    outbox_memory_give_back (self->memory, self->loose);
    outbox_memory_destroy (&self->memory);
    ring_destroy (&self->ring);
    free (self);
    *self_p = NULL;
}

bool
connection_is_of (const connection_t *self, const peer_t *peer, const caller_t *caller)
{
    return peer_is (&self->peer, peer) && caller_is (&self->caller, caller);
}

typedef struct {
    const peer_t *peer;         //  or NULL:
    const caller_t *caller;
    uint64_t key;               //  of its connection
    rank_t *rank;
} search_t;

static void
s_search (void *context, rank_t *rank)
{
    search_t *search = context;
    const connection_t *connection = rank_user (rank);
    if (search->peer? connection_is_of (connection, search->peer, search->caller):
        connection->key == search->key)
        search->rank = rank;
}

rank_t *
connection_rank_of_peer (broker_t *broker, const peer_t *peer, const caller_t *caller)
{
    search_t search = { .peer = peer, .caller = caller };
    rank_each (broker, s_search, &search);
    return search.rank;
}

rank_t *
connection_rank_of_key (broker_t *broker, uint64_t key)
{
    search_t search = { .key = key };
    rank_each (broker, s_search, &search);
    return search.rank;
}

bool
connection_go_inline (connection_t *self)
{
    outbox_memory_t *memory = outbox_memory_new (self->layout.slot_bytes, self->slots, self->outgoing);
    self->inline_slots = calloc (self->slots, sizeof *self->inline_slots);
    if (!memory || !self->inline_slots) {
        outbox_memory_destroy (&memory);
        free (self->inline_slots);
        self->inline_slots = NULL;
        return false;
    }
    assert (!self->loose);
    outbox_memory_destroy (&self->memory);
    self->memory = memory;
    ring_destroy (&self->ring);
    return true;
}

//  The place of the pointer to a slot's own memory; NULL: the slot is in a ring.
static uint8_t **
s_memory_of (connection_t *self, uint32_t slot)
{
    if (slot == WIRE_SLOT_NONE)
        return &self->loose;
    return self->ring? NULL: &self->inline_slots [slot];
}

uint8_t *
connection_slot (connection_t *self, uint32_t slot)
{
    uint8_t **memory_p = s_memory_of (self, slot);
    if (!memory_p)
        return ring_slot (self->ring, slot);
    if (!*memory_p)
        *memory_p = outbox_memory_take (self->memory);
    return *memory_p;
}

uint8_t *
connection_take_inline (connection_t *self, uint32_t slot)
{
    uint8_t **memory_p = s_memory_of (self, slot), *memory = memory_p? *memory_p: NULL;
    if (memory_p)
        *memory_p = NULL;
    return memory;
}

void
connection_label (const broker_t *broker, rank_t *rank, const char *reason, connection_label_t *label)
{
    job_t *job = rank_job (rank);
    const connection_t *connection = rank_user (rank);
    uint64_t user = connection? connection->caller.user: BROKER_USER_UNKNOWN;
    bool has_ranks = job_world_size (job) > 1;
    int used = snprintf (label->text, sizeof label->text, "job %" PRIu64, job_id (job));
    if (has_ranks)
        snprintf (label->text + used, sizeof label->text - (size_t) used, ", rank %u", rank_number (rank));
    const log_field_t fields [CONNECTION_LABEL_FIELDS] = {
        LOG_TEXT ("tenant", tenant_label (broker, job_tenant (job))),
        LOG_NUMBER ("job", job_id (job)), LOG_NUMBER_IF (has_ranks, "rank", rank_number (rank)),
        LOG_NUMBER_IF (user != BROKER_USER_UNKNOWN, "user", user), LOG_TEXT ("reason", reason),
        { .key = NULL }
    };
    memcpy (label->fields, fields, sizeof fields);
}

//  The names of the devices that it lies on, each once.
static json_t *
s_devices (const dataset_source_t *source)
{
    json_t *names = json_array ();
    const device_t *device;
    for (size_t part = 0, before; (device = dataset_source_device (source, part)); part++) {
        char name [DEVICE_NAME_BYTES];
        for (before = 0; dataset_source_device (source, before) != device; before++);
        if (before == part)
            json_array_append_new (names, json_string (device_name (device, name)));
    }
    return names;
}

//  Of single objects in a store: from where their bytes came, as a pack's status has it.
static json_t *
s_objects (const dataset_source_t *source)
{
    const dataset_source_objects_t *objects = &source->objects;
    json_t *object = json_pack ("{s:I, s:f, s:I, s:f, s:I, s:f, s:I, s:I}", "source_bytes",
        (json_int_t) objects->source_bytes, "source_seconds", (double) objects->source_ns / 1e9,
        "block_cache_bytes", (json_int_t) objects->cached_bytes, "block_cache_seconds",
        (double) objects->cached_ns / 1e9, "peer_bytes", (json_int_t) objects->peer_bytes, "peer_seconds",
        (double) objects->peer_ns / 1e9, "gets", (json_int_t) objects->gets, "slow_gets",
        (json_int_t) objects->slow_gets);
    uint64_t held = 0;
    bool is_kept = false;
    for (size_t field = 0; field < catalogue_fields (source->catalogue); field++) {
        int rc;
        const block_data_t *blocks = catalogue_blocks (source->catalogue, field, &rc);
        is_kept = is_kept || blocks;
        held += blocks? block_data_held_bytes (blocks): 0;
    }
    if (is_kept)
        json_object_set_new (object, "block_cache_held", json_integer ((json_int_t) held));
    return object;
}

static void
s_describe (const dataset_source_t *source, json_t *object, bool sees_all)
{
    const catalogue_t *catalogue = source->catalogue;
    json_t *fields = json_array (), *folders = json_array (), *labels = json_array ();
    for (size_t field = 0; field < catalogue_fields (catalogue); field++) {
        json_array_append_new (fields, json_string (catalogue_field_name (catalogue, field)));
        json_array_append_new (folders, json_text_of_path (catalogue_folder (catalogue, field)));
    }
    for (size_t label = 0; label < catalogue_labels (catalogue); label++)
        json_array_append_new (labels, json_string (catalogue_label (catalogue, label)->name));
    json_object_set_new (object, "path", json_text_of_path (catalogue_root (catalogue)));
    if (source->listed_ms)
        json_object_set_new (object, "listed_seconds",
            json_real ((double) (clock_now_ms () - source->listed_ms) / 1000));
    json_object_set_new (object, "classes", json_integer (catalogue_classes (catalogue)));
    json_object_set_new (object, "bytes", json_integer ((json_int_t) catalogue_bytes (catalogue)));
    json_object_set_new (object, "fields", fields);
    json_object_set_new (object, "folders", folders);
    json_object_set_new (object, "labels", labels);
    json_t *pack = json_object_get (object, "pack");
    if (source->pack)
        json_object_set_new (pack, "volumes", json_integer (pack_volumes (source->pack)));
    int rc;
    const block_data_t *blocks = source->pack? pack_blocks (source->pack, &rc): NULL;
    if (blocks && sees_all)
        json_object_set_new (pack, "block_cache_held",
            json_integer ((json_int_t) block_data_held_bytes (blocks)));
    if (sees_all)
        json_object_set_new (object, "objects", !source->pack && catalogue_store (catalogue, 0)?
            s_objects (source): json_null ());
    if (source->rows)
        json_object_set_new (object, "jpeg_rows", json_integer (jpeg_row_index_samples (source->rows)));
    if (sees_all)
        json_object_set_new (object, "devices", s_devices (source));
    json_object_set_new (object, "jpeg_warnings", source->jpeg_warnings_max == UINT32_MAX? json_null ()
        : json_integer (source->jpeg_warnings_max));
}

//  Whether the caller may know of the data set.
static bool
s_is_listed (const json_t *datasets, const char *name)
{
    size_t index;
    const json_t *object;
    json_array_foreach (datasets, index, object)
        if (strcmp (json_string_value (json_object_get (object, "name")), name) == 0)
            return true;
    return false;
}

static void
s_describe_warnings (const data_warnings_t *warnings, const json_t *datasets, json_t *object)
{
    json_t *list = json_array ();
    char clipped [DATA_WARNINGS_TEXT_BYTES];
    const char *text, *other;
    for (size_t index = 0; warnings && (text = data_warnings_text (warnings, index, &other)); index++)
        if (!other || s_is_listed (datasets, other))
            json_array_append_new (list, json_text (text));
    if (warnings && data_warnings_clipped_text (warnings, clipped))
        json_array_append_new (list, json_text (clipped));
    json_object_set_new (object, "warnings", list);
    json_object_set_new (object, "clipped_samples",
        json_integer (warnings? data_warnings_clipped (warnings): 0));
}

void
connection_describe_datasets (broker_t *broker, json_t *status, bool sees_all)
{
    size_t index;
    json_t *object, *datasets = json_object_get (status, "datasets");
    json_array_foreach (datasets, index, object) {
        dataset_t *dataset = dataset_named (broker, NULL,
            json_string_value (json_object_get (object, "name")));
        s_describe (dataset_source_of (dataset), object, sees_all);
        s_describe_warnings (dataset_source_of (dataset)->warnings, datasets, object);
    }
}
