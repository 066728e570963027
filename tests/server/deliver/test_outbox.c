//  The outbox: whole messages to a peer that is there; to one that is not, or where a call fails, OUTBOX_GONE
//  and no memory lost.  Answers that clients leave unread: how many bytes a connection and a tenant may
//  leave, and on how many connections.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "outbox.h"
#include "reply.h"
#include "scratch.h"

enum { SLOT_BYTES = 4096, IDS = 3, STEP_WORDS = 5, PATIENCE_MS = 20000 };

//  ---- memory that is counted, and calls that fail when told to

static atomic_int s_held;           //  ZeroMQ's threads free as well

static void *
s_counted (void *memory)
{
    s_held += memory != NULL;
    return memory;
}

void *__real_malloc (size_t size);
void *__wrap_malloc (size_t size);
void *
__wrap_malloc (size_t size)
{
    return fault_strikes ()? NULL: s_counted (__real_malloc (size));
}

void *__real_calloc (size_t count, size_t size);
void *__wrap_calloc (size_t count, size_t size);
void *
__wrap_calloc (size_t count, size_t size)
{
    return s_counted (__real_calloc (count, size));
}

void __real_free (void *memory);
void __wrap_free (void *memory);
void
__wrap_free (void *memory)
{
    s_held -= memory != NULL;
    __real_free (memory);
}

FAULT_CALL (int, -1, zmq_send, (void *socket, const void *data, size_t size, int flags),
    (socket, data, size, flags))
FAULT_CALL (int, -1, zmq_msg_send, (zmq_msg_t *message, void *socket, int flags), (message, socket, flags))
FAULT_CALL (int, -1, zmq_msg_init_data, (zmq_msg_t *message, void *data, size_t size, zmq_free_fn *release,
    void *hint), (message, data, size, release, hint))

//  ---- two sockets

typedef struct {
    void *context, *router, *dealer;
    atomic_size_t *account;
    outbox_memory_t *memory;
} fixture_t;

static const peer_t s_peer = { .bytes = "peer", .size = 4 };

//  Blocks of which so many are kept.
static fixture_t
s_begin_keeping (bool peer_is_there, uint32_t kept)
{
    static atomic_size_t account;
    fixture_t self = { .context = zmq_ctx_new (), .account = &account };
    self.memory = outbox_memory_new (SLOT_BYTES, kept, self.account);
    assert_non_null (self.memory);
    int one = 1, none = 0, patience = PATIENCE_MS;
    self.router = zmq_socket (self.context, ZMQ_ROUTER);
    self.dealer = zmq_socket (self.context, ZMQ_DEALER);
    assert_true (self.router && self.dealer);
    zmq_setsockopt (self.router, ZMQ_ROUTER_MANDATORY, &one, sizeof one);
    zmq_setsockopt (self.router, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt (self.dealer, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt (self.dealer, ZMQ_RCVTIMEO, &patience, sizeof patience);
    zmq_setsockopt (self.router, ZMQ_RCVTIMEO, &patience, sizeof patience);
    assert_int_equal (zmq_bind (self.router, "inproc://outbox"), 0);
    if (!peer_is_there)
        return self;
    zmq_setsockopt (self.dealer, ZMQ_IDENTITY, s_peer.bytes, s_peer.size);
    assert_int_equal (zmq_connect (self.dealer, "inproc://outbox"), 0);
    //  Once it has been heard, it is there.
    char heard [8];
    assert_int_equal (__real_zmq_send (self.dealer, "hi", 2, 0), 2);
    assert_int_equal (zmq_recv (self.router, heard, sizeof heard, 0), 4);
    assert_int_equal (zmq_recv (self.router, heard, sizeof heard, 0), 2);
    return self;
}

static fixture_t
s_begin (bool peer_is_there)
{
    return s_begin_keeping (peer_is_there, 0);
}

//  All that was on its way is freed with the sockets.
static void
s_end (fixture_t *self)
{
    outbox_memory_destroy (&self->memory);
    zmq_close (self->dealer);
    zmq_close (self->router);
    zmq_ctx_term (self->context);
    assert_int_equal (s_held, 0);
    assert_int_equal (*self->account, 0);
}

//  The next frame is these bytes; more: whether it is not the last one.
static void
s_assert_frame (fixture_t *self, const void *bytes, size_t size, bool more)
{
    static uint8_t frame [2 * SLOT_BYTES];
    int rc = zmq_recv (self->dealer, frame, sizeof frame, 0);
    assert_int_equal (rc, size);
    if (bytes)
        assert_memory_equal (frame, bytes, size);
    int follows;
    size_t follows_size = sizeof follows;
    assert_int_equal (zmq_getsockopt (self->dealer, ZMQ_RCVMORE, &follows, &follows_size), 0);
    assert_int_equal (follows, more);
}

//  ---- what is sent

typedef enum {
    BODY, TEXT, COUNTED, BYTES, MESSAGE, BATCH, BATCH_STEP, BATCH_SLOT, BATCH_ALL, MESSAGES
} message_type_t;

static const uint64_t s_ids [IDS] = { 7, 8, 9 }, s_step [STEP_WORDS] = { 1, 2, 3, 4, 5 };
static const wire_batch_t s_batch = { .sequence = 11, .count = IDS };

static char *
s_text (void)
{
    char *text = malloc (8);
    return text? memcpy (text, "a text.", 8): NULL;
}

static uint8_t *
s_block (fixture_t *self)
{
    uint8_t *block = outbox_memory_take (self->memory);
    assert_non_null (block);
    for (int index = 0; index < SLOT_BYTES; index++)
        assert_int_equal (block [index], 0);
    return memset (block, 0x5a, SLOT_BYTES);
}

static void
s_release (void *data, void *hint)
{
    (void) hint;
    free (data);
}

static outbox_status_t
s_send (fixture_t *self, message_type_t type, unsigned int failing)
{
    outbox_batch_t batch = { .batch = &s_batch, .ids = s_ids, .memory = self->memory };
    if (type == BATCH_STEP || type == BATCH_ALL) {
        batch.step = s_step;
        batch.step_words = STEP_WORDS;
    }
    if (type == BATCH_SLOT || type == BATCH_ALL)
        batch.block = s_block (self);
    char *text = type == TEXT || type == COUNTED || type == BYTES? s_text (): NULL;
    uint8_t *bytes = type == BYTES? (uint8_t *) s_text (): NULL;
    zmq_msg_t last;
    if (type == MESSAGE) {
        void *pixels = malloc (SLOT_BYTES);
        assert_non_null (pixels);
        memset (pixels, 0x5a, SLOT_BYTES);
        assert_int_equal (zmq_msg_init_data (&last, pixels, SLOT_BYTES, s_release, NULL), 0);
    }
    if (failing)
        fault_arm (failing, EAGAIN, false);
    switch (type) {
    case BODY:
        return outbox_send (self->router, &s_peer, WIRE_EPOCH_END, 3, 4, s_ids, sizeof s_ids);
    case TEXT:
        return outbox_send_text (self->router, &s_peer, WIRE_ERROR, 3, 4, text);
    case COUNTED:
        return outbox_send_counted (self->router, &s_peer, WIRE_STATUS_REPLY, 3, 4, text, self->account);
    case BYTES:
        return outbox_send_bytes (self->router, &s_peer, WIRE_DATASET_REPLY, 4, text, bytes, 7,
            self->account);
    case MESSAGE:
        return outbox_send_message (self->router, &s_peer, WIRE_WORK_TASK, 4, s_ids, sizeof s_ids, &last);
    default:
        return outbox_send_batch (self->router, &s_peer, 3, &batch);
    }
}

static wire_head_t
s_head (message_type_t type)
{
    switch (type) {
    case BODY:
        return reply_head (WIRE_EPOCH_END, 3, 4);
    case TEXT:
        return reply_head (WIRE_ERROR, 3, 4);
    case COUNTED:
        return reply_head (WIRE_STATUS_REPLY, 3, 4);
    case BYTES:
        return reply_head (WIRE_DATASET_REPLY, 0, 4);
    case MESSAGE:
        return reply_head (WIRE_WORK_TASK, 0, 4);
    default:
        return reply_head (WIRE_BATCH, 3, 0);
    }
}

static void
s_assert_message (fixture_t *self, message_type_t type)
{
    uint8_t pixels [SLOT_BYTES];
    wire_head_t head = s_head (type);
    memset (pixels, 0x5a, sizeof pixels);
    bool has_step = type == BATCH_STEP || type == BATCH_ALL;
    bool has_slot = type == BATCH_SLOT || type == BATCH_ALL;
    s_assert_frame (self, &head, sizeof head, true);
    switch (type) {
    case BODY:
        s_assert_frame (self, s_ids, sizeof s_ids, false);
        break;
    case BYTES:
        s_assert_frame (self, "a text.", 7, true);
        s_assert_frame (self, "a text.", 7, false);
        break;
    case MESSAGE:
        s_assert_frame (self, s_ids, sizeof s_ids, true);
        s_assert_frame (self, pixels, sizeof pixels, false);
        break;
    case TEXT:
    case COUNTED:
        s_assert_frame (self, "a text.", 7, false);
        break;
    default:
        s_assert_frame (self, &s_batch, sizeof s_batch, true);
        s_assert_frame (self, s_ids, sizeof s_ids, has_step || has_slot);
        if (has_step)
            s_assert_frame (self, s_step, sizeof s_step, has_slot);
        if (has_slot)
            s_assert_frame (self, pixels, sizeof pixels, false);
    }
}

static void
test_messages_arrive_whole (void **state)
{
    (void) state;
    fixture_t self = s_begin (true);
    for (int type = 0; type < MESSAGES; type++) {
        assert_int_equal (s_send (&self, (message_type_t) type, 0), OUTBOX_SENT);
        s_assert_message (&self, (message_type_t) type);
    }
    s_end (&self);
}

//  Guards: a peer that is gone costs no memory, and the router goes on.
static void
test_peer_that_is_gone (void **state)
{
    (void) state;
    fixture_t self = s_begin (false);
    for (int type = 0; type < MESSAGES; type++) {
        assert_int_equal (s_send (&self, (message_type_t) type, 0), OUTBOX_GONE);
        assert_int_equal (s_held, 1);               //  the memory's own
        assert_int_equal (*self.account, 0);
    }
    s_end (&self);
}

//  Guards: each call fails in turn.  The message is gone, or it is sent another way; nothing is lost.
static void
test_calls_that_fail (void **state)
{
    (void) state;
    for (int type = 0; type < MESSAGES; type++) {
        unsigned int nth = 0, gone = 0;
        bool struck = true;
        while (struck) {
            fixture_t self = s_begin (true);
            outbox_status_t status = s_send (&self, (message_type_t) type, ++nth);
            struck = fault_disarm ();
            gone += status == OUTBOX_GONE;
            assert_true (struck || status == OUTBOX_SENT);
            s_end (&self);
        }
        assert_in_range (gone, 3, nth - 1);         //  address, head and body at least
    }
}

static void
s_send_block (fixture_t *self, uint8_t *block)
{
    outbox_batch_t batch = { .batch = &s_batch, .ids = s_ids, .memory = self->memory, .block = block };
    assert_int_equal (outbox_send_batch (self->router, &s_peer, 3, &batch), OUTBOX_SENT);
    s_assert_frame (self, NULL, sizeof (wire_head_t), true);
    s_assert_frame (self, &s_batch, sizeof s_batch, true);
    s_assert_frame (self, s_ids, sizeof s_ids, true);
    s_assert_frame (self, NULL, SLOT_BYTES, false);
    for (int patience = PATIENCE_MS; *self->account > 0; patience--) {
        assert_true (patience > 0);
        usleep (1000);
    }
}

//  Guards: a batch that has left lends its memory to the next one, and no more is kept than was said.
static void
test_memory_is_used_again (void **state)
{
    (void) state;
    fixture_t self = s_begin_keeping (true, 2);
    uint8_t *first = s_block (&self);
    s_send_block (&self, first);
    assert_ptr_equal (outbox_memory_take (self.memory), first);
    uint8_t *others [] = { s_block (&self), s_block (&self) };
    int held = s_held;
    outbox_memory_give_back (self.memory, first);       //  two are in use: it is not kept
    assert_int_equal (s_held, held - 1);
    outbox_memory_give_back (self.memory, others [0]);  //  one is
    s_send_block (&self, others [1]);
    assert_int_equal (s_held, held - 1);
    assert_ptr_equal (outbox_memory_take (self.memory), others [1]);
    outbox_memory_give_back (self.memory, others [1]);
    s_end (&self);
}

//  Guards: a client that has gone leaves nothing, though its last batch is still on its way.
static void
test_memory_that_is_sent_last (void **state)
{
    (void) state;
    fixture_t self = s_begin_keeping (true, 2);
    outbox_batch_t batch = { .batch = &s_batch, .ids = s_ids, .memory = self.memory,
        .block = s_block (&self) };
    assert_int_equal (outbox_send_batch (self.router, &s_peer, 3, &batch), OUTBOX_SENT);
    outbox_memory_destroy (&self.memory);
    assert_true (s_held >= 2);
    s_end (&self);
}

//  ---- answers that clients have not read

enum { A = 1, B = 2, SHARE = 5 };

static peer_t
s_numbered (uint32_t number)
{
    peer_t peer = { .size = 5 };
    memcpy (&peer.bytes [1], &number, sizeof number);
    return peer;
}

static atomic_size_t *
s_account (outbox_backlog_t *self, uint32_t number, uint32_t tenant, size_t share)
{
    peer_t peer = s_numbered (number);
    return outbox_backlog_account (self, &peer, tenant, share);
}

//  Guards: a connection gets answers while it has left less than the limit, and again when it has read.
static void
test_answers_unread_of_a_connection (void **state)
{
    (void) state;
    outbox_backlog_t *self = outbox_backlog_new ();
    assert_non_null (self);
    atomic_size_t *account = s_account (self, 1, A, SHARE);
    atomic_fetch_add (account, OUTBOX_BACKLOG_OF_ONE_MAX - 1);
    assert_ptr_equal (s_account (self, 1, A, SHARE), account);
    atomic_fetch_add (account, 1);
    assert_null (s_account (self, 1, A, SHARE));
    atomic_size_t *other = s_account (self, 2, A, SHARE);
    assert_non_null (other);
    assert_ptr_not_equal (other, account);
    atomic_fetch_add (other, 7);
    assert_int_equal (outbox_backlog_bytes (self), OUTBOX_BACKLOG_OF_ONE_MAX + 7);
    atomic_fetch_sub (account, 1);
    assert_ptr_equal (s_account (self, 1, A, SHARE), account);
    atomic_fetch_sub (account, OUTBOX_BACKLOG_OF_ONE_MAX - 1);
    //  Nothing is left unread: the place is the next connection's.
    assert_ptr_equal (s_account (self, 3, B, SHARE), account);
    outbox_backlog_destroy (&self);
    assert_null (self);
}

//  Guards: a tenant with its share of connections, or with all its bytes, gets no further one, and what it
//  has goes on; another tenant does not notice.
static void
test_answers_unread_of_a_tenant (void **state)
{
    (void) state;
    outbox_backlog_t *self = outbox_backlog_new ();
    atomic_size_t *accounts [SHARE];
    assert_non_null (self);
    for (uint32_t number = 0; number < SHARE; number++) {
        accounts [number] = s_account (self, number, A, SHARE);
        assert_non_null (accounts [number]);
        atomic_fetch_add (accounts [number], 1);
    }
    assert_null (s_account (self, SHARE, A, SHARE));
    assert_ptr_equal (s_account (self, 0, A, SHARE), accounts [0]);
    atomic_size_t *other = s_account (self, 100, B, SHARE);
    assert_non_null (other);
    atomic_fetch_add (other, 1);
    atomic_fetch_add (accounts [1], OUTBOX_BACKLOG_OF_TENANT_MAX - SHARE - 1);
    assert_ptr_equal (s_account (self, 0, A, SHARE), accounts [0]);
    atomic_fetch_add (accounts [1], 1);
    assert_null (s_account (self, 0, A, SHARE));
    assert_ptr_equal (s_account (self, 100, B, SHARE), other);
    outbox_backlog_destroy (&self);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_messages_arrive_whole),
        cmocka_unit_test (test_peer_that_is_gone),
        cmocka_unit_test (test_calls_that_fail),
        cmocka_unit_test (test_memory_is_used_again),
        cmocka_unit_test (test_memory_that_is_sent_last),
        cmocka_unit_test (test_answers_unread_of_a_connection),
        cmocka_unit_test (test_answers_unread_of_a_tenant)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
