#include "fairness.h"
#include <assert.h>
#include <stdlib.h>

enum { FAIRNESS_MAGIC = 0x66616972 };

typedef struct {
    double weight;
    double pass;                //  ns over weight
    uint64_t charged_ns;        //  of what is done
} user_t;

struct fairness {
    uint32_t magic;
    //  owner only
    double tasks_max;
    user_t users [FAIRNESS_USERS_MAX];
    uint32_t count;
    uint64_t waiting;           //  a bit for each
    double pass;                //  the system's; never goes back
    double longest_ns;          //  of estimates and of what was taken
};

fairness_t *
fairness_new (size_t tasks_max)
{
    fairness_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->magic = FAIRNESS_MAGIC;
    self->tasks_max = (double) tasks_max;
    return self;
}

void
fairness_destroy (fairness_t **self_p)
{
    fairness_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == FAIRNESS_MAGIC);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

void
fairness_set_tasks (fairness_t *self, size_t tasks_max)
{
    assert (self->magic == FAIRNESS_MAGIC);
    self->tasks_max = (double) tasks_max;
}

static uint64_t
s_bit (uint32_t user)
{
    return UINT64_C (1) << user;
}

uint32_t
fairness_add (fairness_t *self, uint32_t weight)
{
    assert (self->magic == FAIRNESS_MAGIC);
    assert (weight > 0 && self->count < FAIRNESS_USERS_MAX);
    self->users [self->count] = (user_t) { .weight = weight };
    return self->count++;
}

void
fairness_set_weight (fairness_t *self, uint32_t user, uint32_t weight)
{
    assert (weight > 0 && user < self->count);
    self->users [user].weight = weight;
}

static void
s_raise (fairness_t *self, user_t *user)
{
    if (user->pass < self->pass)
        user->pass = self->pass;
}

void
fairness_wait (fairness_t *self, uint32_t user)
{
    assert (user < self->count);
    if (self->waiting & s_bit (user))
        return;
    self->waiting |= s_bit (user);
    s_raise (self, &self->users [user]);
}

void
fairness_rest (fairness_t *self, uint32_t user)
{
    assert (user < self->count);
    self->waiting &= ~s_bit (user);
}

uint64_t
fairness_waiting (const fairness_t *self)
{
    return self->waiting;
}

bool
fairness_next (const fairness_t *self, uint64_t without, uint32_t *user_p)
{
    assert (self->magic == FAIRNESS_MAGIC);
    uint64_t candidates = self->waiting & ~without;
    bool found = false;
    for (uint32_t user = 0; user < self->count; user++)
        if (candidates & s_bit (user) && (!found || self->users [user].pass < self->users [*user_p].pass)) {
            *user_p = user;
            found = true;
        }
    return found;
}

static void
s_note_longest (fairness_t *self, uint64_t ns)
{
    if ((double) ns > self->longest_ns)
        self->longest_ns = (double) ns;
}

//  The user, and those others that may pay: none that is further ahead than all tasks in flight, if they took
//  so long, could bring it.
static uint64_t
s_payers (const fairness_t *self, uint32_t user, uint64_t others, uint64_t ns)
{
    uint64_t payers = s_bit (user);
    for (uint32_t other = 0; other < self->count; other++) {
        double ahead = self->tasks_max * (double) ns / self->users [other].weight;
        if (others & s_bit (other) && self->users [other].pass <= self->pass + ahead)
            payers |= s_bit (other);
    }
    return payers;
}

static void
s_move (fairness_t *self, uint64_t payers, double ns)
{
    double part_ns = ns / __builtin_popcountll (payers);
    for (uint32_t user = 0; user < self->count; user++)
        if (payers & s_bit (user))
            self->users [user].pass += part_ns / self->users [user].weight;
}

uint64_t
fairness_serve (fairness_t *self, uint32_t user, uint64_t others, uint64_t passed_over, uint64_t estimate_ns)
{
    assert (self->magic == FAIRNESS_MAGIC);
    assert (user < self->count);
    s_note_longest (self, estimate_ns);
    if (self->users [user].pass > self->pass)
        self->pass = self->users [user].pass;
    for (uint32_t other = 0; other < self->count; other++)
        if (passed_over & s_bit (other))
            s_raise (self, &self->users [other]);
    uint64_t payers = s_payers (self, user, others, estimate_ns);
    s_move (self, payers, (double) estimate_ns);
    return payers;
}

void
fairness_done (fairness_t *self, uint64_t payers, uint64_t estimate_ns, uint64_t took_ns)
{
    assert (payers);
    s_note_longest (self, took_ns);
    s_move (self, payers, (double) took_ns - (double) estimate_ns);
    uint64_t part_ns = took_ns / (uint64_t) __builtin_popcountll (payers);
    for (uint32_t user = 0; user < self->count; user++)
        if (payers & s_bit (user))
            self->users [user].charged_ns += part_ns;
}

void
fairness_forgive (fairness_t *self, uint32_t number, uint64_t most_ns)
{
    assert (number < self->count);
    user_t *user = &self->users [number];
    double latest = self->pass + (double) most_ns / user->weight;
    user->pass = user->pass < latest? user->pass: latest;
}

uint64_t
fairness_charged_ns (const fairness_t *self, uint32_t user)
{
    assert (user < self->count);
    return self->users [user].charged_ns;
}

void
fairness_check (const fairness_t *self)
{
    assert (self->magic == FAIRNESS_MAGIC);
    double error = 1 + self->pass * 1e-12;          //  of the arithmetic
    for (uint32_t number = 0; number < self->count; number++) {
        const user_t *user = &self->users [number];
        double bound = self->longest_ns * self->tasks_max / user->weight;
        assert (user->pass <= self->pass + 2 * bound + self->longest_ns / user->weight + error);        //  F1
        if (self->waiting & s_bit (number))
            assert (user->pass >= self->pass - bound - error);                                          //  F2
    }
}
