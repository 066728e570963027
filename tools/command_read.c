//  `tureen read`: takes a job's batches as a training job would, and says what that was like.
//
//  For trying a server out, for measuring, and for tests: --ids writes down which samples were delivered in
//  which order.

#include "command.h"
#include <assert.h>
#include <errno.h>
#include <float.h>
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
#include "file.h"
#include "option.h"
#include "read_record.h"
#include "tureen.h"
#include "utf8.h"
#include "words.h"

enum {
    EXIT_RUNTIME = 1,
    EXIT_ARGUMENTS = 2,
    EXIT_UNREADABLE = 3,                //  all came that can be read, and some cannot
    EXIT_SIGNAL = 128,
    POLL_MS = 100,                      //  a signal is noticed within this
    SLOTS_MIN = 3,
    SLOTS_MAX = 64,
    BATCH_MAX = 65536,
    POOL_MIN = 8,
    POOL_MAX = 1 << 24,
    STATE_EVERY = 100,
    RANKS_MAX = 64,
    NODES_MAX = 1024,
    RANK_SECONDS_MAX = 86400,
    RANGES_MAX = 4096
};

//  --------------------------------------------------------------------------
//  Arguments

typedef struct {
    tureen_options_t loader;            //  for tureen_loader_new; its texts are lent from argv
    tureen_range_t ranges [RANGES_MAX];
    const char *list_path;
    uint64_t *list;                     //  loader.ids; owned
    const char *recipe, *pipeline;      //  one of them is loader.pipeline
    double timeout_seconds, rejoin_seconds;
    uint32_t rank_wait_seconds;
    double rate;                        //  samples a second; 0: as fast as they come
    read_record_options_t record;
    bool is_inline, json;
} arguments_t;

//  LO:HI, with commas between.
static bool
s_subset (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    arguments_t *self = target;
    const char *place = text;
    do {
        if (self->loader.subset_count == RANGES_MAX)
            return option_fail (error, "more than %d ranges", RANGES_MAX);
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
s_read_ids (arguments_t *self, FILE *file)
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
    self->loader.ids = self->record.list = self->list;
    self->loader.id_count = self->record.list_count = count;
    return count || complain ("read", "--list %s: no ids", self->list_path);
}

#define AT(member) OPTION_AT (arguments_t, member)
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
    { "batch", "N", AT (loader.batch_size), "samples in a batch (64)", 1, BATCH_MAX, OPTION_SCALED },
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
    { "slots", "N", AT (loader.slots), "the window in batches, 3 to 64 (4)", SLOTS_MIN, SLOTS_MAX },
    { "inline", NULL, AT (is_inline), "batches through the socket, not through shared memory" },
    { "seed", "N", AT (loader.seed),
        "the same N gives the same batches again; with another --order than seeded it\n"
        "is of this job's own augmentation only (drawn by the server)" },
    { "pool", "N", AT (loader.pool),
        "with --order seeded, over a pack: pieces of it are read whole and mixed in a pool of\n"
        "N samples; another N is another order", POOL_MIN, POOL_MAX, OPTION_SCALED },
    { "name", "TEXT", AT (loader.name), "for people, in `tureen status`" },
    { "ids", "FILE", AT (record.ids_path),
        "write the delivered ids, a line an epoch: `0: 5 17 3`; ` ...` if unfinished" },
    { "state", "FILE", AT (record.state_path),
        "go on where the run that wrote it stopped, if it is there; write it at the end, after\n"
        "SIGINT and SIGTERM too.  --ids then goes on as well; --epochs counts from the first" },
    { "state-every", "N", AT (record.state_every),
        "and after every N batches (100): so many may come again after a crash", 1, UINT32_MAX },
    { "job", "NAME", AT (loader.job),
        "the run's name; no other job may use it at the same time: with it, a run that is\n"
        "started again with its --state ends what is left of the one before" },
    { "rejoin", "SECONDS", AT (rejoin_seconds),
        "how long to look for a server that is gone (300); 0: its end is the run's",
        .high = 1e9, .expected = "a number from 0 to 1e9" },
    { "world-size", "N", AT (loader.world_size),
        "be one of N processes (ranks) that take one job together; they find each other by --job",
        1, RANKS_MAX },
    { "rank", "R", AT (loader.rank), "which of them, from 0", 0, RANKS_MAX - 1 },
    { "gather", "SECONDS", AT (loader.gather_seconds), "how long the first of them waits for the last (300)",
        1, RANK_SECONDS_MAX },
    { "rank-wait", "SECONDS", AT (rank_wait_seconds),
        "how long the others stand still for one that is lost (10); 0: not at all",
        0, RANK_SECONDS_MAX },
    { "nodes", "N", AT (loader.nodes),
        "be one of N machines that take one job together, each from a server of its own", 1, NODES_MAX },
    { "node", "K", AT (loader.node), "which of them, from 0", 0, NODES_MAX - 1 },
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
s_read_list (arguments_t *self, const option_result_t *result)
{
    const char *path = self->list_path;
    if (!path)
        return true;
    if (option_given (&s_table, result, "list") > 1)
        return complain ("read", "--list: once only");
    FILE *file = strcmp (path, "-")? file_stream (path): stdin;
    if (!file)
        return complain ("read", "--list %s: %s", path, file_error (errno));
    bool fine = s_read_ids (self, file);
    if (file != stdin)
        fclose (file);
    return fine;
}

//  Each rank is told which one it is, and the job's name, by which they find each other.
static bool
s_check_ranks (const arguments_t *self, const option_result_t *result)
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
    if (loader->ids && self->record.ids_path && self->record.state_path)
        return complain ("read", "--list with --world-size: --ids or --state, not both");
    return true;
}

//  Each machine is told which one it is.
static bool
s_check_nodes (const arguments_t *self, const option_result_t *result)
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
    if (loader->nodes > 1 && loader->ids && self->record.ids_path && self->record.state_path)
        return complain ("read", "--list with --nodes: --ids or --state, not both");
    return true;
}

//  What only shows when all of them are known.
static bool
s_check (const arguments_t *self, const option_result_t *result)
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
    const read_record_options_t *record = &self->record;
    if (record->ids_path && record->state_path && !strcmp (record->ids_path, record->state_path))
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

//  -1: go on; else the exit status: help was printed, or standard error says what is wrong.
static int
s_parse (arguments_t *self, int argc, char **argv)
{
    *self = (arguments_t) { .loader = { .epochs = 1 }, .record.state_every = STATE_EVERY };
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

//  Says why tureen_loader_new did not take the options, calling them as the user does.
static void
s_explain (const arguments_t *self, const char *error)
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
    const arguments_t *options;
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

//  Returns at that time, or within POLL_MS of a signal: one that comes between our look and the sleep
//  does not interrupt it.
static void
s_sleep_until (double when)
{
    for (double now; !s_signal && (now = clock_seconds (CLOCK_MONOTONIC)) < when;) {
        double until = when - now < POLL_MS * 1e-3? when: now + POLL_MS * 1e-3;
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

//  The next event, or TUREEN_TIMEOUT after a signal; counts the time that it took.
static tureen_event_t
s_next (run_t *self, tureen_batch_t **batch_p)
{
    double begin = clock_seconds (CLOCK_MONOTONIC);
    tureen_event_t event = TUREEN_TIMEOUT;
    *batch_p = NULL;
    while (event == TUREEN_TIMEOUT && !s_signal) {
        event = tureen_loader_next_within (self->loader, batch_p, POLL_MS);
        for (char *notice; (notice = tureen_loader_notice (self->loader)); free (notice))
            fprintf (stderr, "tureen read: %s\n", notice);
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
    self->record = read_record_new (&self->options->record);
    if (!self->record)
        return EXIT_RUNTIME;
    tureen_options_t options = self->options->loader;
    options.state = read_record_state (self->record);
    options.waiting = s_tell_waiting;
    self->loader = tureen_loader_new (&options, error, sizeof error);
    if (!self->loader) {
        int status = errno == EINVAL? EXIT_ARGUMENTS: EXIT_RUNTIME;
        s_explain (self->options, error);
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
s_run (const arguments_t *options)
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
    complain_begin ();
    arguments_t options;
    int status = s_parse (&options, argc, argv);
    if (status < 0)
        status = s_run (&options);
    free (options.list);
    return complain_of_output ("read", status);
}
