//  What `tureen work` says to a server, which is a socket here: what threads did for a connection that is
//  gone is not said by the next one.  The time is the test's.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>
#include "clock.h"
#include "work.h"

enum { PEER_BYTES = 64, POLL_MS = 5, TURNS_MAX = 20000, HOUR_MS = 3600000 };

#define HELD_NS UINT64_C (1000000000)

typedef struct {
    void *context, *router;
    work_server_t server;               //  as the worker sees it
    work_task_t *free_tasks;
    int64_t now_ms;
    uint8_t peer [PEER_BYTES];          //  that spoke last
    size_t peer_bytes;
} play_t;

static int
s_begin (void **state)
{
    play_t *self = calloc (1, sizeof *self);
    *state = self;
    self->now_ms = HOUR_MS;
    self->context = dealer_begin_context ();
    self->router = zmq_socket (self->context, ZMQ_ROUTER);
    size_t size = sizeof self->server.address;
    work_server_init (&self->server);
    self->server.context = self->context;
    self->server.hello.processors = 1;
    return zmq_setsockopt (self->router, ZMQ_LINGER, &(int) { 0 }, sizeof (int))
        || zmq_bind (self->router, "tcp://127.0.0.1:*")
        || zmq_getsockopt (self->router, ZMQ_LAST_ENDPOINT, self->server.address, &size);
}

static int
s_end (void **state)
{
    play_t *self = *state;
    work_server_destroy (&self->server);
    zmq_close (self->router);
    dealer_end_context (&self->context);
    free (self);
    return 0;
}

static void
s_turn (play_t *self)
{
    work_server_turn (&self->server, &self->free_tasks, self->now_ms);
}

//  Turns until the worker has said something; returns of what kind.
static uint8_t
s_hear (play_t *self)
{
    zmq_pollitem_t item = { .socket = self->router, .events = ZMQ_POLLIN };
    for (int turn = 0; !(item.revents & ZMQ_POLLIN); turn++) {
        assert_true (turn < TURNS_MAX);
        s_turn (self);
        zmq_poll (&item, 1, POLL_MS);
    }
    wire_head_t head = { .kind = 0 };
    uint8_t waste;
    int got = zmq_recv (self->router, self->peer, PEER_BYTES, 0), more = 1;
    assert_in_range (got, 1, PEER_BYTES);
    self->peer_bytes = (size_t) got;
    assert_int_equal (zmq_recv (self->router, &head, sizeof head, 0), sizeof head);
    for (size_t size = sizeof more; zmq_getsockopt (self->router, ZMQ_RCVMORE, &more, &size) == 0 && more;)
        zmq_recv (self->router, &waste, sizeof waste, 0);
    return head.kind;
}

static void
s_challenge (play_t *self, uint64_t nonce)
{
    char *text = work_message_write_challenge (nonce);
    wire_head_t head = message_head (WIRE_WORK_CHALLENGE, 0, 0);
    zmq_send (self->router, self->peer, self->peer_bytes, ZMQ_SNDMORE);
    zmq_send (self->router, &head, sizeof head, ZMQ_SNDMORE);
    zmq_send (self->router, text, strlen (text), 0);
    free (text);
}

//  The golden samples, which the worker's owner takes to its threads.
static work_task_t *
s_take_build_check (play_t *self)
{
    for (int turn = 0; !self->server.build_check; turn++) {
        assert_true (turn < TURNS_MAX);
        s_turn (self);
        zmq_poll (NULL, 0, POLL_MS);
    }
    work_task_t *check = self->server.build_check;
    self->server.build_check = NULL;
    check->is_made = true;
    return check;
}

//  Guards: golden samples of a server that has fallen silent are no answer to what it asks by its next
//  connection, where they would look like another build's.
static void
test_an_answer_to_another_connection (void **state)
{
    play_t *self = *state;
    assert_int_equal (s_hear (self), WIRE_WORK_HELLO);
    s_challenge (self, 1);
    work_task_t *late = s_take_build_check (self);
    assert_true (late->nonce == 1);
    self->now_ms += HOUR_MS;            //  silence
    s_turn (self);
    assert_int_equal (self->server.state, WORK_SERVER_AWAY);
    self->now_ms = self->server.retry_ms;
    assert_int_equal (s_hear (self), WIRE_WORK_HELLO);
    s_challenge (self, 2);
    work_task_t *check = s_take_build_check (self);
    work_server_done (&self->server, late);
    self->now_ms += WIRE_WORK_BEAT_MS;
    assert_int_equal (s_hear (self), WIRE_WORK_HEARTBEAT);
    assert_true (check->nonce == 2);
    work_server_done (&self->server, check);
    assert_int_equal (s_hear (self), WIRE_WORK_ANSWER);
    work_task_destroy (&late);
    work_task_destroy (&check);
}

//  The next frame is this one; more follow it, or not.
static void
s_check_frame (play_t *self, const void *bytes, size_t count, bool has_more)
{
    zmq_msg_t frame;
    assert_int_equal (zmq_msg_init (&frame), 0);
    assert_int_equal (zmq_msg_recv (&frame, self->router, 0), count);
    assert_memory_equal (zmq_msg_data (&frame), bytes, count);
    assert_int_equal (zmq_msg_more (&frame), has_more);
    zmq_msg_close (&frame);
}

//  Guards: a version larger than a frame comes in whole frames one after the other, and then the rest of it;
//  what was learned of its file's rows comes last.  The server is told how long the worker had the task.
static void
test_a_version_of_several_frames (void **state)
{
    play_t *self = *state;
    static uint8_t version [2 * WIRE_FRAME_BYTES_MAX + 7];
    static const char rows [] = "rows";
    for (size_t index = 0; index < sizeof version; index++)
        version [index] = (uint8_t) (index * 2654435761u >> 24);
    assert_int_equal (s_hear (self), WIRE_WORK_HELLO);
    work_task_t *task = work_task_new ();
    assert_non_null (task);
    task->session = self->server.session;
    task->number = 9;
    task->version = version;
    task->version_bytes = sizeof version;
    task->rows = (uint8_t *) strdup (rows);
    task->result = (wire_work_result_t) { .outcome = WIRE_WORK_READY, .rows_bytes = sizeof rows };
    task->arrived_ns = clock_now_ns () - HELD_NS;
    uint64_t arrived_ns = task->arrived_ns;
    work_server_done (&self->server, task);
    assert_in_range (task->result.held_ns, HELD_NS, clock_now_ns () - arrived_ns);
    assert_int_equal (zmq_recv (self->router, self->peer, PEER_BYTES, 0), self->peer_bytes);
    wire_head_t head = message_head (WIRE_WORK_RESULT, 0, 9);
    s_check_frame (self, &head, sizeof head, true);
    s_check_frame (self, &task->result, sizeof task->result, true);
    s_check_frame (self, version, WIRE_FRAME_BYTES_MAX, true);
    s_check_frame (self, version + WIRE_FRAME_BYTES_MAX, WIRE_FRAME_BYTES_MAX, true);
    s_check_frame (self, version + 2 * WIRE_FRAME_BYTES_MAX, 7, true);
    s_check_frame (self, rows, sizeof rows, false);
    task->version = NULL;
    work_task_destroy (&task);
}

//  Guards: where there is no version, the server is told why.
static void
test_a_sample_without_a_version (void **state)
{
    play_t *self = *state;
    assert_int_equal (s_hear (self), WIRE_WORK_HELLO);
    work_task_t *task = work_task_new ();
    task->session = self->server.session;
    task->number = 10;
    task->version_bytes = 1000;         //  that another outcome would have had
    task->result = (wire_work_result_t) { .outcome = WIRE_WORK_BAD, .file = 1 };
    strcpy (task->what, "no image");
    work_server_done (&self->server, task);
    assert_int_equal (zmq_recv (self->router, self->peer, PEER_BYTES, 0), self->peer_bytes);
    wire_head_t head = message_head (WIRE_WORK_RESULT, 0, 10);
    s_check_frame (self, &head, sizeof head, true);
    s_check_frame (self, &task->result, sizeof task->result, true);
    s_check_frame (self, "no image", strlen ("no image"), false);
    work_task_destroy (&task);
}

static void
s_say (play_t *self, wire_kind_t kind, uint64_t tag, const void *first, size_t first_bytes, const char *last)
{
    wire_head_t head = message_head (kind, 0, tag);
    zmq_send (self->router, self->peer, self->peer_bytes, ZMQ_SNDMORE);
    zmq_send (self->router, &head, sizeof head, ZMQ_SNDMORE);
    zmq_send (self->router, first, first_bytes, last? ZMQ_SNDMORE: 0);
    if (last)
        zmq_send (self->router, last, strlen (last), 0);
}

static void
s_say_pipeline (play_t *self, uint32_t number, uint64_t version_bytes)
{
    static const char list [] = "[{\"op\":\"decode\",\"fields\":["
        "{\"field\":\"one\",\"as\":\"bytes\",\"length\":4}]}]";
    char *text = work_message_write_pipeline (number, version_bytes, list,
        json_pack ("[[s, b], [s, b]]", "image", 0, "one", 0));
    s_say (self, WIRE_WORK_PIPELINE, 0, text, strlen (text), NULL);
    free (text);
}

//  The task that came next; NULL: the worker has given up the server.
static work_task_t *
s_take_task (play_t *self)
{
    work_task_t *task;
    for (int turn = 0; !(task = work_server_take (&self->server))
            && self->server.state != WORK_SERVER_REFUSED; turn++) {
        assert_true (turn < TURNS_MAX);
        s_turn (self);
        zmq_poll (NULL, 0, POLL_MS);
    }
    return task;
}

//  A server that gives tasks of two pipelines.
static void
s_begin_tasks (play_t *self)
{
    assert_int_equal (s_hear (self), WIRE_WORK_HELLO);
    s_say_pipeline (self, 1, 4);
    s_say_pipeline (self, 2, 4);
    for (uint32_t number = 1; number <= 2; number++) {
        wire_work_task_t wire = { .seed = 5, .round = 6, .id = 7 + number, .occurrence = 8, .files = 1,
            .pipeline = number, .warnings_max = 9, .sizes = { 4 } };
        s_say (self, WIRE_WORK_TASK, 20 + number, &wire, sizeof wire, number == 1? "abcd": "wxyz");
    }
    for (uint32_t number = 1; number <= 2; number++) {
        work_task_t *task = s_take_task (self);
        assert_non_null (task);
        assert_int_equal (task->number, 20 + number);
        assert_int_equal (task->session, self->server.session);
        assert_int_equal (task->wire.id, 7 + number);
        assert_int_equal (task->wire.warnings_max, 9);
        assert_ptr_equal (task->pipeline, self->server.pipelines [number].pipeline);
        assert_null (task->catalogue);
        assert_int_equal (task->version_bytes, 4);
        assert_int_equal (zmq_msg_size (&task->bytes), 4);
        assert_memory_equal (zmq_msg_data (&task->bytes), number == 1? "abcd": "wxyz", 4);
        work_task_destroy (&task);
    }
}

//  Guards: tasks come in their order, each whole and with its own pipeline; a pipeline that was not sent, and
//  has the place of another one, ends the work for that server.
static void
test_tasks_that_come (void **state)
{
    play_t *self = *state;
    s_begin_tasks (self);
    wire_work_task_t wire = { .files = 1, .pipeline = 1 + WIRE_WORK_PIPELINES_MAX, .sizes = { 4 } };
    s_say (self, WIRE_WORK_TASK, 23, &wire, sizeof wire, "abcd");
    assert_null (s_take_task (self));
}

//  Guards: so does a pipeline that makes versions of another size here.
static void
test_a_pipeline_of_another_build (void **state)
{
    play_t *self = *state;
    s_begin_tasks (self);
    s_say_pipeline (self, 3, 5);
    wire_work_task_t wire = { .files = 1, .pipeline = 3, .sizes = { 4 } };
    s_say (self, WIRE_WORK_TASK, 23, &wire, sizeof wire, "abcd");
    assert_null (s_take_task (self));
}

//  Guards: so does a task of a data set that the worker does not have.
static void
test_a_task_of_another_data_set (void **state)
{
    play_t *self = *state;
    s_begin_tasks (self);
    wire_work_task_t wire = { .files = 1, .pipeline = 1, .flags = WIRE_WORK_READ, .sizes = { 4 } };
    s_say (self, WIRE_WORK_TASK, 23, &wire, sizeof wire, "");
    assert_null (s_take_task (self));
}

//  Guards: an error that passes is no end: the worker comes back; any other error is.
static void
test_errors_that_pass (void **state)
{
    static const struct { const char *code; work_server_state_t state; } cases [] = {
        { "busy", WORK_SERVER_AWAY }, { "stopping", WORK_SERVER_AWAY },
        { "unknown_worker", WORK_SERVER_AWAY }, { "forbidden", WORK_SERVER_REFUSED }
    };
    play_t *self = *state;
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        char text [100];
        snprintf (text, sizeof text, "{\"error\":\"%s\",\"message\":\"why\"}", cases [index].code);
        assert_int_equal (s_hear (self), WIRE_WORK_HELLO);
        s_say (self, WIRE_ERROR, 0, text, strlen (text), NULL);
        for (int turn = 0; self->server.state == WORK_SERVER_ASKED; turn++) {
            assert_true (turn < TURNS_MAX);
            s_turn (self);
            zmq_poll (NULL, 0, POLL_MS);
        }
        assert_int_equal (self->server.state, cases [index].state);
        self->now_ms = self->server.retry_ms;
    }
    s_turn (self);
    assert_int_equal (self->server.state, WORK_SERVER_REFUSED);
}

//  The next message has this body, and the worker's peer as its sender; until then it turns.
static void
s_hear_text (play_t *self, wire_kind_t kind, char *text)
{
    zmq_pollitem_t item = { .socket = self->router, .events = ZMQ_POLLIN };
    for (int turn = 0; !(item.revents & ZMQ_POLLIN); turn++) {
        assert_true (turn < TURNS_MAX);
        s_turn (self);
        zmq_poll (&item, 1, POLL_MS);
    }
    int got = zmq_recv (self->router, self->peer, PEER_BYTES, 0);
    assert_in_range (got, 1, PEER_BYTES);
    self->peer_bytes = (size_t) got;
    wire_head_t head = message_head (kind, 0, 0);
    s_check_frame (self, &head, sizeof head, text != NULL);
    if (text)
        s_check_frame (self, text, strlen (text), false);
    free (text);
}

static void
s_turn_until (play_t *self, work_server_state_t state)
{
    for (int turn = 0; self->server.state != state; turn++) {
        assert_true (turn < TURNS_MAX);
        s_turn (self);
        zmq_poll (NULL, 0, POLL_MS);
    }
}

//  Must hold: the worker names itself and its data sets, answers the server's number with each golden sample
//  under its name, beats in time and not before, and says goodbye once it was let in; a refusal is for good.
static void
test_the_handshake_word_by_word (void **state)
{
    play_t *self = *state;
    const char *names [BUILD_CHECK_SAMPLES];
    work_hello_t *hello = &self->server.hello;
    *hello = (work_hello_t) { .processors = 3, .name = "box", .libraries = "libjpeg 1", .datasets = 2,
        .fingerprints = { "00112233445566778899aabbccddeeff", "ffeeddccbbaa99887766554433221100" } };
    s_hear_text (self, WIRE_WORK_HELLO, work_message_write_hello (hello));
    assert_int_equal (self->server.state, WORK_SERVER_ASKED);
    work_server_goodbye (&self->server);            //  it was not let in: no server listens yet
    assert_true (self->server.has_said_goodbye);
    self->server.has_said_goodbye = false;
    s_challenge (self, UINT64_MAX);
    work_task_t *check = s_take_build_check (self);
    assert_true (check->nonce == UINT64_MAX && check->is_build_check);
    for (size_t index = 0; index < BUILD_CHECK_SAMPLES; index++) {
        names [index] = build_check_name (index);
        check->digests [index] = 1000 + index;
    }
    work_server_done (&self->server, check);
    s_hear_text (self, WIRE_WORK_ANSWER, work_message_write_answer (names, BUILD_CHECK_SAMPLES,
        check->digests));
    work_task_destroy (&check);
    wire_head_t head = message_head (WIRE_WORK_WELCOME, 0, 0);
    zmq_send (self->router, self->peer, self->peer_bytes, ZMQ_SNDMORE);
    zmq_send (self->router, &head, sizeof head, 0);
    s_turn_until (self, WORK_SERVER_WORKING);
    int64_t due_ms = work_server_wakeup (&self->server);
    assert_in_range (due_ms - self->now_ms, 1, WIRE_WORK_BEAT_MS);
    self->now_ms = due_ms - 1;
    s_turn (self);
    work_server_goodbye (&self->server);
    s_hear_text (self, WIRE_WORK_GOODBYE, NULL);    //  and no heartbeat before it
    self->now_ms = due_ms;
    s_hear_text (self, WIRE_WORK_HEARTBEAT, NULL);
    assert_int_equal (work_server_wakeup (&self->server), due_ms + WIRE_WORK_BEAT_MS);
    head = message_head (WIRE_WORK_GOODBYE, 0, 0);
    zmq_send (self->router, self->peer, self->peer_bytes, ZMQ_SNDMORE);
    zmq_send (self->router, &head, sizeof head, 0);
    for (int turn = 0; !self->server.has_said_goodbye; turn++) {
        assert_true (turn < TURNS_MAX);
        s_turn (self);
        zmq_poll (NULL, 0, POLL_MS);
    }
    char *text = work_message_write_refused ("no");
    s_say (self, WIRE_WORK_REFUSED, 0, text, strlen (text), NULL);
    free (text);
    s_turn_until (self, WORK_SERVER_REFUSED);
    assert_true (work_server_wakeup (&self->server) == INT64_MAX);
}

//  Must hold: files of the worker's own are read from the data set that the task names, and nothing comes
//  with the task.
static void
test_a_task_of_the_workers_own_files (void **state)
{
    play_t *self = *state;
    catalogue_t *catalogues [] = { (catalogue_t *) &catalogues [0], (catalogue_t *) &catalogues [1] };
    self->server.catalogues = catalogues;
    self->server.hello.datasets = 2;
    s_begin_tasks (self);
    for (uint32_t dataset = 0; dataset < 2; dataset++) {
        wire_work_task_t wire = { .files = 1, .pipeline = 2, .flags = WIRE_WORK_READ, .dataset = dataset,
            .checksum = 77, .sizes = { 4 } };
        s_say (self, WIRE_WORK_TASK, 30 + dataset, &wire, sizeof wire, "");
        work_task_t *task = s_take_task (self);
        assert_non_null (task);
        assert_ptr_equal (task->catalogue, catalogues [dataset]);
        assert_int_equal (task->wire.checksum, 77);
        work_task_destroy (&task);
    }
    wire_work_task_t wire = { .files = 1, .pipeline = 2, .flags = WIRE_WORK_READ, .dataset = 2,
        .sizes = { 4 } };
    s_say (self, WIRE_WORK_TASK, 33, &wire, sizeof wire, "");
    assert_null (s_take_task (self));
}

//  Must hold: a pipeline is run with the server's fields, in their order and each as what it is; fields that
//  cannot be end the work for that server.
static void
test_the_fields_of_a_pipeline (void **state)
{
    static const struct { const char *fields; bool may_be; } cases [] = {
        { "[[\"image\",false],[\"one\",false]]", true }, { "[]", false },
        { "[[\"image\",false]]", false }, { "[[\"image\"],[\"one\",false]]", false },
        { "[[\"image\",0],[\"one\",false]]", false }, { "[[7,false],[\"one\",false]]", false },
        { "[[\"image\",false],[\"one\",false],[\"c\",false],[\"d\",false],[\"e\",false],[\"f\",false],"
            "[\"g\",false],[\"h\",false],[\"i\",false]]", false } };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        play_t *self = *state;
        assert_int_equal (s_hear (self), WIRE_WORK_HELLO);
        char *text = work_message_write_pipeline (1, 4, "[{\"op\":\"decode\",\"fields\":["
            "{\"field\":\"one\",\"as\":\"bytes\",\"length\":4}]}]", json_loads (cases [index].fields, 0,
            NULL));
        s_say (self, WIRE_WORK_PIPELINE, 0, text, strlen (text), NULL);
        free (text);
        wire_work_task_t wire = { .files = 1, .pipeline = 1, .sizes = { 4 } };
        s_say (self, WIRE_WORK_TASK, 1, &wire, sizeof wire, "abcd");
        work_task_t *task = s_take_task (self);
        if ((task != NULL) != cases [index].may_be)
            fail_msg ("fields %s", cases [index].fields);
        if (task)
            assert_int_equal (pipeline_file (task->pipeline, 0), 1);
        work_task_destroy (&task);
        s_end (state);
        s_begin (state);
    }
}

//  Must hold: a mask is prepared as a mask, which has fewer channels, and an image as an image.
static void
test_a_mask_is_a_mask (void **state)
{
    static const char text [] = "[{\"op\":\"decode\",\"as\":\"image\",\"fields\":[\"image\",\"one\"]},"
        "{\"op\":\"resize\",\"size\":[2,3]}]";
    pipeline_source_t source = { .fields = { { "image", false }, { "one", true } }, .count = 2 };
    const pipeline_t *pipeline;
    char error [512];
    json_t *list = json_loads (text, 0, NULL);
    json_array_append_new (list, json_pack ("{s:b}", "share", 1));
    if (pipeline_new (&pipeline, list, &source, NULL, 0, error, sizeof error))
        fail_msg ("%s", error);
    uint64_t bytes = pipeline_version_bytes (pipeline);
    for (int is_mask = 0; is_mask < 2; is_mask++) {
        play_t *self = *state;
        assert_int_equal (s_hear (self), WIRE_WORK_HELLO);
        char *told = work_message_write_pipeline (1, bytes, text, json_pack ("[[s, b], [s, b]]", "image", 0,
            "one", is_mask));
        s_say (self, WIRE_WORK_PIPELINE, 0, told, strlen (told), NULL);
        free (told);
        wire_work_task_t wire = { .files = 2, .pipeline = 1, .sizes = { 2, 2 } };
        s_say (self, WIRE_WORK_TASK, 1, &wire, sizeof wire, "abcd");
        work_task_t *task = s_take_task (self);
        assert_int_equal (task != NULL, is_mask);
        if (task)
            assert_string_equal (pipeline_shared_text (task->pipeline), pipeline_shared_text (pipeline));
        work_task_destroy (&task);
        s_end (state);
        s_begin (state);
    }
    pipeline_destroy (&pipeline);
    json_decref (list);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_an_answer_to_another_connection, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_a_version_of_several_frames, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_a_sample_without_a_version, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_errors_that_pass, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_the_handshake_word_by_word, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_a_task_of_the_workers_own_files, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_the_fields_of_a_pipeline, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_a_mask_is_a_mask, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_tasks_that_come, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_a_pipeline_of_another_build, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_a_task_of_another_data_set, s_begin, s_end)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
