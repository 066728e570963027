#include "custom_process.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <jansson.h>
#include "clock.h"
#include "custom_sandbox.h"
#include "machine.h"
#include "utf8.h"

enum { PROTOCOL = 1, MESSAGE_BYTES_MAX = 4096, LINE_BYTES = 120, SHOWN_BYTES = 120, ALIGNMENT = 64,
    MEMORY_STEP = 1 << 16, MEMORY_KEPT_BYTES = 16 << 20, DESCRIPTORS = 5, FIRST_FREE = 16,
    VARIABLES_MAX = 24, VARIABLE_BYTES = 4096, BLOCKS_MAX = 256, LOOK_MS = 100, REAP_MS = 5,
    LEFT_MS = 1000 };   //  to end, for a call that no job waits for, or a process that has closed its socket

struct custom_process {
    const custom_process_options_t *options;
    pid_t pid;                              //  0: not started, or its end is known
    clockid_t clock;                        //  of its processor time
    uint64_t ended_ns;                      //  all of that, when its end is known
    bool has_clock, is_broken, was_killed;
    int socket, memory, words;              //  words: what it writes to standard output and error
    uint8_t *mapped;
    size_t mapped_bytes, present_bytes;     //  present: with memory behind them, from the begin
    const atomic_bool *abandoned;           //  the present call is; NULL: there is none, or it cannot be
    uint64_t calls;
    char greeting [CUSTOM_PROCESS_GREETING_BYTES_MAX + 1];
    bool is_random;
    char line [LINE_BYTES];                 //  the last one that it wrote
    size_t line_used;
    bool line_ended;
};

//  ---- what goes wrong

//  Says why, and what the process wrote last.
static custom_status_t __attribute__ ((format (printf, 4, 5)))
s_break (custom_process_t *self, char *error, size_t error_bytes, const char *format, ...)
{
    char line [SHOWN_BYTES];
    va_list arguments;
    self->is_broken = true;
    va_start (arguments, format);
    int used = vsnprintf (error, error_bytes, format, arguments);
    va_end (arguments);
    if (self->line_used > 0 && used > 0 && (size_t) used < error_bytes)
        snprintf (error + used, error_bytes - (size_t) used, "; it wrote: %s",
            utf8_visible (self->line, self->line_used, line, sizeof line));
    return CUSTOM_FAILED;
}

//  Reads away what it has written.  Of several lines the last one says most: of a Python error, what it is.
static void
s_read_words (custom_process_t *self)
{
    char block [512];
    ssize_t size;
    int blocks = 0;                         //  one that never ends writing must not keep the time limit away
    while (blocks++ < BLOCKS_MAX && (size = read (self->words, block, sizeof block)) > 0)
        for (ssize_t index = 0; index < size; index++) {
            if (block [index] == '\n') {
                self->line_ended = true;
                continue;
            }
            if (self->line_ended)
                self->line_used = 0;
            self->line_ended = false;
            if (self->line_used < sizeof self->line)
                self->line [self->line_used++] = block [index];
        }
}

//  Waits for its end, and takes what is known then.  flags: of wait4.
static bool
s_reap (custom_process_t *self, int flags, int *status_p)
{
    struct rusage used;
    pid_t pid;
    while ((pid = wait4 (self->pid, status_p, flags, &used)) < 0 && errno == EINTR)
        ;
    if (pid != self->pid)
        return false;
    self->pid = 0;
    self->ended_ns = ((uint64_t) (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000u
        + (uint64_t) (used.ru_utime.tv_usec + used.ru_stime.tv_usec)) * 1000u;
    return true;
}

//  It has closed its socket: most have ended, or are about to.
static custom_status_t
s_ended (custom_process_t *self, char *error, size_t error_bytes)
{
    int status = 0;
    int64_t due_ms = clock_now_ms () + LEFT_MS;
    struct pollfd stop = { self->options->stop, POLLIN, 0 };
    while (!s_reap (self, WNOHANG, &status)) {
        s_read_words (self);                //  it may wait for that
        if (poll (&stop, 1, REAP_MS) > 0 || clock_now_ms () >= due_ms) {
            kill (self->pid, SIGKILL);
            s_reap (self, 0, &status);
            return s_break (self, error, error_bytes, "it has closed its socket, and goes on");
        }
    }
    s_read_words (self);
    if (!WIFSIGNALED (status))
        return s_break (self, error, error_bytes, "its process ended with status %d", WEXITSTATUS (status));
    int number = WTERMSIG (status);
    const char *name = sigabbrev_np (number);
    self->was_killed = number == SIGKILL;
    return s_break (self, error, error_bytes, "its process ended by signal %d (SIG%s)%s", number,
        name? name: "?", self->was_killed? ", as the kernel ends processes when memory is short": "");
}

//  ---- messages

//  Waits for a packet.  CUSTOM_DONE, and the length of what is in text, ended by a zero.
static custom_status_t
s_receive (custom_process_t *self, int64_t most_ms, char text [MESSAGE_BYTES_MAX + 1], char *error,
    size_t error_bytes)
{
    int64_t due_ms = clock_now_ms () + most_ms;
    struct pollfd items [] = { { self->socket, POLLIN, 0 }, { self->words, POLLIN, 0 },
        { self->options->stop, POLLIN, 0 } };
    for (;;) {
        int64_t left_ms = due_ms - clock_now_ms ();
        if (left_ms <= 0)
            return s_break (self, error, error_bytes, "no answer within %.3g seconds",
                (double) most_ms / 1e3);
        poll (items, 3, self->abandoned && left_ms > LOOK_MS? LOOK_MS: (int) left_ms);
        if (items [1].revents & POLLIN)
            s_read_words (self);
        else
        if (items [1].revents)
            items [1].fd = -1;              //  it has closed it
        if (items [2].revents)
            return s_break (self, error, error_bytes, "the server ends");
        if (self->abandoned && atomic_load (self->abandoned) && due_ms > clock_now_ms () + LEFT_MS) {
            due_ms = clock_now_ms () + LEFT_MS;
            self->abandoned = NULL;
        }
        if (!items [0].revents)
            continue;
        ssize_t size = recv (self->socket, text, MESSAGE_BYTES_MAX + 1, MSG_DONTWAIT);
        if (size < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (size == 0 && !(items [0].revents & POLLHUP))
            return s_break (self, error, error_bytes, "it sent an empty message");
        if (size <= 0)
            return s_ended (self, error, error_bytes);
        if (size > MESSAGE_BYTES_MAX)
            return s_break (self, error, error_bytes, "a message of more than %d bytes", MESSAGE_BYTES_MAX);
        text [size] = 0;
        return CUSTOM_DONE;
    }
}

static json_t *
s_parse (custom_process_t *self, const char *text, const char *what, char *error, size_t error_bytes)
{
    char shown [SHOWN_BYTES];
    json_t *object = json_loads (text, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object (object))
        return object;
    json_decref (object);
    s_break (self, error, error_bytes, "its %s is no JSON object: %s", what,
        utf8_visible (text, strlen (text), shown, sizeof shown));
    return NULL;
}

//  ---- starting

//  The child's environment: what programs need to run, and nothing that may be secret.
typedef struct {
    char *list [VARIABLES_MAX + 1];
    char texts [VARIABLES_MAX] [VARIABLE_BYTES];
    size_t count;
} variables_t;

static void
s_add_variable (variables_t *self, const char *name, const char *value)
{
    int length = snprintf (self->texts [self->count], VARIABLE_BYTES, "%s=%s", name, value? value: "");
    if (!value || length >= VARIABLE_BYTES)
        return;
    self->list [self->count] = self->texts [self->count];
    self->count++;
}

static void
s_fill_variables (variables_t *self)
{
    static const char *const kept [] = { "PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "PYTHONPATH",
        "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "TMPDIR", "ASAN_OPTIONS" };
    self->count = 0;
    for (size_t index = 0; index < sizeof kept / sizeof *kept; index++)
        s_add_variable (self, kept [index], getenv (kept [index]));
    //  There is a process for each sample under way; threads of libraries would only be in each other's way.
    s_add_variable (self, "OMP_NUM_THREADS", "1");
    s_add_variable (self, "OPENBLAS_NUM_THREADS", "1");
    s_add_variable (self, "MKL_NUM_THREADS", "1");
    s_add_variable (self, "PYTHONDONTWRITEBYTECODE", "1");
    s_add_variable (self, "PYTHONUNBUFFERED", "1");
    self->list [self->count] = NULL;
}

//  Out of the way of the numbers that the protocol has.
static int
s_move_up (int *descriptor_p)
{
    int moved = fcntl (*descriptor_p, F_DUPFD_CLOEXEC, FIRST_FREE);
    if (moved < 0)
        return -errno;
    close (*descriptor_p);
    *descriptor_p = moved;
    return 0;
}

//  0 to 4 become what the protocol says, and no other descriptor stays open.
static int
s_place_descriptors (posix_spawn_file_actions_t *actions, int words, int socket, int memory)
{
    const int from [DESCRIPTORS] = { -1, words, words, socket, memory };
    int rc = posix_spawn_file_actions_addopen (actions, 0, "/dev/null", O_RDONLY, 0);
    for (int index = 1; rc == 0 && index < DESCRIPTORS; index++)
        rc = posix_spawn_file_actions_adddup2 (actions, from [index], index);
    return rc? rc: posix_spawn_file_actions_addclosefrom_np (actions, DESCRIPTORS);
}

//  This very program, which enters the sandbox and then executes the command: what it has to do before that
//  it does in memory of its own, not in the server's.
static int
s_execute (custom_process_t *self, char **variables, const posix_spawn_file_actions_t *actions)
{
    char bytes [24], parent [24], program [] = "/proc/self/exe", tureen [] = "tureen",
        name [] = CUSTOM_SANDBOX_COMMAND;
    const custom_process_options_t *options = self->options;
    char *words [CUSTOM_PROCESS_WORDS_MAX + 6] = { tureen, name, bytes, parent, options->path };
    snprintf (bytes, sizeof bytes, "%" PRIu64, options->memory_bytes);
    snprintf (parent, sizeof parent, "%ld", (long) getpid ());
    memcpy (words + 5, options->words, options->word_count * sizeof *words);
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset (&none);
    sigfillset (&all);
    posix_spawnattr_init (&attributes);
    posix_spawnattr_setsigmask (&attributes, &none);
    posix_spawnattr_setsigdefault (&attributes, &all);
    posix_spawnattr_setflags (&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int rc = -posix_spawn (&self->pid, program, actions, &attributes, words, variables);
    posix_spawnattr_destroy (&attributes);
    if (rc)
        self->pid = 0;
    return rc;
}

static int
s_spawn (custom_process_t *self)
{
    int sockets [2] = { -1, -1 }, words [2] = { -1, -1 };
    posix_spawn_file_actions_t actions;
    variables_t *variables = malloc (sizeof *variables);
    int rc = variables? -posix_spawn_file_actions_init (&actions): -ENOMEM;
    if (rc) {
        free (variables);
        return rc;
    }
    if (socketpair (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets)
        || pipe2 (words, O_CLOEXEC) || fcntl (words [0], F_SETFL, O_NONBLOCK))
        rc = -errno;
    self->socket = sockets [0];
    self->words = words [0];
    rc = rc? rc: s_move_up (&sockets [1]);
    rc = rc? rc: s_move_up (&words [1]);
    rc = rc? rc: -s_place_descriptors (&actions, words [1], sockets [1], self->memory);
    s_fill_variables (variables);
    rc = rc? rc: s_execute (self, variables->list, &actions);
    if (sockets [1] >= 0)
        close (sockets [1]);
    if (words [1] >= 0)
        close (words [1]);
    posix_spawn_file_actions_destroy (&actions);
    free (variables);
    self->has_clock = rc == 0 && clock_getcpuclockid (self->pid, &self->clock) == 0;
    return rc;
}

//  The process can neither make it smaller, which would end the server by SIGBUS, nor seal it.
static int
s_make_memory (custom_process_t *self)
{
    self->memory = memfd_create ("tureen-operation", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (self->memory < 0)
        return -errno;
    int rc = fcntl (self->memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL)? -errno: 0;
    return rc? rc: s_move_up (&self->memory);
}

static custom_status_t
s_read_greeting (custom_process_t *self, char *error, size_t error_bytes)
{
    char text [MESSAGE_BYTES_MAX + 1];
    custom_status_t status = s_receive (self, self->options->start_ms, text, error, error_bytes);
    json_t *greeting = status? NULL: s_parse (self, text, "greeting", error, error_bytes);
    if (!greeting)
        return CUSTOM_FAILED;
    const json_t *random = json_object_get (greeting, "random"),
        *version = json_object_get (greeting, "version");
    json_int_t protocol = json_integer_value (json_object_get (greeting, "tureen_operation"));
    if (protocol != PROTOCOL)
        status = s_break (self, error, error_bytes, "its greeting has \"tureen_operation\": %" PRId64
            "; this server speaks %d", (int64_t) protocol, PROTOCOL);
    else
    if ((random && !json_is_boolean (random)) || (version && !json_is_string (version)))
        status = s_break (self, error, error_bytes,
            "its greeting is not valid: \"random\" is true or false, \"version\" a text");
    self->is_random = json_is_true (random);
    char *canonical = json_dumps (greeting, JSON_COMPACT | JSON_SORT_KEYS);
    if (!status && canonical && strlen (canonical) > CUSTOM_PROCESS_GREETING_BYTES_MAX)
        status = s_break (self, error, error_bytes, "its greeting has more than %d bytes",
            CUSTOM_PROCESS_GREETING_BYTES_MAX);
    if (canonical && !status)
        strcpy (self->greeting, canonical);
    if (!canonical)
        status = CUSTOM_NO_MEMORY;
    free (canonical);
    json_decref (greeting);
    return status;
}

static custom_status_t
s_status (int rc, char *error, size_t error_bytes)
{
    snprintf (error, error_bytes, "%s%s", strerror (-rc), machine_remedy (-rc));
    bool is_short = rc == -ENOMEM || rc == -EAGAIN || rc == -EMFILE || rc == -ENFILE || rc == -ENOSPC;
    return is_short? CUSTOM_NO_MEMORY: CUSTOM_FAILED;
}

custom_status_t
custom_process_start (custom_process_t **self_p, const custom_process_options_t *options, char *error,
    size_t error_bytes)
{
    *self_p = NULL;
    custom_process_t *self = calloc (1, sizeof *self);
    if (!self)
        return s_status (-ENOMEM, error, error_bytes);
    *self = (custom_process_t) { .options = options, .socket = -1, .memory = -1, .words = -1 };
    int rc = s_make_memory (self);
    rc = rc? rc: s_spawn (self);
    custom_status_t status = rc? s_status (rc, error, error_bytes):
        s_read_greeting (self, error, error_bytes);
    if (status)
        custom_process_destroy (&self);
    *self_p = self;
    return status;
}

void
custom_process_destroy (custom_process_t **self_p)
{
    custom_process_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    if (self->pid > 0) {
        kill (self->pid, SIGKILL);
        while (waitpid (self->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (self->mapped)
        munmap (self->mapped, self->mapped_bytes);
    const int open [] = { self->socket, self->memory, self->words };
    for (size_t index = 0; index < sizeof open / sizeof *open; index++)
        if (open [index] >= 0)
            close (open [index]);
    free (self);
}

const char *
custom_process_greeting (const custom_process_t *self)
{
    return self->greeting;
}

bool
custom_process_is_random (const custom_process_t *self)
{
    return self->is_random;
}

bool
custom_process_is_broken (const custom_process_t *self)
{
    return self->is_broken;
}

bool
custom_process_was_killed (const custom_process_t *self)
{
    return self->was_killed;
}

//  ---- calls

static size_t
s_round (size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

//  Named in tests/tsan.supp.
static int
s_map_pixels (custom_process_t *self, size_t bytes)
{
    void *mapped = self->mapped? mremap (self->mapped, self->mapped_bytes, bytes, MREMAP_MAYMOVE):
        mmap (NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, self->memory, 0);
    if (mapped == MAP_FAILED)
        return -errno;
    self->mapped = mapped;
    self->mapped_bytes = bytes;
    return 0;
}

//  Memory that is there before anything is written: where there is none, a write would end the server.
static int
s_need (custom_process_t *self, size_t bytes)
{
    if (bytes <= self->present_bytes)
        return 0;
    bytes = s_round (bytes, MEMORY_STEP);
    int rc = -posix_fallocate (self->memory, 0, (off_t) bytes);
    if (rc == 0 && bytes > self->mapped_bytes)
        rc = s_map_pixels (self, bytes);
    if (rc == 0)
        self->present_bytes = bytes;
    return rc;
}

//  One large image must not cost its memory for as long as the process lives.  A memfd that cannot be made
//  smaller may have holes.
static void
s_let_go (custom_process_t *self)
{
    if (self->present_bytes > MEMORY_KEPT_BYTES
        && fallocate (self->memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, MEMORY_KEPT_BYTES,
            (off_t) (self->mapped_bytes - MEMORY_KEPT_BYTES)) == 0)
        self->present_bytes = MEMORY_KEPT_BYTES;
}

static custom_status_t
s_ask (custom_process_t *self, const custom_call_t *call, size_t result_at)
{
    char text [MESSAGE_BYTES_MAX], seed [32] = "";
    if (self->is_random)
        snprintf (seed, sizeof seed, ",\"seed\":%" PRIu64, call->seed);
    int size = snprintf (text, sizeof text, "{\"call\":%" PRIu64 ",\"memory\":%zu,\"height\":%" PRIu32
        ",\"width\":%" PRIu32 ",\"result_at\":%zu,\"result_height\":%" PRIu32 ",\"result_width\":%" PRIu32
        "%s,\"arguments\":%s}", self->calls, self->mapped_bytes, call->from_height, call->from_width,
        result_at, call->height, call->width, seed, call->arguments);
    assert (size > 0 && (size_t) size < sizeof text);
    if (send (self->socket, text, (size_t) size, MSG_NOSIGNAL | MSG_DONTWAIT) == size)
        return CUSTOM_DONE;
    if (errno == ENOMEM || errno == ENOBUFS)
        return CUSTOM_NO_MEMORY;
    if (errno == EAGAIN)
        return s_break (self, call->error, call->error_bytes, "it does not read what it is asked");
    return s_ended (self, call->error, call->error_bytes);
}

static bool
s_is (const json_t *answer, const char *key, uint64_t number)
{
    const json_t *value = json_object_get (answer, key);
    return json_is_integer (value) && json_integer_value (value) == (json_int_t) number;
}

static custom_status_t
s_judge (custom_process_t *self, const json_t *answer, const custom_call_t *call)
{
    char shown [SHOWN_BYTES];
    const json_t *error = json_object_get (answer, "error");
    if (!s_is (answer, "call", self->calls))
        return s_break (self, call->error, call->error_bytes,
            "its answer is to no question: \"call\" is not %" PRIu64, self->calls);
    if (json_is_string (error)) {
        snprintf (call->error, call->error_bytes, "%s", utf8_visible (json_string_value (error),
            json_string_length (error), shown, sizeof shown));
        return CUSTOM_FAILED;
    }
    if (!error && s_is (answer, "height", call->height) && s_is (answer, "width", call->width))
        return CUSTOM_DONE;
    return s_break (self, call->error, call->error_bytes, "its answer has not the size that was asked for, "
        "\"height\" %" PRIu32 " and \"width\" %" PRIu32, call->height, call->width);
}

static custom_status_t
s_exchange (custom_process_t *self, custom_call_t *call, size_t result_at)
{
    char text [MESSAGE_BYTES_MAX + 1];
    self->calls++;
    custom_status_t status = s_ask (self, call, result_at);
    if (!status)
        status = s_receive (self, self->options->call_ms, text, call->error, call->error_bytes);
    if (status)
        return status;
    json_t *answer = s_parse (self, text, "answer", call->error, call->error_bytes);
    status = answer? s_judge (self, answer, call): CUSTOM_FAILED;
    json_decref (answer);
    return status;
}

custom_status_t
custom_process_call (custom_process_t *self, custom_call_t *call)
{
    assert (!self->is_broken);
    size_t row_size = (size_t) call->from_width * CUSTOM_CHANNELS, image_size = row_size * call->from_height,
        result_size = (size_t) call->height * call->width * CUSTOM_CHANNELS,
        result_at = s_round (image_size, ALIGNMENT);
    int rc = s_need (self, result_at + result_size);
    if (rc)
        return s_status (rc, call->error, call->error_bytes);
    for (uint32_t row = 0; row < call->from_height; row++)
        memcpy (self->mapped + row * row_size, call->pixels + row * call->stride, row_size);
    uint64_t before_ns = self->has_clock? clock_read_ns (self->clock): 0;
    self->abandoned = call->abandoned;
    custom_status_t status = s_exchange (self, call, result_at);
    self->abandoned = NULL;
    if (self->has_clock) {
        uint64_t now_ns = self->pid > 0? clock_read_ns (self->clock): self->ended_ns;
        call->took_ns += now_ns > before_ns? now_ns - before_ns: 0;
    }
    if (!status)
        memcpy (call->target, self->mapped + result_at, result_size);
    s_let_go (self);
    return status;
}
