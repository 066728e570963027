#include "cluster_options.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "option.h"
#include "simulated_amount.h"
#include "utf8.h"

enum { RANKS_MAX = 1024, EPOCHS_MAX = 1000, AHEAD_MAX = 65536, FACTOR_MAX = 1000000, SHOWN_BYTES = 200 };
#define BLOCKS_MAX 4e9

//  What an amount is, in a row's role; with MAY_BE_ZERO.
enum { BYTES = 1, BITS = 2, MILLISECONDS = 3, UNIT = 15, MAY_BE_ZERO = 16 };

//  ---- values

static bool
s_larger (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    cluster_plan_t *plan = &((cluster_options_t *) target)->plan;
    const char *next;
    return (option_real (text, ':', &plan->larger, &next) && plan->larger > 0 && plan->larger <= 1
            && option_real (next, '\0', &plan->larger_factor, &next) && plan->larger_factor > 0
            && plan->larger_factor <= FACTOR_MAX)
        || option_fail (error, "expected SHARE:FACTOR, a share of the nodes above 0 and up to 1, and a "
            "factor, as in 0.25:4");
}

static bool
s_slow (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    cluster_plan_t *plan = &((cluster_options_t *) target)->plan;
    const char *next;
    uint64_t count;
    bool good = option_digits (text, "", &count, &next) && *next == ':' && count > 0
        && count <= CLUSTER_NODES_MAX && option_real (next + 1, '\0', &plan->slow_factor, &next)
        && plan->slow_factor >= 1 && plan->slow_factor <= FACTOR_MAX;
    plan->slow = good? (uint32_t) count: 0;
    return good || option_fail (error, "expected COUNT:FACTOR, a number of nodes and a factor from 1, as in "
        "1:10");
}

static bool
s_change (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    cluster_options_t *self = target;
    cluster_plan_t *plan = &self->plan;
    cluster_change_t change;
    const char *next;
    uint64_t count;
    if (plan->change_count == CLUSTER_CHANGES_MAX)
        return option_fail (error, "there are %d changes already, and that is the most", CLUSTER_CHANGES_MAX);
    bool good = option_real (text, ':', &change.at, &next) && change.at >= 0
        && (*next == '+' || *next == '-');
    bool goes = good && *next == '-';
    good = good && option_digits (next + 1, "", &count, &next) && !*next && count > 0
        && count <= CLUSTER_NODES_MAX;
    if (!good)
        return option_fail (error, "expected EPOCHS:+COUNT or EPOCHS:-COUNT, as in 1.5:-1");
    if (plan->change_count && self->changes [plan->change_count - 1].at > change.at)
        return option_fail (error, "expected them in order of time; the one before is at %g",
            self->changes [plan->change_count - 1].at);
    change.count = goes? -(int32_t) count: (int32_t) count;
    self->changes [plan->change_count++] = change;
    return true;
}

static bool
s_take_amount (double *amount, const option_row_t *row, const char *text, char error [OPTION_ERROR_BYTES])
{
    bool may_be_zero = row->role & MAY_BE_ZERO;
    int unit = row->role & UNIT;
    if (!simulated_amount (text, amount) || *amount < 0 || (*amount <= 0 && !may_be_zero))
        return option_fail (error, "expected a number %s, perhaps with K, M, G or T (1000 each), as in %s",
            may_be_zero? "from 0": "above 0", row->expected);
    *amount /= unit == BITS? 8: unit == MILLISECONDS? 1000: 1;
    return true;
}

static bool
s_set (void *target, const option_row_t *row, char *text, char error [OPTION_ERROR_BYTES])
{
    char reason [OPTION_ERROR_BYTES], shown [SHOWN_BYTES];
    bool good = row->role
        ? s_take_amount ((double *) ((char *) target + row->offset), row, text, reason)
        : option_value (row, target, text, reason);
    return good || option_fail (error, "--%s '%s': %s", row->name,
        utf8_visible (text, strlen (text), shown, sizeof shown), reason);
}

//  ---- the table

#define AT(member) OPTION_AT (cluster_options_t, member)
static const option_row_t s_rows [] = {
    { "published", NULL, AT (published),
        "figures of Redox's distributed protocol and of NoPFS's placement beside those of these\n"
        "models; each row says whether its figure is from the paper, derived, or an own reference" },
    { "data", "BYTES", AT (plan.data), "of the data set, as in 1.2T",
        .heading = "An operator's question:", .role = BYTES, .expected = "1.2T" },
    { "nodes", "N", AT (plan.nodes), "machines, up to 20000", 1, CLUSTER_NODES_MAX },
    { "cache", "BYTES", AT (plan.cache), "of a node, as in 400G; 0: none", .role = BYTES | MAY_BE_ZERO,
        .expected = "400G" },
    { "larger", "SHARE:FACTOR", OPTION_CALL (s_larger),
        "this share of the nodes has a cache so many times as large" },
    { "peers", "P", AT (plan.peers),
        "homes (default): each block has one home in the cluster; none: every node caches\n"
        "for itself",
        .choices = OPTION_CHOICES ("homes", "none") },
    { "jobs", "J", AT (plan.jobs),
        "that read all the data, each on its own nodes, in its own order (default: 1)", 1,
        CLUSTER_NODES_MAX },
    { "epochs", "E", AT (plan.epochs), "of each job (default: 3)", 1, EPOCHS_MAX },
    { "ranks", "R", AT (plan.ranks), "of a node (default: 8)", 1, RANKS_MAX },
    { "rate", "BYTES", AT (plan.rate), "a second that a rank consumes; 0: all that comes (default)",
        .role = BYTES | MAY_BE_ZERO, .expected = "200M" },
    { "block", "BYTES", AT (plan.block), "that caches hold and nodes pass on (default: 4194304)",
        .role = BYTES, .expected = "4194304" },
    { "ahead", "N", AT (plan.ahead), "blocks that a node asks for ahead (default: 32)", 1, AHEAD_MAX },
    { "link", "BITS", AT (plan.link), "a second, of a node to others and from them (default: 25G)",
        .heading = "Links, caches and the store:", .role = BITS, .expected = "25G" },
    { "link-delay", "MS", AT (plan.link_delay), "one way (default: 0.1)", .role = MILLISECONDS | MAY_BE_ZERO,
        .expected = "0.1" },
    { "disk", "BYTES", AT (plan.disk), "a second of a node's cache; 0: takes no time (default: 3G)",
        .role = BYTES | MAY_BE_ZERO, .expected = "3G" },
    { "store", "BITS", AT (plan.store), "a second of the store, to all nodes together (default: 100G)",
        .role = BITS, .expected = "100G" },
    { "store-node", "BITS", AT (plan.store_node), "a second of the store, to one node (default: 10G)",
        .role = BITS, .expected = "10G" },
    { "store-delay", "MS", AT (plan.store_delay), "to the first byte (default: 50)",
        .role = MILLISECONDS | MAY_BE_ZERO, .expected = "50" },
    { "credit", "N", AT (plan.credit), "blocks that a home sends to others at a time (default: 64)", 1,
        AHEAD_MAX },
    { "preference", "F", AT (plan.preference),
        "a home is asked if it is predicted to take up to F times as long as the store\n"
        "(default: 4)",
        .low = 0, .high = FACTOR_MAX, .expected = "a number from 0 to 1000000, as in 4" },
    { "relay", NULL, AT (plan.relays), "a full home fetches a block for others, in place of saying no" },
    { "hand-over", NULL, AT (plan.hands_over),
        "a home asks the home before it for a block, in place of the store" },
    { "change", "EPOCHS:+N", OPTION_CALL (s_change),
        "N nodes come, or go (-N), when the first job has read so many epochs; again for\n"
        "each change.  Nodes that went come back first, with their caches", .heading = "Events:" },
    { "slow", "COUNT:FACTOR", OPTION_CALL (s_slow), "nodes that do everything so many times as slowly" },
    { "seed", "S", AT (seed), "(default: 42)", .heading = "Others:" },
    { "json", NULL, AT (json), "the figures as JSON" }
};
_Static_assert (CLUSTER_HOMES == 0 && CLUSTER_ALONE == 1, "the choices' places");

static const option_table_t s_table = { "cluster_sim", s_rows, OPTION_ROWS (s_rows), .set = s_set, .before =
    "usage: cluster_sim --data BYTES --nodes N --cache BYTES [options]\n"
    "       cluster_sim --published\n"
    "\n"
    "What a cache over many nodes reads from the store and sends over links, on a virtual clock.  Each\n"
    "block has one node as its home, which fetches it once, keeps it while there is room, and sends it to\n"
    "nodes that ask.  All caches are empty at first, and all nodes begin at once.\n"
    "BYTES and BITS are decimal, with K, M, G or T (1000 each).\n"
    "\n", .after =
    "\n"
    "least: what the caches together leave to the store, S max (0, 1 - cN) a job; alone: what each node's\n"
    "cache leaves to it, S (1 - c) a job, once it is full.  out, in: blocks over a node's link, the most of\n"
    "a node and the mean.  homes: blocks of which a node is the home, for its cache, the most over the\n"
    "mean.\n"
    "refused: for lack of credit; absent: not there and no room; not asked: the store was predicted to be\n"
    "quicker; lost: the home went.\n"
    "\n"
    "Exit status: 0 done, 1 something could not be written or a figure of --published is out of its\n"
    "tolerance, 2 unusable arguments.\n" };

//  ---- what fits together

static int __attribute__ ((format (printf, 1, 2)))
s_complain (const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    fputs ("cluster_sim: ", stderr);
    vfprintf (stderr, format, arguments);
    fputs ("\n", stderr);
    va_end (arguments);
    return 2;
}

static int
s_check_published (const option_result_t *result)
{
    for (size_t at = 0; at < OPTION_ROWS (s_rows); at++)
        if (result->given [at] && strcmp (s_rows [at].name, "published") && strcmp (s_rows [at].name, "seed"))
            return s_complain ("--published: goes with --seed only; leave the other options out");
    return -1;
}

static int
s_check_nodes (const cluster_plan_t *plan)
{
    int64_t present = plan->nodes;
    if (plan->jobs > plan->nodes)
        return s_complain ("--jobs %u: expected at most one for each of the %u --nodes", plan->jobs,
            plan->nodes);
    for (size_t at = 0; at < plan->change_count; at++) {
        const cluster_change_t *change = &plan->changes [at];
        present += change->count;
        if (present < plan->jobs || present > CLUSTER_NODES_MAX)
            return s_complain ("--change %g:%+d: leaves %lld nodes; expected from %u, one for each of "
                "--jobs, to %d", change->at, change->count, (long long) present, plan->jobs,
                CLUSTER_NODES_MAX);
    }
    if (plan->slow > plan->nodes)
        return s_complain ("--slow: %u nodes of %u; expected at most --nodes", plan->slow, plan->nodes);
    return -1;
}

static int
s_check (const cluster_options_t *self, const option_result_t *result)
{
    static const char *const required [] [2] = {
        { "data", "how large the data set is, as in 1.2T" }, { "nodes", "how many there are" },
        { "cache", "bytes of a node's, as in 400G, or 0" }
    };
    if (self->published)
        return s_check_published (result);
    for (size_t at = 0; at < sizeof required / sizeof *required; at++)
        if (!option_given (&s_table, result, required [at] [0]))
            return s_complain ("--%s is missing: %s", required [at] [0], required [at] [1]);
    if (self->plan.data / self->plan.block > BLOCKS_MAX)
        return s_complain ("--data: is %.0f blocks; expected up to %.0f, so fewer data or a larger --block",
            self->plan.data / self->plan.block, BLOCKS_MAX);
    return s_check_nodes (&self->plan);
}

int
cluster_options_parse (cluster_options_t *self, int argc, char **argv)
{
    *self = (cluster_options_t) {
        .seed = 42,
        .plan = {
            .ranks = 8, .jobs = 1, .epochs = 3, .block = 4194304, .larger_factor = 1, .disk = 3e9,
            .link = 25e9 / 8, .link_delay = 0.0001, .store = 100e9 / 8, .store_node = 10e9 / 8,
            .store_delay = .05, .ahead = 32, .credit = 64, .preference = 4, .slow_factor = 1
        }
    };
    self->plan.changes = self->changes;
    option_result_t result;
    int status = option_parse (&s_table, self, argc, argv, &result);
    return status >= 0? status: s_check (self, &result);
}
