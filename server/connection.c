#include "connection.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "source.h"

static bool
s_is_memory (int rc)
{
    return rc == -ENOMEM || rc == -ENOSPC;
}

int
connection_new (connection_t **self_p, const peer_t *peer, const layout_t *layout, uint32_t slots,
    bool wants_ring,
    atomic_size_t *outgoing)
{
    *self_p = NULL;
    connection_t *self = calloc (1, sizeof *self);
    if (!self)
        return -ENOMEM;
    *self = (connection_t) { .peer = *peer, .layout = *layout, .slots = slots, .outgoing = outgoing };
    int rc = wants_ring? ring_new (&self->ring, slots, layout->slot_bytes): 0;
    bool good = self->ring || (!s_is_memory (rc) && connection_go_inline (self));
    if (!good) {
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
        outbox_slot_free (self->inline_slots [slot]);
    free (self->inline_slots);
    ring_destroy (&self->ring);
    free (self);
    *self_p = NULL;
}

bool
connection_is_of (const connection_t *self, const peer_t *peer)
{
    return self->peer.size == peer->size && memcmp (self->peer.bytes, peer->bytes, peer->size) == 0;
}

bool
connection_go_inline (connection_t *self)
{
    self->inline_slots = calloc (self->slots, sizeof *self->inline_slots);
    if (!self->inline_slots)
        return false;
    ring_destroy (&self->ring);
    return true;
}

uint8_t *
connection_slot (connection_t *self, uint32_t slot)
{
    if (self->ring)
        return ring_slot (self->ring, slot);
    if (!self->inline_slots [slot])
        self->inline_slots [slot] = outbox_slot_new (self->layout.slot_bytes, self->outgoing);
    return self->inline_slots [slot];
}

uint8_t *
connection_take_inline (connection_t *self, uint32_t slot)
{
    if (self->ring)
        return NULL;
    uint8_t *memory = self->inline_slots [slot];
    self->inline_slots [slot] = NULL;
    return memory;
}

static void
s_describe (const source_t *source, json_t *object)
{
    const catalogue_t *catalogue = source->catalogue;
    json_t *path = json_string (catalogue_root (catalogue)), *fields = json_array (), *labels = json_array ();
    for (size_t field = 0; field < catalogue_fields (catalogue); field++)
        json_array_append_new (fields, json_string (catalogue_field_name (catalogue, field)));
    for (size_t label = 0; label < catalogue_labels (catalogue); label++)
        json_array_append_new (labels, json_string (catalogue_label (catalogue, label)->name));
    json_object_set_new (object, "path", path? path: json_string ("(not UTF-8)"));
    json_object_set_new (object, "classes", json_integer (catalogue_classes (catalogue)));
    json_object_set_new (object, "bytes", json_integer ((json_int_t) catalogue_bytes (catalogue)));
    json_object_set_new (object, "fields", fields);
    json_object_set_new (object, "labels", labels);
    json_t *pack = json_object_get (object, "pack");
    if (source->pack) {
        json_object_set_new (pack, "volumes", json_integer (pack_volumes (source->pack)));
        json_object_set_new (pack, "latency_microseconds", json_real (source->cost.latency_seconds * 1e6));
        json_object_set_new (pack, "megabytes_per_second", json_real (source->cost.bytes_per_second / 1e6));
        json_object_set_new (pack, "observed_reads", json_integer ((json_int_t) source->cost.observed));
    }
    json_object_set_new (object, "jpeg_warnings", source->jpeg_warnings_max == UINT32_MAX? json_null ()
        : json_integer (source->jpeg_warnings_max));
}

void
connection_describe_datasets (broker_t *broker, json_t *status)
{
    size_t index;
    json_t *object;
    json_array_foreach (json_object_get (status, "datasets"), index, object) {
        dataset_t *dataset = broker_dataset (broker, json_string_value (json_object_get (object, "name")));
        s_describe (source_of (dataset), object);
    }
}
