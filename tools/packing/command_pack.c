#include "command_pack.h"
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <jansson.h>
#include "clock.h"
#include "complain.h"
#include "image_reader.h"
#include "json_text.h"
#include "machine.h"
#include "output.h"
#include "pack.h"
#include "pack_options.h"
#include "pack_report.h"
#include "plural.h"
#include "progress.h"
#include "unreadable.h"

enum { EXIT_FAILED = 1, EXIT_UNUSABLE = 2, EXIT_SIGNAL = 128, MAPPED_BYTES = 4 << 20 };

//  ---- signals

static volatile sig_atomic_t s_signal;

static void
s_note_signal (int number)
{
    s_signal = number;
}

//  The second one has its usual effect, which does no harm either.
static void
s_catch_signals (void)
{
    struct sigaction action = { .sa_handler = s_note_signal, .sa_flags = SA_RESTART | (int) SA_RESETHAND };
    sigemptyset (&action.sa_mask);
    sigaction (SIGINT, &action, NULL);
    sigaction (SIGTERM, &action, NULL);
    sigaction (SIGXCPU, &action, NULL);
}

static bool
s_is_stopped (void *context)
{
    (void) context;
    return s_signal != 0;
}

//  What packing calls us back with.
typedef struct {
    progress_t progress;
    int pass;                           //  the one that is shown; 0: none yet
    const catalogue_t *catalogue;       //  lent; NULL: names are not known yet
    pack_report_clipped_t clipped;
} run_t;

//  Rows are found by image readers.
static void *
s_finder_new (void)
{
    return image_reader_new ();
}

static void
s_finder_destroy (void *finder)
{
    image_reader_t *reader = finder;
    image_reader_destroy (&reader);
}

static int
s_find (void *finder, const uint8_t *bytes, size_t size, const uint8_t **rows_p, size_t *rows_bytes_p)
{
    return image_reader_rows (finder, bytes, size, rows_p, rows_bytes_p);
}

static void
s_tell (void *context, const packing_progress_t *progress)
{
    static const char *const passes [2][3] = { { "reading (1 of 2)", "writing (2 of 2)" },
        { "reading (1 of 3)", "writing (2 of 3)", "uploading (3 of 3)" } };
    run_t *self = context;
    //  What an earlier run has done is in the first figures of a pass.
    if (self->pass != progress->pass)
        progress_step (&self->progress, &(progress_step_t) {
            .what = passes [progress->passes > 2][progress->pass - 1], .beside = "samples",
            .total = progress->bytes_total, .after = progress->pass == 1? progress->bytes_total: 0 },
            progress->bytes);
    self->pass = progress->pass;
    progress_tell (&self->progress, progress->bytes, progress->samples);
}

static void
s_note (void *context, uint64_t id, const pack_item_t *item)
{
    run_t *self = context;
    pack_report_note_clipped (&self->clipped, self->catalogue, (uint32_t) id, item->files [0],
        item->bytes [0]);
}

static void
s_warn (void *context, const catalogue_t *catalogue)
{
    run_t *self = context;
    char text [PACK_SOURCE_ERROR_BYTES];
    self->catalogue = catalogue;
    pack_report_name_clipped (&self->clipped, catalogue);
    progress_clear (&self->progress);
    for (size_t index = 0; catalogue_doubt (catalogue, index); index++)
        fprintf (stderr, "tureen pack: warning: %s\n", catalogue_doubt (catalogue, index));
    if (unreadable_describe (catalogue, text, sizeof text))
        fprintf (stderr, "tureen pack: warning: %s\n", text);
}

//  Buckets are open all at once.
static void
s_raise_descriptors (void)
{
    struct rlimit limit;
    if (getrlimit (RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit (RLIMIT_NOFILE, &limit);
    }
}


//  ---- the result

static bool
s_print_json (const char *target, const packing_result_t *result, uint64_t clipped, double seconds)
{
    char seed [24];
    snprintf (seed, sizeof seed, "%" PRIu64, result->seed);
    json_t *object = json_pack ("{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:f, s:b, s:b}", "folder",
        json_text (target), "samples", (json_int_t) result->samples, "bytes", (json_int_t) result->bytes,
        "with_rows", (json_int_t) result->with_rows, "rows_bytes", (json_int_t) result->rows_bytes,
        "clipped_samples", (json_int_t) clipped, "volumes", (json_int_t) result->volumes, "chunks",
        (json_int_t) result->chunks, "seed", seed,
        "seconds", seconds, "resumed", result->resumed, "was_finished", result->was_finished);
    if (object && result->was_finished) {       //  not known
        json_object_del (object, "with_rows");
        json_object_del (object, "rows_bytes");
        json_object_del (object, "clipped_samples");
    }
    bool good = object && json_dumpf (object, stdout, JSON_INDENT (2)) == 0 && putchar ('\n') != EOF;
    json_decref (object);
    return good || complain ("pack",
        "the result cannot be printed as JSON: standard output fails, or there is no "
        "memory");
}

static bool
s_print (const pack_options_t *options, const packing_result_t *result,
    const pack_report_clipped_t *clipped, double seconds)
{
    char text [PACK_REPORT_CLIPPED_BYTES];
    if (pack_report_clipped_text (clipped, text))
        fprintf (stderr, "tureen pack: warning: %s\n", text);
    const char *target = options->packing.address? options->packing.address: options->packing.target;
    if (options->json)
        return s_print_json (target, result, clipped->count, seconds);
    if (result->was_finished)
        printf ("'%s' was finished already: ", target);
    printf ("%" PRIu64 " sample%s, %.1f MB, in %" PRIu64 " chunk%s and %" PRIu64 " volume%s, seed %" PRIu64,
        result->samples, plural (result->samples), (double) result->bytes / 1e6, result->chunks,
        plural (result->chunks), result->volumes, plural (result->volumes), result->seed);
    if (!result->was_finished)
        printf ("; %s%.1f s, %.0f MB/s", result->resumed? "this time ": "", seconds,
            (double) result->bytes / 1e6 / (seconds > 0? seconds: 1));
    putchar ('\n');
    if (result->with_rows)
        printf ("with the places of rows in %" PRIu64 " JPEG%s: %.1f MB\n", result->with_rows,
            plural (result->with_rows), (double) result->rows_bytes / 1e6);
    return true;
}

static int
s_run (pack_options_t *options)
{
    run_t run = { .progress = progress_begin ("pack", options->quiet) };
    const packing_rows_t rows = { .threads = machine_processors (""), .finder_new = s_finder_new,
        .finder_destroy = s_finder_destroy, .find = s_find };
    packing_options_t *packing = &options->packing;
    packing->progress = options->quiet? NULL: s_tell;
    packing->source.progress = &run.progress;
    packing->found = s_warn;
    packing->read = s_note;
    packing->stopped = s_is_stopped;
    packing->context = &run;
    packing->source.store = (store_persistence_t) { .patience_ms = packing->patience_ms,
        .stopped = s_is_stopped };
    packing->rows = options->no_rows? NULL: &rows;
    //  Large pictures that one thread has done with are memory for another: the C library would keep them,
    //  thread by thread.  Small ones it may keep: to give them back each time takes a sixth of the time.
    mallopt (M_MMAP_THRESHOLD, MAPPED_BYTES);
    mallopt (M_TRIM_THRESHOLD, 2 * MAPPED_BYTES);
    s_catch_signals ();
    if (packing->address || pack_options_has_stores (options))
        signal (SIGPIPE, SIG_IGN);      //  libcurl writes to connections that the store has closed
    s_raise_descriptors ();
    packing_result_t result;
    char error [PACK_SOURCE_ERROR_BYTES];
    double began = clock_seconds (CLOCK_MONOTONIC);
    int rc = packing_run (packing, &result, error);
    progress_clear (&run.progress);
    if (rc)
        complain ("pack", "%s", error);
    if (rc == -ECANCELED && s_signal == SIGXCPU)
        complain ("pack", "the limit of processor time is reached (ulimit -t, LimitCPU=): raise it, then go "
            "on with --resume");
    if (rc == -ECANCELED)
        return EXIT_SIGNAL + s_signal;
    bool good = rc == 0 && s_print (options, &result, &run.clipped, clock_seconds (CLOCK_MONOTONIC) - began);
    return good? 0: EXIT_FAILED;
}

int
command_pack (int argc, char **argv)
{
    output_begin ();
    pack_options_t options;
    int status = pack_options_parse (&options, argc, argv);
    if (status < 0)
        status = s_run (&options);
    free (options.classes);
    return output_end ("pack", status);
}
