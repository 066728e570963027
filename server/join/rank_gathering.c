#include "rank_gathering.h"
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "reply.h"
#include "tenant.h"

enum { MESSAGE_BYTES = 512, LIST_BYTES = 120, LISTED_MAX = 8 };

//  A job that waits for its ranks.
typedef struct party {
    struct party *next;
    const tenant_t *tenant;         //  of its ranks
    char name [REQUEST_NAME_BYTES_MAX + 1];
    uint32_t world_size;
    uint32_t here;
    int64_t since_ms;               //  arrival of its first rank
    int64_t notice_ms;              //  when the next notice is due
    join_t *ranks [WIRE_RANKS_MAX];         //  NULL: the rank has not joined
} party_t;

struct rank_gathering {
    void *router;
    broker_t *broker;
    log_t *log;
    party_t *parties;
    size_t count;
    broker_position_t positions [WIRE_RANKS_MAX];       //  of the ranks of the last complete job
};

rank_gathering_t *
rank_gathering_new (void *router, broker_t *broker, log_t *log)
{
    rank_gathering_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->router = router;
    self->broker = broker;
    self->log = log;
    return self;
}

//  rank UINT32_MAX: of all of them.
static void
s_log (const rank_gathering_t *self, const party_t *party, uint32_t rank, log_level_t level,
    const char *state, const char *format, ...)
    __attribute__ ((format (printf, 6, 7)));

static void
s_log (const rank_gathering_t *self, const party_t *party, uint32_t rank, log_level_t level,
    const char *state, const char *format, ...)
{
    char text [LOG_LINE_BYTES_MAX];
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (text, sizeof text, format, arguments);
    va_end (arguments);
    log_event (self->log, level, "gathering",
        LOG_FIELDS (LOG_TEXT ("tenant", tenant_label (self->broker, party->tenant)),
        LOG_TEXT ("name", party->name), LOG_NUMBER_IF (rank != UINT32_MAX, "rank", rank),
        LOG_TEXT ("state", state)), "%s", text);
}

//  ---- ranks that wait

static party_t *
s_party (const rank_gathering_t *self, const tenant_t *tenant, const char *name)
{
    party_t *party = self->parties;
    while (party && !(party->tenant == tenant && strcmp (party->name, name) == 0))
        party = party->next;
    return party;
}

static party_t *
s_party_of (const rank_gathering_t *self, const join_t *join)
{
    return s_party (self, join->caller.tenant, join->request.job);
}

//  The lowest waiting rank.
static uint32_t
s_first (const party_t *party)
{
    uint32_t rank = 0;
    while (!party->ranks [rank])
        rank++;
    assert (rank < party->world_size);
    return rank;
}

//  The rank that holds the job's data; any rank if there are no data to hold.
static join_t *
s_holder (const party_t *party)
{
    for (uint32_t rank = 0; rank < party->world_size; rank++) {
        join_t *join = party->ranks [rank];
        if (join && (join->terms.subset || join->terms.list))
            return join;
    }
    return party->ranks [s_first (party)];
}

static void
s_end_party (rank_gathering_t *self, party_t *party)
{
    assert (party->here == 0);
    party_t **at = &self->parties;
    while (*at != party)
        at = &(*at)->next;
    *at = party->next;
    self->count--;
    free (party);
}

//  Takes the rank out, for the caller.  The job's data stay with another rank.
static join_t *
s_take_out (party_t *party, uint32_t rank)
{
    join_t *join = party->ranks [rank];
    party->ranks [rank] = NULL;
    party->here--;
    if (party->here > 0)
        join_yield_data (join, s_holder (party));
    return join;
}

static void
s_put_in (party_t *party, join_t *join, int64_t now_ms)
{
    uint32_t rank = join->request.rank;
    assert (rank < party->world_size && !party->ranks [rank]);
    if (party->here > 0)
        join_yield_data (join, s_holder (party));
    join->since_ms = now_ms;
    party->ranks [rank] = join;
    party->here++;
}

//  Forgets a rank that cannot be sent to.
static void
s_lose (rank_gathering_t *self, party_t *party, uint32_t rank)
{
    s_log (self, party, rank, LOG_LEVEL_NOTICE, "lost",
        "rank %" PRIu32 " of job '%s' is gone while it waited for others: its "
        "connection is closed", rank, party->name);
    join_t *join = s_take_out (party, rank);
    join_destroy (&join);
}

//  Tells all waiting ranks, and frees the party.
static void
s_refuse_all (rank_gathering_t *self, party_t *party, const refusal_t *refusal)
{
    s_log (self, party, UINT32_MAX, LOG_LEVEL_NOTICE, "refused", "ranks of job '%s' are refused: %s",
        party->name, refusal->message);
    for (uint32_t rank = 0; rank < party->world_size; rank++)
        if (party->ranks [rank]) {
            join_t *join = s_take_out (party, rank);
            outbox_send_text (self->router, &join->peer, WIRE_ERROR, 0, join->tag,
                reply_error (refusal->code, refusal->message));
            join_destroy (&join);
        }
    s_end_party (self, party);
}

void
rank_gathering_destroy (rank_gathering_t **self_p)
{
    rank_gathering_t *self = *self_p;
    if (!self)
        return;
    while (self->parties) {
        party_t *party = self->parties;
        for (uint32_t rank = 0; rank < party->world_size; rank++)
            if (party->ranks [rank]) {
                join_t *join = s_take_out (party, rank);
                join_destroy (&join);
            }
        s_end_party (self, party);
    }
    free (self);
    *self_p = NULL;
}

const char *
rank_gathering_of (const rank_gathering_t *self, const peer_t *peer, const caller_t *caller)
{
    for (const party_t *party = self->parties; party; party = party->next)
        for (uint32_t rank = 0; rank < party->world_size; rank++) {
            const join_t *join = party->ranks [rank];
            if (join && peer_is (&join->peer, peer)
                && (!caller || caller_is (&join->caller, caller)))
                return party->name;
        }
    return NULL;
}

const pipeline_t *
rank_gathering_pipeline (const rank_gathering_t *self, const tenant_t *tenant, const char *job_name)
{
    const party_t *party = s_party (self, tenant, job_name);
    return party? party->ranks [s_first (party)]->terms.pipeline: NULL;
}

//  ---- notices

//  "rank 1", "ranks 1, 2 and 5", "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 20 more".
static const char *
s_missing (const party_t *party, char text [LIST_BYTES])
{
    uint32_t missing = party->world_size - party->here, told = 0;
    uint32_t shown = missing > LISTED_MAX + 1? LISTED_MAX: missing;
    size_t used = (size_t) snprintf (text, LIST_BYTES, missing == 1? "rank": "ranks");
    for (uint32_t rank = 0; rank < party->world_size && told < shown; rank++)
        if (!party->ranks [rank]) {
            told++;
            const char *before = told == 1? "": told == missing? " and": ",";
            used += (size_t) snprintf (text + used, LIST_BYTES - used, "%s %" PRIu32, before, rank);
        }
    if (shown < missing)
        snprintf (text + used, LIST_BYTES - used, " and %" PRIu32 " more", missing - shown);
    return text;
}

//  When the first of the ranks has waited for as long as it asked.
static int64_t
s_deadline_ms (const party_t *party)
{
    int64_t deadline_ms = INT64_MAX;
    for (uint32_t rank = 0; rank < party->world_size; rank++) {
        const join_t *join = party->ranks [rank];
        int64_t end_ms = join? join->since_ms + (int64_t) join->request.gather_seconds * 1000: INT64_MAX;
        deadline_ms = end_ms < deadline_ms? end_ms: deadline_ms;
    }
    return deadline_ms;
}

static bool
s_notify_one (rank_gathering_t *self, const party_t *party, uint32_t rank, int64_t now_ms)
{
    char message [MESSAGE_BYTES], missing [LIST_BYTES];
    const join_t *join = party->ranks [rank];
    int64_t left = (s_deadline_ms (party) - now_ms + 999) / 1000;
    snprintf (message, sizeof message,
        "%" PRIu32 " of %" PRIu32 " ranks of job '%s' are here; waiting for %s, for %" PRId64
        " more second%s", party->here, party->world_size, party->name, s_missing (party, missing), left,
        left == 1? "": "s");
    return outbox_send_text (self->router, &join->peer, WIRE_NOTICE, 0, join->tag,
        reply_notice ("gathering", message))
        == OUTBOX_SENT;
}

//  Tells each rank which ranks are missing, and forgets dead clients: true if there were any.
static bool
s_notify (rank_gathering_t *self, party_t *party, int64_t now_ms)
{
    uint32_t before = party->here;
    for (uint32_t rank = 0; rank < party->world_size; rank++)
        if (party->ranks [rank] && !s_notify_one (self, party, rank, now_ms))
            s_lose (self, party, rank);
    party->notice_ms = now_ms + RANK_GATHERING_NOTICE_MS;
    return party->here < before;
}

static void
s_refuse_late (rank_gathering_t *self, party_t *party, int64_t now_ms)
{
    char missing [LIST_BYTES];
    refusal_t refusal;
    refuse (&refusal, "ranks_missing",
        "%" PRIu32 " of %" PRIu32 " ranks of job '%s' came within %" PRId64 " seconds; missing: "
        "%s: start all of them with one job name and world size, or give gather= more time", party->here,
        party->world_size, party->name, (now_ms - party->since_ms) / 1000, s_missing (party, missing));
    s_refuse_all (self, party, &refusal);
}

static void
s_beat (rank_gathering_t *self, party_t *party, int64_t now_ms)
{
    if (now_ms >= s_deadline_ms (party)) {
        s_refuse_late (self, party, now_ms);
        return;
    }
    if (now_ms >= party->notice_ms)
        s_notify (self, party, now_ms);
    if (party->here == 0)
        s_end_party (self, party);
}

void
rank_gathering_beat (rank_gathering_t *self, int64_t now_ms)
{
    for (party_t *party = self->parties, *next; party; party = next) {
        next = party->next;
        s_beat (self, party, now_ms);
    }
}

void
rank_gathering_forget (rank_gathering_t *self, bool (*is_gone) (void *context, const join_t *join),
    void *context, const refusal_t *refusal)
{
    for (party_t *party = self->parties, *next; party; party = next) {
        next = party->next;
        //  All ranks of a party belong to one user, and ask for one data set.
        if (is_gone (context, party->ranks [s_first (party)]))
            s_refuse_all (self, party, refusal);
    }
}

void
rank_gathering_stop (rank_gathering_t *self)
{
    refusal_t refusal;
    refuse (&refusal, "stopping", "the server is ending");
    while (self->parties)
        s_refuse_all (self, self->parties, &refusal);
}

//  ---- ranks that join

//  Refuses what can never work before the rank waits for others.  A taken name, or a state at its end, may
//  have changed when all ranks have joined.
static bool
s_may_work (rank_gathering_t *self, const join_t *join, int64_t now_ms, refusal_t *refusal)
{
    broker_terms_t terms = join->terms;
    if (terms.epochs && terms.epoch == terms.epochs) {
        terms.epoch--;
        terms.epoch_batches = 0;
        terms.parts.cut_batches = 0;
        terms.recent = NULL;
        terms.recent_count = 0;
    }
    return broker_allows (self->broker, &terms, now_ms, refusal) || strcmp (refusal->code, "job_taken") == 0;
}

static bool
s_is_of (const party_t *party, const broker_terms_t *terms, refusal_t *refusal)
{
    return party->ranks [s_first (party)]->terms.user == terms->user
        || refuse (refusal, "job_taken", "the job name '%s' is another user's at present: take another",
        party->name);
}

//  Whether the request agrees with each of the others.  It is compared with each, because some values (run,
//  seed) are given by only some ranks.
static bool
s_agrees (const party_t *party, const join_t *join, refusal_t *refusal)
{
    for (uint32_t rank = 0; rank < party->world_size; rank++) {
        const join_t *other = party->ranks [rank];
        if (other && !broker_agree (&other->terms, rank, &join->terms, join->request.rank, refusal))
            return false;
    }
    return true;
}

//  Whether the request's rank is free, or taken by its own client.
static bool
s_may_have_place (const party_t *party, const join_t *join, int64_t now_ms, refusal_t *refusal)
{
    uint32_t rank = join->request.rank;
    const join_t *earlier = party->ranks [rank];
    if (!earlier || (*join->request.instance
            && strcmp (join->request.instance, earlier->request.instance) == 0))
        return true;
    return refuse (refusal, "job_taken",
        "rank %" PRIu32 " of job '%s' is waiting already, since %" PRId64 " seconds: two runs "
        "use one job name, or two of its processes one rank; give each run a name of its own (job=)", rank,
        party->name, (now_ms - earlier->since_ms) / 1000);
}

//  Whether the request may wait with the ranks that are here.  A dead client must not block it: before a
//  waiting rank counts against it, the server sends to all of them.  False: *party_p is NULL if no rank is
//  left, which is no refusal.
static bool
s_fits (rank_gathering_t *self, party_t **party_p, const join_t *join, int64_t now_ms, refusal_t *refusal)
{
    party_t *party = *party_p;
    for (;;) {
        if (!s_is_of (party, &join->terms, refusal))
            return false;
        bool agrees = s_agrees (party, join, refusal);
        if (agrees && s_may_have_place (party, join, now_ms, refusal))
            return true;
        if (!s_notify (self, party, now_ms)) {
            if (!agrees) {
                s_refuse_all (self, party, refusal);
                *party_p = NULL;
            }
            return false;
        }
        if (party->here == 0) {
            s_end_party (self, party);
            *party_p = NULL;
            refusal->code = NULL;
            return false;
        }
    }
}

static party_t *
s_begin_party (rank_gathering_t *self, const join_t *join, int64_t now_ms, refusal_t *refusal)
{
    if (!s_may_work (self, join, now_ms, refusal))
        return NULL;
    const tenant_t *tenant = join->caller.tenant;
    size_t count = rank_gathering_count (self, tenant),
        most = (size_t) tenant_share (self->broker, tenant, RANK_GATHERING_MAX);
    party_t *party = count < most && self->count < RANK_GATHERING_MAX? calloc (1, sizeof *party): NULL;
    if (!party) {
        refuse (refusal, "busy", "%zu jobs wait for ranks already, at most %zu may: try again when one is "
            "complete", count, most);
        return NULL;
    }
    party->tenant = tenant;
    snprintf (party->name, sizeof party->name, "%s", join->request.job);
    party->world_size = join->request.world_size;
    party->since_ms = now_ms;
    party->notice_ms = now_ms + RANK_GATHERING_NOTICE_MS;
    party->next = self->parties;
    self->parties = party;
    self->count++;
    return party;
}

bool
rank_gathering_leaves_name (rank_gathering_t *self, const join_t *join, int64_t now_ms, refusal_t *refusal)
{
    party_t *party = s_party_of (self, join);
    if (party)
        s_notify (self, party, now_ms);
    if (party && party->here == 0) {
        s_end_party (self, party);
        party = NULL;
    }
    return !party || (s_is_of (party, &join->terms, refusal)
        && refuse (refusal, "job_taken",
            "%" PRIu32 " of %" PRIu32 " ranks wait for a job of the name '%s', since %" PRId64
            " seconds: give each run a name of its own (job=)", party->here, party->world_size, party->name,
            (now_ms - party->since_ms) / 1000));
}

//  ---- the job of all ranks

static bool
s_is_further (const broker_terms_t *one, const broker_terms_t *other)
{
    return one->epoch > other->epoch
        || (one->epoch == other->epoch && one->epoch_batches > other->epoch_batches);
}

//  The lowest of the ranks that have come furthest: its state is the job's.
static uint32_t
s_furthest (const party_t *party)
{
    uint32_t furthest = 0;
    for (uint32_t rank = 1; rank < party->world_size; rank++)
        if (s_is_further (&party->ranks [rank]->terms, &party->ranks [furthest]->terms))
            furthest = rank;
    return furthest;
}

//  Values that a single rank may give; all ranks that give one agree.
static void
s_merge_one (broker_terms_t *terms, const broker_terms_t *other, uint32_t rank)
{
    if (other->seed_given && !terms->seed_given) {
        terms->seed = other->seed;
        terms->seed_given = true;
    }
    if (!*terms->run)
        terms->run = other->run;
    if (other->rank_wait_seconds > terms->rank_wait_seconds)
        terms->rank_wait_seconds = other->rank_wait_seconds;
    terms->instances [rank] = other->instances [rank];
}

//  All ranks have joined: hands them to the caller.  One of those that have come furthest speaks for all.
static const broker_terms_t *
s_complete (rank_gathering_t *self, party_t *party, join_t **joins)
{
    uint32_t furthest = s_furthest (party);
    broker_terms_t *terms = &party->ranks [furthest]->terms;
    for (uint32_t rank = 0; rank < party->world_size; rank++) {
        joins [rank] = party->ranks [rank];
        party->ranks [rank] = NULL;
    }
    party->here = 0;
    terms->name = joins [0]->terms.name;
    for (uint32_t rank = 0; rank < party->world_size; rank++) {
        const broker_terms_t *other = &joins [rank]->terms;
        if (rank != furthest)
            join_yield_data (joins [rank], joins [furthest]);
        s_merge_one (terms, other, rank);
        self->positions [rank] = (broker_position_t) { other->epoch, other->epoch_batches };
        if (s_is_further (terms, other))
            terms->positions = self->positions;
    }
    s_log (self, party, UINT32_MAX, LOG_LEVEL_INFO, "complete", "all %" PRIu32 " ranks of job '%s' are here",
        party->world_size, party->name);
    s_end_party (self, party);
    return terms;
}

rank_gathering_status_t
rank_gathering_add (rank_gathering_t *self, join_t **join_p, int64_t now_ms, join_t **joins,
    const broker_terms_t **terms_p, refusal_t *refusal)
{
    join_t *join = *join_p;
    uint32_t rank = join->request.rank;
    assert (join->request.world_size > 1 && rank < join->request.world_size);
    size_t bytes = rank_gathering_bytes (self, join->caller.tenant);
    size_t most = (size_t) tenant_share (self->broker, join->caller.tenant, RANK_GATHERING_BYTES_MAX);
    if (bytes + join_bytes (join) > most) {
        refuse (refusal, "budget", "the ids of ranks that wait for others take %zu bytes already, at most "
            "%zu may: try again when a job is complete", bytes, most);
        return RANK_GATHERING_REFUSED;
    }
    party_t *party = s_party_of (self, join);
    if (party && !s_fits (self, &party, join, now_ms, refusal) && (party || refusal->code))
        return RANK_GATHERING_REFUSED;
    if (!party && !(party = s_begin_party (self, join, now_ms, refusal)))
        return RANK_GATHERING_REFUSED;
    join_t *earlier = party->ranks [rank]? s_take_out (party, rank): NULL;
    join_destroy (&earlier);
    s_put_in (party, join, now_ms);
    *join_p = NULL;
    s_log (self, party, rank, LOG_LEVEL_INFO, "waits",
        "rank %" PRIu32 " of job '%s' waits: %" PRIu32 " of %" PRIu32
        " are here", rank, party->name, party->here, party->world_size);
    if (party->here == party->world_size) {
        *terms_p = s_complete (self, party, joins);
        return RANK_GATHERING_COMPLETE;
    }
    if (!s_notify_one (self, party, rank, now_ms))
        s_lose (self, party, rank);
    if (party->here == 0)
        s_end_party (self, party);
    return RANK_GATHERING_WAITS;
}

join_t *
rank_gathering_take (rank_gathering_t *self, bool (*is_wanted) (void *context, const join_t *join),
    void *context)
{
    for (party_t *party = self->parties; party; party = party->next)
        for (uint32_t rank = 0; rank < party->world_size; rank++)
            if (party->ranks [rank] && is_wanted (context, party->ranks [rank])) {
                join_t *join = s_take_out (party, rank);
                if (party->here == 0)
                    s_end_party (self, party);
                return join;
            }
    return NULL;
}

//  ---- counting

size_t
rank_gathering_count (const rank_gathering_t *self, const tenant_t *tenant)
{
    size_t count = 0;
    for (const party_t *party = self->parties; party; party = party->next)
        count += !tenant || party->tenant == tenant;
    return count;
}

size_t
rank_gathering_count_on (const rank_gathering_t *self, const dataset_t *dataset)
{
    size_t count = 0;
    for (const party_t *party = self->parties; party; party = party->next)
        count += party->ranks [s_first (party)]->terms.dataset == dataset;
    return count;
}

size_t
rank_gathering_bytes (const rank_gathering_t *self, const tenant_t *tenant)
{
    size_t bytes = 0;
    for (const party_t *party = self->parties; party; party = party->next)
        for (uint32_t rank = 0; rank < party->world_size && (!tenant || party->tenant == tenant); rank++) {
            const join_t *waits = party->ranks [rank];
            bytes += waits? join_bytes (waits): 0;
        }
    return bytes;
}

json_t *
rank_gathering_status (const rank_gathering_t *self, const tenant_t *tenant, int64_t now_ms)
{
    json_t *list = json_array ();
    for (const party_t *party = self->parties; party; party = party->next) {
        if (tenant && party->tenant != tenant)
            continue;
        json_t *missing = json_array ();
        for (uint32_t rank = 0; rank < party->world_size; rank++)
            if (!party->ranks [rank])
                json_array_append_new (missing, json_integer (rank));
        json_array_append_new (list,
            json_pack ("{s:s,s:i,s:o,s:f}", "job", party->name, "world_size", (int) party->world_size,
            "missing", missing, "left", (double) (s_deadline_ms (party) - now_ms) / 1000));
    }
    return list;
}

static void
s_check_party (const party_t *party, size_t *bytes_p)
{
    uint32_t here = 0, have_data = 0;
    for (uint32_t rank = 0; rank < WIRE_RANKS_MAX; rank++) {
        const join_t *join = party->ranks [rank];
        if (!join)
            continue;
        assert (rank < party->world_size && join->request.rank == rank);                //  G1
        assert (join->request.world_size == party->world_size);                         //  G1
        assert (strcmp (join->request.job, party->name) == 0);                          //  G1
        assert (join->caller.tenant == party->tenant);                                  //  G4
        here++;
        have_data += join->terms.subset || join->terms.list;
        *bytes_p += join_bytes (join);
    }
    assert (have_data <= 1);                                                            //  G2
    assert (here == party->here && here > 0 && here < party->world_size);               //  G3
}

void
rank_gathering_check (const rank_gathering_t *self)
{
    size_t count = 0, bytes = 0;
    for (const party_t *party = self->parties; party; party = party->next, count++) {
        s_check_party (party, &bytes);
        assert (s_party (self, party->tenant, party->name) == party);                   //  G1
        assert (rank_gathering_count (self, party->tenant)
            <= tenant_share (self->broker, party->tenant, RANK_GATHERING_MAX));             //  G4
        assert (rank_gathering_bytes (self, party->tenant)
            <= tenant_share (self->broker, party->tenant, RANK_GATHERING_BYTES_MAX));       //  G4
    }
    assert (count == self->count && count <= RANK_GATHERING_MAX && bytes <= RANK_GATHERING_BYTES_MAX);
}
