#include "bucket_options.h"
#include <stdio.h>
#include <string.h>
#include "option.h"
#include "simulated_amount.h"

enum { NODES_MAX = 1024, EPOCHS_MAX = 1000, READS_MAX = 65536, SAMPLES_MAX = 1000000000 };

static bool
s_take (double *amount_p, const char *text, const char *example, char error [OPTION_ERROR_BYTES])
{
    return (simulated_amount (text, amount_p) && *amount_p > 0)
        || option_fail (error, "expected a number above 0, perhaps with K, M, G or T (1000 each), as in %s",
            example);
}

static bool
s_data (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    return s_take (&((bucket_options_t *) target)->question.data, text, "1.2T", error);
}

static bool
s_samples (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    double samples;
    if (!s_take (&samples, text, "1.3M", error))
        return false;
    if (samples < 1 || samples > SAMPLES_MAX)
        return option_fail (error, "expected 1 to 1,000,000,000 samples");
    ((bucket_options_t *) target)->question.samples = (uint32_t) samples;
    return true;
}

static bool
s_rate (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    return s_take (&((bucket_options_t *) target)->question.rate, text, "4000", error);
}

static bool
s_latency (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    double *latency = &((bucket_options_t *) target)->question.store.latency;
    bool good = s_take (latency, text, "55", error);
    *latency /= 1000;
    return good;
}

static bool
s_link (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    double *link = &((bucket_options_t *) target)->question.store.link;
    bool good = s_take (link, text, "10G", error);
    *link /= 8;
    return good;
}

static bool
s_stream (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    double *stream = &((bucket_options_t *) target)->question.store.stream;
    bool good = s_take (stream, text, "700M", error);
    *stream /= 8;
    return good;
}

static bool
s_cache (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    double *cache = &((bucket_options_t *) target)->question.cache;
    if (strcmp (text, "0") != 0)
        return s_take (cache, text, "400G", error);
    *cache = 0;
    return true;
}

static bool
s_memory (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    return s_take (&((bucket_options_t *) target)->question.memory, text, "2G", error);
}

static bool
s_piece (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    return s_take (&((bucket_options_t *) target)->question.piece, text, "4M", error);
}

#define AT(member) OPTION_AT (bucket_options_t, member)
static const option_row_t s_rows [] = {
    { "published", NULL, AT (published),
        "figures of NoPFS and DELI beside those of these models; each row says whether its figure\n"
        "is from the paper, derived, or an own reference" },
    { "data", "BYTES", OPTION_CALL (s_data), "of the data set, as in 1.2T",
        .heading = "An operator's question:" },
    { "samples", "N", OPTION_CALL (s_samples), "how many there are, as in 1.3M" },
    { "rate", "N", OPTION_CALL (s_rate), "samples a second that the job takes on all nodes together" },
    { "latency", "MS", OPTION_CALL (s_latency), "milliseconds from a GET to its first byte" },
    { "link", "BITS", OPTION_CALL (s_link), "bits a second of a node's link to the store, as in 10G" },
    { "stream", "BITS", OPTION_CALL (s_stream), "bits a second of one GET (default: 700M)" },
    { "reads", "N", AT (question.store.reads), "GETs under way on a node (default: 64)", 1, READS_MAX },
    { "cache", "BYTES", OPTION_CALL (s_cache), "of a node's disk, as in 400G; 0: none" },
    { "memory", "BYTES", OPTION_CALL (s_memory), "what a node may read ahead (default: 2G)" },
    { "piece", "BYTES", OPTION_CALL (s_piece), "of a GET from a pack (default: 4M)" },
    { "nodes", "N", AT (question.nodes), "machines that the job runs on (default: 1)", 1, NODES_MAX },
    { "epochs", "E", AT (question.epochs),
        "of the job; the last one is reported beside the first (default: 5)", 2, EPOCHS_MAX },
    { "price", "FILE", AT (price), "prices as JSON; bench/sim/bucket/aws.json is an example" },
    { "seed", "S", AT (seed), "(default: 1)" },
    { "json", NULL, AT (json), "the answer as JSON" }
};

static const option_table_t s_table = { "store_sim", s_rows, OPTION_ROWS (s_rows), .before =
    "usage: store_sim --data BYTES --samples N --rate N --latency MS --link BITS --cache BYTES --price FILE\n"
    "       store_sim --published\n"
    "\n"
    "What an epoch over data in an object store takes, on a virtual clock: bytes, seconds, GETs and money\n"
    "of a job that reads an object a sample, with and without a cache, of DELI, of NoPFS, and of pinned\n"
    "caches.\n"
    "BYTES and BITS are decimal, with K, M, G or T (1000 each).\n"
    "\n", .after =
    "\n"
    "The columns are of the last epoch, when all caches are full; the first one reads everything under all\n"
    "policies but DELI's, which may read more.  DELI has f = tau = q/2; its service and its loader share\n"
    "the link and the --reads.  Money: GETs, listings (DELI: one for each post, others one an epoch), bytes\n"
    "from the store, the machines and their disks.\n"
    "\n"
    "Exit status: 0 done, 1 something could not be written, 2 unusable arguments or prices.\n" };

static int
s_complain (const char *text)
{
    fprintf (stderr, "store_sim: %s\n", text);
    return 2;
}

//  The first required option that is missing; NULL: none.
static const char *
s_missing (const option_result_t *result)
{
    static const char *const required [] [2] = {
        { "data", "--data is missing: how large the data set is, as in 1.2T" },
        { "samples", "--samples is missing: how many there are, as in 1.3M" },
        { "rate", "--rate is missing: samples a second, as in 4000" },
        { "latency", "--latency is missing: milliseconds of a GET, as in 55" },
        { "link", "--link is missing: bits a second, as in 10G" },
        { "cache", "--cache is missing: bytes of disk, as in 400G, or 0" },
        { "price", "--price is missing: a file of prices, as bench/sim/bucket/aws.json" }
    };
    for (size_t at = 0; at < sizeof required / sizeof *required; at++)
        if (!option_given (&s_table, result, required [at] [0]))
            return required [at] [1];
    return NULL;
}

static int
s_check_published (const option_result_t *result)
{
    for (size_t at = 0; at < OPTION_ROWS (s_rows); at++)
        if (result->given [at] && strcmp (s_rows [at].name, "published") && strcmp (s_rows [at].name, "seed"))
            return s_complain ("--published: goes with --seed only; leave the other options out");
    return -1;
}

int
bucket_options_parse (bucket_options_t *self, int argc, char **argv)
{
    *self = (bucket_options_t) {
        .question = {
            .nodes = 1, .epochs = 5, .store = { .stream = 700e6 / 8, .reads = 64 }, .memory = 2e9,
            .piece = 4e6
        },
        .seed = 1
    };
    option_result_t result;
    int status = option_parse (&s_table, self, argc, argv, &result);
    if (status >= 0)
        return status;
    if (self->published)
        return s_check_published (&result);
    const char *trouble = s_missing (&result);
    if (!trouble)
        trouble = bucket_question_trouble (&self->question);
    if (trouble)
        return s_complain (trouble);
    char error [OPTION_ERROR_BYTES];
    if (!bucket_prices_read (&self->question.prices, self->price, error))
        return s_complain (error);
    return -1;
}
