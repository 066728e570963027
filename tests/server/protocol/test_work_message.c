//  What servers and workers say to each other: the golden messages, and what is refused.

#include "frames.h"
#include "work_message.h"

static const char *const s_names [] = { "JPEG", "PNG" };

//  The frame is what the text says; frees it.
static void
assert_text (const frame_t *frame, char *text)
{
    assert_int_equal (frame->size, strlen (text));
    assert_memory_equal (frame->data, text, frame->size);
    free (text);
}

static void
the_handshake (void **state)
{
    (void) state;
    message_t message;
    refusal_t refusal;
    work_hello_t hello;
    message_load (&message, "work_hello");
    assert_true (work_message_read_hello (&message.frames [1], &hello, &refusal));
    assert_int_equal (hello.processors, 8);
    assert_int_equal (hello.datasets, 1);
    assert_string_equal (hello.name, "box");
    assert_text (&message.frames [1], work_message_write_hello (&hello));
    message_unload (&message);

    uint64_t nonce, digests [2];
    message_load (&message, "work_challenge");
    assert_true (work_message_read_challenge (&message.frames [1], &nonce, &refusal) && nonce == UINT64_MAX);
    assert_text (&message.frames [1], work_message_write_challenge (nonce));
    message_unload (&message);

    message_load (&message, "work_answer");
    assert_true (work_message_read_answer (&message.frames [1], s_names, 2, digests, &refusal));
    assert_true (digests [0] == 0xff && digests [1] == UINT64_C (0x0123456789abcdef));
    assert_text (&message.frames [1], work_message_write_answer (s_names, 2, digests));
    message_unload (&message);

    char reason [WORK_REASON_BYTES];
    message_load (&message, "work_refused");
    assert_true (work_message_read_refused (&message.frames [1], reason, &refusal));
    assert_text (&message.frames [1], work_message_write_refused (reason));
    message_unload (&message);
}

static void
a_task_and_its_result (void **state)
{
    (void) state;
    message_t message;
    refusal_t refusal;
    work_pipeline_t pipeline;
    message_load (&message, "work_pipeline");
    assert_true (work_message_read_pipeline (&message.frames [1], &pipeline, &refusal));
    assert_true (pipeline.number == 1 && pipeline.version_bytes == 18);
    assert_text (&message.frames [1], work_message_write_pipeline (1, 18,
        "[{\"op\":\"resize\",\"size\":[2,3]}]", json_incref (pipeline.fields)));
    work_message_clear_pipeline (&pipeline);
    message_unload (&message);

    wire_work_task_t task;
    message_load (&message, "work_task");
    assert_true (work_message_read_task (message.frames, message.count, &task, &refusal));
    assert_true (task.seed == 1 && task.round == 2 && task.id == 3 && task.warnings_max == 100);
    assert_true (task.files == 2 && task.sizes [1] == 4 && task.rows_bytes == 2);
    message.frames [2].size--;
    assert_false (work_message_read_task (message.frames, message.count, &task, &refusal));
    message.frames [2].size += 2;
    assert_false (work_message_read_task (message.frames, message.count, &task, &refusal));
    //  What the worker reads itself does not come: then there are the rows alone.
    wire_work_task_t own = task;
    own.flags |= WIRE_WORK_READ;
    message.frames [1] = frame_of (&own, sizeof own);
    message.frames [2].size = task.rows_bytes;
    assert_true (work_message_read_task (message.frames, message.count, &task, &refusal));
    message.frames [2].size++;
    assert_false (work_message_read_task (message.frames, message.count, &task, &refusal));
    message_unload (&message);

    wire_work_result_t result;
    uint64_t bytes;
    message_load (&message, "work_result");
    assert_true (work_message_read_result (message.frames, message.count, &result, &bytes, &refusal));
    assert_true (result.worker_ns == 1000 && result.held_ns == 2000 && bytes == 18);
    assert_false (work_message_read_result (message.frames, message.count - 1, &result, &bytes, &refusal));
    message.bytes [1][16] = WIRE_WORK_OUTCOMES;
    assert_false (work_message_read_result (message.frames, message.count, &result, &bytes, &refusal));
    message_unload (&message);
}

static void
what_is_refused (void **state)
{
    (void) state;
    static const struct { const char *text, *fragment; } cases [] = {
        { "{}", "processors" }, { "[]", "no object" },
        { "{\"processors\":0,\"name\":\"\",\"libraries\":\"\"}", "processors" },
        { "{\"processors\":129,\"name\":\"\",\"libraries\":\"\"}", "processors" },
        { "{\"processors\":1,\"name\":7,\"libraries\":\"\"}", "name" },
        { "{\"processors\":1,\"name\":\"\"}", "libraries" },
        { "{\"processors\":1,\"name\":\"\",\"libraries\":\"\",\"datasets\":[\"x\"]}", "datasets" }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        frame_t frame = frame_of_text (cases [index].text);
        work_hello_t hello;
        refusal_t refusal = { 0 };
        assert_false (work_message_read_hello (&frame, &hello, &refusal));
        assert_non_null (strstr (refusal.message, cases [index].fragment));
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = { cmocka_unit_test (the_handshake),
        cmocka_unit_test (a_task_and_its_result), cmocka_unit_test (what_is_refused) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
