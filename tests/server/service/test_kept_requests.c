//  What clients and workers of each release say: the server understands it, and answers as they expect.  And
//  what servers of each release say to workers, which read it by the same functions.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "frames.h"
#include "kept_messages.h"
#include "request.h"
#include "service_play.h"
#include "work_message.h"

enum { SAMPLES = 3000, TURNS = 20 };

//  ---- each by itself

static bool
s_try_ids (const frame_t *frames, const request_join_t *join, refusal_t *refusal)
{
    roaring_bitmap_t *set = NULL;
    uint32_t *ids = NULL;
    broker_record_t *records = NULL;
    size_t count;
    bool is_well = true;
    if (is_well && join->subset_given)
        is_well = request_subset (&frames [join->subset_first], SAMPLES, &set, refusal);
    if (set)
        roaring_bitmap_free (set);
    set = NULL;
    if (is_well && join->list_frames)
        is_well = request_list (&frames [join->list_first], join->list_frames, SAMPLES, &ids, &count,
            refusal);
    free (ids);
    if (is_well && join->taken_frames)
        is_well = request_taken (&frames [join->taken_first], join->taken_frames, SAMPLES, &set, refusal);
    if (set)
        roaring_bitmap_free (set);
    set = NULL;
    if (is_well && join->cut_frames)
        is_well = request_taken (&frames [join->cut_first], join->cut_frames, SAMPLES, &set, refusal);
    if (set)
        roaring_bitmap_free (set);
    if (is_well && join->recent_frames)
        is_well = request_recent (frames, join, SAMPLES, &records, &count, refusal);
    free (records);
    return is_well;
}

static bool
s_try_join (const message_t *message, refusal_t *refusal)
{
    request_join_t join;
    if (!request_join (message->frames, message->count, &join, refusal))
        return false;
    bool is_well = s_try_ids (message->frames, &join, refusal);
    request_join_clear (&join);
    return is_well;
}

//  Between servers and workers, both ways.
static bool
s_try_work (wire_kind_t kind, const message_t *message, refusal_t *refusal)
{
    static const char *const names [] = { "JPEG", "PNG" };
    const frame_t *frames = message->frames;
    work_hello_t hello;
    work_pipeline_t pipeline;
    wire_work_task_t task;
    wire_work_result_t result;
    uint64_t digests [2], nonce, bytes;
    char reason [WORK_REASON_BYTES];
    switch (kind) {
    case WIRE_WORK_HELLO:
        return work_message_read_hello (&frames [1], &hello, refusal);
    case WIRE_WORK_ANSWER:
        return work_message_read_answer (&frames [1], names, 2, digests, refusal);
    case WIRE_WORK_RESULT:
        return work_message_read_result (frames, message->count, &result, &bytes, refusal);
    case WIRE_WORK_CHALLENGE:
        return work_message_read_challenge (&frames [1], &nonce, refusal);
    case WIRE_WORK_REFUSED:
        return work_message_read_refused (&frames [1], reason, refusal);
    case WIRE_WORK_TASK:
        return work_message_read_task (frames, message->count, &task, refusal);
    case WIRE_WORK_PIPELINE:
        if (!work_message_read_pipeline (&frames [1], &pipeline, refusal))
            return false;
        work_message_clear_pipeline (&pipeline);
        return true;
    default:                            //  heartbeat, goodbye, welcome: a head alone
        return message->count == 1;
    }
}

static bool
s_try_add (const message_t *message, refusal_t *refusal)
{
    request_add_t add;
    if (!request_add (&message->frames [1], &add, refusal))
        return false;
    request_add_clear (&add);
    return true;
}

static bool
s_try (const message_t *message, refusal_t *refusal)
{
    wire_head_t head;
    wire_progress_t progress;
    request_explain_t explain;
    request_table_t table;
    request_remove_t removal;
    bool now;
    assert_int_equal (message->frames [0].size, sizeof head);
    memcpy (&head, message->bytes [0], sizeof head);
    if (head.kind >= WIRE_WORK_CHALLENGE && head.kind <= WIRE_WORK_TASK)
        return s_try_work ((wire_kind_t) head.kind, message, refusal);
    if (head.kind >= WIRE_JOINED)       //  to clients: test_kept_answers.c
        return true;
    if (request_head (message->frames, message->count, &head, refusal) != REQUEST_OK)
        return false;
    switch ((wire_kind_t) head.kind) {
    case WIRE_JOIN:
        return s_try_join (message, refusal);
    case WIRE_PROGRESS:
        return request_progress (&message->frames [1], &progress, refusal);
    case WIRE_STATUS:
        return request_status (&message->frames [1], refusal);
    case WIRE_EXPLAIN:
        return request_explain (&message->frames [1], &explain, refusal);
    case WIRE_DRAIN:
        return request_drain (&message->frames [1], &now, refusal);
    case WIRE_DATASET:
        return request_table (&message->frames [1], &table, refusal);
    case WIRE_REMOVE:
        return request_remove (&message->frames [1], &removal, refusal);
    case WIRE_ADD:
        return s_try_add (message, refusal);
    case WIRE_INLINE: case WIRE_LEAVE: case WIRE_HEARTBEAT:
        return message->count == 1;
    default:
        return s_try_work ((wire_kind_t) head.kind, message, refusal);
    }
}

static void
s_understand (const char *name)
{
    message_t message;
    refusal_t refusal = { .message = "" };
    message_load (&message, name);
    if (!s_try (&message, &refusal))
        fail_msg ("%s: %s", name, refusal.message);
    message_unload (&message);
}

static void
what_was_said_is_understood (void **state)
{
    (void) state;
    assert_true (kept_messages (".hex", s_understand) > 0);
}

//  ---- a whole job, as a client of the release has it

//  What a client says, in this order, and the answer that it waits for; 0: none.  The samples of the play are
//  no images, so none can be explained.
static const struct { const char *name; wire_kind_t answer; } s_job [] = {
    { "join_seeded", WIRE_JOINED }, { "inline", WIRE_BATCH }, { "progress", 0 }, { "heartbeat", 0 },
    { "explain", WIRE_ERROR }, { "status", WIRE_STATUS_REPLY }, { "leave", WIRE_ENDED },
    { "drain", WIRE_DRAINING }
};

//  Says it of this job, which is as far as its batches.
static void
s_say (play_t *play, const char *name, uint64_t job)
{
    message_t message;
    wire_head_t head;
    message_load (&message, name);
    memcpy (&head, message.bytes [0], sizeof head);
    if (head.job)
        head.job = job;
    memcpy (message.bytes [0], &head, sizeof head);
    if (head.kind == WIRE_PROGRESS)
        memcpy (message.bytes [1], &(wire_progress_t) { .consumed = 1, .released = 1 },
            sizeof (wire_progress_t));
    play_say_frames (play, 1, PLAY_ROOT, message.frames, message.count);
    message_unload (&message);
}

static size_t s_folders, s_played;

//  Names come folder by folder.
static void
s_play_job (const char *name)
{
    static char folder [128];
    const char *own = strrchr (name, '/') + 1;
    size_t length = (size_t) (own - name);
    s_folders += strncmp (folder, name, length) != 0;
    snprintf (folder, sizeof folder, "%.*s", (int) length, name);
    if (strcmp (own, s_job [0].name) != 0)
        return;
    s_played++;
    play_t *play = play_new (true);
    uint64_t job = 0;
    for (size_t index = 0; index < sizeof s_job / sizeof *s_job; index++) {
        char said [256];
        snprintf (said, sizeof said, "%.*s%s", (int) (own - name), name, s_job [index].name);
        s_say (play, said, job);
        for (int turn = 0; turn < TURNS; turn++)
            play_turn (play, 5);
        wire_kind_t expected = s_job [index].answer;
        const play_sent_t *error = play_last (play, 1, WIRE_ERROR), *answer = play_last (play, 1, expected);
        if (error && (error != answer || !strstr (error->text, "\"bad_sample\"")))
            fail_msg ("%s: %s", said, error->text);
        if (expected && !answer)
            fail_msg ("%s: not answered", said);
        if (expected == WIRE_JOINED)
            job = answer->job;
        play_forget_sent (play);
    }
    play_destroy (&play);
}

static void
a_job_goes_as_clients_expect (void **state)
{
    (void) state;
    assert_true (kept_messages (".hex", s_play_job) > 0);
    assert_int_equal (s_played, s_folders);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (what_was_said_is_understood),
        cmocka_unit_test (a_job_goes_as_clients_expect)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
