/*  Rings from JOIN until their clients close them: the user that may take one, what lies in it, what replaces
 *  it, and that its memory is given back.  */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>
#include <jansson.h>
#include "job.h"
#include "reply.h"
#include "service_asserts.h"
#include "service_play.h"

enum { BATCH = 4, ZERO = 1, ONE = 2 };

#define JOIN_RING "{\"dataset\":\"train\",\"batch_size\":4,\"epochs\":3,\"pipeline\":\"eval\"}"
#define JOIN_SEEDED "{\"dataset\":\"train\",\"batch_size\":4,\"epochs\":3,\"pipeline\":\"eval\"," \
    "\"order\":\"seeded\",\"seed\":\"7\"}"
#define JOIN_INLINE "{\"dataset\":\"train\",\"batch_size\":4,\"epochs\":3,\"pipeline\":\"eval\"," \
    "\"transport\":\"inline\"}"
#define JOIN_RANK(rank) "{\"dataset\":\"train\",\"batch_size\":4,\"epochs\":3,\"pipeline\":\"eval\"," \
    "\"job\":\"pair\",\"world_size\":2,\"rank\":" #rank "}"

//  The next allocation after the ring server has failed so many times fails too.
static play_t *s_play;
static size_t s_refused;
static bool s_lacks_memory;

void *__real_calloc (size_t count, size_t size);
void *__wrap_calloc (size_t count, size_t size);
void *
__wrap_calloc (size_t count, size_t size)
{
    if (!s_lacks_memory || play_refused_rings (s_play) == s_refused)
        return __real_calloc (count, size);
    s_refused = play_refused_rings (s_play);
    return NULL;
}

static void
s_say (play_t *play, uint32_t peer, uint32_t user, const char *text)
{
    play_say_text (play, peer, user, WIRE_JOIN, 0, 77, text);
    service_serve (play_service (play), play_now_ms (play));
}

//  JOINED to this connection; the caller's reference.
static json_t *
s_joined (const play_t *play, uint32_t peer, uint64_t *job_p)
{
    const play_sent_t *sent = play_last (play, peer, WIRE_JOINED);
    if (!sent)
        fail_msg ("no JOINED: %s", play_last (play, peer, 0)? play_last (play, peer, 0)->text: "nothing");
    json_t *joined = json_loads (sent->text, 0, NULL);
    assert_non_null (joined);
    *job_p = sent->job;
    return joined;
}

//  The key of the ring that JOINED offers; 0: none.
static uint64_t
s_key (const play_t *play, uint32_t peer, uint64_t *job_p)
{
    json_t *joined = s_joined (play, peer, job_p), *ring = json_object_get (joined, "ring");
    uint64_t key = 0;
    if (!json_is_null (ring)) {
        assert_string_equal (json_string_value (json_object_get (ring, "path")), "/play");
        key = strtoull (json_string_value (json_object_get (ring, "token")), NULL, 16);
        assert_true (key > 0);
    }
    json_decref (joined);
    return key;
}

//  A job with a ring that its client has taken; the ring's key.
static uint64_t
s_attach_to (play_t *play, uint32_t peer, uint32_t user, const char *text, uint64_t *job_p)
{
    s_say (play, peer, user, text);
    uint64_t key = s_key (play, peer, job_p);
    play_ring_event (play, RING_SERVER_ATTACHED, key);
    return key;
}

static uint64_t
s_attach (play_t *play, uint32_t peer, uint32_t user, uint64_t *job_p)
{
    return s_attach_to (play, peer, user, JOIN_RING, job_p);
}

//  Takes batches until the job's last epoch is over; returns how many there were.
static size_t
s_take_all (play_t *play, uint32_t peer, uint32_t user, uint64_t job)
{
    for (int turn = 0; turn < 10000; turn++) {
        play_turn (play, 5);
        const play_sent_t *end = play_last (play, peer, WIRE_EPOCH_END);
        wire_epoch_end_t what = { .flags = 0 };
        if (end)
            memcpy (&what, end->text, sizeof what);
        if (what.flags & WIRE_EPOCH_LAST)
            return play_count (play, peer, WIRE_BATCH);
        uint64_t taken = play_count (play, peer, WIRE_BATCH);
        wire_progress_t progress = { taken, taken, 0 };
        play_say (play, peer, user, WIRE_PROGRESS, job, 5, &progress, sizeof progress);
    }
    fail_msg ("the job does not come to its end");
    return 0;
}

//  A number of the operator's STATUS.
static uint64_t
s_status (play_t *play, const char *key)
{
    json_t *status = play_status (play, PLAY_ROOT);
    assert_true (json_is_integer (json_object_get (status, key)));
    uint64_t number = (uint64_t) json_integer_value (json_object_get (status, key));
    json_decref (status);
    return number;
}

//  Must hold: the ring is for the user that joined, each job has its own, and batches come without bytes.
static void
each_client_gets_its_own (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    uint64_t job, other_job;
    s_say (play, 1, PLAY_A1, JOIN_RING);
    s_say (play, 2, PLAY_B, JOIN_RING);
    uint64_t key = s_key (play, 1, &job), other = s_key (play, 2, &other_job);
    assert_int_not_equal (key, other);
    assert_int_equal (play_ring (play, key)->uid, PLAY_A1);
    assert_int_equal (play_ring (play, other)->uid, PLAY_B);
    assert_int_not_equal (play_ring (play, key)->descriptor, play_ring (play, other)->descriptor);
    play_turn (play, 50);
    assert_null (play_last (play, 1, WIRE_BATCH));
    play_ring_event (play, RING_SERVER_ATTACHED, key);
    assert_int_equal (s_take_all (play, 1, PLAY_A1, job), 3 * PLAY_SAMPLES / BATCH);
    assert_false (play_last (play, 1, WIRE_BATCH)->has_bytes);
    assert_null (play_last (play, 2, WIRE_BATCH));
    //  The end of a client that has its ring shows at the ring's socket, so it is not sent to.
    play_forget_sent (play);
    play_turn (play, 1000);
    assert_null (play_last (play, 1, WIRE_HEARTBEAT));
    assert_non_null (play_last (play, 2, WIRE_HEARTBEAT));
    play_destroy (&play);
}

//  A field of JOINED: where it begins in a slot, and the bytes of a sample.
typedef struct { size_t offset, bytes; } field_t;

static size_t
s_number (const json_t *object, const char *key)
{
    return strtoull (json_string_value (json_object_get (object, key)), NULL, 10);
}

//  Whether each sample of the last batch lies in its row of each field, as the batch's ids say.
static void
s_assert_rows (const play_t *play, uint32_t peer, const json_t *joined, const uint8_t *ring)
{
    wire_batch_t batch;
    uint64_t ids [BATCH];
    const char *body = play_last (play, peer, WIRE_BATCH)->text;
    memcpy (&batch, body, sizeof batch);
    assert_in_range (batch.count, 1, BATCH);
    memcpy (ids, body + sizeof batch, batch.count * sizeof *ids);
    const uint8_t *slot = ring + batch.slot * s_number (joined, "slot_bytes");
    size_t index;
    json_t *field;
    assert_int_equal (json_array_size (json_object_get (joined, "fields")), 2);
    json_array_foreach (json_object_get (joined, "fields"), index, field)
        for (uint32_t row = 0; row < batch.count; row++) {
            size_t bytes = s_number (field, "sample_bytes");
            const uint8_t *at = slot + s_number (field, "offset") + row * bytes;
            if (at [0] != ids [row] || at [bytes - 1] != ids [row])
                fail_msg ("row %u of field %zu is sample %u, not %u", row, index, at [0],
                    (unsigned) ids [row]);
        }
}

//  A job that keeps its order gets no other sample in place of one that cannot be read: its batch has a hole.
//  Must hold: the rows that are sent are those of the ids that are sent, in every field.
static void
rows_move_together (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    uint64_t job, key = s_attach_to (play, 1, PLAY_A1, JOIN_SEEDED, &job);
    json_t *joined = s_joined (play, 1, &job);
    size_t bytes = s_number (json_object_get (joined, "ring"), "bytes"), seen = 0;
    const uint8_t *ring = mmap (NULL, bytes, PROT_READ, MAP_SHARED, play_ring (play, key)->descriptor, 0);
    assert_true (ring != MAP_FAILED);
    for (uint32_t id = 0; id < PLAY_SAMPLES; id += 3)
        play_spoil (play, id);
    for (int turn = 0; turn < 2000 && !play_last (play, 1, WIRE_EPOCH_END); turn++) {
        uint64_t taken = play_count (play, 1, WIRE_BATCH);
        if (taken > seen)
            s_assert_rows (play, 1, joined, ring);
        seen = taken;
        wire_progress_t progress = { taken, taken, 0 };
        play_say (play, 1, PLAY_A1, WIRE_PROGRESS, job, 5, &progress, sizeof progress);
        play_turn (play, 0);
    }
    assert_non_null (play_last (play, 1, WIRE_EPOCH_END));
    assert_true (seen > 2);
    munmap ((void *) (uintptr_t) ring, bytes);
    json_decref (joined);
    play_destroy (&play);
}

//  Must hold: a sample that cannot be read ends the jobs that say so, by its number, and no other.
static void
a_job_may_want_all_samples (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    static const char strict [] = "{\"dataset\":\"train\",\"batch_size\":4,\"epochs\":3,"
        "\"pipeline\":\"eval\",\"transport\":\"inline\",\"on_bad\":\"fail\"}";
    uint64_t job;
    s_say (play, 1, PLAY_A1, strict);
    s_say (play, 2, PLAY_B, JOIN_INLINE);
    play_spoil (play, 5);
    json_decref (s_joined (play, 2, &job));
    assert_int_equal (s_take_all (play, 2, PLAY_B, job), 3 * PLAY_SAMPLES / BATCH);
    json_decref (s_joined (play, 1, &job));
    for (int turn = 0; turn < 2000 && job_of_id (play_broker (play), job); turn++) {
        uint64_t taken = play_count (play, 1, WIRE_BATCH);
        wire_progress_t progress = { taken, taken, 0 };
        play_say (play, 1, PLAY_A1, WIRE_PROGRESS, job, 5, &progress, sizeof progress);
        play_turn (play, 5);
    }
    const play_sent_t *ended = play_last (play, 1, WIRE_ENDED);
    assert_true (ended && strstr (ended->text, "\"bad_sample\"") && strstr (ended->text, "sample 5"));
    assert_null (play_last (play, 2, WIRE_ENDED));
    play_destroy (&play);
}

//  Must hold: a client that asks for INLINE gets bytes with each batch, and its token is worth nothing; one
//  that has its ring does not get both.
static void
inline_replaces_it (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    uint64_t job, other_job;
    s_say (play, 1, PLAY_A1, JOIN_RING);
    uint64_t key = s_key (play, 1, &job), other = s_attach (play, 2, PLAY_B, &other_job);
    play_turn (play, 20);
    play_say (play, 1, PLAY_A1, WIRE_INLINE, job, 6, NULL, 0);
    play_say (play, 2, PLAY_B, WIRE_INLINE, other_job, 6, NULL, 0);
    assert_error (play, 2, "bad_request", "the job's ring was taken already");
    assert_null (play_last (play, 1, WIRE_ERROR));
    assert_null (play_ring (play, key));
    assert_non_null (play_ring (play, other));
    assert_int_equal (s_take_all (play, 1, PLAY_A1, job), 3 * PLAY_SAMPLES / BATCH);
    assert_true (play_last (play, 1, WIRE_BATCH)->has_bytes);
    play_destroy (&play);
}

//  Must hold: without a token the job is served through the socket; without memory for that either it is
//  refused, and nothing is left of it, whichever of its ranks it fails for.
static void
a_failed_offer_leaves_nothing (void **state)
{
    (void) state;
    play_t *play = s_play = play_new (true);
    uint64_t job;
    play_allow_rings (play, 0);
    s_say (play, 3, PLAY_A1, JOIN_RING);
    assert_int_equal (s_key (play, 3, &job), 0);
    play_say (play, 3, PLAY_A1, WIRE_LEAVE, job, 1, NULL, 0);
    play_turn (play, 20);
    assert_int_equal (service_jobs (play_service (play)), 0);
    for (size_t tokens = 0; tokens < 2; tokens++) {
        play_allow_rings (play, tokens);
        s_refused = play_refused_rings (play);
        s_lacks_memory = true;
        s_say (play, ZERO, PLAY_A1, JOIN_RANK (0));
        s_say (play, ONE, PLAY_A1, JOIN_RANK (1));
        s_lacks_memory = false;
        assert_error (play, ZERO, "budget", "no memory for the job's batches");
        assert_error (play, ONE, "budget", "no memory for the job's batches");
        assert_int_equal (play_rings (play), 0);
        play_turn (play, 20);
        assert_int_equal (service_jobs (play_service (play)), 0);
        assert_int_equal (s_status (play, "jobs_bytes"), 0);
        assert_null (play_last (play, ZERO, WIRE_JOINED));
    }
    play_destroy (&play);
}

//  Must hold: a client that has gone before it is told JOINED has no job, at once.
static void
a_client_may_be_gone (void **state)
{
    (void) state;
    static const char *const joins [] = { JOIN_RING, JOIN_INLINE };
    for (size_t index = 0; index < 2; index++) {
        play_t *play = play_new (true);
        play_close (play, 1);
        s_say (play, 1, PLAY_A1, joins [index]);
        service_act (play_service (play), play_now_ms (play));
        assert_int_equal (service_jobs (play_service (play)), 0);
        assert_int_equal (play_rings (play), 0);
        play_destroy (&play);
    }
}

//  Must hold: the job of a client that closes its ring's socket is over, and the others go on.
static void
a_closed_one_ends_its_job (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    uint64_t job, other_job, key = s_attach (play, 1, PLAY_A1, &job);
    s_attach (play, 2, PLAY_B, &other_job);
    play_turn (play, 50);
    play_ring_event (play, RING_SERVER_CLOSED, key);
    play_turn (play, 50);
    assert_null (job_of_id (play_broker (play), job));
    assert_non_null (strstr (play_log (play), "is gone: its client closed the ring's socket"));
    s_take_all (play, 2, PLAY_B, other_job);
    assert_int_equal (service_jobs (play_service (play)), 1);
    play_destroy (&play);
}

//  The server ends a job, and its client may still read what it has.
//  Must hold: the ring counts in the budget until its client closes it, or for nothing if no client has it.
static void
an_ended_jobs_ring_stays_for_its_client (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    uint64_t job, unattached;
    uint64_t key = s_attach (play, 1, PLAY_KEY, &job);
    s_say (play, 2, PLAY_KEY, JOIN_RING);
    uint64_t other = s_key (play, 2, &unattached);
    play_turn (play, 50);
    uint64_t bytes = s_status (play, "ring_bytes") / 2;
    assert_true (bytes > 0);
    assert_int_equal (s_status (play, "outgoing_bytes"), 0);
    assert_int_equal (play_revoke (play), 2);
    play_turn (play, 50);
    assert_int_equal (service_jobs (play_service (play)), 0);
    assert_true (play_ring (play, key) && play_ring (play, key)->is_parted);
    assert_null (play_ring (play, other));
    assert_int_equal (s_status (play, "outgoing_bytes"), bytes);
    play_ring_event (play, RING_SERVER_CLOSED, key);
    play_turn (play, 50);
    assert_int_equal (s_status (play, "outgoing_bytes"), 0);
    play_destroy (&play);
}

//  Must hold: when there is no memory for a batch its job ends, and is put away; others go on.
static void
no_memory_for_a_batch_ends_its_job (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    uint64_t job, other_job;
    s_attach (play, 2, PLAY_B, &other_job);
    play_lack_memory (play, true);
    s_say (play, 1, PLAY_A1, JOIN_INLINE);
    json_decref (s_joined (play, 1, &job));
    play_turn (play, 100);
    assert_non_null (play_last (play, 1, WIRE_ENDED));
    assert_non_null (strstr (play_last (play, 1, WIRE_ENDED)->text, "\"memory\""));
    s_take_all (play, 2, PLAY_B, other_job);
    assert_int_equal (service_jobs (play_service (play)), 1);
    assert_null (job_of_id (play_broker (play), job));
    play_destroy (&play);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (each_client_gets_its_own),
        cmocka_unit_test (rows_move_together),
        cmocka_unit_test (a_job_may_want_all_samples),
        cmocka_unit_test (inline_replaces_it),
        cmocka_unit_test (a_failed_offer_leaves_nothing),
        cmocka_unit_test (a_client_may_be_gone),
        cmocka_unit_test (a_closed_one_ends_its_job),
        cmocka_unit_test (an_ended_jobs_ring_stays_for_its_client),
        cmocka_unit_test (no_memory_for_a_batch_ends_its_job),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
