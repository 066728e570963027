/*  published -- the law of a round as JOADER's paper has it, taken literally.
 *
 *  Sets are computed, players recurse on differences, every probability is multiplied out.  Sets have at most
 *  8 ids, as bit masks.
 */
#ifndef PUBLISHED_H
#define PUBLISHED_H
#include <stddef.h>
#include <stdint.h>

enum { PUBLISHED_IDS = 8, PUBLISHED_JOBS_MAX = 4, PUBLISHED_OUTCOMES = 8 * 8 * 8 * 8 };

typedef struct {
    uint8_t sets [PUBLISHED_JOBS_MAX];          //  R_i of the players that still recurse, sorted by size
    unsigned ones [PUBLISHED_JOBS_MAX];         //  a 1 in the outcome's digit of each job of player i
    size_t count;
} published_players_t;

static inline int
published_size (uint8_t set)
{
    return __builtin_popcount (set);
}

//  The players from `from` on, with less taken away from each.
static inline published_players_t
published_rest (const published_players_t *players, size_t from, uint8_t less)
{
    published_players_t rest = { .count = players->count - from };
    for (size_t player = 0; player < rest.count; player++) {
        rest.sets [player] = players->sets [from + player] & (uint8_t) ~less;
        rest.ones [player] = players->ones [from + player];
    }
    return rest;
}

//  Adds to law [outcome], for every outcome of these players, its probability given that it has come here
//  with `so_far` decided and probability p.  An outcome is an octal number: a digit, which is the id, for
//  each job.
static inline void
published_law (const published_players_t *players, double p, unsigned so_far, double *law)
{
    if (p <= 0)
        return;
    if (players->count == 0) {
        law [so_far] += p;
        return;
    }
    uint8_t common = players->sets [0];
    for (size_t player = 1; player < players->count; player++)
        common &= players->sets [player];
    double here = p * published_size (common) / published_size (players->sets [0]);
    unsigned ones = 0;
    for (size_t sharers = 1; sharers <= players->count && common; sharers++) {
        ones += players->ones [sharers - 1];
        double next = sharers == players->count? 0:
            (double) published_size (players->sets [sharers - 1]) / published_size (players->sets [sharers]);
        published_players_t rest = published_rest (players, sharers, common);
        for (unsigned id = 0; id < PUBLISHED_IDS; id++)
            if (common >> id & 1)
                published_law (&rest, here * (1 - next) / published_size (common), so_far + id * ones, law);
        here *= next;
    }
    //  The first player does not pick the common set, so no player does: all recurse on what is left.  There
    //  it has nothing in common with all the others and draws alone.
    uint8_t alone = players->sets [0] & (uint8_t) ~common;
    published_players_t rest = published_rest (players, 1, common);
    for (unsigned id = 0; id < PUBLISHED_IDS; id++)
        if (alone >> id & 1)
            published_law (&rest, p / published_size (players->sets [0]), so_far + id * players->ones [0],
                law);
}

//  The job's set, at this place or behind the others, with its digit `slot`.  A set that is there already is
//  the same player.
static inline void
published_add (published_players_t *players, size_t place, uint8_t set, unsigned slot)
{
    for (size_t player = 0; player < players->count; player++)
        if (players->sets [player] == set) {
            players->ones [player] += 1u << 3 * slot;
            return;
        }
    for (size_t next = players->count++; next > place; next--) {
        players->sets [next] = players->sets [next - 1];
        players->ones [next] = players->ones [next - 1];
    }
    players->sets [place] = set;
    players->ones [place] = 1u << 3 * slot;
}

#endif
