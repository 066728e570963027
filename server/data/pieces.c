#include "pieces.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "budget.h"
#include "clock.h"
#include "reader.h"
#include "words.h"
#include "xalloc.h"

enum {
    READ_BYTES_MAX = 4 * 1024 * 1024,   //  of one range of several samples
    READS_TOGETHER = 16,                //  pieces read at once, assumed when the size of a piece is chosen
    PIECE_LEAST = 8,                    //  samples of a piece, if the pool has room for
    PIECES_OF_POOL = 64                 //  of them
};

static size_t
s_sample_bytes (void *user, uint32_t id)
{
    const dataset_source_t *source = user;
    return source->pack? pack_sample_bytes (source->pack, id):
        (size_t) catalogue_file_bytes (source->catalogue, id, 0);
}

//  options.c has refused other names.
raw_policy_t
pieces_tier (const options_dataset_t *wanted)
{
    const char *name = wanted->tier? wanted->tier: "stream";
    return strcmp (name, "redox") == 0? RAW_REDOX: strcmp (name, "direct") == 0? RAW_DIRECT: RAW_STREAM;
}

//  The local disk's copy of a folder of one field.  NULL with *rc_p 0: the source is no such folder, or is
//  not to be kept; NULL with *rc_p -errno: the local disk does not answer, or has no room for it.
static const block_data_t *
s_blocks (const dataset_source_t *source, int *rc_p)
{
    *rc_p = 0;
    if (source->pack || catalogue_fields (source->catalogue) != 1 || catalogue_store (source->catalogue, 0))
        return NULL;
    const block_data_t *blocks = catalogue_blocks (source->catalogue, 0, rc_p);
    if (*rc_p == -CATALOGUE_NOT_KEPT)
        *rc_p = 0;
    return blocks;
}

bool
pieces_may_come (const dataset_source_t *source, const options_dataset_t *wanted)
{
    int rc;
    return s_blocks (source, &rc) && pieces_tier (wanted) == RAW_STREAM;
}

char *
pieces_refusal (const dataset_source_t *source, const options_dataset_t *wanted)
{
    int rc;
    bool is_kept = s_blocks (source, &rc) || rc;
    if (!(wanted->tier || wanted->piece) || (is_kept && pieces_tier (wanted) != RAW_REDOX))
        return NULL;
    return xalloc_text ("data set '%s': %s, this is a folder of files: make a pack of it with `tureen pack "
        "%s DIR`", wanted->name, is_kept? "tier redox is for packs": "tier and piece are for packs, and for "
        "folders of one field that the local disk keeps", wanted->path);
}

size_t
pieces_raw_least (const pack_t *pack, const options_dataset_t *wanted)
{
    size_t largest = 0;
    for (uint32_t id = 0; id < pack_samples (pack); id++)
        largest = pack_sample_bytes (pack, id) > largest? pack_sample_bytes (pack, id): largest;
    return budget_raw_least (largest, pieces_tier (wanted) == RAW_REDOX? pack_chunk_samples (pack): 1);
}

static uint32_t
s_piece (void *user, uint64_t pool_samples)
{
    const dataset_source_t *source = user;
    uint64_t bytes = source->space? space_unit_bytes (source->space): catalogue_bytes (source->catalogue);
    //  0: all files are empty.
    double sample_bytes = (double) (bytes? bytes: 1) / catalogue_samples (source->catalogue);
    //  Throttled disks look better than they are (docs/disk.md), and small pieces gain little if the pool is
    //  large.
    uint64_t least = pool_samples / PIECES_OF_POOL;
    least = least < 1? 1: least > PIECE_LEAST? PIECE_LEAST: least;
    if (source->piece_set)
        return source->piece_set < RAW_PIECE_MAX? source->piece_set: RAW_PIECE_MAX;
    return cost_piece (device_cost (dataset_source_device (source, 0)), sample_bytes, READS_TOGETHER,
        pool_samples, (uint32_t) least, RAW_PIECE_MAX);
}

static bool
s_prefers_singles (void *user, uint32_t samples, size_t sample_bytes, size_t range_bytes)
{
    const dataset_source_t *source = user;
    //  Reads take whole blocks, also for empty files.
    double single_bytes = (double) sample_bytes / samples + READER_ALIGN_BYTES;
    double together_bytes = (double) range_bytes + READER_ALIGN_BYTES;
    return cost_prefers_singles (device_cost (dataset_source_device (source, 0)), samples, single_bytes,
        together_bytes, READS_TOGETHER);
}

static size_t
s_range_bytes (void *user, uint32_t first, uint32_t count)
{
    const dataset_source_t *source = user;
    return space_piece (source->space, first, count).bytes;
}

broker_pack_t
pieces_describe (dataset_source_t *source, raw_policy_t policy, const options_t *options)
{
    const pack_t *pack = source->pack;
    return (broker_pack_t) { .order = pack? pack_order (pack): space_order (source->space),
        .breaks = source->breaks, .break_count = pack? pack_volumes (pack): 1,
        .sample_bytes = s_sample_bytes, .piece = s_piece, .prefers_singles = s_prefers_singles,
        .range_bytes = pack? NULL: s_range_bytes, .user = source, .is_copy = !pack, .policy = policy,
        .chunk = pack? pack_chunk_samples (pack): RAW_PIECE_MAX,
        .read_bytes_max = pieces_read_bytes (options) };
}

size_t
pieces_buffer_bytes (const options_t *options)
{
    return options->raw_bytes / BROKER_RAW_PARTS;
}

size_t
pieces_read_bytes (const options_t *options)
{
    size_t half = pieces_buffer_bytes (options) / 2;
    return half < READ_BYTES_MAX? half: READ_BYTES_MAX;
}


//  -- copies

int
pieces_find_copy (dataset_source_t *source, const options_dataset_t *wanted, progress_t *progress)
{
    if (source->space || !pieces_may_come (source, wanted))
        return source->space? 0: -ENOTSUP;
    if (progress)
        progress->subject = wanted->name;
    int rc = space_new (&source->space, source->catalogue, progress);
    if (rc)
        return rc;
    source->piece_set = wanted->piece;
    source->volumes = calloc (1, sizeof *source->volumes);
    source->breaks = calloc (1, sizeof *source->breaks);
    source->space_since_ms = clock_now_ms ();
    if (source->volumes && source->breaks)
        return 0;
    pieces_forget_copy (source);
    return -ENOMEM;
}

//  The largest read: of one sample, or of several.
static size_t
s_span (dataset_source_t *source, size_t read_bytes_max)
{
    size_t most = read_bytes_max;
    for (uint32_t id = 0; id < catalogue_samples (source->catalogue); id++) {
        size_t bytes = s_sample_bytes (source, id);
        most = bytes > most? bytes: most;
    }
    return reader_span (0, most);
}

void
pieces_add_copy (dataset_source_t *source, device_list_t *devices, const options_t *options)
{
    char path [PATH_MAX];
    space_path (source->space, path, sizeof path);
    size_t span = s_span (source, pieces_read_bytes (options));
    dataset_source_volume_t *volume = source->volumes;
    volume->device = device_list_add_volume (devices, NULL, path, "", span, options->reads, &volume->file);
    if (volume->device)
        device_probe (volume->device, NULL);
    else
        pieces_forget_copy (source);
}

bool
pieces_place_copy (dataset_source_t *source, broker_t *broker, dataset_t *dataset, const options_t *options,
    FILE *out)
{
    size_t least;
    broker_pack_t copy = pieces_describe (source, RAW_STREAM, options);
    bool good = dataset_set_pack (broker, dataset, &copy, &least);
    uint32_t missing = space_missing (source->space);
    if (good) {
        fprintf (out, "data set '%s': all of it", dataset_name (dataset));
        if (missing > 0)
            fprintf (out, " but %u file%s", missing, plural (missing));
        fprintf (out, " is kept in %s, and read from there in pieces\n", options->blocks_folder);
    }
    else {
        fprintf (out, "warning: data set '%s' is read file by file: with --raw %zu it would be read in "
            "pieces\n", dataset_name (dataset), budget_raw_setting (least));
        pieces_forget_copy (source);
    }
    fflush (out);                       //  in front of events of the log
    return good;
}

void
pieces_forget_copy (dataset_source_t *source)
{
    if (!source->space)
        return;
    space_destroy (&source->space);
    free (source->volumes);
    free (source->breaks);
    source->volumes = NULL;
    source->breaks = NULL;
}
