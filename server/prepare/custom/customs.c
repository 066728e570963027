#include "customs.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <sodium.h>
#include "clock.h"
#include "custom_process.h"
#include "xalloc.h"

enum { BLOCK_BYTES = 64 * 1024, FILE_BYTES_MAX = 64 * 1024 * 1024,
    DIGEST_BYTES = CUSTOM_IDENTITY_BYTES / 2 };
_Static_assert (DIGEST_BYTES >= crypto_generichash_BYTES_MIN, "libsodium makes such digests");

enum { START_SECONDS = 60, PAUSE_MS = 100, PAUSE_MS_MAX = 5000, LOOK_MS = 100, TOLD_MS = 10000,
    TRIES = 2, TRIES_KILLED = 8 };

//  The command line behind an operation.  Not changed after s_parse_command.
typedef struct {
    char *words [CUSTOM_PROCESS_WORDS_MAX];
    size_t count;
    char *path;                 //  of the executable
    uint8_t files [CUSTOM_PROCESS_WORDS_MAX] [DIGEST_BYTES];    //  0: the word names none
} command_t;

typedef struct {
    //  set at birth
    customs_t *set;
    command_t command;
    custom_process_options_t options;
    //  shared, under the lock
    pthread_mutex_t lock;
    pthread_cond_t moved;               //  a process is free, or gone, or a call is over
    custom_process_t **free;            //  the one used last is the last
    size_t free_count, free_room, running;
    size_t under_way;                   //  calls
    bool is_alone;                      //  one of them, or that waits to be, is to be the only one
    char changed [CUSTOMS_TEXT_BYTES];  //  why no process is started; "": they are
    uint64_t calls, failures, starts, call_ns, took_ns;
    char last [CUSTOMS_TEXT_BYTES];     //  failure
    //  of the thread that asks
    uint64_t told;
    int64_t told_ms;
    bool change_told;
} entry_t;

struct customs {
    custom_t list [CUSTOM_MAX];
    entry_t entries [CUSTOM_MAX];
    size_t count;
    int stop;                           //  readable when all is to end
    atomic_bool stopping;
};

//  ---- a command: its words

//  Writes the next word to target, and returns what is behind it; NULL: a quotation mark is not closed.
static const char *
s_word (const char *text, char *target)
{
    char quote = 0;
    for (; *text && (quote || !strchr (" \t\n", *text)); text++)
        if (quote && *text == quote)
            quote = 0;
        else
        if (!quote && (*text == '\'' || *text == '"'))
            quote = *text;
        else
            *target++ = *text;
    *target = 0;
    return quote? NULL: text;
}

static int
s_fail (char *error, size_t error_bytes, const char *what, const char *name)
{
    snprintf (error, error_bytes, what, name);
    return -EINVAL;
}

static bool
s_is_file (const char *path)
{
    struct stat status;
    return stat (path, &status) == 0 && S_ISREG (status.st_mode);
}

//  As a shell would find it: by its path if it has a slash, else in the folders of PATH.
static int
s_find_program (command_t *self, char *error, size_t error_bytes)
{
    const char *name = self->words [0], *folders = strchr (name, '/')? "": getenv ("PATH");
    char path [PATH_MAX];
    for (const char *at = folders? folders: "/usr/bin:/bin"; ; at++) {
        size_t size = strcspn (at, ":");
        int length = snprintf (path, sizeof path, "%.*s%s%s", (int) size, at, size? "/": "", name);
        if (length > 0 && (size_t) length < sizeof path && s_is_file (path)) {
            if (access (path, X_OK) != 0)
                return s_fail (error, error_bytes, "'%.150s' may not be executed: make it so (chmod +x), or "
                    "name the program that runs it, as in python3 FILE", path);
            self->path = xalloc_memory (strdup (path));
            return 0;
        }
        at += size;
        if (!*at)
            return s_fail (error, error_bytes, "there is no program '%s': check the path, or PATH", name);
    }
}

//  ---- what stands for it
//
//  The identity is a digest of the words, of the files that they name, and of what the command says of itself
//  in its greeting.  So another command, or a changed script, has another identity, and its pixels are never
//  taken for those of the first.  What a script loads by itself is in it only if its greeting has a version.
//  The files are those that s_parse_command found: a process that was started between that and a
//  s_look_at_files, or between two, has run no others, whenever it read them.

static void
s_add (crypto_generichash_state *state, const void *bytes, uint64_t size)
{
    crypto_generichash_update (state, (const unsigned char *) &size, sizeof size);
    crypto_generichash_update (state, bytes, size);
}

static int
s_add_content (crypto_generichash_state *state, int file)
{
    unsigned char *block = xalloc_memory (malloc (BLOCK_BYTES));
    ssize_t size;
    while ((size = read (file, block, BLOCK_BYTES)) > 0)
        crypto_generichash_update (state, block, (size_t) size);
    int rc = size < 0? -errno: 0;
    free (block);
    return rc;
}

//  Of a very large file (weights of a network) its size and the time of its last change stand for it.
static int
s_add_file (crypto_generichash_state *state, const char *path)
{
    int file = open (path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (file < 0)
        return -errno;
    int rc = fstat (file, &status)? -errno: 0;
    if (rc == 0) {
        int64_t told [] = { status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec };
        bool is_large = status.st_size > FILE_BYTES_MAX;
        s_add (state, told, is_large? sizeof told: sizeof *told);
        rc = is_large? 0: s_add_content (state, file);
    }
    close (file);
    return rc;
}

//  Of the file that a word names, now; zeros: none.
static int
s_digest (const char *path, uint8_t digest [DIGEST_BYTES])
{
    crypto_generichash_state state;
    memset (digest, 0, DIGEST_BYTES);
    if (!s_is_file (path))
        return 0;
    crypto_generichash_init (&state, NULL, 0, DIGEST_BYTES);
    int rc = s_add_file (&state, path);
    if (rc == 0)
        crypto_generichash_final (&state, digest, DIGEST_BYTES);
    return rc;
}

static const char *
s_path (const command_t *self, size_t index)
{
    return index? self->words [index]: self->path;
}

//  0; -ESTALE: *path_p is another file than it was, or gone; or -errno, and it cannot be read.
static int
s_look_at_files (const command_t *self, const char **path_p)
{
    int rc = 0;
    for (size_t index = 0; rc == 0 && index < self->count; index++) {
        uint8_t digest [DIGEST_BYTES];
        *path_p = s_path (self, index);
        rc = s_digest (*path_p, digest);
        if (rc == -ENOENT || (rc == 0 && memcmp (digest, self->files [index], DIGEST_BYTES) != 0))
            rc = -ESTALE;
    }
    return rc;
}

static void
s_make_identity (const command_t *self, const char *greeting,
    char identity [CUSTOM_IDENTITY_BYTES + 1])
{
    static const char tag [] = "tureen-operation-1";
    crypto_generichash_state state;
    unsigned char digest [DIGEST_BYTES];
    crypto_generichash_init (&state, NULL, 0, sizeof digest);
    s_add (&state, tag, sizeof tag);
    s_add (&state, greeting, strlen (greeting));
    for (size_t index = 0; index < self->count; index++) {
        s_add (&state, self->words [index], strlen (self->words [index]));
        s_add (&state, self->files [index], DIGEST_BYTES);
    }
    crypto_generichash_final (&state, digest, sizeof digest);
    sodium_bin2hex (identity, CUSTOM_IDENTITY_BYTES + 1, digest, sizeof digest);
}

static int
s_parse_words (command_t *self, const char *text, char *error, size_t error_bytes)
{
    char *word = xalloc_memory (malloc (strlen (text) + 1));
    const char *rest = text;
    while (rest && *(rest += strspn (rest, " \t\n")) && self->count < CUSTOM_PROCESS_WORDS_MAX) {
        rest = s_word (rest, word);
        self->words [self->count++] = xalloc_memory (strdup (word));
    }
    free (word);
    if (!rest)
        return s_fail (error, error_bytes, "a quotation mark is not closed in: %s", text);
    if (*rest)
        return s_fail (error, error_bytes, "more than 64 words in: %s", text);
    return self->count > 0? 0: s_fail (error, error_bytes, "there is no command%s", "");
}

//  Words are divided by blanks; '..' and ".." hold one together.  The first is looked for in PATH.  0, or
//  -EINVAL and what is wrong; s_clear_command is due in both cases.
static int
s_parse_command (command_t *self, const char *text, char *error, size_t error_bytes)
{
    *self = (command_t) { .count = 0 };
    int rc = s_parse_words (self, text, error, error_bytes);
    rc = rc? rc: s_find_program (self, error, error_bytes);
    for (size_t index = 0; rc == 0 && index < self->count; index++)
        if (s_digest (s_path (self, index), self->files [index]))
            rc = s_fail (error, error_bytes, "'%s' cannot be read: make it readable", s_path (self, index));
    return rc;
}

static void
s_clear_command (command_t *self)
{
    for (size_t index = 0; index < self->count; index++)
        free (self->words [index]);
    free (self->path);
    *self = (command_t) { .count = 0 };
}

//  ---- waiting

static bool
s_is_wanted (const entry_t *self, const custom_call_t *call)
{
    return !atomic_load (&self->set->stopping) && !(call->abandoned && atomic_load (call->abandoned));
}

//  For something to move, or for no longer than it should take to see that the call is not wanted any more.
static void
s_wait (entry_t *self)
{
    struct timespec until = clock_deadline (LOOK_MS);
    pthread_cond_timedwait (&self->moved, &self->lock, &until);
}

static void
s_pause (const entry_t *self, const custom_call_t *call, int tries)
{
    int64_t pause_ms = PAUSE_MS;
    while (--tries > 0 && pause_ms < PAUSE_MS_MAX)
        pause_ms *= 2;
    int64_t due_ms = clock_now_ms () + (pause_ms < PAUSE_MS_MAX? pause_ms: PAUSE_MS_MAX), left_ms;
    struct pollfd stop = { self->set->stop, POLLIN, 0 };
    while (s_is_wanted (self, call) && (left_ms = due_ms - clock_now_ms ()) > 0)
        poll (&stop, 1, left_ms < LOOK_MS? (int) left_ms: LOOK_MS);
}

//  Before a call; one that is to be alone lets those under way end, and holds up others until s_leave.
//  False: the call is not wanted any more.
static bool
s_enter (entry_t *self, const custom_call_t *call, bool alone)
{
    bool wanted;
    pthread_mutex_lock (&self->lock);
    while ((wanted = s_is_wanted (self, call)) && self->is_alone)
        s_wait (self);
    self->is_alone = self->is_alone || (wanted && alone);
    while (wanted && alone && self->under_way > 0) {
        s_wait (self);
        wanted = self->is_alone = s_is_wanted (self, call);
    }
    self->under_way += wanted;
    pthread_cond_broadcast (&self->moved);
    pthread_mutex_unlock (&self->lock);
    return wanted;
}

static void
s_leave (entry_t *self, bool alone)
{
    pthread_mutex_lock (&self->lock);
    self->under_way--;
    self->is_alone = self->is_alone && !alone;
    pthread_cond_broadcast (&self->moved);
    pthread_mutex_unlock (&self->lock);
}

//  ---- processes

//  Under the lock.
static custom_process_t *
s_pop (entry_t *self)
{
    return self->free_count > 0? self->free [--self->free_count]: NULL;
}

static void
s_keep_free (entry_t *self, custom_process_t *process)
{
    pthread_mutex_lock (&self->lock);
    if (self->free_count == self->free_room) {
        self->free_room = self->free_room? 2 * self->free_room: 8;
        self->free = xalloc_memory (reallocarray (self->free, self->free_room, sizeof *self->free));
    }
    self->free [self->free_count++] = process;
    pthread_cond_broadcast (&self->moved);
    pthread_mutex_unlock (&self->lock);
}

static void
s_end_process (entry_t *self, custom_process_t **process_p)
{
    custom_process_destroy (process_p);
    pthread_mutex_lock (&self->lock);
    self->running--;
    pthread_cond_broadcast (&self->moved);
    pthread_mutex_unlock (&self->lock);
}

//  For status: why no process may be started any more.
static custom_status_t
s_note_changed (entry_t *self, const char *why)
{
    pthread_mutex_lock (&self->lock);
    snprintf (self->changed, sizeof self->changed, "%s", why);
    pthread_mutex_unlock (&self->lock);
    return CUSTOM_FAILED;
}

//  Whether the command's files are what they were when the server started: jobs share pixels by that.
static custom_status_t
s_look (entry_t *self, char *error, size_t error_bytes)
{
    const char *path;
    int rc = s_look_at_files (&self->command, &path);
    if (rc == 0)
        return CUSTOM_DONE;
    if (rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM)
        return CUSTOM_NO_MEMORY;
    snprintf (error, error_bytes, rc == -ESTALE? "'%s' is not what it was when the server started: start the "
        "server again": "'%s' cannot be read any more: %s", path, strerror (-rc));
    return s_note_changed (self, error);
}

//  Looks at the files before the process can read them and after it has: what is the same both times is what
//  it runs.
static custom_status_t
s_start (entry_t *self, custom_process_t **process_p, char *error, size_t error_bytes)
{
    custom_process_t *process = NULL;
    custom_status_t status = s_look (self, error, error_bytes);
    if (!status)
        status = custom_process_start (&process, &self->options, error, error_bytes);
    if (!status)
        status = s_look (self, error, error_bytes);
    if (status)
        custom_process_destroy (&process);
    pthread_mutex_lock (&self->lock);
    self->starts++;
    self->running += status == CUSTOM_DONE;
    if (!status)
        *self->changed = 0;
    pthread_mutex_unlock (&self->lock);
    *process_p = process;
    return status;
}

static custom_status_t
s_start_another (entry_t *self, const custom_t *is, custom_process_t **process_p, char *error,
    size_t error_bytes)
{
    char identity [CUSTOM_IDENTITY_BYTES + 1];
    custom_status_t status = s_start (self, process_p, error, error_bytes);
    if (status)
        return status;
    s_make_identity (&self->command, custom_process_greeting (*process_p), identity);
    if (strcmp (identity, is->identity) == 0)
        return CUSTOM_DONE;
    s_end_process (self, process_p);
    snprintf (error, error_bytes, "it does not greet any more as it did when the server started: start the "
        "server again");
    return s_note_changed (self, error);
}

//  A process for a call: a free one, or a new one; fresh: a new one.  While the files are others than they
//  were: one that runs, for which it waits.
static custom_status_t
s_acquire (entry_t *self, const custom_t *is, const custom_call_t *call, bool fresh,
    custom_process_t **process_p)
{
    char why [CUSTOMS_TEXT_BYTES] = "";
    pthread_mutex_lock (&self->lock);
    bool has_changed = *self->changed && self->running > 0;
    *process_p = fresh || has_changed? NULL: s_pop (self);
    pthread_mutex_unlock (&self->lock);
    if (*process_p)
        return CUSTOM_DONE;
    custom_status_t status = has_changed? CUSTOM_FAILED:
        s_start_another (self, is, process_p, why, sizeof why);
    pthread_mutex_lock (&self->lock);
    if (status == CUSTOM_FAILED && *self->changed) {
        while (!(*process_p = s_pop (self)) && self->running > 0 && s_is_wanted (self, call))
            s_wait (self);
        snprintf (why, sizeof why, "%s", self->changed);
        status = *process_p? CUSTOM_DONE: CUSTOM_FAILED;
    }
    pthread_mutex_unlock (&self->lock);
    if (status)
        snprintf (call->error, call->error_bytes, "it cannot be started: %s", why);
    return status;
}

//  ---- calls

static void
s_count (entry_t *self, const custom_call_t *call, custom_status_t status, uint64_t call_ns, uint64_t took_ns)
{
    bool has_failed = status == CUSTOM_FAILED && s_is_wanted (self, call);
    pthread_mutex_lock (&self->lock);
    self->calls++;
    self->call_ns += call_ns;
    self->took_ns += took_ns;
    self->failures += has_failed;
    if (has_failed)
        snprintf (self->last, sizeof self->last, "%s", call->error);
    pthread_mutex_unlock (&self->lock);
}

static custom_status_t
s_try (entry_t *self, const custom_t *is, custom_call_t *call, bool again, bool *killed_p)
{
    char why [CUSTOMS_TEXT_BYTES];
    custom_process_t *process;
    *killed_p = false;
    if (!s_enter (self, call, again))
        return CUSTOM_FAILED;
    custom_status_t status = s_acquire (self, is, call, again, &process);
    uint64_t began_ns = clock_now_ns (), before_ns = call->took_ns;
    if (!status)
        status = custom_process_call (process, call);
    s_count (self, call, status, clock_now_ns () - began_ns, call->took_ns - before_ns);
    *killed_p = process && custom_process_was_killed (process);
    //  A process that has failed is ended, if there can be another one.
    if (process && (custom_process_is_broken (process)
        || (status == CUSTOM_FAILED && s_look (self, why, sizeof why) == CUSTOM_DONE)))
        s_end_process (self, &process);
    else
    if (process)
        s_keep_free (self, process);
    s_leave (self, again);
    return status;
}

static custom_status_t
s_run (const custom_t *is, custom_call_t *call)
{
    entry_t *self = is->context;
    char text [CUSTOMS_TEXT_BYTES] = "it was not called";
    custom_call_t inner = *call;
    custom_status_t status;
    int tries = 0;
    bool was_killed;
    inner.error = text;
    inner.error_bytes = sizeof text;
    do {
        if (tries > 0)
            s_pause (self, call, tries);
        status = s_try (self, is, &inner, tries > 0, &was_killed);
        tries++;
    } while (status == CUSTOM_FAILED && s_is_wanted (self, call)
        && tries < (was_killed? TRIES_KILLED: TRIES));
    call->took_ns = inner.took_ns;
    if (status)
        snprintf (call->error, call->error_bytes, "operation '%s' failed %d times: %s", is->name, tries,
            text);
    return status;
}

//  ---- opening and closing

static int
s_open_one (customs_t *self, const customs_options_t *options, size_t number, char *error, size_t error_bytes)
{
    const customs_command_t *given = &options->commands [number];
    entry_t *entry = &self->entries [number];
    custom_t *is = &self->list [number];
    custom_process_t *process;
    char why [CUSTOMS_TEXT_BYTES] = "memory or descriptors are short";
    *entry = (entry_t) { .set = self, .options = { .memory_bytes = options->memory_bytes,
        .start_ms = START_SECONDS * 1000, .call_ms = (int64_t) options->seconds * 1000,
        .stop = options->end } };
    *is = (custom_t) { .number = (uint32_t) number, .run = s_run, .context = entry };
    snprintf (is->name, sizeof is->name, "%s", given->name);
    clock_condition_init (&entry->moved);
    pthread_mutex_init (&entry->lock, NULL);
    self->count++;
    int rc = s_parse_command (&entry->command, given->command, why, sizeof why);
    entry->options.path = entry->command.path;
    entry->options.words = entry->command.words;
    entry->options.word_count = entry->command.count;
    if (rc == 0 && s_start (entry, &process, why, sizeof why))
        rc = -EINVAL;
    if (rc) {
        struct pollfd end = { options->end, POLLIN, 0 };
        snprintf (error, error_bytes, "operation '%s' cannot be started: %s", given->name, why);
        return poll (&end, 1, 0) > 0? -EINTR: rc;
    }
    entry->options.stop = self->stop;
    s_make_identity (&entry->command, custom_process_greeting (process), is->identity);
    is->is_random = custom_process_is_random (process);
    s_keep_free (entry, process);
    return 0;
}

int
customs_open (customs_t **self_p, const customs_options_t *options, char *error, size_t error_bytes)
{
    assert (options->count <= CUSTOM_MAX);
    *self_p = NULL;
    int rc = sodium_init () < 0? -EINVAL: 0;
    customs_t *self = xalloc_memory (calloc (1, sizeof *self));
    self->stop = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
    atomic_init (&self->stopping, false);
    if (self->stop < 0) {
        snprintf (error, error_bytes, "no descriptor for the operations: %s", strerror (errno));
        rc = -errno;
    }
    for (size_t number = 0; rc == 0 && number < options->count; number++)
        rc = s_open_one (self, options, number, error, error_bytes);
    if (rc)
        customs_close (&self);
    *self_p = self;
    return rc;
}

const custom_t *
customs_list (const customs_t *self, size_t *count_p)
{
    *count_p = self? self->count: 0;
    return self? self->list: NULL;
}

void
customs_stop (customs_t *self)
{
    const uint64_t one = 1;
    if (!self)
        return;
    atomic_store (&self->stopping, true);
    ssize_t written = write (self->stop, &one, sizeof one);
    assert (written == sizeof one);
}

void
customs_close (customs_t **self_p)
{
    customs_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    for (size_t number = 0; number < self->count; number++) {
        entry_t *entry = &self->entries [number];
        for (custom_process_t *process; (process = s_pop (entry)); )
            s_end_process (entry, &process);
        assert (entry->running == 0);
        free (entry->free);
        s_clear_command (&entry->command);
        pthread_cond_destroy (&entry->moved);
        pthread_mutex_destroy (&entry->lock);
    }
    if (self->stop >= 0)
        close (self->stop);
    free (self);
}

//  ---- figures

json_t *
customs_status (customs_t *self)
{
    json_t *list = json_array ();
    for (size_t number = 0; self && number < self->count; number++) {
        entry_t *entry = &self->entries [number];
        const custom_t *is = &self->list [number];
        pthread_mutex_lock (&entry->lock);
        json_array_append_new (list, json_pack ("{s:s,s:s,s:b,s:I,s:I,s:I,s:I,s:f,s:f,s:s?,s:s?}",
            "name", is->name, "identity", is->identity, "random", is->is_random,
            "processes", (json_int_t) entry->running, "calls", (json_int_t) entry->calls,
            "failures", (json_int_t) entry->failures,
            "restarts", (json_int_t) (entry->starts - entry->running),
            "seconds", (double) entry->call_ns / 1e9, "cpu_seconds", (double) entry->took_ns / 1e9,
            "last_failure", *entry->last? entry->last: NULL,
            "changed", *entry->changed? entry->changed: NULL));
        pthread_mutex_unlock (&entry->lock);
    }
    return list;
}

//  Of one operation: when it failed how often, or that its files have changed, which is told once.
static bool
s_news (entry_t *self, int64_t now_ms, uint64_t *times_p, char text [CUSTOMS_TEXT_BYTES])
{
    bool may_tell = self->told == 0 || now_ms - self->told_ms >= TOLD_MS;
    pthread_mutex_lock (&self->lock);
    bool has_changed = *self->changed, tells_change = has_changed && !self->change_told;
    *times_p = tells_change || !may_tell? 0: self->failures - self->told;
    memcpy (text, tells_change? self->changed: self->last, CUSTOMS_TEXT_BYTES);
    pthread_mutex_unlock (&self->lock);
    self->change_told = has_changed;
    if (*times_p > 0)
        self->told_ms = now_ms;
    self->told += *times_p;
    return *times_p > 0 || tells_change;
}

bool
customs_next_news (customs_t *self, int64_t now_ms, const char **name_p, uint64_t *times_p,
    char text [CUSTOMS_TEXT_BYTES])
{
    for (size_t number = 0; self && number < self->count; number++) {
        *name_p = self->list [number].name;
        if (s_news (&self->entries [number], now_ms, times_p, text))
            return true;
    }
    return false;
}
