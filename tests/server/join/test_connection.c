/*  A client's memory: slots in a ring or on their own, and what happens where one of them cannot be had.  */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "connection.h"
#include "job.h"
#include "rank.h"
#include "tenant.h"

enum { SLOTS = 3, SLOT_BYTES = 4096 };

//  ---- rings, and memory beside them

struct ring { uint8_t slots [SLOTS] [SLOT_BYTES]; };

static int s_ring_rc;                           //  of the next ring
static size_t s_rings, s_blocks;                //  that exist

int
ring_new (ring_t **self_p, uint32_t slots, size_t slot_bytes)
{
    assert_int_equal (slots, SLOTS);
    assert_int_equal (slot_bytes, SLOT_BYTES);
    *self_p = s_ring_rc? NULL: calloc (1, sizeof **self_p);
    s_rings += *self_p != NULL;
    return s_ring_rc;
}

void
ring_destroy (ring_t **self_p)
{
    s_rings -= *self_p != NULL;
    free (*self_p);
    *self_p = NULL;
}

uint8_t *
ring_slot (ring_t *self, uint32_t slot)
{
    assert_in_range (slot, 0, SLOTS - 1);
    return self->slots [slot];
}

static size_t s_memories;                       //  outbox_memory_t that exist

struct outbox_memory { uint32_t blocks_max; };

outbox_memory_t *
outbox_memory_new (size_t block_bytes, uint32_t blocks_max, atomic_size_t *outgoing)
{
    assert_int_equal (block_bytes, SLOT_BYTES);
    assert_non_null (outgoing);
    outbox_memory_t *self = malloc (sizeof *self);
    *self = (outbox_memory_t) { blocks_max };
    s_memories++;
    return self;
}

void
outbox_memory_destroy (outbox_memory_t **self_p)
{
    s_memories -= *self_p != NULL;
    free (*self_p);
    *self_p = NULL;
}

uint8_t *
outbox_memory_take (outbox_memory_t *self)
{
    assert_non_null (self);
    s_blocks++;
    return calloc (1, SLOT_BYTES);
}

void
outbox_memory_give_back (outbox_memory_t *self, uint8_t *block)
{
    assert_non_null (self);
    s_blocks -= block != NULL;
    free (block);
}

static const peer_t s_peer = { .size = 5, .bytes = { 0, 1, 2, 3, 4 } };
static char s_tenant, s_other_tenant;

static caller_t
s_caller (void *tenant, uint64_t user)
{
    return (caller_t) { .tenant = tenant, .user = user };
}

static int
s_connect (connection_t **self_p, bool wants_ring)
{
    static atomic_size_t outgoing;
    layout_t layout = { .slot_bytes = SLOT_BYTES };
    caller_t caller = s_caller (&s_tenant, 7);
    return connection_new (self_p, &s_peer, &caller, 9, &layout, SLOTS, wants_ring, &outgoing);
}

static void
a_ring_holds_all_slots_but_one (void **state)
{
    (void) state;
    connection_t *self;
    s_ring_rc = 0;
    assert_int_equal (s_connect (&self, true), 0);
    assert_int_equal (s_rings, 1);
    assert_ptr_equal (connection_slot (self, 2), self->ring->slots [2]);
    assert_null (connection_take_inline (self, 2));
    //  A batch in no slot goes through the socket.
    uint8_t *loose = connection_slot (self, WIRE_SLOT_NONE);
    assert_int_equal (s_blocks, 1);
    assert_ptr_equal (connection_slot (self, WIRE_SLOT_NONE), loose);
    connection_destroy (&self);
    assert_null (self);
    assert_int_equal (s_rings + s_blocks + s_memories, 0);
}

//  Must hold: a slot has one block until that is taken, and then another; what was not taken is freed.
static void
blocks_are_given_away_once (void **state)
{
    (void) state;
    connection_t *self;
    assert_int_equal (s_connect (&self, false), 0);
    assert_null (self->ring);
    assert_null (connection_take_inline (self, 1));
    uint8_t *first = connection_slot (self, 1), *other = connection_slot (self, 2);
    assert_ptr_not_equal (first, other);
    assert_ptr_equal (connection_slot (self, 1), first);
    assert_ptr_equal (connection_take_inline (self, 1), first);
    assert_null (connection_take_inline (self, 1));
    assert_ptr_not_equal (connection_slot (self, 1), first);
    connection_slot (self, WIRE_SLOT_NONE);
    outbox_memory_give_back (self->memory, first);
    assert_int_equal (s_blocks, 3);
    connection_destroy (&self);
    assert_int_equal (s_blocks + s_memories, 0);
}

//  Must hold: lack of memory refuses a job, because a job without a ring needs as much; anything else costs
//  it the ring only.
static void
without_a_ring (void **state)
{
    (void) state;
    static const int reasons [] = { -EMFILE, -EFBIG, -ENOMEM, -ENOSPC };
    for (size_t index = 0; index < 4; index++) {
        connection_t *self;
        s_ring_rc = reasons [index];
        assert_int_equal (s_connect (&self, true), index < 2? 0: -ENOMEM);
        assert_int_equal (self != NULL, index < 2);
        assert_true (!self || (!self->ring && self->ring_rc == reasons [index] && self->inline_slots));
        connection_destroy (&self);
    }
    assert_int_equal (s_rings + s_memories, 0);
}

//  Must hold: the ring's memory is given back at once, and the slots are blocks from then on.
static void
inline_after_all (void **state)
{
    (void) state;
    connection_t *self;
    s_ring_rc = 0;
    assert_int_equal (s_connect (&self, true), 0);
    assert_true (connection_go_inline (self));
    assert_int_equal (s_rings, 0);
    assert_null (self->ring);
    assert_int_equal (self->memory->blocks_max, SLOTS);
    assert_int_equal (s_memories, 1);
    uint8_t *block = connection_slot (self, 0);
    assert_int_equal (s_blocks, 1);
    assert_ptr_equal (connection_take_inline (self, 0), block);
    outbox_memory_give_back (self->memory, block);
    connection_destroy (&self);
}

static void
it_is_one_peers_and_one_callers (void **state)
{
    (void) state;
    connection_t *self;
    assert_int_equal (s_connect (&self, false), 0);
    caller_t own = s_caller (&s_tenant, 7), other_user = s_caller (&s_tenant, 8),
        other_tenant = s_caller (&s_other_tenant, 7);
    peer_t shorter = { .size = 4, .bytes = { 0, 1, 2, 3, 4 } },
        other = { .size = 5, .bytes = { 0, 1, 2, 3, 5 } };
    assert_true (connection_is_of (self, &s_peer, &own));
    assert_false (connection_is_of (self, &s_peer, &other_user));
    assert_false (connection_is_of (self, &s_peer, &other_tenant));
    assert_false (connection_is_of (self, &shorter, &own));
    assert_false (connection_is_of (self, &other, &own));
    connection_destroy (&self);
}

//  ---- a rank in the log

//  Rank 1 of job 3.
static uint32_t s_world_size = 1;

job_t *
rank_job (const rank_t *self)
{
    (void) self;
    return NULL;
}

uint32_t
rank_number (const rank_t *self)
{
    (void) self;
    return 1;
}

uint64_t
job_id (const job_t *self)
{
    (void) self;
    return 3;
}

uint32_t
job_world_size (const job_t *self)
{
    (void) self;
    return s_world_size;
}

tenant_t *
job_tenant (const job_t *self)
{
    (void) self;
    return NULL;
}

const char *
tenant_label (const broker_t *self, const tenant_t *tenant)
{
    (void) self;
    (void) tenant;
    return "vision";
}

void
rank_each (broker_t *self, void (*visit) (void *context, rank_t *rank), void *context)
{
    (void) self;
    (void) visit;
    (void) context;
}

void *
rank_user (const rank_t *self)
{
    (void) self;
    return NULL;
}

//  Guards: a line of the log names a rank where its job has several.
static void
a_rank_in_the_log (void **state)
{
    (void) state;
    connection_label_t label;
    connection_label (NULL, NULL, "silent", &label);
    assert_string_equal (label.text, "job 3");
    s_world_size = 2;
    connection_label (NULL, NULL, "silent", &label);
    assert_string_equal (label.text, "job 3, rank 1");
    s_world_size = 1;
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (a_ring_holds_all_slots_but_one),
        cmocka_unit_test (blocks_are_given_away_once),
        cmocka_unit_test (without_a_ring),
        cmocka_unit_test (inline_after_all),
        cmocka_unit_test (it_is_one_peers_and_one_callers),
        cmocka_unit_test (a_rank_in_the_log),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
