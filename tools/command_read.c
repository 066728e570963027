#include "command_read.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <jansson.h>
#include "clock.h"
#include "complain.h"
#include "output.h"
#include "plural.h"
#include "read_options.h"
#include "read_record.h"
#include "tureen.h"
#include "utf8.h"

enum {
    EXIT_RUNTIME = 1,
    EXIT_ARGUMENTS = 2,
    EXIT_UNREADABLE = 3,                //  all came that can be read, and some cannot
    EXIT_SIGNAL = 128,
    READ_POLL_MS = 100                  //  a signal is noticed within this
};

//  --------------------------------------------------------------------------
//  Signals

//  A handler can have nothing but a global; it is written by the handler only.
static volatile sig_atomic_t s_signal;

static void
s_note_signal (int number)
{
    s_signal = number;
}

static void
s_catch_signals (void)
{
    //  Without SA_RESTART: a sleep must end.
    struct sigaction action = { .sa_handler = s_note_signal };
    sigemptyset (&action.sa_mask);
    sigaction (SIGINT, &action, NULL);
    sigaction (SIGTERM, &action, NULL);
    sigaction (SIGXCPU, &action, NULL);
}

//  --------------------------------------------------------------------------
//  The run

typedef struct {
    const read_options_t *options;
    tureen_loader_t *loader;
    read_record_t *record;
    bool recorded;                      //  nothing failed to be written
    uint64_t epochs;                    //  finished
    uint64_t batches;
    uint64_t padding;                   //  batches that were; they count nowhere else
    uint64_t samples;
    uint64_t bytes;
    uint64_t checksum;                  //  the sum of all 64-bit words, whatever the order of the samples
    double joined;                      //  times in seconds, of a monotonic clock
    double first;                       //  when the first batch was there: the schedule's begin
    double last;                        //  when the last one was there; with a rate: when its turn was over
    double waited;                      //  until the last batch was there
    double waiting;                     //  since then: for more, or for the word that there is none
} run_t;

//  Returns at that time, or within READ_POLL_MS of a signal: one that comes between our look and the sleep
//  does not interrupt it.
static void
s_sleep_until (double when)
{
    for (double now; !s_signal && (now = clock_seconds (CLOCK_MONOTONIC)) < when;) {
        double until = when - now < READ_POLL_MS * 1e-3? when: now + READ_POLL_MS * 1e-3;
        time_t whole = (time_t) until;
        struct timespec time = { .tv_sec = whole, .tv_nsec = (long) ((until - (double) whole) * 1e9) };
        clock_nanosleep (CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
    }
}

//  Reads every byte, as a training step would.
static void
s_touch (run_t *self, const tureen_batch_t *batch)
{
    bool counts = !tureen_batch_padding (batch);
    const tureen_info_t *info = tureen_loader_info (self->loader);
    for (size_t index = 0; index < info->field_count; index++) {
        tureen_array_t array;
        bool found = tureen_batch_array (batch, info->fields [index].name, &array);
        assert (found);
        const uint8_t *data = array.data;
        uint64_t sum = 0, word = 0;
        size_t words = array.bytes / sizeof word;
        for (size_t place = 0; place < words; place++) {
            memcpy (&word, data + place * sizeof word, sizeof word);
            sum += word;
        }
        for (size_t place = words * sizeof word; place < array.bytes; place++)
            sum += data [place];
        self->checksum += counts? sum: 0;
        self->bytes += counts? array.bytes: 0;
    }
}

static bool
s_take_batch (run_t *self, tureen_batch_t *batch)
{
    self->last = clock_seconds (CLOCK_MONOTONIC);
    if (self->batches++ == 0)
        self->first = self->last;
    self->padding += tureen_batch_padding (batch);
    self->samples += tureen_batch_padding (batch)? 0: tureen_batch_count (batch);
    bool written = read_record_batch (self->record, self->loader, batch);
    s_touch (self, batch);
    //  The batch is held while the step would last.
    double rate = self->options->rate;
    if (rate > 0) {
        s_sleep_until (self->first + (double) self->samples / rate);
        self->last = clock_seconds (CLOCK_MONOTONIC);
    }
    tureen_batch_release (&batch);
    return written;
}

static void
s_tell_notices (run_t *self)
{
    for (char *notice; (notice = tureen_loader_notice (self->loader)); free (notice))
        fprintf (stderr, "tureen read: %s\n", notice);
}

//  The next event, or TUREEN_TIMEOUT after a signal; counts the time that it took.
static tureen_event_t
s_next (run_t *self, tureen_batch_t **batch_p)
{
    double begin = clock_seconds (CLOCK_MONOTONIC);
    tureen_event_t event = TUREEN_TIMEOUT;
    *batch_p = NULL;
    while (event == TUREEN_TIMEOUT && !s_signal) {
        event = tureen_loader_next_within (self->loader, batch_p, READ_POLL_MS);
        s_tell_notices (self);
    }
    self->waiting += clock_seconds (CLOCK_MONOTONIC) - begin;
    if (event == TUREEN_BATCH) {
        self->waited += self->waiting;
        self->waiting = 0;
    }
    return event;
}

//  Reads until the end: the exit status.
static int
s_read (run_t *self)
{
    while (!s_signal) {
        tureen_batch_t *batch;
        tureen_event_t event = s_next (self, &batch);
        bool written = true;
        if (event == TUREEN_END)
            return EXIT_SUCCESS;
        if (event == TUREEN_ERROR) {
            complain ("read", "%s", tureen_loader_error (self->loader));
            return EXIT_RUNTIME;
        }
        if (event == TUREEN_BATCH)
            written = s_take_batch (self, batch);
        if (event == TUREEN_EPOCH_END) {
            self->epochs++;
            written = read_record_epoch_end (self->record, self->loader);
        }
        self->recorded = written;
        if (!written)
            return EXIT_RUNTIME;
    }
    if (s_signal == SIGXCPU)
        complain ("read", "the limit of processor time is reached (ulimit -t, LimitCPU=)");
    return EXIT_SIGNAL + s_signal;
}

//  --------------------------------------------------------------------------
//  The result

//  The object of tureen_loader_unreadable; a new reference.
static json_t *
s_unreadable (tureen_loader_t *loader)
{
    char *text;
    json_t *told = tureen_loader_unreadable (loader, &text)? NULL: json_loads (text, 0, NULL);
    free (text);
    assert (told);
    return told;
}

//  The first ones, with the rest counted.
static void
s_print_unreadable (const json_t *told)
{
    json_int_t count = json_integer_value (json_object_get (told, "count"));
    if (count == 0)
        return;
    size_t index;
    json_t *sample;
    const json_t *samples = json_object_get (told, "samples");
    printf (count == 1? "%lld sample was left out, because it cannot be read%s\n"
        : "%lld samples were left out, because they cannot be read%s\n", (long long) count,
        (size_t) count > json_array_size (samples)? "; the first:": ":");
    json_array_foreach (samples, index, sample) {
        char shown [1024];
        const char *reason = json_string_value (json_object_get (sample, "reason"));
        printf ("  id %lld, %s\n", (long long) json_integer_value (json_object_get (sample, "id")),
            reason? utf8_visible (reason, strlen (reason), shown, sizeof shown): "");
    }
}

static void
s_print_json (const run_t *self, const tureen_info_t *info, double seconds, double rate)
{
    char checksum [17], seed [21];
    snprintf (checksum, sizeof checksum, "%016" PRIx64, self->checksum);
    snprintf (seed, sizeof seed, "%" PRIu64, info->seed);
    json_t *root = json_pack ("{s:I,s:I,s:I,s:I,s:f,s:f,s:f,s:I,s:s,s:b,s:s,s:I,s:I,s:I,s:I,s:I,s:o}",
        "job", (json_int_t) info->job, "epochs", (json_int_t) self->epochs, "batches",
        (json_int_t) self->batches,
        "samples", (json_int_t) self->samples, "seconds", seconds, "samples_per_second", rate,
        "wait_seconds", self->waited, "bytes", (json_int_t) self->bytes, "checksum", checksum,
        "ring", (int) info->ring, "seed", seed, "rank", (json_int_t) info->rank,
        "world_size", (json_int_t) info->world_size, "node", (json_int_t) info->node, "nodes",
        (json_int_t) info->nodes, "padding", (json_int_t) self->padding,
        "unreadable", s_unreadable (self->loader));
    assert (root);
    json_dumpf (root, stdout, JSON_REAL_PRECISION (9));
    putchar ('\n');
    json_decref (root);
}

static void
s_print (const run_t *self)
{
    const tureen_info_t *info = tureen_loader_info (self->loader);
    double seconds = self->batches? self->last - self->joined: 0;
    double rate = seconds > 0? (double) self->samples / seconds: 0;
    if (self->options->json)
        s_print_json (self, info, seconds, rate);
    else {
        char rank [64] = "", node [64] = "";
        if (info->world_size > 1)
            snprintf (rank, sizeof rank, ", rank %" PRIu32 " of %" PRIu32, info->rank, info->world_size);
        if (info->nodes > 1)
            snprintf (node, sizeof node, ", node %" PRIu32 " of %" PRIu32, info->node, info->nodes);
        printf ("job %" PRIu64 "%s%s (%s, seed %" PRIu64 "): %" PRIu64 " epoch%s, %" PRIu64 " sample%s in "
            "%" PRIu64
            " batch%s, %.1f MiB\n"
            "%.3f seconds, %.1f samples a second, %.3f seconds spent waiting\n", info->job, node, rank,
            info->ring? "shared memory": "inline", info->seed, self->epochs, plural (self->epochs),
            self->samples,
            plural (self->samples), self->batches, plural_es (self->batches),
            (double) self->bytes / (1 << 20), seconds, rate, self->waited);
        json_t *told = s_unreadable (self->loader);
        s_print_unreadable (told);
        json_decref (told);
    }
}

//  Whether samples are missing, and the user has not said that they may.
static bool
s_lacks_samples (const run_t *self)
{
    json_t *told = s_unreadable (self->loader);
    bool lacks = json_integer_value (json_object_get (told, "count")) > 0;
    json_decref (told);
    return lacks && self->options->loader.on_bad != TUREEN_BAD_DROP;
}

//  --------------------------------------------------------------------------

static void
s_tell_waiting (void *context, const char *text)
{
    (void) context;
    complain ("read", "%s", text);
}

//  Opens the files and joins.  EXIT_SUCCESS, or the exit status.
static int
s_begin (run_t *self)
{
    char error [TUREEN_ERROR_BYTES];
    self->record = read_record_new (self->options);
    if (!self->record)
        return EXIT_RUNTIME;
    tureen_options_t options = self->options->loader;
    options.state = read_record_state (self->record);
    options.waiting = s_tell_waiting;
    self->loader = tureen_loader_new (&options, error, sizeof error);
    if (!self->loader) {
        int status = errno == EINVAL? EXIT_ARGUMENTS: EXIT_RUNTIME;
        read_options_explain (self->options, error);
        return status;
    }
    self->joined = clock_seconds (CLOCK_MONOTONIC);
    //  Only now: until here a signal's usual effect is the right one.
    s_catch_signals ();
    if (tureen_loader_info (self->loader)->forked)
        fprintf (stderr, "tureen read: the run of --state goes on elsewhere: this one goes its own way from "
            "there\n");
    self->recorded = read_record_begin (self->record, self->loader);
    return self->recorded? EXIT_SUCCESS: EXIT_RUNTIME;
}

static int
s_run (const read_options_t *options)
{
    run_t run = { .options = options };
    int status = s_begin (&run);
    if (status == EXIT_SUCCESS) {
        status = s_read (&run);
        //  After a failure nothing more: a state may say only what is in the other file.
        if (run.recorded && !read_record_end (run.record, run.loader) && status == EXIT_SUCCESS)
            status = EXIT_RUNTIME;
        s_print (&run);
        if (status == EXIT_SUCCESS && s_lacks_samples (&run))
            status = EXIT_UNREADABLE;
    }
    read_record_destroy (&run.record);
    tureen_loader_destroy (&run.loader);
    return status;
}

int
command_read (int argc, char **argv)
{
    output_begin ();
    read_options_t options;
    int status = read_options_parse (&options, argc, argv);
    if (status < 0)
        status = s_run (&options);
    read_options_clear (&options);
    return output_end ("read", status);
}
