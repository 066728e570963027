//  `tureen verify`: reads a whole pack back, names every damaged sample, and judges its order.

#include "command.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include "complain.h"
#include "option.h"
#include "pack.h"
#include "pack_report.h"
#include "pack_scan.h"
#include "transfers.h"
#include "utf8.h"
#include "verify_order.h"
#include "words.h"

enum { EXIT_FAULTS = 1, EXIT_UNUSABLE = 2 };

typedef struct {
    const char *path;
    bool json, quiet;
    catalogue_t *catalogue;
    uint64_t bytes;                     //  of samples that were looked at
    uint64_t damaged;                   //  samples; those of lost volumes too
    uint64_t volume_faults;
    uint64_t paddings;
    pack_report_clipped_t clipped;
    verify_order_t order;
    pack_report_meter_t meter;
    json_t *samples, *volumes, *padding;        //  --json only
} verify_t;

//  ---- arguments

static const option_row_t s_rows [] = {
    { "json", NULL, OPTION_AT (verify_t, json), "one JSON object; docs/operations.md explains its keys" },
    { "quiet", NULL, OPTION_AT (verify_t, quiet), "no progress on standard error" }
};

static const option_table_t s_table = { "tureen verify", s_rows, OPTION_ROWS (s_rows), 1,
    .word_hint = "there is more than one pack: give them one at a time", .before =
    "Usage: tureen verify [--json] [--quiet] PACK\n"
    "Reads a pack from its first byte to its last and says which samples are damaged, and whether its\n"
    "order is a shuffle.\n"
    "\n"
    "  tureen pack /data/train /packs/train\n"
    "  tureen verify /packs/train\n"
    "\n", .after =
    "\n"
    "A line for each damaged sample: volume, chunk, sample's id and name, field, reason.  A volume that is\n"
    "missing is one line for all its samples.  Padding that is not zero is told; it harms nothing.\n"
    "\n"
    "The order is judged by figures with a known law under a true shuffle: the correlation of place and\n"
    "id, ascents, jumps from place to place, neighbours that stayed neighbours, a table of tenths,\n"
    "neighbours that share a chunk, and runs of one label (the first that is one whole number).  A figure\n"
    "is a fault below p = 1e-7, so that fewer than 1 pack of a million fails with a true shuffle.  Packs of\n"
    "fewer than 30 samples are not judged.\n"
    "\n"
    "Exit status: 0 all whole and shuffled, 1 damaged, unfinished or not shuffled, 2 unusable arguments.\n" };

//  -1: go on; else the exit status.
static int
s_parse (verify_t *self, int argc, char **argv)
{
    option_result_t result;
    int status = option_parse (&s_table, self, argc, argv, &result);
    if (status >= 0)
        return status;
    self->path = result.words [0];
    if (result.word_count)
        return -1;
    complain ("verify", "no pack; give the folder that `tureen pack` made");
    return EXIT_UNUSABLE;
}


//  ---- events

static void
s_keep_sample (verify_t *self, const pack_scan_sample_t *sample)
{
    char name [PACK_REPORT_NAME_BYTES];
    json_array_append_new (self->samples, json_pack ("{s:I, s:I, s:I, s:I, s:s, s:s, s:s}",
        "volume", (json_int_t) sample->volume, "chunk", (json_int_t) sample->chunk, "place",
        (json_int_t) sample->position,
        "id", (json_int_t) sample->id, "name",
        pack_report_name (self->catalogue, sample->id, sample->field, name),
        "field", catalogue_field_name (self->catalogue, sample->field), "reason", sample->damage));
}

static bool
s_on_sample (void *context, const pack_scan_sample_t *sample)
{
    verify_t *self = context;
    uint64_t bytes = pack_sample_bytes (catalogue_pack (self->catalogue), sample->id);
    self->bytes += sample->bytes? bytes: 0;
    pack_report_read (&self->meter, bytes);
    if (sample->bytes)
        pack_report_note_clipped (&self->clipped, self->catalogue, sample->id, sample->bytes,
            catalogue_file_bytes (self->catalogue, sample->id, 0));
    if (!sample->damage)
        return true;
    self->damaged++;
    if (self->json)
        s_keep_sample (self, sample);
    else {
        progress_clear (&self->meter.progress);
        pack_report_sample (stdout, self->catalogue, sample);
    }
    return true;
}

static void
s_on_volume (void *context, uint32_t volume, const char *damage, bool is_lost)
{
    verify_t *self = context;
    const pack_t *pack = catalogue_pack (self->catalogue);
    uint32_t first = pack_volume_first (pack, volume), count = pack_volume_first (pack, volume + 1) - first;
    self->volume_faults++;
    self->damaged += is_lost? count: 0;
    if (self->json)
        json_array_append_new (self->volumes,
            json_pack ("{s:I, s:s, s:I, s:I, s:I}", "volume", (json_int_t) volume, "reason",
            damage, "lost", (json_int_t) (is_lost? count: 0), "first_place", (json_int_t) first, "samples",
            (json_int_t) count));
    else {
        progress_clear (&self->meter.progress);
        pack_report_volume (stdout, self->catalogue, volume, damage, is_lost);
    }
}

static void
s_on_padding (void *context, uint32_t volume, uint32_t chunk)
{
    verify_t *self = context;
    self->paddings++;
    if (self->json)
        json_array_append_new (self->padding, json_pack ("{s:I, s:I}", "volume", (json_int_t) volume, "chunk",
            (json_int_t) chunk));
    else {
        progress_clear (&self->meter.progress);
        printf (PACK_VOLUME_NAME ": chunk %" PRIu32 ": the padding behind it is not zero: no sample is "
            "harmed\n", volume,
            chunk);
    }
}


//  ---- the order

//  By id; NULL: there is no label that is one whole number, or *failed.
static int64_t *
s_labels (const catalogue_t *catalogue, bool *failed)
{
    for (size_t index = 0; index < catalogue_labels (catalogue); index++) {
        const catalogue_label_t *label = catalogue_label (catalogue, index);
        if (strcmp (label->dtype, "int64") || label->dimensions)
            continue;
        uint32_t samples = catalogue_samples (catalogue);
        int64_t *labels = malloc (samples * sizeof *labels);
        *failed = !labels;
        for (uint32_t id = 0; labels && id < samples; id++)
            catalogue_label_value (catalogue, index, id, (uint8_t *) &labels [id]);
        return labels;
    }
    return NULL;
}

static bool
s_judge (verify_t *self)
{
    const pack_t *pack = catalogue_pack (self->catalogue);
    bool failed = false;
    int64_t *labels = s_labels (self->catalogue, &failed);
    if (!failed && verify_order (pack_order (pack), pack_samples (pack), pack_chunk_samples (pack), labels,
        &self->order))
        failed = true;
    free (labels);
    return !failed;
}

static void
s_print_order (const verify_order_t *order)
{
    if (order->tested == 0) {
        printf ("order: fewer than %d samples say nothing of it\n", VERIFY_ORDER_LEAST);
        return;
    }
    printf ("order: %s by %" PRIu32 " tests (false alarm: fewer than 1 pack in a million)\n",
        order->faults? "NO SHUFFLE": "a shuffle", order->tested);
    for (size_t index = 0; index < VERIFY_ORDER_TESTS; index++) {
        const verify_figure_t *figure = &order->figures [index];
        if (figure->tested)
            printf ("  %-12s %.6g, of shuffles %.6g +- %.3g: p = %.2g%s\n", figure->name, figure->value,
                figure->expected,
                figure->spread, figure->p, figure->p < VERIFY_ORDER_BOUND? ": FAULT": "");
    }
}


//  ---- what came out

static bool
s_is_good (const verify_t *self)
{
    return self->damaged == 0 && self->volume_faults == 0 && self->order.faults == 0;
}

static void
s_print (const verify_t *self, double seconds)
{
    const pack_t *pack = catalogue_pack (self->catalogue);
    char clipped [PACK_REPORT_CLIPPED_BYTES];
    s_print_order (&self->order);
    pack_report_tiled (stdout, self->catalogue);
    if (pack_report_clipped_text (&self->clipped, clipped))
        printf ("warning: %s\n", clipped);
    printf ("%s: %" PRIu32 " sample%s, %.1f MB in %" PRIu32 " volume%s read in %.2f s (%.0f MB/s): ",
        s_is_good (self)? "good": "BAD",
        pack_samples (pack), plural (pack_samples (pack)), (double) self->bytes / 1e6, pack_volumes (pack),
        plural (pack_volumes (pack)), seconds,
        (double) self->bytes / 1e6 / (seconds > 0? seconds: 1e-9));
    if (self->damaged)
        printf ("%" PRIu64 " sample%s damaged", self->damaged, plural (self->damaged));
    else
        printf (pack_samples (pack) == 1? "it is whole": "all samples whole");
    printf ("%s%s\n", self->volume_faults? ", volumes damaged": "",
        self->order.faults? ", order not shuffled": "");
}

static json_t *
s_json_order (const verify_order_t *order)
{
    json_t *figures = json_object ();
    for (size_t index = 0; index < VERIFY_ORDER_TESTS; index++) {
        const verify_figure_t *figure = &order->figures [index];
        if (figure->tested)
            json_object_set_new (figures, figure->name,
                json_pack ("{s:f, s:f, s:f, s:f}", "value", figure->value,
                "expected", figure->expected, "spread", figure->spread, "p", figure->p));
    }
    return json_pack ("{s:o, s:f, s:o}", "shuffled",
        order->tested? json_boolean (order->faults == 0): json_null (),
        "bound", VERIFY_ORDER_BOUND, "figures", figures);
}

static void
s_print_json (verify_t *self, double seconds)
{
    const pack_t *pack = catalogue_pack (self->catalogue);
    json_t *root = json_pack ("{s:b, s:I, s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:O, s:O, s:O, s:o}",
        "good", s_is_good (self), "clipped_samples", (json_int_t) self->clipped.count,
        "pack", utf8_json (self->path), "fingerprint", catalogue_fingerprint (self->catalogue),
        "samples", (json_int_t) pack_samples (pack), "chunk_samples", (json_int_t) pack_chunk_samples (pack),
        "volume_count", (json_int_t) pack_volumes (pack), "damaged", (json_int_t) self->damaged,
        "bytes", (json_int_t) self->bytes, "seconds", seconds, "damage", self->samples, "volumes",
        self->volumes, "padding", self->padding, "order", s_json_order (&self->order));
    assert (root);
    json_dumpf (root, stdout, JSON_REAL_PRECISION (9));
    putchar ('\n');
    json_decref (root);
}

//  No index, no samples: one sentence.
static void
s_print_broken (const verify_t *self, const char *error)
{
    char shown [2 * PACK_REPORT_ERROR_BYTES];
    if (!self->json) {
        printf ("%s\n", utf8_visible (error, strlen (error), shown, sizeof shown));
        return;
    }
    json_t *root = json_pack ("{s:b, s:o, s:o}", "good", false, "pack", utf8_json (self->path), "error",
        utf8_json (error));
    json_dumpf (root, stdout, 0);
    putchar ('\n');
    json_decref (root);
}

static int
s_scan (verify_t *self)
{
    static const pack_scan_events_t events = { .sample = s_on_sample, .volume = s_on_volume,
        .padding = s_on_padding };
    self->samples = json_array ();
    self->volumes = json_array ();
    self->padding = json_array ();
    pack_report_begin (&self->meter, "verifying", catalogue_pack (self->catalogue));
    int rc = pack_scan (self->catalogue, &events, self);
    double seconds = pack_report_seconds (&self->meter);
    progress_clear (&self->meter.progress);
    if (rc && rc != -ENOMEM) {
        complain ("verify", "'%s': %s: verify again when the store answers", self->path,
            transfers_error (rc));
        return EXIT_UNUSABLE;
    }
    if (rc || !s_judge (self)) {
        complain ("verify", "'%s': not enough memory", self->path);
        return EXIT_UNUSABLE;
    }
    if (self->json)
        s_print_json (self, seconds);
    else
        s_print (self, seconds);
    return s_is_good (self)? EXIT_SUCCESS: EXIT_FAULTS;
}

static int
s_run (verify_t *self)
{
    char error [PACK_REPORT_ERROR_BYTES];
    int status;
    self->meter.progress = progress_begin ("verify", self->quiet);
    self->catalogue = pack_report_open (self->path, &self->meter.progress, &status, error);
    if (self->catalogue)
        status = s_scan (self);
    else
    if (status == EXIT_FAULTS)
        s_print_broken (self, error);
    else
        complain ("verify", "%s", error);
    json_decref (self->samples);
    json_decref (self->volumes);
    json_decref (self->padding);
    catalogue_destroy (&self->catalogue);
    return status;
}

int
command_verify (int argc, char **argv)
{
    complain_begin ();
    verify_t verify = { .path = NULL };
    int status = s_parse (&verify, argc, argv);
    if (status < 0)
        status = s_run (&verify);
    //  Exit status 1 is for faults: what could not be written is no answer.
    int ended = complain_of_output ("verify", status);
    return ended == status? status: EXIT_UNUSABLE;
}
