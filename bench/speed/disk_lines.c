#include "disk_lines.h"
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "disk_plain.h"
#include "disk_served.h"
#include "median.h"

#define NEAR 0.95

enum { PROBE_MS = 1000, MIB = 1 << 20, BUFFERS_BYTES_MAX = 128 << 20, ORDERS = 1000 };

static const struct {
    uint32_t bytes, depth;
} s_sequential [] = { { MIB, 8 }, { MIB, 32 }, { 4 * MIB, 4 }, { 4 * MIB, 16 }, { 8 * MIB, 8 } };

static const uint32_t s_depths [] = { 1, 4, 16, 64 };

enum { SEQUENTIAL = sizeof s_sequential / sizeof *s_sequential, DEPTHS = sizeof s_depths / sizeof *s_depths };

//  ---- the list

const char *
disk_kind_name (disk_kind_t kind)
{
    static const char *const names [DISK_KINDS] = {
        [DISK_SEQUENTIAL] = "sequential", [DISK_PIECES] = "random_pieces", [DISK_PACKED] = "packed",
        [DISK_SERVED] = "served",
        [DISK_PLAIN_COLD] = "plain_cold", [DISK_PLAIN_WARM] = "plain_warm",
        [DISK_PLAIN_LIMITED] = "plain_limited"
    };
    return names [kind];
}

static bool
s_is_left_out (const disk_lines_t *self, const disk_line_t *line)
{
    const char *name = disk_kind_name (line->kind), *only = self->options->only;
    for (const char *place = only; place && (place = strstr (place, name)); place++)
        if ((place == only || place [-1] == ',') && strchr (",", place [strlen (name)]))
            return false;
    return only != NULL;
}

//  What --only leaves out goes.
static void
s_select (disk_lines_t *self)
{
    size_t kept = 0;
    for (size_t index = 0; index < self->count; index++)
        if (!s_is_left_out (self, &self->lines [index]))
            self->lines [kept++] = self->lines [index];
    self->count = kept;
}

static disk_line_t *
s_add (disk_lines_t *self, disk_kind_t kind)
{
    assert (self->count < DISK_LINES_MAX);
    disk_line_t *line = &self->lines [self->count++];
    line->kind = kind;
    return line;
}

static void
s_add_sequential (disk_lines_t *self)
{
    for (size_t index = 0; index < SEQUENTIAL; index++) {
        disk_line_t *line = s_add (self, DISK_SEQUENTIAL);
        line->request_bytes = s_sequential [index].bytes;
        line->depth = s_sequential [index].depth;
        snprintf (line->name, sizeof line->name, "sequential, %u MiB, depth %u", line->request_bytes / MIB,
            line->depth);
    }
}

//  Depths at which the buffers stay small; pieces of one sample are what single samples are.
static void
s_add_pieces (disk_lines_t *self, uint32_t piece)
{
    for (size_t index = 0; index < self->count; index++)
        if (self->lines [index].kind == DISK_PIECES && self->lines [index].piece == piece)
            return;
    for (size_t index = 0; index < DEPTHS; index++) {
        if (s_depths [index] > 1
            && (uint64_t) piece * self->data->sample_bytes_max * s_depths [index] > BUFFERS_BYTES_MAX)
            continue;
        disk_line_t *line = s_add (self, DISK_PIECES);
        line->piece = piece;
        line->depth = s_depths [index];
        if (piece > 1)
            snprintf (line->name, sizeof line->name, "random pieces of %u, depth %u", piece, line->depth);
        else
            snprintf (line->name, sizeof line->name, "random samples, depth %u", line->depth);
    }
}

static void
s_add_packed (disk_lines_t *self, disk_kind_t kind, uint32_t memory)
{
    disk_line_t *line = s_add (self, kind);
    line->memory = memory;
    line->limit_bytes = self->data->bytes / 100 * memory;
    snprintf (line->name, sizeof line->name, "%s, memory %u %%",
        kind == DISK_PACKED? "packed": "packed, server and job", memory);
    if (line->limit_bytes < disk_packed_least (self->data)) {
        line->missing = "too little memory: take more samples";
        return;
    }
    line->piece = disk_packed_piece (self->data, self->options, &self->cost, line->limit_bytes);
    s_add_pieces (self, line->piece);
}

static void
s_add_plain (disk_lines_t *self)
{
    strcpy (s_add (self, DISK_PLAIN_COLD)->name, "plain files, cold");
    strcpy (s_add (self, DISK_PLAIN_WARM)->name, "plain files, warm");
    for (size_t index = 0; index < self->options->memory_count; index++) {
        disk_line_t *line = s_add (self, DISK_PLAIN_LIMITED);
        line->memory = self->options->memories [index];
        line->limit_bytes = self->data->bytes / 100 * line->memory;
        snprintf (line->name, sizeof line->name, "plain files, 2nd pass, memory %u %%", line->memory);
    }
}

//  In the order of kinds, so that the table reads well; warm comes right after cold, as it must.
static int
s_compare (const void *left, const void *right)
{
    const disk_line_t *one = left, *other = right;
    if (one->kind != other->kind)
        return one->kind < other->kind? -1: 1;
    if (one->piece != other->piece && one->kind == DISK_PIECES)
        return one->piece < other->piece? -1: 1;
    return one < other? -1: 1;
}

//  A probe of some 50 ms does not see what a source gives once its burst allowance is used up: a pass that is
//  not measured does.
static bool
s_learn (disk_lines_t *self)
{
    uint64_t limit_bytes = self->data->bytes / 4;
    disk_result_t result;
    disk_packed_notes_t notes;
    if (limit_bytes < disk_packed_least (self->data))
        return true;
    uint32_t piece = disk_packed_piece (self->data, self->options, &self->cost, limit_bytes);
    disk_data_forget_pack (self->data, self->options->drop_caches);
    return disk_packed_read (self->data, self->options, limit_bytes, piece, &self->cost, ORDERS, &result,
        &notes);
}

bool
disk_lines_open (disk_lines_t *self, const disk_data_t *data, const disk_options_t *options)
{
    char path [DISK_PATH_BYTES + 64];
    *self = (disk_lines_t) { .options = options, .data = data, .cost = cost_assumed () };
    self->device = disk_device_new (data, options);
    if (!self->device)
        return false;
    pack_volume_path (data->pack, 0, path, sizeof path);
    int rc = cost_probe (&self->cost, path, PROBE_MS);
    if (rc)
        disk_complain ("%s: %s", path, strerror (-rc));
    self->probed = self->cost;
    if (rc || !s_learn (self))
        return false;
    self->learnt = self->cost;
    s_add_sequential (self);
    s_add_pieces (self, 1);
    for (size_t index = 0; index < options->memory_count; index++)
        s_add_packed (self, DISK_PACKED, options->memories [index]);
    for (size_t index = 0; index < options->memory_count; index++)
        s_add_packed (self, DISK_SERVED, options->memories [index]);
    s_add_plain (self);
    qsort (self->lines, self->count, sizeof *self->lines, s_compare);
    s_select (self);
    return true;
}

void
disk_lines_close (disk_lines_t *self)
{
    disk_device_destroy (&self->device);
}

//  ---- one line

static bool
s_device (disk_lines_t *self, const disk_line_t *line, uint64_t seed, disk_result_t *result)
{
    disk_ranges_t ranges = line->kind == DISK_SEQUENTIAL?
        disk_ranges_sequential (self->data, line->request_bytes):
        disk_ranges_pieces (self->data, line->piece, seed);
    bool fine = disk_device_read (self->device, &ranges, line->depth, self->options->seconds, result);
    free (ranges.ranges);
    return fine;
}

static bool
s_plain (disk_lines_t *self, disk_line_t *line, uint64_t seed, disk_result_t *result)
{
    if (line->kind == DISK_PLAIN_LIMITED)
        return disk_plain_read_limited (self->data, self->options, line->limit_bytes, seed, result,
            &line->missing);
    if (line->kind == DISK_PLAIN_COLD || !self->cold_files)
        self->cold_files = catalogue_samples (self->data->plain);
    return disk_plain_read (self->data, self->options, seed, seed + line->kind, &self->cold_files, result);
}

static void
s_forget (const disk_lines_t *self, const disk_line_t *line)
{
    if (line->kind < DISK_PLAIN_COLD)
        disk_data_forget_pack (self->data, self->options->drop_caches);
    else
    if (line->kind != DISK_PLAIN_WARM)
        disk_data_forget_plain (self->data, self->options->drop_caches);
}

//  False: nothing can go on.  A line that cannot be measured here is missing.
static bool
s_measure (disk_lines_t *self, disk_line_t *line, uint64_t seed)
{
    disk_result_t result = { 0 };
    bool fine;
    s_forget (self, line);
    if (line->kind == DISK_PACKED)
        fine = disk_packed_read (self->data, self->options, line->limit_bytes, line->piece, &self->cost, seed,
            &result, &line->notes);
    else
    if (line->kind == DISK_SERVED)
        fine = disk_served_read (self->data, self->options, line->limit_bytes, line->piece, &result,
            &line->missing);
    else
    if (line->kind < DISK_PACKED)
        fine = s_device (self, line, seed, &result);
    else
        fine = s_plain (self, line, seed, &result);
    if (fine) {
        line->missing = NULL;
        line->values [line->count++] = (double) result.bytes / result.seconds;
    }
    return fine || line->missing;
}

//  Progress, for people at a terminal.
static void __attribute__ ((format (printf, 1, 2)))
s_progress (const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    if (isatty (STDERR_FILENO))
        vfprintf (stderr, format, arguments);
    va_end (arguments);
}

bool
disk_lines_measure (disk_lines_t *self, bool (*stopped) (void *context))
{
    for (uint32_t round = 0; round < self->options->rounds; round++)
        for (size_t index = 0; index < self->count; index++) {
            disk_line_t *line = &self->lines [index];
            s_progress ("\r\033[Kround %u of %u: %s", round + 1, self->options->rounds, line->name);
            if (stopped (NULL) || (!line->missing && !s_measure (self, line, (round + 1) * ORDERS))) {
                s_progress ("\n");
                return false;
            }
        }
    s_progress ("\r\033[K");
    return true;
}

//  ---- figures

static double
s_median (const double *values, size_t count)
{
    double sorted [DISK_ROUNDS_MAX];
    if (count == 0)
        return NAN;
    memcpy (sorted, values, count * sizeof *values);
    return median_of (sorted, count);
}

double
disk_line_median (const disk_line_t *line)
{
    return s_median (line->values, line->count);
}

const disk_line_t *
disk_lines_best (const disk_lines_t *self, disk_kind_t kind, uint32_t piece)
{
    const disk_line_t *best = NULL;
    for (size_t index = 0; index < self->count; index++) {
        const disk_line_t *line = &self->lines [index];
        if (line->kind == kind && line->count > 0 && (kind != DISK_PIECES || line->piece == piece)
                && (!best || disk_line_median (line) > disk_line_median (best)))
            best = line;
    }
    return best;
}

const disk_line_t *
disk_lines_reference (const disk_lines_t *self, const disk_line_t *line)
{
    const disk_line_t *sequential = disk_lines_best (self, DISK_SEQUENTIAL, 0);
    const disk_line_t *pieces = disk_lines_best (self, DISK_PIECES, line->piece);
    return !sequential || !pieces? NULL:
        disk_line_median (pieces) < NEAR * disk_line_median (sequential)? pieces:
        sequential;
}

double
disk_line_ratio (const disk_line_t *line, const disk_line_t *reference)
{
    double ratios [DISK_ROUNDS_MAX];
    size_t count = 0;
    for (; count < line->count && count < reference->count; count++)
        ratios [count] = line->values [count] / reference->values [count];
    return s_median (ratios, count);
}
