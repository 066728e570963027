#include "cluster.h"
#include "cluster_state.h"
#include "clock.h"
#include "homes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cluster_t *
cluster_new (const cluster_options_t *options)
{
    assert (options && options->members && options->name);
    assert (!options->public_key == !options->secret_key);
    cluster_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    *self = (cluster_t) { .magic = CLUSTER_MAGIC, .members = options->members,
        .fetched = exchange_new (CLUSTER_FETCHES_MAX, true) };
    snprintf (self->name, sizeof self->name, "%s", options->name);
    if (options->public_key) {
        snprintf (self->public_key, sizeof self->public_key, "%s", options->public_key);
        snprintf (self->secret_key, sizeof self->secret_key, "%s", options->secret_key);
    }
    if (!self->fetched)
        cluster_destroy (&self);
    return self;
}

void
cluster_destroy (cluster_t **self_p)
{
    assert (self_p);
    cluster_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == CLUSTER_MAGIC);
    cluster_stop (self);
    while (self->fetched && exchange_try (self->fetched))
        ;                               //  the peer server's, which frees them all
    peer_server_destroy (&self->server);
    exchange_destroy (&self->fetched);
    explicit_bzero (self->secret_key, sizeof self->secret_key);
    free (self->data);
    free (self->readers);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

bool
cluster_add (cluster_t *self, const cluster_data_t *data)
{
    assert (self && self->magic == CLUSTER_MAGIC); assert (data && data->blocks && data->find);
    assert (!self->server && self->reader_count == 0);
    //  Two names of the same data are one here.
    if (cluster_find (self, block_data_key (data->blocks)->words) != SIZE_MAX)
        return true;
    cluster_entry_t *all = realloc (self->data, (self->data_count + 1) * sizeof *all);
    if (!all)
        return false;
    self->data = all;
    all [self->data_count] = (cluster_entry_t) { .shown = *data };
    atomic_init (&all [self->data_count++].has_foreign, true);
    return true;
}

size_t
cluster_find (const cluster_t *self, const uint64_t key [2])
{
    for (size_t at = 0; at < self->data_count; at++) {
        const uint64_t *words = block_data_key (self->data [at].shown.blocks)->words;
        if (words [0] == key [0] && words [1] == key [1])
            return at;
    }
    return SIZE_MAX;
}

bool
cluster_join (cluster_t *self, peers_t *reader, const char *store, exchange_t *fetches)
{
    assert (!self->server);
    peers_t **readers = realloc (self->readers, (self->reader_count + 1) * sizeof (peers_t *));
    if (!readers)
        return false;
    self->readers = readers;
    readers [self->reader_count++] = reader;
    for (size_t at = 0; at < self->data_count; at++)
        if (strcmp (self->data [at].shown.store, store) == 0)
            self->data [at].fetches = fetches;
    return true;
}

int
cluster_start (cluster_t *self, char *error, size_t error_bytes)
{
    assert (self && self->magic == CLUSTER_MAGIC); assert (!self->server);
    return peer_server_new (&self->server, self, error, error_bytes);
}

void
cluster_stop (cluster_t *self)
{
    assert (self && self->magic == CLUSTER_MAGIC);
    if (self->server)
        peer_server_stop (self->server);
}


//  -- status

static json_t *
s_refusals (const uint64_t refused [PEER_REASONS])
{
    json_t *all = json_object ();
    for (peer_reason_t reason = PEER_REASON_NONE + 1; reason < PEER_REASONS; reason++)
        json_object_set_new (all, peer_wire_reason (reason), json_integer ((json_int_t) refused [reason]));
    return all;
}

static void
s_add_figures (peer_figures_t *sum, const peer_figures_t *more)
{
    sum->blocks += more->blocks;
    sum->bytes += more->bytes;
    sum->nanoseconds += more->nanoseconds;
    for (size_t reason = 0; reason < PEER_REASONS; reason++)
        sum->refused [reason] += more->refused [reason];
    sum->late += more->late;
    sum->damaged += more->damaged;
    sum->slower += more->slower;
}

//  A member as all readers of this server know it; it is away if one of them finds it so.
static json_t *
s_member (const cluster_t *self, const member_t *member, double share, bool is_own, int64_t now_ms)
{
    peer_figures_t sum = { .blocks = 0 };
    peer_state_t state = PEER_UNKNOWN;
    for (size_t at = 0; at < self->reader_count; at++) {
        peer_figures_t figures;
        peer_state_t seen;
        if (!peers_look (self->readers [at], member->name, &seen, &figures))
            continue;
        s_add_figures (&sum, &figures);
        state = seen > state? seen: state;
    }
    const char *shown = is_own? "this": state == PEER_HERE? "here": state == PEER_AWAY? "away": "unknown";
    return json_pack ("{s:s, s:s, s:b, s:I, s:f, s:f, s:I, s:I, s:f, s:I, s:I, s:I, s:o}", "member",
        member->name, "state", shown, "is_away", state == PEER_AWAY, "cache_bytes",
        (json_int_t) member->bytes, "homes", share, "age_seconds", (double) (now_ms - member->since_ms) / 1e3,
        "blocks", (json_int_t) sum.blocks, "bytes",
        (json_int_t) sum.bytes, "seconds", (double) sum.nanoseconds / 1e9, "late", (json_int_t) sum.late,
        "damaged", (json_int_t) sum.damaged, "store_quicker", (json_int_t) sum.slower, "refused",
        s_refusals (sum.refused));
}

json_t *
cluster_status (cluster_t *self)
{
    assert (self && self->magic == CLUSTER_MAGIC);
    members_look_t look;
    members_look (self->members, &look);
    const member_list_t *list = members_take (self->members);
    double weights = 0;
    for (size_t at = 0; at < list->count; at++)
        weights += (double) list->member [at].bytes;
    json_t *members = json_array ();
    int64_t now_ms = clock_now_ms ();
    for (size_t at = 0; at < list->count; at++) {
        const member_t *member = &list->member [at];
        json_array_append_new (members, s_member (self, member, weights > 0?
            (double) member->bytes / weights: 0, at == list->own, now_ms));
    }
    members_give_back (self->members, list);
    peer_server_figures_t given = { .blocks = 0 };
    if (self->server)
        given = peer_server_figures (self->server);
    return json_pack ("{s:s, s:s, s:s, s:b, s:o, s:{s:I, s:I, s:I, s:I, s:I, s:o}}", "member", self->name,
        "members_from", look.source, "trouble", look.trouble, "registered", look.is_registered,
        "members", members, "given", "blocks",
        (json_int_t) given.blocks, "bytes", (json_int_t) given.bytes, "fetched", (json_int_t) given.fetched,
        "rejected", (json_int_t) given.rejected, "waiting", (json_int_t) given.waiting, "refused",
        s_refusals (given.refused));
}
