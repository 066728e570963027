/*  audit_tests -- the tests of chance that an audit makes: recorded jobs go in; a list of trials, which are
 *  the tests that were made, and each job's figures come out; and last, in words, what was found.
 *
 *  For the sources of an audit: audit.c fills in the record, these tests judge it, audit_findings.c says in
 *  words what failed.
 */
#ifndef AUDIT_TESTS_H
#define AUDIT_TESTS_H
#include "audit.h"
#include "xalloc.h"

enum { AUDIT_NAMED = 5, AUDIT_NONE = UINT32_MAX, AUDIT_NO_PART = UINT16_MAX };

//  Ids that are not as they should be: how many, and the first few.
typedef struct { uint64_t count; uint32_t first [AUDIT_NAMED]; } odd_ids_t;

typedef struct { uint32_t id, place; } placed_t;

typedef struct {
    uint64_t number;
    bool finished;
    uint32_t *ids;              //  as delivered, each once, no foreign ones; later their ranks in the
                                //  universe
    size_t count;
    //  Of joined jobs.  The part that each id came to: by place, like ids; from audit_tests_job on by the
    //  id's rank in the universe, AUDIT_NO_PART if it did not come.
    uint16_t *parts;
    uint16_t absent_from, unfinished_in;    //  the first such part; AUDIT_NO_PART
    uint16_t doubled_parts [AUDIT_NAMED] [2];   //  of the first doubled ids: where they came first and then
    odd_ids_t missing, doubled, foreign;
    audit_kind_t same;          //  SORTED, REPEATED, ROTATED, REVERSED; AUDIT_KINDS: none of these
    uint64_t same_as;           //  of the last three: the earlier epoch's number
    const char *sorted_how;     //  of SORTED
    uint64_t hash, hash_back;   //  of ids begun at the smallest, and backwards
    //  The ids of the audit's sample, in the order of delivery, and their places in that order by id.
    uint32_t *sketch;
    placed_t *sketch_by_id;
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
    bool is_held;               //  so was something that another job holds
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

//  What was recorded, and what came of it.
typedef struct {
    bool out_of_memory;         //  sticky: what could not be noted down
    job_t *jobs;
    size_t job_count, job_room;
    audit_member_t *members;    //  by ascending id; NULL: no groups were given
    size_t member_count;
    const char *const *group_names;
    size_t group_count;
    bool tests_held;            //  what other jobs hold is tested, too: groups from group_count on
    trial_t *trials;
    size_t trial_count, trial_room;
    audit_finding_t *findings;
    size_t finding_count, finding_room;
    uint32_t *place, *mark, *relative;      //  scratch, for the longest epoch and universe there are
} record_t;

//  Makes all tests of a job, its ids being ranks in the universe, and fills in its figures.
void audit_tests_job (record_t *self, size_t index);
//  Adds a test to those made.
void audit_tests_push (record_t *self, const trial_t *trial);
//  Tests each two jobs against each other.
void audit_tests_jobs (record_t *self);

//  After all tests, and once: fills in record->findings: tests against the bound, one finding for each kind
//  and job, and notes.  A test failed if its p is below the bound.
void audit_tests_explain (record_t *record, double bound);

//  Makes room for one more of size bytes in *items_p; false, and out_of_memory set, if there is none.
static inline bool
record_grow (record_t *self, void *items_p, size_t count, size_t *room_p, size_t size)
{
    bool is_there = xalloc_try_grow (items_p, count, room_p, size);
    self->out_of_memory |= !is_there;
    return is_there;
}

#endif
