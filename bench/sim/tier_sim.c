//  tier_sim: the real raw tier and sampler, on simulated jobs and a disk that counts.

#include <stdio.h>
#include "tier_options.h"
#include "tier_report.h"

static const char s_help [] =
    "usage: tier_sim --policy P --samples N --memory FRACTION [options]\n"
    "\n"
    "Drives the raw tier, the sampler and the prepared cache with simulated jobs on a virtual clock, without reading\n"
    "or decoding, and says what is read and how well orders mix what lies together in the pack.\n"
    "\n"
    "  --policy P          stream: shuffled pieces, each read once; redox: as published; direct: single reads\n"
    "  --sampler S         follow (default), dsa: the sampler's policy; private: every job by itself, with a raw pool\n"
    "                      of its own\n"
    "  --samples N         how many there are\n"
    "  --chunk K           samples of a chunk, up to 64 (default: 64)\n"
    "  --piece K           stream: samples of a piece, up to 64 (default: 8)\n"
    "  --memory FRACTION   of the raw pool, as a share of the samples; private: of each job's\n"
    "  --virtual-chunks M  redox, in place of --memory: how many; memory is what they take\n"
    "  --cache FRACTION    of the prepared cache, as a share of the samples (default: 0.02)\n"
    "  --epochs E          of one job with all the samples (default: 3), or\n"
    "  --job SPEED:START:EPOCHS:FROM:TO\n"
    "                      a job, again for each: speed (the fastest job's is 1), when it joins (in epochs of N\n"
    "                      samples at speed 1), how many epochs, and its data, FROM*N to TO*N\n"
    "  --batch B           samples of a batch (default: 256)\n"
    "  --sample-bytes N    of each sample (default: 1)\n"
    "  --align BYTES       reads begin and end at multiples of this, and chunks are padded to it (default: 1)\n"
    "  --seed S            of the pack's order and of all choices (default: 1)\n"
    "  --until EPOCHS      ends then, in epochs of N samples at speed 1, whoever is there: to see jobs beside one\n"
    "                      that hardly draws\n"
    "  --published-rng     redox without a sampler, on one splitmix64, unshuffled pack: to compare load by load\n"
    "  --json              the figures as JSON\n"
    "  --help              this text\n"
    "\n"
    "loads: reads in each epoch of the fastest job.  singles: those of one sample.  read_amplification: bytes read, over\n"
    "bytes of the samples handed to workers.  bytes_per_data_epoch: bytes read, over the bytes of all jobs' data times the\n"
    "fastest job's epochs.\n"
    "fill_rate: mean share of the memory that is filled; redox: slots that a load fills.  order_hash: FNV-1a of all\n"
    "ids, in the order in which they were drawn.  Means over all jobs' epochs (shuffle: what a plain shuffle gives):\n"
    "  chunk_mean_distance       of two samples of one chunk in the order, as a share of it (shuffle: 0.333)\n"
    "  piece_mean_distance       the same of two samples of one piece, pieces counted from the pack's begin\n"
    "  piece_same_batch_ratio    how often these two share a batch, over chance (shuffle: 1)\n"
    "  batch_distinct_chunks     chunks that a full batch has samples of\n"
    "  batch_most_of_one_chunk   samples that it has of the chunk of which it has most\n"
    "pair_repeat: how often two samples that shared a batch share one in the next epoch, over chance (shuffle: 1), of\n"
    "the worst job.\n"
    "\n"
    "Exit status: 0 done, 1 something could not be written, 2 unusable arguments.\n";

static void
s_run (const tier_options_t *options)
{
    //  The pack is older than the run: its order is a stream of its own.
    tier_result_t result = tier_run (&options->plan, options->seed, ~options->seed, NULL);
    if (options->json)
        tier_report_json (&options->plan, options->seed, &result);
    else
        tier_report_table (&options->plan, options->seed, &result);
    tier_result_clear (&result);
}

int
main (int argc, char **argv)
{
    tier_options_t options;
    int status = 2;
    if (tier_options_parse (&options, argc, argv)) {
        if (options.help)
            fputs (s_help, stdout);
        else
            s_run (&options);
        status = 0;
    }
    tier_options_clear (&options);
    if (fflush (stdout) == 0 && !ferror (stdout))
        return status;
    perror ("tier_sim: standard output");
    return status? status: 1;
}
