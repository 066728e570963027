#include "read_options.h"
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "complain.h"
#include "input.h"
#include "option.h"

enum {
    READ_SLOTS_MIN = 3,
    READ_SLOTS_MAX = 64,
    READ_BATCH_MAX = 65536,
    READ_POOL_MIN = 8,
    READ_POOL_MAX = 1 << 24,
    READ_STATE_EVERY = 100,
    READ_RANKS_MAX = 64,
    READ_NODES_MAX = 1024,
    READ_RANK_SECONDS_MAX = 86400
};

//  LO:HI, with commas between.
static bool
s_subset (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    read_options_t *self = target;
    const char *place = text;
    do {
        if (self->loader.subset_count == READ_RANGES_MAX)
            return option_fail (error, "more than %d ranges", READ_RANGES_MAX);
        tureen_range_t *range = &self->ranges [self->loader.subset_count++];
        if (!option_digits (place, "KMG", &range->lo, &place) || *place++ != ':'
        ||  !option_digits (place, "KMG", &range->hi, &place) || range->lo >= range->hi
        ||  (*place && *place != ','))
            return option_fail (error, "expected LO:HI, the samples LO to HI-1");
    } while (*place++);
    self->loader.subset = self->ranges;
    return true;
}

static bool
s_read_ids (read_options_t *self, FILE *file)
{
    char line [64];
    size_t room = 0, count = 0;
    for (; fgets (line, sizeof line, file); count++) {
        uint64_t id;
        const char *end;
        if (!option_digits (line, "", &id, &end) || end [strspn (end, " \t\r\n")])
            return complain ("read", "--list %s: line %zu is not an id", self->list_path, count + 1);
        if (count == room) {
            room = room? room * 2: 1024;
            uint64_t *list = reallocarray (self->list, room, sizeof *list);
            if (!list)
                return complain ("read", "out of memory for a list of %zu ids", room);
            self->list = list;
        }
        self->list [count] = id;
    }
    if (ferror (file))
        return complain ("read", "--list %s: %s", self->list_path, strerror (errno));
    self->loader.ids = self->list;
    self->loader.id_count = count;
    return count || complain ("read", "--list %s: no ids", self->list_path);
}

#define AT(member) OPTION_AT (read_options_t, member)
#define ABOVE_ZERO .low = DBL_MIN, .high = 1e9, .expected = "a number above 0, at most 1e9"

static const option_row_t s_rows [] = {
    { "connect", "ENDPOINT", AT (loader.endpoint),
        "ipc://PATH or tcp://HOST:PORT; else $TUREEN_ENDPOINT, else the default" },
    { "key", "PATH", AT (loader.key),
        "of this client's certificate, for a server with keys on tcp (else $TUREEN_KEY);\n"
        "`tureen key new` makes one" },
    { "server-key", "KEY", AT (loader.server_key),
        "that server's public key, or the path of its certificate (else $TUREEN_SERVER_KEY)" },
    { "dataset", "NAME", AT (loader.dataset), "a data set that the server has (required)" },
    { "batch", "N", AT (loader.batch_size), "samples in a batch (64)", 1, READ_BATCH_MAX, OPTION_SCALED },
    { "epochs", "N", AT (loader.epochs), "how many (1); 0: until interrupted", 0, INT64_MAX },
    { "drop-last", NULL, AT (loader.drop_last), "leave out what does not fill a batch" },
    { "rate", "R", AT (rate), "take R samples a second (as fast as they come)", ABOVE_ZERO },
    { "subset", "LO:HI", OPTION_CALL (s_subset),
        "only the samples LO to HI-1; ranges with commas between: 0:100,200:300" },
    { "recipe", "NAME", AT (recipe), "the server's recipe: train or eval (train; with --order list: eval)" },
    { "pipeline", "JSON", AT (pipeline), "a list of operations instead" },
    { "order", "ORDER", AT (loader.order),
        "shared, private, list or seeded (shared; with --seed alone: seeded)", TUREEN_SHARED,
        .choices = OPTION_CHOICES ("shared", "private", "list", "seeded") },
    { "list", "FILE", AT (list_path),
        "ids in the order to deliver them, one a line; - for standard input" },
    { "on-bad", "drop|fail", AT (loader.on_bad),
        "samples that cannot be read: leave them out, or end (as the data set is served)", TUREEN_BAD_DROP,
        .choices = OPTION_CHOICES ("drop", "fail") },
    { "slots", "N", AT (loader.slots), "the window in batches, 3 to 64 (4)", READ_SLOTS_MIN, READ_SLOTS_MAX },
    { "inline", NULL, AT (is_inline), "batches through the socket, not through shared memory" },
    { "seed", "N", AT (loader.seed),
        "the same N gives the same batches again; with another --order than seeded it\n"
        "is of this job's own augmentation only (drawn by the server)" },
    { "pool", "N", AT (loader.pool),
        "with --order seeded, over a pack: pieces of it are read whole and mixed in a pool of\n"
        "N samples; another N is another order", READ_POOL_MIN, READ_POOL_MAX, OPTION_SCALED },
    { "name", "TEXT", AT (loader.name), "for people, in `tureen status`" },
    { "ids", "FILE", AT (ids_path),
        "write the delivered ids, a line an epoch: `0: 5 17 3`; ` ...` if unfinished" },
    { "state", "FILE", AT (state_path),
        "go on where the run that wrote it stopped, if it is there; write it at the end, after\n"
        "SIGINT and SIGTERM too.  --ids then goes on as well; --epochs counts from the first" },
    { "state-every", "N", AT (state_every),
        "and after every N batches (100): so many may come again after a crash", 1, UINT32_MAX },
    { "job", "NAME", AT (loader.job),
        "the run's name; no other job may use it at the same time: with it, a run that is\n"
        "started again with its --state ends what is left of the one before" },
    { "rejoin", "SECONDS", AT (rejoin_seconds),
        "how long to look for a server that is gone (300); 0: its end is the run's",
        .high = 1e9, .expected = "a number from 0 to 1e9" },
    { "world-size", "N", AT (loader.world_size),
        "be one of N processes (ranks) that take one job together; they find each other by --job",
        1, READ_RANKS_MAX },
    { "rank", "R", AT (loader.rank), "which of them, from 0", 0, READ_RANKS_MAX - 1 },
    { "gather", "SECONDS", AT (loader.gather_seconds), "how long the first of them waits for the last (300)",
        1, READ_RANK_SECONDS_MAX },
    { "rank-wait", "SECONDS", AT (rank_wait_seconds),
        "how long the others stand still for one that is lost (10); 0: not at all",
        0, READ_RANK_SECONDS_MAX },
    { "nodes", "N", AT (loader.nodes),
        "be one of N machines that take one job together, each from a server of its own", 1, READ_NODES_MAX },
    { "node", "K", AT (loader.node), "which of them, from 0", 0, READ_NODES_MAX - 1 },
    { "parts", "fresh|fixed", AT (loader.parts),
        "other samples for this machine in each epoch, or always the same (fresh)", TUREEN_PARTS_FRESH,
        .choices = OPTION_CHOICES ("fresh", "fixed") },
    { "json", NULL, AT (json), "print the result as one JSON object" },
    { "timeout", "SECONDS", AT (timeout_seconds), "how long to wait for the server to answer (10)",
        ABOVE_ZERO }
};

static const option_table_t s_table = { "tureen read", s_rows, OPTION_ROWS (s_rows), .before =
    "Usage: tureen read --dataset NAME [OPTION]...\n"
    "Takes batches from a Tureen server as a training job would, and says how fast they came.\n"
    "\n", .after =
    "\n"
    "Each rank has its own --ids and --state; tureen audit --ranks RANK0.ids RANK1.ids ... judges the ids\n"
    "of all together.  Padding is no sample: it is not written, nor counted but as a batch.  All ranks must\n"
    "go on from one state: where theirs differ, give each a copy of that with the fewest batches; the files\n"
    "of ids are then taken back to it.\n"
    "\n"
    "The time runs from having joined until the last batch came; with --rate, until that batch's turn was\n"
    "over too, so that the samples a second are those of the loop.\n"
    "\n"
    "--batch, --subset and --pool take K, M and G (1024 each).  Exit status: 0; 1 when the server is not\n"
    "there, refuses or does not come back, or when a file cannot be written; 2 for unusable arguments; 3\n"
    "when all came that can be read, but some samples cannot (0 with --on-bad drop, which says that they\n"
    "may be missing); 130, 143 and 152 after SIGINT, SIGTERM and SIGXCPU (ulimit -t), which leave the job\n"
    "in order.\n" };

static bool
s_read_list (read_options_t *self, const option_result_t *result)
{
    const char *path = self->list_path;
    if (!path)
        return true;
    if (option_given (&s_table, result, "list") > 1)
        return complain ("read", "--list: once only");
    FILE *file = strcmp (path, "-")? input_stream (path): stdin;
    if (!file)
        return complain ("read", "--list %s: %s", path, input_error (errno));
    bool fine = s_read_ids (self, file);
    if (file != stdin)
        fclose (file);
    return fine;
}

//  Each rank is told which one it is, and the job's name, by which they find each other.
static bool
s_check_ranks (const read_options_t *self, const option_result_t *result)
{
    static const char *const of_ranks [] = { "rank", "gather", "rank-wait" };
    const tureen_options_t *loader = &self->loader;
    for (size_t index = 0; index < sizeof of_ranks / sizeof *of_ranks; index++)
        if (!loader->world_size && option_given (&s_table, result, of_ranks [index]))
            return complain ("read", "--%s needs --world-size", of_ranks [index]);
    if (loader->world_size <= 1)
        return true;
    if (!option_given (&s_table, result, "rank"))
        return complain ("read", "--world-size needs --rank: which of the %" PRIu32 " processes this one is, "
            "from 0", loader->world_size);
    if (!loader->job)
        return complain ("read", "--world-size needs --job: the ranks find each other by that name");
    //  Which of a list's places were this rank's cannot be told from how many are behind all ranks.
    if (loader->ids && self->ids_path && self->state_path)
        return complain ("read", "--list with --world-size: --ids or --state, not both");
    return true;
}

//  Each machine is told which one it is.
static bool
s_check_nodes (const read_options_t *self, const option_result_t *result)
{
    const tureen_options_t *loader = &self->loader;
    const char *without = option_given (&s_table, result, "node")? "node"
        : option_given (&s_table, result, "parts")? "parts": NULL;
    if (!loader->nodes && without)
        return complain ("read", "--%s needs --nodes", without);
    if (loader->nodes > 1 && !option_given (&s_table, result, "node"))
        return complain ("read", "--nodes needs --node: which of the %" PRIu32 " machines this one is, "
            "from 0", loader->nodes);
    //  Which of a list's places were this node's cannot be told from how many are behind all nodes.
    if (loader->nodes > 1 && loader->ids && self->ids_path && self->state_path)
        return complain ("read", "--list with --nodes: --ids or --state, not both");
    return true;
}

//  What only shows when all of them are known.
static bool
s_check (const read_options_t *self, const option_result_t *result)
{
    const tureen_options_t *loader = &self->loader;
    if (option_given (&s_table, result, "recipe") + option_given (&s_table, result, "pipeline") > 1)
        return complain ("read", "--recipe and --pipeline: expected one of them, once");
    if (self->pipeline && self->pipeline [strspn (self->pipeline, " \t\r\n")] != '[')
        return complain ("read", "--pipeline '%s': expected a JSON list of operations", self->pipeline);
    if (!loader->dataset)
        return complain ("read", "--dataset NAME is required: a data set that the server has "
            "(see: tureen status)");
    if (loader->ids && loader->order && loader->order != TUREEN_LIST)
        return complain ("read", "--list needs --order list");
    if (loader->ids && loader->subset)
        return complain ("read", "--list and --subset exclude each other");
    if (self->ids_path && self->state_path && !strcmp (self->ids_path, self->state_path))
        return complain ("read", "--ids and --state need a file each");
    if (loader->pool && loader->order != TUREEN_SEEDED
        && (loader->ids || loader->order || !loader->seeded))
        return complain ("read", "--pool needs --order seeded");
    return s_check_ranks (self, result) && s_check_nodes (self, result);
}

static int
s_milliseconds (double seconds)
{
    return seconds * 1e3 >= INT32_MAX? INT32_MAX: seconds * 1e3 < 1? 1: (int) (seconds * 1e3);
}

int
read_options_parse (read_options_t *self, int argc, char **argv)
{
    *self = (read_options_t) { .loader = { .epochs = 1 }, .state_every = READ_STATE_EVERY };
    option_result_t result;
    int status = option_parse (&s_table, self, argc, argv, &result);
    if (status >= 0)
        return status;
    tureen_options_t *loader = &self->loader;
    loader->seeded = option_given (&s_table, &result, "seed");
    if (!s_read_list (self, &result) || !s_check (self, &result))
        return 2;
    loader->pipeline = self->recipe? self->recipe: self->pipeline;
    loader->transport = self->is_inline? TUREEN_INLINE: TUREEN_AUTO;
    loader->order = loader->ids? TUREEN_LIST: loader->order;
    if (loader->order == TUREEN_LIST && !loader->pipeline)
        complain ("read", "--order list without --recipe gets the recipe eval, without augmentation; before "
            "version 0.1 it was train");
    if (self->timeout_seconds > 0)
        loader->timeout_ms = s_milliseconds (self->timeout_seconds);
    //  To the library 0 is the default, and below 0 is not at all.
    if (option_given (&s_table, &result, "rejoin"))
        loader->rejoin_ms = self->rejoin_seconds > 0? s_milliseconds (self->rejoin_seconds): -1;
    if (option_given (&s_table, &result, "rank-wait"))
        loader->rank_wait_seconds = self->rank_wait_seconds? (int) self->rank_wait_seconds: -1;
    return -1;
}

void
read_options_clear (read_options_t *self)
{
    free (self->list);
    self->list = NULL;
}

void
read_options_explain (const read_options_t *self, const char *error)
{
    const struct { const char *field; const char *option; } names [] = {
        { "options.dataset", "dataset" }, { "options.batch_size", "batch" }, { "options.epochs", "epochs" },
        { "options.pipeline", self->recipe? "recipe": "pipeline" }, { "options.ids", "list" },
        { "options.subset", "subset" }, { "options.slots", "slots" }, { "options.seed", "seed" },
        { "options.pool", "pool" },
        { "options.name", "name" }, { "options.job", "job" }, { "options.state", "state" },
        { "options.order", "order" }, { "options.timeout_ms", "timeout" }, { "options.rank:", "rank:" },
        { "options.node:", "node:" },
        { "options.key", "key" }, { "options.server_key", "server-key" }
    };
    for (size_t index = 0; index < sizeof names / sizeof *names; index++) {
        size_t length = strlen (names [index].field);
        if (!strncmp (error, names [index].field, length)) {
            complain ("read", "--%s%s", names [index].option, error + length);
            return;
        }
    }
    complain ("read", "%s", error);
}
