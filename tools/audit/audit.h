/*  audit -- whether recorded epochs are what training assumes: each sample once, in an order that is a
 *  shuffle, and of which the epochs before tell nothing.
 *
 *  A *job* is what one client was given: epochs, in the order of their numbers.  A job may be dealt to ranks;
 *  what one of these was given is a *part* of the job (audit_join).  audit_run makes every *test*
 *  there is material for, with its p-value: the probability that true shuffles look like this, or worse.
 *  A test fails where p is below AUDIT_FALSE_ALARM divided by the number of tests (Bonferroni), so that a
 *  run over true shuffles raises an alarm with a probability below AUDIT_FALSE_ALARM, however much it
 *  looked at.  What is no matter of chance (a sample twice, one missing) needs no test.
 *
 *  All tests look one way: an order that is *more* even than chance is no fault.
 *
 *  Invariants:
 *    A1  within an audit a test's law under chance is exact, or its tail was measured (test_audit.c) from
 *        the smallest number of samples on that it is used for; below that it is not made, and a note says
 *        so.
 *    A2  tests that are added up over a job's epochs are independent under chance: epochs a fixed distance
 *        apart form chains, and along a chain each order is a new shuffle.
 *    A3  a finding's name, text and epochs are the audit's, until audit_destroy.
 *  No clock, no randomness; I/O in audit_input.c alone.  Memory: 4 bytes for each id that was added (10 while
 *  jobs are joined), and some 40 for each of the longest epoch.  Owner: one thread.
 */
#ifndef AUDIT_H
#define AUDIT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define AUDIT_FALSE_ALARM 1e-4
//  Up to here an order is called fresh: significant or not, it is a note and no fault.
#define AUDIT_PHI2_FRESH 0.02
#define AUDIT_PAIRS_FRESH 1.2       //  pair-repeat
#define AUDIT_HEADS_FRESH 2.0       //  t5h5
#define AUDIT_STAY_FRESH 1.1        //  stay

enum {
    AUDIT_LAGS = 6,             //  epochs are compared with so many before them
    //  Samples from which on a test is made.
    AUDIT_SAME_LEAST = 20,
    AUDIT_TAIL_LEAST = 20,
    AUDIT_RANK_LEAST = 50,
    AUDIT_GROUPS_LEAST = 20,
    AUDIT_TENTHS_LEAST = 100,
    AUDIT_DEALT_LEAST = 2000,   //  of ranks: so that there are some 30 units of a job over nodes
    AUDIT_DEALS_LEAST = 6,      //  of ranks: epochs
    AUDIT_PAIRS_LEAST = 256
};

//  What is found: faults, then notes.
typedef enum {
    AUDIT_MISSING,              //  an epoch lacks samples
    AUDIT_DOUBLED,              //  an epoch has a sample more than once
    AUDIT_FOREIGN,              //  an epoch has an id that is no sample
    AUDIT_SORTED,               //  an epoch counts the ids up, or down, or so from some id on
    AUDIT_REPEATED,             //  an epoch has an earlier one's order
    AUDIT_ROTATED,              //  the same, begun elsewhere
    AUDIT_REVERSED,             //  the same backwards, perhaps begun elsewhere
    AUDIT_BUFFERED,             //  ids come in their order, mixed over a short way only
    AUDIT_UNSHUFFLED,           //  the order depends on the ids in another way
    AUDIT_STALE,                //  an epoch's order tells of a later one's
    AUDIT_TAIL_TO_HEAD,         //  what came last comes first again
    AUDIT_PAIRS,                //  samples of one batch share one again
    AUDIT_GROUP,                //  a group's samples come early, or late, in the epochs
    AUDIT_ABSENT,               //  of ranks: an epoch that some finished, and another has nothing of
    AUDIT_STAYING,              //  of ranks: too many samples come to the one that they had
    AUDIT_OWN_STALE,            //  of ranks: in one's own order, an epoch tells of a later one
    AUDIT_UNEVEN,               //  of ranks: samples come to some of them too often, over all epochs
    AUDIT_FAULTS,
    AUDIT_DROP_LAST = AUDIT_FAULTS, //  all epochs lack equally many, not the same: left out at the end
    AUDIT_UNFINISHED,
    AUDIT_GAP,                  //  epochs between others were not recorded
    AUDIT_TRACE,                //  as AUDIT_STALE, AUDIT_PAIRS or AUDIT_TAIL_TO_HEAD, within what is called
                                //  fresh; AUDIT_STAYING and AUDIT_OWN_STALE likewise
    AUDIT_SAME_ORDER,           //  two jobs had one order
    AUDIT_RELATED_ORDER,        //  or one that resembles the other's
    AUDIT_FIXED,                //  of ranks: no sample changes its rank, or its group of ranks
    AUDIT_UNTESTED,
    AUDIT_KINDS
} audit_kind_t;

typedef struct {
    audit_kind_t kind;
    size_t job;
    size_t other;               //  of two jobs the second; else the same as job
    size_t epoch_count;         //  0: it is of all epochs together, or of none
    const uint64_t *epochs;     //  numbers of those concerned, ascending
    uint64_t worst;             //  the one of them that text is about; 0 if there is none
    double p;                   //  NAN: no matter of chance
    const char *text;           //  a sentence for people, without the job's name and a full stop
} audit_finding_t;

//  A figure, averaged over whatever there was to measure.
typedef struct {
    size_t count;               //  pairs of epochs, or epochs; 0: not measured, and the rest means nothing
    double value;
    double expected;            //  of true shuffles
    double spread;              //  its standard deviation then
} audit_figure_t;

//  What one rank was given.
typedef struct {
    const char *name;
    uint64_t samples_least, samples_most;   //  of an epoch that it finished; both 0: there is none
    audit_figure_t own_phi2 [AUDIT_LAGS];   //  in its own order: of the samples that it has in both epochs
} audit_part_t;

typedef struct {
    size_t count;
    audit_part_t *part;
    size_t groups;              //  of ranks: no sample changes between them; 0: there are not two epochs
    audit_figure_t own_phi2 [AUDIT_LAGS];   //  of all ranks
    audit_figure_t stay [AUDIT_LAGS];       //  samples with the rank that they had, by what chance gives
    audit_figure_t uneven;      //  chi-square of "sample" x "rank", by what chance gives; count: epochs
} audit_parts_t;

typedef enum { AUDIT_ONCE, AUDIT_AT_MOST_ONCE, AUDIT_NOT_ONCE } audit_once_t;

typedef struct {
    const char *name;
    size_t epochs;              //  finished
    size_t unfinished;
    uint64_t samples;           //  as given, else those seen
    audit_once_t once;
    audit_figure_t phi2 [AUDIT_LAGS];   //  by distance, less 1
    audit_figure_t t5h5;
    audit_figure_t pair_repeat;
    audit_figure_t id_correlation;      //  rank correlation of position and id
    audit_figure_t id_phi2;             //  phi2 of position and id
    const audit_parts_t *parts;         //  NULL: the job was not made by audit_join
} audit_job_t;

//  A test that was made; for tests of the tests.
typedef struct {
    audit_kind_t kind;          //  of the finding, should it fail
    size_t job;
    bool pooled;                //  over the job's epochs
    double p;
} audit_test_t;

typedef struct audit audit_t;

//  The largest id there may be.
#define AUDIT_ID_MAX (UINT32_MAX - 1)

//  samples: the ids are 0 to samples - 1; 0: not known, whatever a job's finished epochs have is its data.
//  At most AUDIT_ID_MAX + 1.  NULL: no memory.
audit_t *audit_new (uint64_t samples);
void audit_destroy (audit_t **self_p);

//  Begins a job, before audit_run.  0 or -ENOMEM.
int __attribute__ ((warn_unused_result)) audit_add_job (audit_t *self, const char *name);
//  Adds an epoch to the last job; number is above that of the one before.  Takes *ids_p (malloc'ed, count
//  of them, NULL if none) and nulls it, in every case.  An epoch that is not finished may lack ids.  0 or
//  -ENOMEM.
int __attribute__ ((warn_unused_result)) audit_add_epoch (audit_t *self, uint64_t number, uint32_t **ids_p,
    size_t count, bool finished);
//  Makes one job of those that were added: each is what one of its ranks was given.  An epoch of the job has
//  one sample of each rank in turn.  At most UINT16_MAX jobs; before audit_run.  0 or -ENOMEM.
int __attribute__ ((warn_unused_result)) audit_join (audit_t *self);
//  That a sample is of a group.
typedef struct { uint32_t id, group; } audit_member_t;
//  Of each job, the mean place of what each other job holds is to be tested too: of all the samples that the
//  other one's epochs have; of those that more of the other jobs hold than is usual; and the same with jobs
//  that count as often as they finished epochs, as fast ones do.  Before audit_run.
void audit_test_held (audit_t *self);
//  Each group's mean place in a job's epochs is to be tested too.  Takes *members_p (malloc'ed, by ascending
//  id, each id once, groups below group_count) and nulls it.  names: of groups, lent until audit_destroy.
//  Once, before audit_run.
void audit_set_groups (audit_t *self, audit_member_t **members_p, size_t count, const char *const *names,
    size_t group_count);
//  Judges what was added; once.  0 or -ENOMEM.
int __attribute__ ((warn_unused_result)) audit_run (audit_t *self);

//  What came out; after audit_run.
size_t audit_job_count (const audit_t *self);
const audit_job_t *audit_job (const audit_t *self, size_t index);
size_t audit_finding_count (const audit_t *self);
//  Faults first, then notes; each by job.
const audit_finding_t *audit_finding (const audit_t *self, size_t index);
size_t audit_fault_count (const audit_t *self);
size_t audit_test_count (const audit_t *self);
const audit_test_t *audit_test (const audit_t *self, size_t index);
//  The p below which a test of this run failed.
double audit_bound (const audit_t *self);
//  "missing", "same_order"; static.
const char *audit_kind_name (audit_kind_t kind);

//  ---- what an audit is given, from files (audit_input.c says how these look)

//  Adds the file to the audit as a job of that name.  False: unusable, error says which line of it and what
//  to do; the audit is good for audit_destroy only.
bool __attribute__ ((warn_unused_result)) audit_input_ids (audit_t *audit, const char *name, FILE *file,
    char *error, size_t error_bytes);

enum { AUDIT_INPUT_GROUP_BYTES = 255 };

//  For audit_set_groups.
typedef struct {
    audit_member_t *members;    //  by ascending id
    size_t count;
    char **names;               //  of groups
    size_t group_count;
} audit_input_groups_t;

//  False: unusable, *self is empty, and error says which line of the file and what to do.
bool __attribute__ ((warn_unused_result)) audit_input_groups (audit_input_groups_t *self, const char *name,
    FILE *file, char *error, size_t error_bytes);
//  Groups of so many neighbours in the order: "chunk 0" is its first ones.  False: there is no memory, *self
//  is empty.
bool __attribute__ ((warn_unused_result)) audit_input_chunks (audit_input_groups_t *self,
    const uint32_t *order, size_t count, uint32_t chunk);
void audit_input_clear (audit_input_groups_t *self);

#endif
