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

//  ---- each field of each message

//  Reads the text of a message of that kind.
static bool
s_reads (wire_kind_t kind, const char *text)
{
    work_hello_t hello;
    uint64_t number, digests [2];
    char reason [WORK_REASON_BYTES];
    work_pipeline_t pipeline;
    refusal_t refusal = { .code = NULL };
    frame_t frame = frame_of_text (text);
    bool good = false;
    if (kind == WIRE_WORK_HELLO)
        good = work_message_read_hello (&frame, &hello, &refusal);
    if (kind == WIRE_WORK_CHALLENGE)
        good = work_message_read_challenge (&frame, &number, &refusal);
    if (kind == WIRE_WORK_ANSWER)
        good = work_message_read_answer (&frame, s_names, 2, digests, &refusal);
    if (kind == WIRE_WORK_REFUSED)
        good = work_message_read_refused (&frame, reason, &refusal);
    if (kind == WIRE_WORK_PIPELINE)
        good = work_message_read_pipeline (&frame, &pipeline, &refusal);
    if (kind == WIRE_WORK_PIPELINE && good)
        work_message_clear_pipeline (&pipeline);
    assert_int_equal (good, refusal.code == NULL);
    return good;
}

//  With this value instead; NULL: without the key.
static bool
s_reads_with (wire_kind_t kind, const json_t *object, const char *key, json_t *value)
{
    json_t *changed = json_copy ((json_t *) object);
    if (value)
        json_object_set (changed, key, value);
    else
        json_object_del (changed, key);
    char *text = json_dumps (changed, JSON_COMPACT);
    bool good = s_reads (kind, text);
    free (text);
    json_decref (changed);
    return good;
}

//  Must hold: a text without one of its keys, or with a value of another type there, is refused with a
//  reason; a key that is not known is a later version's.
static void
each_key_is_needed (void **state)
{
    (void) state;
    static const struct { wire_kind_t kind; const char *text; } texts [] = {
        { WIRE_WORK_HELLO, "{\"processors\":1,\"name\":\"a\",\"libraries\":\"b\",\"datasets\":"
            "[\"0123456789abcdef0123456789abcdef\"]}" },
        { WIRE_WORK_CHALLENGE, "{\"nonce\":\"1\"}" },
        { WIRE_WORK_ANSWER, "{\"digests\":{\"JPEG\":\"00000000000000ff\"}}" },
        { WIRE_WORK_REFUSED, "{\"reason\":\"why\"}" },
        { WIRE_WORK_PIPELINE, "{\"number\":1,\"version_bytes\":\"18\",\"pipeline\":[],"
            "\"fields\":[]}" } };
    for (size_t index = 0; index < sizeof texts / sizeof *texts; index++) {
        json_t *object = json_loads (texts [index].text, 0, NULL), *value,
            *others [] = { json_null (), json_true (), json_real (1.5), json_string ("-x"), json_integer (-1),
            json_loads ("[[]]", 0, NULL) };
        const char *key;
        assert_true (s_reads (texts [index].kind, texts [index].text));
        assert_true (s_reads_with (texts [index].kind, object, "later", others [5]));
        assert_false (s_reads (texts [index].kind, "[]") || s_reads (texts [index].kind, "")
            || s_reads (texts [index].kind, "{"));
        json_object_foreach (object, key, value) {
            bool may_lack = strcmp (key, "datasets") == 0;
            assert_int_equal (s_reads_with (texts [index].kind, object, key, NULL), may_lack);
            for (size_t other = 0; other < sizeof others / sizeof *others; other++) {
                bool is_same = json_typeof (others [other]) == json_typeof (value)
                    && !json_is_integer (value) && strcmp (key, "nonce") != 0
                    && strcmp (key, "version_bytes") != 0 && !may_lack;
                bool may_be = is_same || (may_lack && !json_is_array (others [other]));
                if (s_reads_with (texts [index].kind, object, key, others [other]) != may_be)
                    fail_msg ("message %d, %s, case %zu", texts [index].kind, key, other);
            }
        }
        for (size_t other = 0; other < sizeof others / sizeof *others; other++)
            json_decref (others [other]);
        json_decref (object);
    }
}

//  Must hold: each field of WORK_HELLO is read as it was written, up to its bound.
static void
a_hello_is_kept (void **state)
{
    (void) state;
    work_hello_t hello = { .processors = WIRE_WORK_PROCESSORS_MAX, .name = "box", .libraries = "libjpeg 1",
        .datasets = WIRE_WORK_DATASETS_MAX }, read;
    for (size_t index = 0; index < WIRE_WORK_DATASETS_MAX; index++)
        snprintf (hello.fingerprints [index], sizeof hello.fingerprints [index], "%032zx", index + 1);
    refusal_t refusal;
    for (int turn = 0; turn < 2; turn++) {
        char *text = work_message_write_hello (&hello);
        frame_t frame = frame_of_text (text);
        assert_true (work_message_read_hello (&frame, &read, &refusal));
        assert_int_equal (read.processors, hello.processors);
        assert_int_equal (read.datasets, hello.datasets);
        assert_string_equal (read.name, hello.name);
        assert_string_equal (read.libraries, hello.libraries);
        for (size_t index = 0; index < hello.datasets; index++)
            assert_string_equal (read.fingerprints [index], hello.fingerprints [index]);
        free (text);
        hello = (work_hello_t) { .processors = 1 };
    }
    //  More data sets than a worker may name: the others are sent.
    json_t *datasets = json_array (), *object = json_pack ("{s:i, s:s, s:s, s:o}", "processors", 1, "name",
        "", "libraries", "", "datasets", datasets);
    for (size_t index = 0; index < WIRE_WORK_DATASETS_MAX + 2; index++)
        json_array_append_new (datasets, json_string (index < WIRE_WORK_DATASETS_MAX?
            "0123456789abcdef0123456789abcdef": "no fingerprint"));
    char *text = json_dumps (object, 0);
    frame_t frame = frame_of_text (text);
    assert_true (work_message_read_hello (&frame, &read, &refusal));
    assert_int_equal (read.datasets, WIRE_WORK_DATASETS_MAX);
    free (text);
    json_decref (object);
}

//  Must hold: numbers, digests, reasons and pipelines are read as they were written, the largest too.
static void
all_other_texts_are_kept (void **state)
{
    (void) state;
    static const uint64_t numbers [] = { 0, 1, UINT64_C (1) << 63, UINT64_MAX };
    refusal_t refusal;
    for (size_t index = 0; index < sizeof numbers / sizeof *numbers; index++) {
        uint64_t number = numbers [index], digests [2] = { number, ~number }, read [2];
        char *text = work_message_write_challenge (number);
        frame_t frame = frame_of_text (text);
        assert_true (work_message_read_challenge (&frame, &read [0], &refusal) && read [0] == number);
        free (text);
        text = work_message_write_answer (s_names, 2, digests);
        frame = frame_of_text (text);
        assert_true (work_message_read_answer (&frame, s_names, 2, read, &refusal));
        assert_memory_equal (read, digests, sizeof read);
        free (text);
        work_pipeline_t pipeline;
        uint32_t place = index == 3? UINT32_MAX: (uint32_t) index;
        text = work_message_write_pipeline (place, number, "[{\"op\":\"flip\"}]",
            json_pack ("[[s, b], [s, b]]", "image", 0, "mask", 1));
        frame = frame_of_text (text);
        assert_true (work_message_read_pipeline (&frame, &pipeline, &refusal));
        assert_true (pipeline.number == place && pipeline.version_bytes == number);
        char *list = json_dumps (pipeline.list, JSON_COMPACT), *fields = json_dumps (pipeline.fields,
            JSON_COMPACT);
        assert_string_equal (list, "[{\"op\":\"flip\"},{\"share\":true}]");
        assert_string_equal (fields, "[[\"image\",false],[\"mask\",true]]");
        free (list);
        free (fields);
        free (text);
        work_message_clear_pipeline (&pipeline);
    }
    //  A golden sample that the worker does not have is 0, and so is one without a digest.
    uint64_t read [2] = { 7, 7 };
    frame_t frame = frame_of_text ("{\"digests\":{\"PNG\":\"ff\",\"GIF\":\"00000000000000ff\"}}");
    assert_true (work_message_read_answer (&frame, s_names, 2, read, &refusal));
    assert_true (read [0] == 0 && read [1] == 0);
    assert_false (s_reads (WIRE_WORK_PIPELINE,
        "{\"number\":4294967296,\"version_bytes\":\"18\",\"pipeline\":[],\"fields\":[]}"));
}

//  Must hold: what a reason has that no terminal should be sent is made visible, and its end is cut off.
static void
reasons_are_made_visible (void **state)
{
    (void) state;
    char reason [2 * WORK_REASON_BYTES], read [WORK_REASON_BYTES];
    memset (reason, 'x', sizeof reason);
    memcpy (reason, "a\033[2J\xff", 6);
    reason [sizeof reason - 1] = 0;
    refusal_t refusal;
    char *text = work_message_write_refused (reason);
    frame_t frame = frame_of_text (text);
    assert_true (work_message_read_refused (&frame, read, &refusal));
    assert_true (read [0] == 'a' && !strchr (read, '\033'));
    assert_in_range (strlen (read), WORK_REASON_BYTES / 2, WORK_REASON_BYTES - 1);
    free (text);
    frame = frame_of_text ("{\"reason\":\"b\\u001b\"}");
    assert_true (work_message_read_refused (&frame, read, &refusal));
    assert_true (read [0] == 'b' && !strchr (read, '\033'));
}

static bool
s_takes_task (const wire_work_task_t *task, size_t bytes, size_t count)
{
    static const uint8_t files [100];
    wire_head_t head = { .kind = WIRE_WORK_TASK };
    frame_t frames [] = { frame_of (&head, sizeof head), frame_of (task, sizeof *task),
        frame_of (files, bytes), frame_of (files, 0) };
    wire_work_task_t read;
    refusal_t refusal = { .code = NULL };
    bool good = work_message_read_task (frames, count, &read, &refusal);
    assert_int_equal (good, refusal.code == NULL);
    if (good)
        assert_memory_equal (&read, task, sizeof read);
    return good;
}

//  Must hold: a task is taken with exactly the bytes of its files and rows, however these are divided, and of
//  files that the worker reads with the rows alone.
static void
a_task_has_the_bytes_of_its_files (void **state)
{
    (void) state;
    for (uint32_t files = 0; files <= WIRE_WORK_FILES_MAX + 1; files++)
        for (uint32_t flags = 0; flags < 4; flags++)
            for (uint64_t rows = 0; rows < 3; rows++) {
                wire_work_task_t task = { .seed = 1, .round = 2, .id = 3, .occurrence = 4, .pipeline = 5,
                    .files = files, .warnings_max = 6, .flags = flags, .dataset = 7, .checksum = 8,
                    .rows_bytes = rows };
                size_t bytes = rows;
                bool may_be = files > 0 && files <= WIRE_WORK_FILES_MAX;
                for (uint32_t file = 0; file < files && file < WIRE_WORK_FILES_MAX; file++) {
                    task.sizes [file] = file == 1? 0: file + 2;     //  one is empty
                    bytes += flags & WIRE_WORK_READ? 0: task.sizes [file];
                }
                assert_int_equal (s_takes_task (&task, bytes, 3), may_be);
                assert_false (s_takes_task (&task, bytes + 1, 3) || s_takes_task (&task, bytes, 4)
                    || s_takes_task (&task, bytes, 2) || (bytes > 0 && s_takes_task (&task, bytes - 1, 3)));
                if (!may_be)
                    continue;
                task.rows_bytes = UINT64_MAX;       //  sums that wrap are no sums
                assert_false (s_takes_task (&task, bytes, 3));
                task.rows_bytes = rows;
                task.sizes [0] += UINT64_MAX - 1;
                assert_int_equal (s_takes_task (&task, bytes, 3), (flags & WIRE_WORK_READ) != 0);
            }
    frame_t frames [] = { frame_of (NULL, 0), frame_of (frames, sizeof (wire_work_task_t) - 1),
        frame_of (NULL, 0) };
    wire_work_task_t read;
    refusal_t refusal;
    assert_false (work_message_read_task (frames, 3, &read, &refusal));
}

//  Must hold: of a result each outcome and no other is taken, the version is all frames but the rows, and the
//  rows are as long as is said.
static void
a_result_is_its_version_and_its_rows (void **state)
{
    (void) state;
    static const uint8_t bytes [20];
    for (uint16_t outcome = 0; outcome < WIRE_WORK_OUTCOMES + 2; outcome++)
        for (size_t parts = 0; parts < 4; parts++)
            for (uint64_t rows = 0; rows < 3; rows++)
                for (uint64_t told = 0; told < 3; told++) {
                    wire_work_result_t result = { .worker_ns = 11, .held_ns = 12, .outcome = outcome,
                        .flags = 13, .file = 14, .rows_bytes = told }, read;
                    frame_t frames [8] = { frame_of (bytes, 0), frame_of (&result, sizeof result) };
                    size_t count = 2;
                    uint64_t sum = 0, sum_told = 0;
                    for (size_t part = 0; part < parts; part++, count++)
                        sum += (frames [count] = frame_of (bytes, 7 + part)).size;
                    if (rows > 0)
                        frames [count++] = frame_of (bytes, rows);
                    //  Rows that are not told are a part of the version, and may be too long for it.
                    bool may_be = outcome < WIRE_WORK_OUTCOMES && count > 2
                        && (told == 0 || (parts > 0 && rows == told));
                    refusal_t refusal = { .code = NULL };
                    bool good = work_message_read_result (frames, count, &read, &sum_told, &refusal);
                    assert_int_equal (good, may_be);
                    assert_int_equal (good, refusal.code == NULL);
                    if (!good)
                        continue;
                    assert_memory_equal (&read, &result, sizeof read);
                    assert_int_equal (sum_told, sum + (told == 0? rows: 0));
                }
}

int
main (void)
{
    const struct CMUnitTest tests [] = { cmocka_unit_test (the_handshake),
        cmocka_unit_test (a_task_and_its_result), cmocka_unit_test (what_is_refused),
        cmocka_unit_test (each_key_is_needed), cmocka_unit_test (a_hello_is_kept),
        cmocka_unit_test (all_other_texts_are_kept), cmocka_unit_test (reasons_are_made_visible),
        cmocka_unit_test (a_task_has_the_bytes_of_its_files),
        cmocka_unit_test (a_result_is_its_version_and_its_rows) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
