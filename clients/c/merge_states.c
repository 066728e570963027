//  From the states of all nodes of a job, one state of the whole job: docs/state.md, Nodes.
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "state.h"
#include "tureen.h"

enum { MERGE_NAME_BYTES = 64, MERGE_LIST_BYTES = 160 };

static const char *
s_name (const state_t *state, char name [MERGE_NAME_BYTES])
{
    if (state->part.nodes)
        snprintf (name, MERGE_NAME_BYTES, "node %" PRIu32 " of %" PRIu32, state->part.node,
            state->part.nodes);
    else
        snprintf (name, MERGE_NAME_BYTES, "a state of the whole job");
    return name;
}

//  Samples that the node was given since the parts were made.
static uint64_t
s_given (const state_t *state)
{
    uint64_t given = state->taken.count - state->part.cut.taken.count;
    return state->taken.list? (given + state->part.nodes - 1) / state->part.nodes: given;
}

static bool
s_is_same (const position_taken_t *one, const position_taken_t *other)
{
    return one->list == other->list && one->count == other->count && one->word_count == other->word_count
        && (!one->word_count || !memcmp (one->words, other->words, one->word_count * sizeof *one->words));
}

//  --------------------------------------------------------------------------
//  What all states must have in common

static bool
s_check_alike (const state_t *first, const state_t *state, message_error_t *error)
{
    char one [MERGE_NAME_BYTES], other [MERGE_NAME_BYTES];
    const char *key = strcmp (state->fingerprint, first->fingerprint)? "fingerprint"
        : strcmp (state->data, first->data)? "data"
        : state->samples != first->samples? "samples"
        : state->order != first->order? "order"
        : state->pool != first->pool? "pool"
        : state->order == TUREEN_SEEDED && state->seed != first->seed? "seed"
        : state->taken.list != first->taken.list? "the list of ids": NULL;
    if (key)
        return message_fail (error, "the states are of different jobs: %s is another in %s than in %s; give "
            "states of one job", key, s_name (state, other), s_name (first, one));
    if (state->epoch != first->epoch)
        return message_fail (error, "the states are of different epochs: %s is in epoch %" PRIu64 ", %s in "
            "epoch %" PRIu64 "; give states that were taken after the same step", s_name (first, one),
            first->epoch, s_name (state, other), state->epoch);
    if (!state->part.nodes != !first->part.nodes)
        return message_fail (error, "%s and %s: give either one state of the whole job, or the states of all "
            "nodes after the same step", s_name (first, one), s_name (state, other));
    if (!first->part.nodes && (state->batches != first->batches || !s_is_same (&state->taken, &first->taken)))
        return message_fail (error, "the states are of the whole job and differ: batches %" PRIu64 " and %"
            PRIu64 " of epoch %" PRIu64 "; give one of them", first->batches, state->batches, first->epoch);
    return true;
}

static bool
s_check_part (const state_t *first, const state_t *state, message_error_t *error)
{
    const state_part_t *one = &first->part, *other = &state->part;
    if (one->nodes == other->nodes && one->parts == other->parts && one->cut.batches == other->cut.batches
    &&  s_is_same (&one->cut.taken, &other->cut.taken))
        return true;
    return message_fail (error, "the states are of different parts: node %" PRIu32 " of %" PRIu32 " was cut "
        "behind batch %" PRIu64 " (%s), node %" PRIu32 " of %" PRIu32 " behind batch %" PRIu64 " (%s); give "
        "states of one job", one->node, one->nodes, one->cut.batches, state_parts_name (one->parts),
        other->node, other->nodes, other->cut.batches, state_parts_name (other->parts));
}

//  --------------------------------------------------------------------------
//  One state of each node

static bool
s_check_twins (const state_t *one, const state_t *other, message_error_t *error)
{
    if (!strcmp (one->run, other->run) && one->batches == other->batches
    &&  s_is_same (&one->taken, &other->taken))
        return true;
    return message_fail (error,
        "there are two states of node %" PRIu32 ", of batches %" PRIu64 " and %" PRIu64 ": give states "
        "that all ranks of a node took after the same step", one->part.node, one->batches,
        other->batches);
}

static bool
s_check_missing (const state_t *const *nodes, uint32_t count, message_error_t *error)
{
    char list [MERGE_LIST_BYTES] = "";
    uint64_t missing = 0, most = 0;
    for (uint32_t node = 0; node < count; node++) {
        size_t length = strlen (list);
        if (nodes [node])
            most = s_given (nodes [node]) > most? s_given (nodes [node]): most;
        else if (length + 16 < sizeof list)
            snprintf (list + length, sizeof list - length, "%s%" PRIu32, missing? ", ": "", node);
        else if (list [length - 1] != '.')
            snprintf (list + length, sizeof list - length, " ...");
        missing += !nodes [node];
    }
    return missing == 0 || message_fail (error, "the state of node%s %s of %" PRIu32 " is missing: about %"
        PRIu64 " samples that were given there would come twice; give one state of each node",
        missing > 1? "s": "", list, count, missing * most);
}

//  nodes: by number, of the first one's count; NULL: none was given.
static bool
s_sort (const state_t *states, size_t count, const state_t **nodes, message_error_t *error)
{
    for (size_t index = 0; index < count; index++) {
        const state_t **place = &nodes [states [index].part.node];
        if (!s_check_part (&states [0], &states [index], error)
        ||  (*place && !s_check_twins (*place, &states [index], error)))
            return false;
        *place = &states [index];
    }
    return s_check_missing (nodes, states [0].part.nodes, error);
}

//  --------------------------------------------------------------------------
//  Merging

//  What the state of a node says that was given all its places of a list that ends there.
static uint64_t
s_places_at_end (uint64_t cut, uint32_t nodes, uint32_t node, uint64_t end)
{
    uint64_t first = cut + (node + nodes - cut % nodes) % nodes;
    uint64_t own = first < end? (end - first + nodes - 1) / nodes: 0;
    return cut + own * nodes < end? cut + own * nodes: end;
}

//  Of a list all nodes have been given equally many places, but at its end, where some have no more.
static bool
s_merge_places (const state_t *const *nodes, state_t *merged, message_error_t *error)
{
    uint32_t count = nodes [0]->part.nodes;
    uint64_t cut = nodes [0]->part.cut.taken.count, most = 0, least = UINT64_MAX, twice = 0;
    bool fits = true;
    for (uint32_t node = 0; node < count; node++) {
        most = nodes [node]->taken.count > most? nodes [node]->taken.count: most;
        least = nodes [node]->taken.count < least? nodes [node]->taken.count: least;
    }
    bool is_at_end = (most - cut) % count;          //  only the list's end is so
    for (uint32_t node = 0; node < count; node++) {
        uint64_t places = nodes [node]->taken.count;
        fits &= nodes [node]->batches == nodes [0]->batches
            && places == (is_at_end? s_places_at_end (cut, count, node, most): most);
        twice += (places - least) / count;
    }
    merged->taken.count = most;
    return fits || message_fail (error, "the nodes have come to different places of their list, %" PRIu64
        " to %" PRIu64 ": about %" PRIu64 " samples would come twice. Give states that were taken after the "
        "same step (where samples cannot be read, at an epoch's end)", least, most, twice);
}

static bool
s_merge_words (const state_t *const *nodes, state_t *merged, message_error_t *error)
{
    uint32_t count = nodes [0]->part.nodes;
    uint64_t cut = nodes [0]->part.cut.taken.count, apart = cut;
    position_taken_t *taken = &merged->taken;
    for (uint32_t node = 0; node < count; node++)
        if (nodes [node]->taken.word_count > taken->word_count)
            taken->word_count = nodes [node]->taken.word_count;
    taken->words = calloc (taken->word_count + 1, sizeof *taken->words);
    if (!taken->words)
        return false;
    for (uint32_t node = 0; node < count; node++) {
        apart += nodes [node]->taken.count - cut;
        for (size_t index = 0; index < nodes [node]->taken.word_count; index++)
            taken->words [index] |= nodes [node]->taken.words [index];
    }
    for (size_t index = 0; index < taken->word_count; index++)
        taken->count += (uint64_t) __builtin_popcountll (taken->words [index]);
    return taken->count == apart || message_fail (error,
        "the states of the nodes have %" PRIu64 " samples in common, which no two nodes of a job are "
        "given: give states of one job", apart - taken->count);
}

//  *json_p: the text, or NULL where error says why, or memory is out.
static void
s_merge (const state_t *states, size_t count, char **json_p, message_error_t *error)
{
    for (size_t index = 1; index < count; index++)
        if (!s_check_alike (&states [0], &states [index], error))
            return;
    if (!states [0].part.nodes) {
        *json_p = state_write (&states [0]);
        return;
    }
    const state_t **nodes = calloc (states [0].part.nodes, sizeof *nodes);
    //  A state's words are its own; the merged one has others.
    state_t *merged = malloc (sizeof *merged);
    if (nodes && merged && s_sort (states, count, nodes, error)) {
        *merged = *nodes [0];
        merged->part = (state_part_t) { .nodes = 0 };
        merged->taken = (position_taken_t) { .list = nodes [0]->taken.list };
        for (uint32_t node = 0; node < nodes [0]->part.nodes; node++)
            if (nodes [node]->batches > merged->batches)
                merged->batches = nodes [node]->batches;
        if (merged->taken.list? s_merge_places (nodes, merged, error): s_merge_words (nodes, merged, error))
            *json_p = state_write (merged);
        state_clear (merged);
    }
    free (merged);
    free (nodes);
}

int
tureen_merge_states (const char *const *states, size_t count, char **json_p, char *error, size_t error_bytes)
{
    assert (json_p && (states || !count));
    message_error_t why = { "" };
    *json_p = NULL;
    size_t have = 0;
    state_t *all = calloc (count + 1, sizeof *all);
    for (; all && have < count; have++) {
        message_error_t what;
        if (!state_read (&all [have], states [have], &what)) {
            message_fail (&why, "state %zu: %.400s", have, what.text);
            break;
        }
    }
    if (all && !count)
        message_fail (&why, "there is no state to merge: give one of each node");
    if (all && count && have == count)
        s_merge (all, count, json_p, &why);
    while (all && have)
        state_clear (&all [--have]);
    free (all);
    int rc = *json_p? 0: *why.text? -EINVAL: -ENOMEM;
    if (error && error_bytes)
        snprintf (error, error_bytes, "%s", rc == -ENOMEM? "out of memory": why.text);
    return rc;
}
