//  What servers of each release say to clients, and the states that clients of each release have written: the
//  C client understands them.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "golden.h"
#include "kept_messages.h"
#include "message.h"
#include "state.h"

static golden_t s_golden;

static void
s_read (const char *name)
{
    if (!golden_read (&s_golden, name))
        fail_msg ("%s cannot be read", name);
}

//  The JOINED in s_golden, as one to this rank if world_size is not 0.
static message_joined_t *
s_joined (const char *name, uint32_t rank, uint32_t world_size)
{
    message_error_t error;
    message_joined_t *joined;
    json_t *root = json_loadb ((const char *) s_golden.frames [1].data, s_golden.frames [1].size, 0, NULL);
    assert_non_null (root);
    if (world_size > 0) {
        json_object_set_new (root, "rank", json_integer (rank));
        json_object_set_new (root, "world_size", json_integer (world_size));
    }
    char *text = json_dumps (root, JSON_COMPACT);
    message_frame_t frames [2] = { s_golden.frames [0], { (const uint8_t *) text, strlen (text) } };
    uint32_t batch_size = (uint32_t) json_integer_value (json_object_get (root, "batch_size"));
    if (!message_read_joined (frames, s_golden.count, batch_size, &joined, &error))
        fail_msg ("%s: %s", name, error.text);
    free (text);
    json_decref (root);
    return joined;
}

//  Each is a batch of the job of a JOINED of the same release.
static void
s_try_batch (const char *name)
{
    static const struct { const char *batch, *joined; uint32_t rank, world_size; } jobs [] = {
        { "batch", "joined", 0, 0 }, { "batch_inline", "joined_inline", 0, 0 },
        { "batch_ranks", "joined", 0, 2 }, { "batch_padding", "joined", 1, 2 },
        { "batch_recalled", "joined_ranks", 1, 2 }
    };
    const char *own = strrchr (name, '/') + 1;
    size_t job = 0;
    while (job < sizeof jobs / sizeof *jobs && strcmp (jobs [job].batch, own) != 0)
        job++;
    if (job == sizeof jobs / sizeof *jobs)
        fail_msg ("%s: say here of which JOINED it is a batch", name);
    char joined_name [256];
    message_error_t error;
    message_batch_t batch;
    snprintf (joined_name, sizeof joined_name, "%.*s%s", (int) (own - name), name, jobs [job].joined);
    s_read (joined_name);
    message_joined_t *joined = s_joined (joined_name, jobs [job].rank, jobs [job].world_size);
    s_read (name);
    if (!message_read_batch (s_golden.frames, s_golden.count, joined, &batch, &error))
        fail_msg ("%s: %s", name, error.text);
    message_joined_destroy (&joined);
}

static void
s_try_note (const char *name)
{
    message_error_t error;
    message_note_t note;
    uint64_t samples;
    char *json;
    if (!message_read_note (s_golden.frames, s_golden.count, &note, &error) || !*note.code || !*note.text)
        fail_msg ("%s: %s", name, error.text);
    if (strcmp (note.code, "unreadable") != 0)
        return;
    if (!message_read_unreadable (s_golden.frames, s_golden.count, &samples, &json, &error))
        fail_msg ("%s: %s", name, error.text);
    free (json);
}

static void
s_understand (const char *name)
{
    wire_head_t head;
    wire_epoch_end_t end;
    message_error_t error = { "" };
    message_joined_t *joined;
    char *json;
    bool is_understood = true;
    s_read (name);
    message_status_t status = message_read_head (s_golden.frames, s_golden.count, &head, &error);
    if (status == MESSAGE_BROKEN)
        fail_msg ("%s: %s", name, error.text);
    switch ((wire_kind_t) head.kind) {
    case WIRE_JOINED:
        joined = s_joined (name, 0, 0);
        message_joined_destroy (&joined);
        break;
    case WIRE_BATCH:
        s_try_batch (name);
        break;
    case WIRE_EPOCH_END:
        is_understood = message_read_epoch_end (s_golden.frames, s_golden.count, &end, &error);
        break;
    case WIRE_ENDED: case WIRE_ERROR: case WIRE_NOTICE:
        s_try_note (name);
        break;
    case WIRE_STATUS_REPLY: case WIRE_EXPLAIN_REPLY: case WIRE_DRAINING:
    case WIRE_ADDING: case WIRE_REMOVED:
        is_understood = message_read_object (s_golden.frames, s_golden.count, &json, &error);
        if (is_understood)
            free (json);
        break;
    case WIRE_HEARTBEAT:
        break;
    default:                            //  a client's own; a worker's; the Python client's alone
        assert_int_equal (status, MESSAGE_IGNORED);
        return;
    }
    if (status != MESSAGE_OK || !is_understood)
        fail_msg ("%s: %s", name, error.text);
}

static void
what_servers_said_is_understood (void **state)
{
    (void) state;
    assert_true (kept_messages (".hex", s_understand) > 0);
}

static void
s_try_state (const char *name)
{
    const char *source = getenv ("TUREEN_SOURCE");
    char path [1024], text [GOLDEN_FRAME_BYTES_MAX];
    snprintf (path, sizeof path, "%s/tests/golden/%s.json", source? source: ".", name);
    FILE *file = fopen (path, "r");
    assert_non_null (file);
    text [fread (text, 1, sizeof text - 1, file)] = 0;
    fclose (file);
    state_t kept;
    message_error_t error;
    if (!state_read (&kept, text, &error))
        fail_msg ("%s: %s", name, error.text);
    state_clear (&kept);
}

static void
jobs_of_kept_states_continue (void **state)
{
    (void) state;
    assert_true (kept_messages (".json", s_try_state) > 0);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (what_servers_said_is_understood),
        cmocka_unit_test (jobs_of_kept_states_continue)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
