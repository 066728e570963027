/*  Which peers the client socket lets in, as ZeroMQ asks (ZAP, RFC 27) and as it answers; and the log.  */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "scratch.h"

#include <zmq.h>
#include "client_socket.h"

enum { PATIENCE_MS = 60000, FRAME_BYTES = 256, REQUEST_FRAMES = 7, NOW_MS = 1000000, KEY_CHARS = 40 };

//  ---- the keys and the tenants

static char s_server_public [KEY_CHARS + 1], s_server_secret [KEY_CHARS + 1];
static char s_let_in [KEY_CHARS + 1];           //  the public key that has a tenant
static int s_keys, s_tenants;                   //  stand for them
static client_keys_grant_t s_disbanded = { .label = "laptop", .tenant = "disbanded" };

const char *
client_keys_server_secret (const client_keys_t *self)
{
    assert_ptr_equal (self, &s_keys);
    return s_server_secret;
}

const client_keys_grant_t *
client_keys_find (const client_keys_t *self, const char *key)
{
    assert_ptr_equal (self, &s_keys);
    return strcmp (key, s_disbanded.key) == 0? &s_disbanded: NULL;
}

bool
tenants_caller (const tenants_t *self, uid_t uid, const char *key, caller_t *caller)
{
    assert_ptr_equal (self, &s_tenants);
    assert_int_equal (uid, (uid_t) -1);
    *caller = (caller_t) { .uid = uid };
    return strcmp (key, s_let_in) == 0;
}

//  ---- the client socket's context, in which ZeroMQ asks

static void *s_context;

void *__real_zmq_ctx_new (void);
void *__wrap_zmq_ctx_new (void);
void *
__wrap_zmq_ctx_new (void)
{
    return s_context = __real_zmq_ctx_new ();
}

//  ---- what every case begins and ends with

typedef struct {
    scratch_folder_t scratch;
    log_t log;
    char log_text [8192];
    client_socket_t *client_socket;
    void *asker;                                //  a DEALER in place of ZeroMQ's thread
} scene_t;

static void
s_set (void *socket, int option, int value)
{
    assert_int_equal (zmq_setsockopt (socket, option, &value, sizeof value), 0);
}

static int
s_setup (void **state)
{
    scene_t *scene = calloc (1, sizeof *scene);
    char secret [KEY_CHARS + 1], error [512];
    *state = scene;
    if (!scene || !scratch_begin (&scene->scratch))
        return -1;
    scene->log.descriptor = open ("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    assert_true (scene->log.descriptor >= 0);
    assert_int_equal (zmq_curve_keypair (s_server_public, s_server_secret), 0);
    assert_int_equal (zmq_curve_keypair (s_let_in, secret), 0);
    assert_int_equal (zmq_curve_keypair (s_disbanded.key, secret), 0);
    client_socket_options_t options = { .tcp = "tcp://127.0.0.1:*",
        .keys = (const client_keys_t *) (const void *) &s_keys,
        .tenants = (const tenants_t *) (const void *) &s_tenants, .log = &scene->log };
    if (client_socket_open (&scene->client_socket, &options, error, sizeof error))
        fail_msg ("%s", error);
    scene->asker = zmq_socket (s_context, ZMQ_DEALER);
    s_set (scene->asker, ZMQ_LINGER, 0);
    assert_int_equal (zmq_connect (scene->asker, "inproc://zeromq.zap.01"), 0);
    return 0;
}

static int
s_teardown (void **state)
{
    scene_t *scene = *state;
    zmq_close (scene->asker);
    client_socket_destroy (&scene->client_socket);
    assert_null (scene->client_socket);
    close (scene->log.descriptor);
    bool clean = scratch_end (&scene->scratch);
    free (scene);
    return clean? 0: -1;
}

static const char *
s_log (scene_t *scene)
{
    ssize_t size = pread (scene->log.descriptor, scene->log_text, sizeof scene->log_text - 1, 0);
    scene->log_text [size > 0? size: 0] = 0;
    return scene->log_text;
}

static void
s_assert_counts (const scene_t *scene, int let_in, int refused)
{
    json_t *status = client_socket_status (scene->client_socket);
    assert_int_equal (json_integer_value (json_object_get (status, "let_in")), let_in);
    assert_int_equal (json_integer_value (json_object_get (status, "refused")), refused);
    json_decref (status);
}

//  ---- questions

typedef struct {
    size_t size;
    uint8_t bytes [FRAME_BYTES];
} zap_t;

static zap_t
s_frame (const char *text)
{
    zap_t frame = { .size = strlen (text) };
    memcpy (frame.bytes, text, frame.size);
    return frame;
}

//  What ZeroMQ sends for a peer that has proved to have the secret of this key (Z85).
static void
s_fill (zap_t frames [REQUEST_FRAMES], const char *key)
{
    static const char *const texts [REQUEST_FRAMES - 1] =
        { "1.0", "17", "tureen", "10.1.2.3", "", "CURVE" };
    for (size_t index = 0; index < REQUEST_FRAMES - 1; index++)
        frames [index] = s_frame (texts [index]);
    frames [REQUEST_FRAMES - 1].size = CERTIFICATE_KEY_BYTES;
    assert_non_null (zmq_z85_decode (frames [REQUEST_FRAMES - 1].bytes, key));
}

static void
s_send (const scene_t *scene, const zap_t *frames, size_t count)
{
    assert_int_equal (zmq_send (scene->asker, "", 0, ZMQ_SNDMORE), 0);
    for (size_t index = 0; index < count; index++)
        assert_int_equal (zmq_send (scene->asker, frames [index].bytes, frames [index].size,
            index + 1 < count? ZMQ_SNDMORE: 0), frames [index].size);
}

//  An answer, whole, if one has come: its request, its code and its user.
typedef struct {
    char request [FRAME_BYTES + 1], code [FRAME_BYTES + 1], user [FRAME_BYTES + 1];
} answer_t;

static bool
s_receive (const scene_t *scene, answer_t *answer)
{
    char frames [REQUEST_FRAMES] [FRAME_BYTES + 1];
    size_t count = 0;
    for (int more = 1; more; count++) {
        size_t length = sizeof more;
        assert_true (count < REQUEST_FRAMES);
        int size = zmq_recv (scene->asker, frames [count], FRAME_BYTES, ZMQ_DONTWAIT);
        if (size < 0)
            return false;
        frames [count] [size] = 0;
        assert_int_equal (zmq_getsockopt (scene->asker, ZMQ_RCVMORE, &more, &length), 0);
    }
    assert_int_equal (count, 7);                //  REQ's delimiter, then ZAP's six
    assert_string_equal (frames [0], "");
    assert_string_equal (frames [1], "1.0");
    strcpy (answer->request, frames [2]);
    strcpy (answer->code, frames [3]);
    strcpy (answer->user, frames [5]);
    return true;
}

static answer_t
s_ask (scene_t *scene, const zap_t *frames, size_t count, int64_t now_ms)
{
    //  Both ends are this thread's: what is sent is there at once.
    answer_t answer;
    s_send (scene, frames, count);
    client_socket_answer (scene->client_socket, now_ms);
    assert_true (s_receive (scene, &answer));
    return answer;
}

static answer_t
s_ask_for (scene_t *scene, const char *key, int64_t now_ms)
{
    zap_t frames [REQUEST_FRAMES];
    s_fill (frames, key);
    return s_ask (scene, frames, REQUEST_FRAMES, now_ms);
}

//  ---- cases

static void
a_key_with_a_tenant_is_let_in (void **state)
{
    scene_t *scene = *state;
    answer_t answer = s_ask_for (scene, s_let_in, NOW_MS);
    assert_string_equal (answer.request, "17");
    assert_string_equal (answer.code, "200");
    assert_string_equal (answer.user, s_let_in);
    s_assert_counts (scene, 1, 0);
    answer = s_ask_for (scene, s_server_public, NOW_MS);
    assert_string_equal (answer.code, "400");
    assert_string_equal (answer.user, "");
    s_assert_counts (scene, 1, 1);
}

//  Must hold: what is no question about a key of this server's is answered no, and the next one is answered
//  as ever; it is no key that the log could name.
static void
other_questions_are_answered_no (void **state)
{
    scene_t *scene = *state;
    static const struct { size_t frame; const char *text; } wrong [] = { { 0, "2.0" }, { 2, "other" },
        { 2, "" }, { 5, "PLAIN" }, { 5, "NULL" }, { 6, "" }, { 6, "0123456789012345678901234567890" },
        { 6, "012345678901234567890123456789012" } };
    zap_t frames [REQUEST_FRAMES + 2];
    for (size_t index = 0; index < sizeof wrong / sizeof *wrong; index++) {
        s_fill (frames, s_let_in);
        frames [wrong [index].frame] = s_frame (wrong [index].text);
        answer_t answer = s_ask (scene, frames, REQUEST_FRAMES, NOW_MS);
        assert_string_equal (answer.code, "400");
        assert_string_equal (answer.user, "");
    }
    s_fill (frames, s_let_in);
    frames [REQUEST_FRAMES] = frames [REQUEST_FRAMES + 1] = s_frame ("more");
    for (size_t count = 1; count <= REQUEST_FRAMES + 2; count++) {
        answer_t answer = s_ask (scene, frames, count, NOW_MS);
        assert_string_equal (answer.code, count == REQUEST_FRAMES? "200": "400");
        assert_string_equal (answer.request, count == 1? "": "17");
    }
    s_assert_counts (scene, 1, 0);
    assert_string_equal (s_log (scene), "");
}

//  Must hold: without a key only the socket that the kernel guards is let in, by its own name: not a peer
//  that came by tcp and says that it needs none.
static void
without_a_key_only_local_users (void **state)
{
    scene_t *scene = *state;
    static const char *const versions [] = { "1.0", "2.0" },
        *const domains [] = { "local", "tureen", "", "other" },
        *const mechanisms [] = { "NULL", "PLAIN", "CURVE", "" };
    for (size_t version = 0; version < 2; version++)
        for (size_t domain = 0; domain < 4; domain++)
            for (size_t mechanism = 0; mechanism < 4; mechanism++) {
                zap_t frames [REQUEST_FRAMES];
                s_fill (frames, s_let_in);
                frames [0] = s_frame (versions [version]);
                frames [2] = s_frame (domains [domain]);
                frames [5] = s_frame (mechanisms [mechanism]);
                bool is_local = version + domain + mechanism == 0;
                answer_t answer = s_ask (scene, frames, REQUEST_FRAMES - 1, NOW_MS);
                assert_string_equal (answer.code, is_local? "200": "400");
                assert_string_equal (answer.user, is_local? CALLER_LOCAL: "");
            }
    s_assert_counts (scene, 0, 0);
}

static size_t
s_lines (scene_t *scene)
{
    size_t lines = 0;
    for (const char *at = s_log (scene); (at = strchr (at, '\n')); at++)
        lines++;
    return lines;
}

//  Must hold: a line a second, that counts what it leaves out, once.
static void
refusals_take_a_line_a_second (void **state)
{
    scene_t *scene = *state;
    s_ask_for (scene, s_server_public, NOW_MS);
    assert_non_null (strstr (s_log (scene), "address=10.1.2.3 key="));
    assert_non_null (strstr (s_log (scene), ": a key that is not let in is refused\n"));
    for (int count = 0; count < 3; count++)
        s_ask_for (scene, s_server_public, NOW_MS + 999);
    assert_int_equal (s_lines (scene), 1);
    s_ask_for (scene, s_server_public, NOW_MS + 1000);
    assert_int_equal (s_lines (scene), 2);
    assert_non_null (strstr (s_log (scene), "is refused (and 3 more since the last line)\n"));
    s_ask_for (scene, s_disbanded.key, NOW_MS + 2000);
    assert_int_equal (s_lines (scene), 3);
    assert_non_null (strstr (s_log (scene),
        "the key 'laptop' is refused: this server has no tenant 'disbanded'\n"));
    s_assert_counts (scene, 0, 6);
}

//  Must hold: a flood of handshakes does not keep the thread from its other work.
static void
a_turn_has_an_end (void **state)
{
    scene_t *scene = *state;
    zap_t frames [REQUEST_FRAMES];
    answer_t answer;
    s_fill (frames, s_let_in);
    for (int count = 0; count < CLIENT_SOCKET_ANSWERS_A_TURN + 1; count++)
        s_send (scene, frames, REQUEST_FRAMES);
    client_socket_answer (scene->client_socket, NOW_MS);
    s_assert_counts (scene, CLIENT_SOCKET_ANSWERS_A_TURN, 0);
    s_ask_for (scene, s_let_in, NOW_MS);
    while (s_receive (scene, &answer));
    client_socket_answer (scene->client_socket, NOW_MS);
    s_assert_counts (scene, CLIENT_SOCKET_ANSWERS_A_TURN + 2, 0);
}

//  A client of this key; the server's own must be known to it.
static void *
s_client (const scene_t *scene, void *context, const char *public_key, const char *secret_key)
{
    char address [120];
    size_t size = sizeof address;
    assert_int_equal (zmq_getsockopt (client_socket_router (scene->client_socket), ZMQ_LAST_ENDPOINT,
        address, &size), 0);
    void *client = zmq_socket (context, ZMQ_DEALER);
    s_set (client, ZMQ_LINGER, 0);
    assert_int_equal (zmq_setsockopt (client, ZMQ_CURVE_SERVERKEY, s_server_public, KEY_CHARS + 1), 0);
    assert_int_equal (zmq_setsockopt (client, ZMQ_CURVE_PUBLICKEY, public_key, KEY_CHARS + 1), 0);
    assert_int_equal (zmq_setsockopt (client, ZMQ_CURVE_SECRETKEY, secret_key, KEY_CHARS + 1), 0);
    assert_int_equal (zmq_connect (client, address), 0);
    assert_int_equal (zmq_send (client, public_key, KEY_CHARS, 0), KEY_CHARS);
    return client;
}

//  Must hold: of two clients that shake hands with the real socket, one comes in, under the name of its key.
static void
only_its_client_comes_in (void **state)
{
    scene_t *scene = *state;
    char stranger [KEY_CHARS + 1], secret [KEY_CHARS + 1], let_in_secret [KEY_CHARS + 1];
    assert_int_equal (zmq_curve_keypair (stranger, secret), 0);
    assert_int_equal (zmq_curve_keypair (s_let_in, let_in_secret), 0);
    void *context = __real_zmq_ctx_new (), *other = s_client (scene, context, stranger, secret);
    json_int_t refused = 0, let_in = 0;
    for (int waited = 0; waited < PATIENCE_MS && refused + let_in == 0; waited++) {
        client_socket_answer (scene->client_socket, NOW_MS);
        json_t *status = client_socket_status (scene->client_socket);
        refused = json_integer_value (json_object_get (status, "refused"));
        let_in = json_integer_value (json_object_get (status, "let_in"));
        json_decref (status);
        poll (NULL, 0, 1);
    }
    assert_true (refused > 0 && let_in == 0);
    void *client = s_client (scene, context, s_let_in, let_in_secret);
    zmq_msg_t message;
    zmq_msg_init (&message);
    int size = -1;
    for (int waited = 0; waited < PATIENCE_MS && size < 0; waited++) {
        client_socket_answer (scene->client_socket, NOW_MS);
        size = zmq_msg_recv (&message, client_socket_router (scene->client_socket), ZMQ_DONTWAIT);
        if (size < 0)
            poll (NULL, 0, 1);
    }
    assert_int_equal (size, 5);
    assert_int_equal (zmq_msg_recv (&message, client_socket_router (scene->client_socket), 0), KEY_CHARS);
    assert_memory_equal (zmq_msg_data (&message), s_let_in, KEY_CHARS);
    assert_string_equal (zmq_msg_gets (&message, "User-Id"), s_let_in);
    zmq_msg_close (&message);
    zmq_close (client);
    zmq_close (other);
    zmq_ctx_term (context);
}

//  Must hold: without keys ZeroMQ asks nothing; and a place where another listens is named.
static void
without_keys (void **state)
{
    scene_t *scene = *state;
    char text [120], error [512];
    snprintf (text, sizeof text, "ipc://%s/none/socket", scene->scratch.path);
    client_socket_options_t options = { .ipc = text, .tenants = (const tenants_t *) (const void *) &s_tenants,
        .log = &scene->log };
    client_socket_t *client_socket;
    assert_true (client_socket_open (&client_socket, &options, error, sizeof error) < 0);
    assert_null (client_socket);
    assert_non_null (strstr (error, "cannot listen on ipc://"));
    assert_non_null (strstr (error, "choose another --listen"));
    snprintf (text, sizeof text, "ipc://%s/socket", scene->scratch.path);
    assert_int_equal (client_socket_open (&client_socket, &options, error, sizeof error), 0);
    assert_string_equal (error, "");
    assert_null (client_socket_questions (client_socket));
    client_socket_answer (client_socket, NOW_MS);
    json_t *status = client_socket_status (client_socket);
    assert_true (json_is_null (status));
    json_decref (status);
    client_socket_destroy (&client_socket);
    assert_null (client_socket);
}

//  Sends "hello" over ZMTP 3.0 as a peer that claims to be root with an admitted key.  Returns the socket.
static int
s_liar (scene_t *scene, const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf (address.sun_path, sizeof address.sun_path, "%s", path);
    uint8_t bytes [512] = { 0xff, [9] = 0x7f, 3, 0, 'N', 'U', 'L', 'L' };
    size_t size = 64 + 2;               //  greeting; then a command: flags and size
    const char *properties [] = { "Socket-Type", "DEALER", "Identity", "", "User-Id", s_let_in,
        "Peer-Address", "localhost:0:0:0" };
    memcpy (&bytes [size], "\5READY", 6);
    size += 6;
    for (size_t index = 0; index < sizeof properties / sizeof properties [0]; index++) {
        size_t length = strlen (properties [index]);
        size += index % 2? 3: 0;        //  a value's length has four bytes
        bytes [size++] = (uint8_t) length;
        memcpy (&bytes [size], properties [index], length);
        size += length;
    }
    bytes [64] = 4;
    bytes [65] = (uint8_t) (size - 66);
    int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal (connect (fd, (struct sockaddr *) &address, sizeof address), 0);
    assert_int_equal (send (fd, bytes, size, MSG_NOSIGNAL), size);
    //  Behind the socket's greeting comes its own command, when it has answered what ZeroMQ asks.
    for (size_t received = 0, waited = 0; received <= 64; waited++) {
        assert_true (waited < PATIENCE_MS);
        client_socket_answer (scene->client_socket, NOW_MS);
        ssize_t more = recv (fd, bytes, sizeof bytes, MSG_DONTWAIT);
        received += more > 0? (size_t) more: 0;
        poll (NULL, 0, 1);
    }
    assert_int_equal (send (fd, "\0\5hello", 7, MSG_NOSIGNAL), 7);
    return fd;
}

//  The next message, without its routing id; what ZeroMQ asks meanwhile is answered.
static void
s_next_message (scene_t *scene, zmq_msg_t *message)
{
    int size = -1;
    zmq_msg_init (message);
    for (int waited = 0; waited < PATIENCE_MS && size < 0; waited++) {
        client_socket_answer (scene->client_socket, NOW_MS);
        size = zmq_msg_recv (message, client_socket_router (scene->client_socket), ZMQ_DONTWAIT);
        if (size < 0)
            poll (NULL, 0, 1);
    }
    assert_int_equal (size, 5);
    assert_true (zmq_msg_recv (message, client_socket_router (scene->client_socket), 0) > 0);
}

//  Must hold: with users on ipc and keys on tcp, each message says truly by which of the two it came, and no
//  claim of its peer's changes that.
static void
users_come_beside_keys (void **state)
{
    scene_t *scene = *state;
    char path [108], text [120], expected [64], secret [KEY_CHARS + 1], error [512];
    zmq_close (scene->asker);
    client_socket_destroy (&scene->client_socket);
    assert_int_equal (zmq_curve_keypair (s_let_in, secret), 0);
    snprintf (path, sizeof path, "%s/socket", scene->scratch.path);
    snprintf (text, sizeof text, "ipc://%s", path);
    client_socket_options_t options = { .ipc = text, .tcp = "tcp://127.0.0.1:*",
        .keys = (const client_keys_t *) (const void *) &s_keys,
        .tenants = (const tenants_t *) (const void *) &s_tenants, .log = &scene->log };
    if (client_socket_open (&scene->client_socket, &options, error, sizeof error))
        fail_msg ("%s", error);
    scene->asker = zmq_socket (s_context, ZMQ_DEALER);

    zmq_msg_t message;
    int liar = s_liar (scene, path);
    s_next_message (scene, &message);
    assert_int_equal (zmq_msg_size (&message), 5);
    assert_string_equal (zmq_msg_gets (&message, "User-Id"), CALLER_LOCAL);
    snprintf (expected, sizeof expected, "localhost:%u:%u:%d", geteuid (), getegid (), getpid ());
    assert_string_equal (zmq_msg_gets (&message, "Peer-Address"), expected);
    zmq_msg_close (&message);
    s_assert_counts (scene, 0, 0);

    void *context = __real_zmq_ctx_new (), *client = s_client (scene, context, s_let_in, secret);
    s_next_message (scene, &message);
    assert_string_equal (zmq_msg_gets (&message, "User-Id"), s_let_in);
    zmq_msg_close (&message);
    s_assert_counts (scene, 1, 0);

    //  Without a key, tcp lets no peer in.
    char address [120];
    size_t size = sizeof address;
    assert_int_equal (zmq_getsockopt (client_socket_router (scene->client_socket), ZMQ_LAST_ENDPOINT,
        address, &size), 0);
    void *plain = zmq_socket (context, ZMQ_DEALER);
    s_set (plain, ZMQ_LINGER, 0);
    assert_int_equal (zmq_socket_monitor (plain, "inproc://plain", ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL
        | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_DISCONNECTED
        | ZMQ_EVENT_HANDSHAKE_SUCCEEDED), 0);
    void *events = zmq_socket (context, ZMQ_PAIR);
    assert_int_equal (zmq_connect (events, "inproc://plain"), 0);
    assert_int_equal (zmq_connect (plain, address), 0);
    uint16_t event;
    assert_true (zmq_recv (events, &event, sizeof event, 0) > 0);
    assert_int_not_equal (event, ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
    zmq_close (events);
    zmq_close (plain);
    zmq_close (client);
    zmq_ctx_term (context);
    close (liar);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (a_key_with_a_tenant_is_let_in, s_setup, s_teardown),
        cmocka_unit_test_setup_teardown (other_questions_are_answered_no, s_setup, s_teardown),
        cmocka_unit_test_setup_teardown (without_a_key_only_local_users, s_setup, s_teardown),
        cmocka_unit_test_setup_teardown (refusals_take_a_line_a_second, s_setup, s_teardown),
        cmocka_unit_test_setup_teardown (a_turn_has_an_end, s_setup, s_teardown),
        cmocka_unit_test_setup_teardown (only_its_client_comes_in, s_setup, s_teardown),
        cmocka_unit_test_setup_teardown (without_keys, s_setup, s_teardown),
        cmocka_unit_test_setup_teardown (users_come_beside_keys, s_setup, s_teardown),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
