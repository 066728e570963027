#include "read_options.h"
#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "complain.h"
#include "input.h"

enum {
    READ_RANGES_MAX = 4096,
    READ_SLOTS_MIN = 3,
    READ_SLOTS_MAX = 64,
    READ_BATCH_MAX = 65536,
    READ_POOL_MIN = 8,
    READ_POOL_MAX = 1 << 24,
    READ_STATE_EVERY = 100,
    READ_RANKS_MAX = 64,
    READ_RANK_SECONDS_MAX = 86400
};

#define READ_OPTIONS_MAGIC 0x524f5054u

struct read_options {
    uint32_t magic;
    tureen_options_t options;
    tureen_range_t ranges [READ_RANGES_MAX];
    uint64_t *list;                     //  options.ids
    double rate;
    const char *ids_path;
    const char *state_path;
    uint64_t state_every;
    const char *pipeline_from;          //  the option that gave options.pipeline
    bool rank_given;
    const char *rank_option;            //  one that says something of ranks; NULL: none
    bool json;
    bool help;
};

//  Digits, then perhaps K, M or G if scaled; end_p: where it ended.
static bool
s_number (const char *text, bool scaled, uint64_t *number_p, const char **end_p)
{
    if (*text < '0' || *text > '9')
        return false;
    char *end;
    errno = 0;
    unsigned long long number = strtoull (text, &end, 10);
    unsigned shift = 0;
    if (scaled && *end)
        shift = *end == 'K'? 10: *end == 'M'? 20: *end == 'G'? 30: 0;
    if (errno || number > UINT64_MAX >> shift)
        return false;
    *number_p = (uint64_t) number << shift;
    *end_p = shift? end + 1: end;
    return true;
}

static bool
s_parse_number (const char *option, const char *text, bool scaled, uint64_t least, uint64_t most,
uint64_t *number_p)
{
    const char *end;
    if (s_number (text, scaled, number_p, &end) && !*end && *number_p >= least && *number_p <= most)
        return true;
    return complain ("read", "--%s '%s': expected a number from %" PRIu64 " to %" PRIu64, option, text, least,
        most);
}

static bool
s_parse_small (const char *option, const char *text, bool scaled, uint32_t least, uint32_t most,
uint32_t *number_p)
{
    uint64_t number;
    if (!s_parse_number (option, text, scaled, least, most, &number))
        return false;
    *number_p = (uint32_t) number;
    return true;
}

//  A number of the size of seconds or a rate, above zero.
static bool
s_parse_positive (const char *option, const char *text, double *number_p)
{
    char *end;
    *number_p = strtod (text, &end);
    if (end != text && !*end && *number_p > 0 && *number_p <= 1e9)
        return true;
    return complain ("read", "--%s '%s': expected a number above 0, at most 1e9", option, text);
}

//  LO:HI, with commas between.
static bool
s_parse_subset (read_options_t *self, const char *text)
{
    const char *place = text;
    do {
        if (self->options.subset_count == READ_RANGES_MAX)
            return complain ("read", "--subset: more than %d ranges", READ_RANGES_MAX);
        tureen_range_t *range = &self->ranges [self->options.subset_count++];
        if (!s_number (place, true, &range->lo, &place) || *place++ != ':'
        ||  !s_number (place, true, &range->hi, &place) || range->lo >= range->hi)
            return complain ("read", "--subset '%s': expected LO:HI, the samples LO to HI-1", text);
    } while (*place++ == ',');
    if (place [-1])
        return complain ("read", "--subset '%s': expected LO:HI, the samples LO to HI-1", text);
    self->options.subset = self->ranges;
    return true;
}

static bool
s_parse_order (read_options_t *self, const char *text)
{
    static const struct { const char *name; tureen_order_t order; } names [] = {
        { "shared", TUREEN_SHARED }, { "private", TUREEN_PRIVATE }, { "list", TUREEN_LIST },
        { "seeded", TUREEN_SEEDED }
    };
    for (size_t index = 0; index < sizeof names / sizeof *names; index++)
        if (!strcmp (text, names [index].name)) {
            self->options.order = names [index].order;
            return true;
        }
    return complain ("read", "--order '%s': expected shared, private, list or seeded", text);
}

static bool
s_parse_on_bad (read_options_t *self, const char *text)
{
    bool is_fail = !strcmp (text, "fail");
    self->options.on_bad = is_fail? TUREEN_BAD_FAIL: TUREEN_BAD_DROP;
    return is_fail || !strcmp (text, "drop")
        || complain ("read", "--on-bad '%s': expected drop or fail", text);
}

static bool
s_append_id (read_options_t *self, size_t *room, uint64_t id)
{
    if (self->options.id_count == *room) {
        *room = *room? *room * 2: 1024;
        uint64_t *list = reallocarray (self->list, *room, sizeof *list);
        if (!list)
            return complain ("read", "out of memory for a list of %zu ids", *room);
        self->list = list;
    }
    self->list [self->options.id_count++] = id;
    return true;
}

static bool
s_read_ids (read_options_t *self, FILE *file, const char *path)
{
    char line [64];
    size_t room = 0, number = 0;
    while (fgets (line, sizeof line, file)) {
        uint64_t id;
        const char *end;
        number++;
        if (!s_number (line, false, &id, &end) || end [strspn (end, " \t\r\n")])
            return complain ("read", "--list %s: line %zu is not an id", path, number);
        if (!s_append_id (self, &room, id))
            return false;
    }
    if (ferror (file))
        return complain ("read", "--list %s: %s", path, strerror (errno));
    if (self->options.id_count == 0)
        return complain ("read", "--list %s: no ids", path);
    self->options.ids = self->list;
    return true;
}

static bool
s_parse_list (read_options_t *self, const char *path)
{
    if (self->list)
        return complain ("read", "--list: once only");
    FILE *file = strcmp (path, "-")? input_stream (path): stdin;
    if (!file)
        return complain ("read", "--list %s: %s", path, input_error (errno));
    bool fine = s_read_ids (self, file, path);
    if (file != stdin)
        fclose (file);
    return fine;
}

static bool
s_parse_pipeline (read_options_t *self, const char *option, const char *text)
{
    if (self->options.pipeline)
        return complain ("read", "--%s: one of --recipe and --pipeline, once", option);
    self->options.pipeline = text;
    self->pipeline_from = option;
    if (!strcmp (option, "pipeline") && text [strspn (text, " \t\r\n")] != '[')
        return complain ("read", "--pipeline '%s': expected a JSON list of operations", text);
    return true;
}

static bool
s_parse_timeout (read_options_t *self, const char *text)
{
    double seconds;
    if (!s_parse_positive ("timeout", text, &seconds))
        return false;
    double timeout_ms = seconds * 1e3;
    self->options.timeout_ms = timeout_ms >= INT32_MAX? INT32_MAX: timeout_ms < 1? 1: (int) timeout_ms;
    return true;
}

//  Seconds; 0: not at all.
static bool
s_parse_rejoin (read_options_t *self, const char *text)
{
    char *end;
    double seconds = strtod (text, &end);
    if (end == text || *end || !(seconds >= 0 && seconds <= 1e9))
        return complain ("read", "--rejoin '%s': expected a number from 0 to 1e9", text);
    double rejoin_ms = seconds * 1e3;
    self->options.rejoin_ms = rejoin_ms <= 0? -1: rejoin_ms >= INT32_MAX? INT32_MAX: rejoin_ms < 1? 1:
        (int) rejoin_ms;
    return true;
}

//  Seconds; 0: the others do not wait.
static bool
s_parse_rank_wait (read_options_t *self, const char *text)
{
    uint64_t seconds;
    if (!s_parse_number ("rank-wait", text, false, 0, READ_RANK_SECONDS_MAX, &seconds))
        return false;
    self->options.rank_wait_seconds = seconds? (int) seconds: -1;
    return true;
}

enum {
    OPTION_CONNECT = 256, OPTION_DATASET, OPTION_BATCH, OPTION_EPOCHS, OPTION_DROP_LAST, OPTION_RATE,
        OPTION_SUBSET,
    OPTION_RECIPE, OPTION_PIPELINE, OPTION_ORDER, OPTION_LIST, OPTION_ON_BAD, OPTION_SLOTS, OPTION_INLINE,
        OPTION_SEED,
    OPTION_POOL, OPTION_NAME, OPTION_IDS, OPTION_JSON, OPTION_TIMEOUT, OPTION_STATE, OPTION_STATE_EVERY,
        OPTION_JOB,
    OPTION_REJOIN, OPTION_WORLD_SIZE, OPTION_RANK, OPTION_GATHER, OPTION_RANK_WAIT, OPTION_KEY,
        OPTION_SERVER_KEY, OPTION_HELP
};

static const struct option s_options [] = {
    { "connect", required_argument, NULL, OPTION_CONNECT },
    { "dataset", required_argument, NULL, OPTION_DATASET },
    { "batch", required_argument, NULL, OPTION_BATCH }, { "epochs", required_argument, NULL, OPTION_EPOCHS },
    { "drop-last", no_argument, NULL, OPTION_DROP_LAST }, { "rate", required_argument, NULL, OPTION_RATE },
    { "subset", required_argument, NULL, OPTION_SUBSET },
    { "recipe", required_argument, NULL, OPTION_RECIPE },
    { "pipeline", required_argument, NULL, OPTION_PIPELINE },
    { "order", required_argument, NULL, OPTION_ORDER },
    { "list", required_argument, NULL, OPTION_LIST }, { "slots", required_argument, NULL, OPTION_SLOTS },
    { "on-bad", required_argument, NULL, OPTION_ON_BAD },
    { "inline", no_argument, NULL, OPTION_INLINE }, { "seed", required_argument, NULL, OPTION_SEED },
    { "pool", required_argument, NULL, OPTION_POOL },
    { "name", required_argument, NULL, OPTION_NAME }, { "ids", required_argument, NULL, OPTION_IDS },
    { "json", no_argument, NULL, OPTION_JSON }, { "timeout", required_argument, NULL, OPTION_TIMEOUT },
    { "state", required_argument, NULL, OPTION_STATE },
    { "state-every", required_argument, NULL, OPTION_STATE_EVERY },
    { "job", required_argument, NULL, OPTION_JOB }, { "rejoin", required_argument, NULL, OPTION_REJOIN },
    { "world-size", required_argument, NULL, OPTION_WORLD_SIZE },
    { "rank", required_argument, NULL, OPTION_RANK },
    { "gather", required_argument, NULL, OPTION_GATHER },
    { "rank-wait", required_argument, NULL, OPTION_RANK_WAIT },
    { "key", required_argument, NULL, OPTION_KEY },
    { "server-key", required_argument, NULL, OPTION_SERVER_KEY },
    { "help", no_argument, NULL, OPTION_HELP }, { NULL, 0, NULL, 0 }
};

//  The options of ranks.
static bool
s_apply_rank (read_options_t *self, int option, const char *text)
{
    switch (option) {
        case OPTION_WORLD_SIZE:
            return s_parse_small ("world-size", text, false, 1, READ_RANKS_MAX, &self->options.world_size);
        case OPTION_RANK:
            self->rank_given = true;
            self->rank_option = "rank";
            return s_parse_small ("rank", text, false, 0, READ_RANKS_MAX - 1, &self->options.rank);
        case OPTION_GATHER:
            self->rank_option = "gather";
            return s_parse_small ("gather", text, false, 1, READ_RANK_SECONDS_MAX,
                &self->options.gather_seconds);
        default:
            assert (option == OPTION_RANK_WAIT);
            self->rank_option = "rank-wait";
            return s_parse_rank_wait (self, text);
    }
}

//  The options that are numbers.
static bool
s_apply_number (read_options_t *self, int option, const char *text)
{
    switch (option) {
        case OPTION_BATCH:
            return s_parse_small ("batch", text, true, 1, READ_BATCH_MAX, &self->options.batch_size);
        case OPTION_SLOTS:
            return s_parse_small ("slots", text, false, READ_SLOTS_MIN, READ_SLOTS_MAX, &self->options.slots);
        case OPTION_EPOCHS:
            return s_parse_number ("epochs", text, false, 0, INT64_MAX, &self->options.epochs);
        case OPTION_SEED:
            self->options.seeded = true;
            return s_parse_number ("seed", text, false, 0, UINT64_MAX, &self->options.seed);
        case OPTION_POOL:
            return s_parse_small ("pool", text, true, READ_POOL_MIN, READ_POOL_MAX, &self->options.pool);
        case OPTION_STATE_EVERY:
            return s_parse_number ("state-every", text, false, 1, UINT32_MAX, &self->state_every);
        case OPTION_REJOIN:
            return s_parse_rejoin (self, text);
        case OPTION_RATE:
            return s_parse_positive ("rate", text, &self->rate);
        case OPTION_TIMEOUT:
            return s_parse_timeout (self, text);
        default:
            return s_apply_rank (self, option, text);
    }
}

static bool
s_apply (read_options_t *self, int option, const char *text)
{
    switch (option) {
        case OPTION_CONNECT:
            self->options.endpoint = text;
            return true;
        case OPTION_KEY:
            self->options.key = text;
            return true;
        case OPTION_SERVER_KEY:
            self->options.server_key = text;
            return true;
        case OPTION_DATASET:
            self->options.dataset = text;
            return true;
        case OPTION_NAME:
            self->options.name = text;
            return true;
        case OPTION_IDS:
            self->ids_path = text;
            return true;
        case OPTION_STATE:
            self->state_path = text;
            return true;
        case OPTION_JOB:
            self->options.job = text;
            return true;
        case OPTION_DROP_LAST:
            return self->options.drop_last = true;
        case OPTION_JSON:
            return self->json = true;
        case OPTION_HELP:
            return self->help = true;
        case OPTION_INLINE:
            self->options.transport = TUREEN_INLINE;
            return true;
        case OPTION_SUBSET:
            return s_parse_subset (self, text);
        case OPTION_RECIPE:
            return s_parse_pipeline (self, "recipe", text);
        case OPTION_PIPELINE:
            return s_parse_pipeline (self, "pipeline", text);
        case OPTION_ORDER:
            return s_parse_order (self, text);
        case OPTION_LIST:
            return s_parse_list (self, text);
        case OPTION_ON_BAD:
            return s_parse_on_bad (self, text);
        default:
            return s_apply_number (self, option, text);
    }
}

//  Each rank is told which one it is, and the job's name, by which they find each other.
static bool
s_check_ranks (const read_options_t *self)
{
    if (self->rank_option && !self->options.world_size)
        return complain ("read", "--%s needs --world-size", self->rank_option);
    if (self->options.world_size <= 1)
        return true;
    if (!self->rank_given)
        return complain ("read", "--world-size needs --rank: which of the %" PRIu32 " processes this one is, "
            "from 0", self->options.world_size);
    if (!self->options.job)
        return complain ("read", "--world-size needs --job: the ranks find each other by that name");
    //  Which of a list's places were this rank's cannot be told from how many are behind all ranks.
    if (self->options.ids && self->ids_path && self->state_path)
        return complain ("read", "--list with --world-size: --ids or --state, not both");
    return true;
}

//  What only shows when all of them are known.
static bool
s_check (read_options_t *self)
{
    if (!self->options.dataset)
        return complain ("read", "--dataset NAME is required: a data set that the server has "
            "(see: tureen status)");
    if (self->options.ids && self->options.order && self->options.order != TUREEN_LIST)
        return complain ("read", "--list needs --order list");
    if (self->options.ids && self->options.subset)
        return complain ("read", "--list and --subset exclude each other");
    if (self->ids_path && self->state_path && !strcmp (self->ids_path, self->state_path))
        return complain ("read", "--ids and --state need a file each");
    if (self->options.ids)
        self->options.order = TUREEN_LIST;
    if (self->options.pool && self->options.order != TUREEN_SEEDED
        && (self->options.order || !self->options.seeded))
        return complain ("read", "--pool needs --order seeded");
    return s_check_ranks (self);
}

static bool
s_parse (read_options_t *self, int argc, char **argv)
{
    self->options.epochs = 1;
    self->state_every = READ_STATE_EVERY;
    opterr = 0;
    optind = 0;                         //  glibc: start anew, whatever was parsed before
    int option;
    while ((option = getopt_long (argc, argv, ":", s_options, NULL)) != -1) {
        if (option == '?' || option == ':')
            return complain_of_option ("read", argv, s_options, option);
        if (!s_apply (self, option, optarg))
            return false;
        if (self->help)
            return true;
    }
    if (optind < argc)
        return complain ("read", "unexpected argument '%s'; try: tureen read --help", argv [optind]);
    return s_check (self);
}

read_options_t *
read_options_new (int argc, char **argv)
{
    read_options_t *self = calloc (1, sizeof *self);
    if (!self) {
        complain ("read", "out of memory");
        return NULL;
    }
    self->magic = READ_OPTIONS_MAGIC;
    if (!s_parse (self, argc, argv))
        read_options_destroy (&self);
    return self;
}

void
read_options_destroy (read_options_t **self_p)
{
    assert (self_p);
    read_options_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == READ_OPTIONS_MAGIC);
    free (self->list);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

//  --------------------------------------------------------------------------
//  What they say

static void
s_check_magic (const read_options_t *self)
{
    assert (self);
    assert (self->magic == READ_OPTIONS_MAGIC);
}

bool
read_options_help (const read_options_t *self)
{
    s_check_magic (self);
    return self->help;
}

const tureen_options_t *
read_options_loader (const read_options_t *self)
{
    s_check_magic (self);
    return &self->options;
}

double
read_options_rate (const read_options_t *self)
{
    s_check_magic (self);
    return self->rate;
}

const char *
read_options_ids_path (const read_options_t *self)
{
    s_check_magic (self);
    return self->ids_path;
}

const char *
read_options_state_path (const read_options_t *self)
{
    s_check_magic (self);
    return self->state_path;
}

uint64_t
read_options_state_every (const read_options_t *self)
{
    s_check_magic (self);
    return self->state_every;
}

bool
read_options_json (const read_options_t *self)
{
    s_check_magic (self);
    return self->json;
}

void
read_options_explain (const read_options_t *self, const char *error)
{
    s_check_magic (self);
    const struct { const char *field; const char *option; } names [] = {
        { "options.dataset", "dataset" }, { "options.batch_size", "batch" }, { "options.epochs", "epochs" },
        { "options.pipeline", self->pipeline_from }, { "options.ids", "list" },
        { "options.subset", "subset" }, { "options.slots", "slots" }, { "options.seed", "seed" },
        { "options.pool", "pool" },
        { "options.name", "name" }, { "options.job", "job" }, { "options.state", "state" },
        { "options.order", "order" }, { "options.timeout_ms", "timeout" }, { "options.rank:", "rank:" },
        { "options.key", "key" }, { "options.server_key", "server-key" }
    };
    for (size_t index = 0; index < sizeof names / sizeof *names; index++) {
        size_t length = strlen (names [index].field);
        if (!strncmp (error, names [index].field, length) && names [index].option) {
            complain ("read", "--%s%s", names [index].option, error + length);
            return;
        }
    }
    complain ("read", "%s", error);
}
