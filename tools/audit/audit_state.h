/*  audit_state -- an audit's structures, for the files that make it up: audit.c (what is added, exactly
 *  once), audit_orders.c (the tests of a job), audit_groups.c (where its groups come), audit_parts.c (how it
 *  is dealt to ranks), audit_jobs.c (of two), audit_findings.c (what came out, in words).  No other file
 *  includes this.
 */
#ifndef AUDIT_STATE_H
#define AUDIT_STATE_H
#include "audit.h"
#include "relation.h"

enum { AUDIT_MAGIC = 0x61756469, AUDIT_NAMED = 5, AUDIT_NONE = UINT32_MAX,
    AUDIT_NO_PART = UINT16_MAX };

//  Ids that are not as they should be: how many, and the first few.
typedef struct { uint64_t count; uint32_t first [AUDIT_NAMED]; } odd_ids_t;

typedef struct {
    uint64_t number;
    bool finished;
    uint32_t *ids;              //  as delivered, each once, no foreign ones; later their ranks in the
                                //  universe
    size_t count;
    //  Of joined jobs.  The part that each id came to: by place, like ids; from audit_parts on by the id's
    //  rank in the universe, AUDIT_NO_PART if it did not come.
    uint16_t *parts;
    uint16_t absent_from, unfinished_in;    //  the first such part; AUDIT_NO_PART
    uint16_t doubled_parts [AUDIT_NAMED] [2];   //  of the first doubled ids: where they came first and then
    odd_ids_t missing, doubled, foreign;
    audit_kind_t same;          //  SORTED, REPEATED, ROTATED, REVERSED; AUDIT_KINDS: none of these
    uint64_t same_as;           //  of the last three: the earlier epoch's number
    const char *sorted_how;     //  of SORTED
    uint64_t hash, hash_back;   //  of ids begun at the smallest, and backwards
    //  The ids of the audit's sample, in the order of delivery, and their places in that order by id.
    uint32_t *sketch, *sketch_ids, *sketch_places;
    size_t sketch_count;
} epoch_t;

typedef struct {
    audit_job_t shown;
    char *name;
    epoch_t *epochs;
    size_t count, room;
    uint32_t *universe;         //  all ids that any epoch has, ascending
    size_t universe_count;
    uint32_t *base;             //  those of the finished epochs
    size_t base_count;
    uint64_t dropped;           //  above 0: how many each finished epoch lacks, as with drop_last
    bool is_grouped;            //  some group was tested
    double foreign_p;           //  of foreign ids in an unfinished epoch; NAN: no matter of chance
    audit_parts_t *parts;       //  NULL: the job is not joined
} job_t;

//  What a test looked at; says how to put it.
typedef enum {
    LOOK_PHI2, LOOK_TAIL_TO_HEAD, LOOK_PAIRS, LOOK_ID_TENTHS, LOOK_ID_RANK, LOOK_ID_NEARNESS, LOOK_ID_PAIRS,
    LOOK_SAME, LOOK_DROPPED, LOOK_FILES, LOOK_GROUP, LOOK_STAYING, LOOK_OWN, LOOK_UNEVEN
} look_t;

typedef struct {
    audit_test_t made;
    look_t look;
    size_t other;               //  as in a finding
    uint64_t epoch;             //  the number; pooled, of phi2: the distance
    uint64_t before;            //  the number of the epoch it is compared with
    double value, expected, spread;
    bool fresh;                 //  if it fails: AUDIT_TRACE instead
    double reach;               //  of ids: how many places one comes before its turn, at most
    size_t group;               //  of groups: which
    size_t epochs;              //  and in how many it was seen
    bool identical;             //  of two jobs: the orders are the same to the last id
    size_t part;                //  of a rank's own order: which; AUDIT_NONE: all
} trial_t;

struct audit {
    uint32_t magic;
    bool out_of_memory;         //  sticky: what could not be noted down
    bool has_run;
    uint64_t samples;
    job_t *jobs;
    size_t job_count, job_room;
    audit_member_t *members;    //  by ascending id; NULL: no groups were given
    size_t member_count;
    const char *const *group_names;
    size_t group_count;
    trial_t *trials;
    size_t trial_count, trial_room;
    audit_finding_t *findings;
    size_t finding_count, finding_room;
    //  Scratch, for the longest epoch and universe there are.
    uint64_t *keys, *spare_keys;
    uint32_t *place, *mark, *relative;
};

//  Makes room for one more of size bytes in *items_p; false, and out_of_memory set, if there is none.
bool audit_grow (audit_t *self, void *items_p, size_t count, size_t *room_p, size_t size);
void audit_clear_job (job_t *job);

//  audit_orders.c: makes all tests of a job, fills in its figures.
void audit_orders (audit_t *self, size_t job);
void audit_push_trial (audit_t *self, const trial_t *trial);

//  A sum of figures: of all that were measured, and of those that are tested.
typedef struct { moments_t all, tested; size_t all_count, tested_count; } series_t;

//  The finished epoch that comes so many after that one; NULL: not recorded, or one of them is unfinished.
const epoch_t *audit_later (const job_t *job, size_t index, uint64_t lag);
void audit_series_add (series_t *self, const moments_t *moments, bool tested);
//  Adds a figure to the series and, if it is tested, a test of it to those made.  kind, job, look, epoch and
//  before of the trial are the caller's.
void audit_see (audit_t *self, trial_t trial, series_t *series, const moments_t *moments, bool tested);
//  Ends a series: the figure, and the test of all together.  One that was tested already is not again.
audit_figure_t audit_series_end (audit_t *self, trial_t trial, const series_t *series);
//  phi2 of a permutation: as design and simulator define it, the chi-square less the 81 of an endless table.
moments_t audit_phi2 (const uint32_t *relative, size_t count);
//  Have both epochs an order of their own?
bool audit_is_tested (const epoch_t *before, const epoch_t *epoch);

//  audit_parts.c: tests how a joined job is dealt to its ranks.
void audit_parts (audit_t *self, size_t job);

//  audit_groups.c: tests where each group comes in a job's epochs.
void audit_groups (audit_t *self, size_t job);

//  audit_jobs.c: tests each two jobs against each other.
void audit_jobs_together (audit_t *self);

//  Scatters 64 bits: splitmix64's last steps.
static inline uint64_t
audit_mix (uint64_t value)
{
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

//  audit_findings.c: turns what was found into findings.
void audit_judge (audit_t *self);

#endif
