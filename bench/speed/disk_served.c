#include "disk_served.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXT_BYTES = DISK_PATH_BYTES + 64, REPLY_BYTES = 16 * 1024, ARGUMENTS_MAX = 24 };
enum { CACHE_BYTES_MIN = 64 << 20, CACHE_SAMPLES = 64 };

//  A folder for the server's socket: a path that is short enough for one.
typedef struct {
    const disk_data_t *data;
    char tureen [TEXT_BYTES], folder [64], endpoint [128];
    pid_t server;
} served_t;

//  The program that was built beside this one.
static bool
s_find (served_t *self)
{
    ssize_t length = readlink ("/proc/self/exe", self->tureen, DISK_PATH_BYTES);
    if (length <= 0)
        return false;
    self->tureen [length] = 0;
    strcpy (strrchr (self->tureen, '/') + 1, "tureen");
    return access (self->tureen, X_OK) == 0;
}

//  Runs it, its standard output going to fd.
static pid_t
s_run (const char *const *arguments, int fd)
{
    pid_t child = fork ();
    if (child == 0) {
        dup2 (fd, STDOUT_FILENO);
        execv (arguments [0], (char *const *) (uintptr_t) arguments);
        _exit (127);
    }
    return child;
}

static bool
s_start (served_t *self, const disk_options_t *options, uint64_t limit_bytes, uint32_t piece)
{
    char dataset [TEXT_BYTES], raw [32], cache [32], pieces [32], reads [32];
    uint64_t cache_bytes = CACHE_SAMPLES * (uint64_t) self->data->sample_bytes_max;
    snprintf (dataset, sizeof dataset, "bench=%s", self->data->pack_path);
    snprintf (raw, sizeof raw, "%llu", (unsigned long long) limit_bytes);
    snprintf (cache, sizeof cache, "%llu",
        (unsigned long long) (cache_bytes > CACHE_BYTES_MIN? cache_bytes: CACHE_BYTES_MIN));
    snprintf (pieces, sizeof pieces, "bench=%u", piece);
    snprintf (reads, sizeof reads, "%u", options->depth);
    const char *arguments [ARGUMENTS_MAX] = {
        self->tureen, "serve", "--listen", self->endpoint, "--dataset", dataset, "--raw", raw, "--cache",
            cache,
        "--piece", pieces,
        options->depth? "--reads": NULL, reads, NULL
    };
    int nothing = open ("/dev/null", O_WRONLY | O_CLOEXEC);
    self->server = nothing < 0? -1: s_run (arguments, nothing);
    if (nothing >= 0)
        close (nothing);
    return self->server > 0;
}

//  What the job printed, or NULL; the caller's.
static json_t *
s_job (const served_t *self)
{
    char pipeline [128], reply [REPLY_BYTES];
    int ends [2], status = -1;
    snprintf (pipeline, sizeof pipeline, "[{\"op\":\"decode\",\"as\":\"bytes\",\"length\":%zu}]",
        self->data->sample_bytes_max);
    const char *arguments [ARGUMENTS_MAX] = {
        self->tureen, "read", "--connect", self->endpoint, "--dataset", "bench", "--pipeline", pipeline,
            "--json", NULL
    };
    if (pipe2 (ends, O_CLOEXEC))
        return NULL;
    pid_t job = s_run (arguments, ends [1]);
    close (ends [1]);
    size_t length = 0;
    for (ssize_t got; length < sizeof reply
        && (got = read (ends [0], reply + length, sizeof reply - length)) > 0;)
        length += (size_t) got;
    close (ends [0]);
    if (job < 0 || waitpid (job, &status, 0) != job || status != 0)
        return NULL;
    return json_loadb (reply, length, 0, NULL);
}

static void
s_stop (served_t *self)
{
    if (self->server > 0) {
        kill (self->server, SIGTERM);
        waitpid (self->server, NULL, 0);
    }
    char path [128];
    const char *names [] = { "server.sock", "server.sock.lock", "server.sock.rings" };
    for (size_t name = 0; name < sizeof names / sizeof *names; name++) {
        snprintf (path, sizeof path, "%s/%s", self->folder, names [name]);
        unlink (path);
    }
    if (rmdir (self->folder))
        disk_complain ("%s could not be removed: %s", self->folder, strerror (errno));
}

//  The operation `decode` as bytes wants one length.
static bool
s_is_even (const disk_data_t *data)
{
    return catalogue_fields (data->packed) == 1
        && data->bytes == data->sample_bytes_max * (uint64_t) pack_samples (data->pack);
}

bool
disk_served_read (const disk_data_t *data, const disk_options_t *options, uint64_t limit_bytes,
    uint32_t piece, disk_result_t *result, const char **why_p)
{
    served_t self = { .data = data, .folder = "/tmp/disk-bench-XXXXXX", .server = -1 };
    *why_p = "its samples have not all the same length";
    if (!s_is_even (data))
        return false;
    *why_p = "there is no `tureen` beside disk_bench";
    if (!s_find (&self))
        return false;
    *why_p = "no folder for the server's socket can be made in /tmp";
    if (!mkdtemp (self.folder))
        return false;
    snprintf (self.endpoint, sizeof self.endpoint, "ipc://%s/server.sock", self.folder);
    *why_p = "the server or the job failed";
    json_t *reply = s_start (&self, options, limit_bytes, piece)? s_job (&self): NULL;
    s_stop (&self);
    result->bytes = (uint64_t) json_integer_value (json_object_get (reply,
        "samples")) * data->sample_bytes_max;
    result->seconds = json_number_value (json_object_get (reply, "seconds"));
    bool fine = reply && result->seconds > 0;
    json_decref (reply);
    return fine;
}
