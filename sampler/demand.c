#include "demand.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "permutation.h"
#include "stream_order.h"
#include "xalloc.h"

enum { DEMAND_MAGIC = 0x7de3a4d1 };

struct demand {
    uint32_t magic;
    //  Set at birth.
    sampler_order_t order;
    uint32_t sample_count;
    sampler_list_t *list;           //  NULL: no list, or the data ascending; without what was gone when the
                                    //  epoch began
    size_t list_count;              //  of the list, or of a seeded order
    uint32_t *left;                 //  of a list: how often each id is still to come; else NULL
    history_t *history;             //  NULL: sets
    //  SEEDED: all the data that were asked for, readable or not, so that what cannot be read moves nothing
    //  else.
    roaring_bitmap_t *ranked;       //  the rank-th is found by select; NULL: it is ranked_first + rank
    uint32_t ranked_first;
    uint32_t *ranked_ids;           //  the same as an array, while the job joins; else NULL
    uint64_t seed;
    roaring_bitmap_t *asked;        //  with parts: all the data, readable or not; else NULL
    parts_t parts;                  //  with parts
    stream_order_t *stream;         //  SEEDED with a pool: instead of the two above; NULL: without
    //  Changed by drops.
    roaring_bitmap_t *data;
    uint64_t epoch_count;
    //  Of the present epoch.
    roaring_bitmap_t *remaining;
    uint64_t remaining_count;
    uint64_t drawn_count;           //  or taken before: of what is still in data
    roaring_bitmap_t *taken;        //  SEEDED, or with parts: before the job joined in this epoch, or by
                                    //  other nodes; NULL: nothing
    roaring_bitmap_t *next_part;    //  with parts: of the next epoch
    size_t cursor;                  //  next place of a list or a seeded order, past what was dropped or taken
    uint32_t next;                  //  the id there
    uint32_t occurrence;            //  of the id that was drawn last
    uint64_t epoch;
    permutation_t permutation;      //  SEEDED without a pool
};

bool
demand_is_given (const demand_t *self)
{
    return self->order == SAMPLER_ORDER_LIST || self->order == SAMPLER_ORDER_SEEDED;
}

static void
s_take_list (demand_t *self, const sampler_join_t *join, uint32_t sample_count)
{
    assert (join->list_count > 0);
    assert (!join->made || join->made->ids == join->list);
    self->list = join->made? sampler_list_hold (join->made)
        : xalloc_jobs (sampler_list_copy (join->list, join->list_count, sample_count));
    self->list_count = join->list_count;
    self->left = xalloc_jobs (malloc (sample_count * sizeof *self->left));
    self->data = xalloc_jobs (roaring_bitmap_copy (self->list->set));
}

static void
s_take_data (demand_t *self, const sampler_join_t *join, uint32_t sample_count)
{
    assert (join->data);
    assert (!roaring_bitmap_is_empty (join->data));
    self->data = xalloc_jobs (roaring_bitmap_copy (join->data));
    if (self->order != SAMPLER_ORDER_SEEDED)
        return;
    self->seed = join->seed;
    self->list_count = roaring_bitmap_get_cardinality (join->data);
    if (join->pool > 0) {
        self->stream = stream_order_new (join->pack_order, sample_count, join->data, join->pool, join->seed);
        return;
    }
    self->ranked_first = roaring_bitmap_minimum (join->data);
    if (roaring_bitmap_maximum (join->data) - self->ranked_first == self->list_count - 1)
        return;                     //  one range
    self->ranked = xalloc_jobs (roaring_bitmap_copy (join->data));
}

//  Cuts data down to what can be read.  That also undoes run compression (ranges arrive so), since an
//  intersection with a set that has no runs has none.  roaring_bitmap_remove_run_compression would not do:
//  in CRoaring 0.2.66 it writes past the heap where a run of up to 4,096 ids ends a container, as in
//  [65530, 65536).
//  True: all of it can.
static bool
s_keep_readable (demand_t *self, const roaring_bitmap_t *readable)
{
    roaring_bitmap_t *kept = roaring_bitmap_and (self->data, readable);
    assert (kept);
    bool is_whole = roaring_bitmap_get_cardinality (kept) == roaring_bitmap_get_cardinality (self->data);
    roaring_bitmap_free (self->data);
    self->data = kept;
    return is_whole;
}

//  The id at a place of a list or a seeded order without a pool.
static uint32_t
s_at (const demand_t *self, size_t place)
{
    assert (!self->stream);
    if (self->list)
        return self->list->ids [place];
    uint32_t rank = permutation_at (&self->permutation, (uint32_t) place);
    if (self->ranked_ids)
        return self->ranked_ids [rank];
    uint32_t id = self->ranked_first + rank;
    if (self->ranked) {
        bool found = roaring_bitmap_select (self->ranked, rank, &id);
        assert (found);
    }
    return id;
}

//  The id at the cursor, which has just come there.
static void
s_look_next (demand_t *self)
{
    if (self->cursor < self->list_count)
        self->next = self->stream? stream_order_next (self->stream): s_at (self, self->cursor);
}

//  Keeps the cursor on an id that remains, or at the end: over what was dropped, and what was taken.  A list
//  may have millions of such places in a row, all of dropped ids.
static void
s_skip_gone (demand_t *self)
{
    while (self->cursor < self->list_count && (self->list? self->left [self->next] == 0:
            !roaring_bitmap_contains (self->remaining, self->next))) {
        self->cursor++;
        s_look_next (self);
    }
}

//  Makes the list anew, without the places that are not in data, so that no epoch must skip them.  Returns
//  how many of its first places are left.
static size_t
s_shorten_list (demand_t *self, size_t places)
{
    sampler_list_t *kept = xalloc_jobs (sampler_list_kept (self->list, self->data, &places));
    sampler_list_destroy (&self->list);
    self->list = kept;
    self->list_count = self->epoch_count = kept->count;
    return places;
}

static void
s_epoch_begin (demand_t *self)
{
    if (self->remaining)
        roaring_bitmap_free (self->remaining);
    if (self->taken)
        roaring_bitmap_free (self->taken);
    self->taken = NULL;
    if (self->list && self->list_count > self->epoch_count)
        s_shorten_list (self, 0);
    if (self->list)
        memcpy (self->left, self->list->times, self->sample_count * sizeof *self->left);
    self->remaining = xalloc_jobs (roaring_bitmap_copy (self->data));
    self->remaining_count = self->epoch_count;
    self->drawn_count = 0;
    self->cursor = 0;
    if (self->stream)
        stream_order_begin (self->stream, self->epoch);
    else
    if (self->order == SAMPLER_ORDER_SEEDED)
        self->permutation = permutation_new (self->seed, self->epoch, (uint32_t) self->list_count);
    s_look_next (self);
    s_skip_gone (self);
}

//  How many of places [from ..] have an id that is still in data.
static uint64_t
s_count_from (const demand_t *self, size_t from)
{
    uint64_t count = 0;
    for (size_t place = from; place < self->list_count; place++)
        count += roaring_bitmap_contains (self->data, s_at (self, place));
    return count;
}

//  Of an order that is given, what stands in front of the last of these ids does not remain.
static void
s_pass (demand_t *self, const roaring_bitmap_t *ids)
{
    uint64_t left = roaring_bitmap_get_cardinality (ids);
    if (left > 0 && self->list_count == 0)
        roaring_bitmap_remove_range (self->remaining, 0, roaring_bitmap_maximum (ids));
    while (left > 0 && self->list_count > 0) {
        left -= roaring_bitmap_contains (ids, self->next);
        roaring_bitmap_remove (self->remaining, self->next);
        self->cursor++;
        s_look_next (self);
    }
}

//  What is left of the first epoch when the ids, which become the demand's, are taken.  All the places that
//  are skipped are looked at here, so that a rank's id must cost no select.
static void
s_take (demand_t *self, roaring_bitmap_t *taken, const roaring_bitmap_t *passed)
{
    self->taken = taken;
    roaring_bitmap_andnot_inplace (self->remaining, taken);
    if (self->ranked) {
        self->ranked_ids = xalloc_jobs (malloc (self->list_count * sizeof *self->ranked_ids));
        roaring_bitmap_to_uint32_array (self->ranked, self->ranked_ids);
    }
    if (passed)
        s_pass (self, passed);
    self->remaining_count = roaring_bitmap_get_cardinality (self->remaining);
    self->drawn_count = self->epoch_count - self->remaining_count;
    s_skip_gone (self);
    free (self->ranked_ids);
    self->ranked_ids = NULL;
}

//  The same of a list, all of which is in data.
static void
s_take_places (demand_t *self, size_t places)
{
    assert (places <= self->list_count);
    const uint32_t *ids = self->list->ids;
    for (size_t place = 0; place < places; place++)
        if (--self->left [ids [place]] == 0)
            roaring_bitmap_remove (self->remaining, ids [place]);
    self->remaining_count = self->list_count - places;
    self->drawn_count = places;
    self->cursor = places;
    s_look_next (self);
}

//  The part of join->taken that can be read; NULL: nothing was taken.  Yours to free.
static roaring_bitmap_t *
s_readable_taken (const demand_t *self, const sampler_join_t *join, const roaring_bitmap_t *readable)
{
    if (!join->taken)
        return NULL;
    roaring_bitmap_t *taken = roaring_bitmap_and (join->taken, self->data);
    assert (taken);
    assert (roaring_bitmap_get_cardinality (taken) == roaring_bitmap_and_cardinality (join->taken, readable));
    return taken;
}

//  ---- parts

//  All but the node's part, perhaps also what cannot be read; yours to free.
static roaring_bitmap_t *
s_others (const demand_t *self, const roaring_bitmap_t *part)
{
    const roaring_bitmap_t *data = self->data? self->data: self->asked;
    return xalloc_jobs (roaring_bitmap_andnot (data, part));
}

static void
s_look_ahead (demand_t *self)
{
    if (self->next_part)
        roaring_bitmap_free (self->next_part);
    self->next_part = parts_of (&self->parts, self->epoch + 1, self->sample_count, self->asked);
}

//  The present epoch, of which nothing is drawn or taken yet, is cut down to the node's part.
static void
s_take_part (demand_t *self, const roaring_bitmap_t *part)
{
    roaring_bitmap_t *others = s_others (self, part);
    if (self->history) {
        history_leave_out (self->history, others);
        roaring_bitmap_free (others);
    }
    else
        s_take (self, others, NULL);
}

//  The first epoch: the parts of what had not been taken at the cut.
static roaring_bitmap_t *
s_first_part (demand_t *self, const sampler_join_t *join)
{
    self->parts = *join->parts;
    self->asked = xalloc_jobs (roaring_bitmap_copy (join->data));
    roaring_bitmap_t *remaining = xalloc_jobs (roaring_bitmap_copy (join->data));
    if (join->cut)
        roaring_bitmap_andnot_inplace (remaining, join->cut);
    roaring_bitmap_t *part = parts_of (&self->parts, self->epoch, self->sample_count, remaining);
    roaring_bitmap_free (remaining);
    s_look_ahead (self);
    return part;
}

//  In an order that is given: what the node has taken since its part was made; all in front of the last of it
//  is behind it too.  Without a part what was skipped there as unreadable comes again.  With one the node
//  would then send more batches than others.  NULL: nothing; yours to free.
static roaring_bitmap_t *
s_passed (const demand_t *self, const sampler_join_t *join, const roaring_bitmap_t *taken,
    const roaring_bitmap_t *part)
{
    if (!part || !taken || !demand_is_given (self))
        return NULL;
    return xalloc_jobs (join->cut? roaring_bitmap_andnot (taken, join->cut): roaring_bitmap_copy (taken));
}

//  What is taken of the first epoch.  With a history: of the node's part, in whichever order; what others had
//  is left out first.
static void
s_take_first (demand_t *self, const sampler_join_t *join, roaring_bitmap_t *taken,
    const roaring_bitmap_t *part, random_t *random)
{
    roaring_bitmap_t *passed = s_passed (self, join, taken, part);
    if (part && self->history)
        s_take_part (self, part);
    if (part && taken && self->history)
        roaring_bitmap_and_inplace (taken, part);
    else
    if (part && !self->history) {
        roaring_bitmap_t *others = s_others (self, part);
        if (taken)
            roaring_bitmap_or_inplace (others, taken);
        if (taken)
            roaring_bitmap_free (taken);
        taken = others;
    }
    if (taken && !self->history)
        s_take (self, taken, passed);
    if (taken && self->history) {
        history_go_on (self->history, taken, random);
        roaring_bitmap_free (taken);
    }
    if (passed)
        roaring_bitmap_free (passed);
}

demand_t *
demand_new (const sampler_join_t *join, const roaring_bitmap_t *readable, uint32_t sample_count,
    bool remembers, random_t *random)
{
    assert (join);
    assert (!join->list || !join->taken);
    assert (join->list || join->taken_places == 0);
    assert (!join->list || join->order == SAMPLER_ORDER_LIST);
    assert (!remembers || join->order == SAMPLER_ORDER_SHARED);
    assert (join->pool == 0 || (join->order == SAMPLER_ORDER_SEEDED && join->pack_order));
    demand_t *self = xalloc_jobs (calloc (1, sizeof *self));
    self->magic = DEMAND_MAGIC;
    self->order = join->order;
    self->sample_count = sample_count;
    self->epoch = join->epoch;
    if (join->list)
        s_take_list (self, join, sample_count);
    else
        s_take_data (self, join, sample_count);
    assert (roaring_bitmap_maximum (self->data) < sample_count);
    bool is_whole = s_keep_readable (self, readable);
    self->epoch_count = self->list? self->list_count: roaring_bitmap_get_cardinality (self->data);
    size_t places = join->taken_places;
    if (self->list && !is_whole)
        places = s_shorten_list (self, places);
    roaring_bitmap_t *taken = s_readable_taken (self, join, readable);
    roaring_bitmap_t *part = join->parts && !join->list? s_first_part (self, join): NULL;
    if (remembers) {
        assert (self->epoch_count > 0);
        self->history = history_new (self->data, sample_count);
        roaring_bitmap_free (self->data);
        self->data = NULL;
    }
    else
        s_epoch_begin (self);
    if (places > 0)
        s_take_places (self, places);
    s_take_first (self, join, taken, part, random);
    if (part)
        roaring_bitmap_free (part);
    return self;
}

void
demand_destroy (demand_t **self_p)
{
    demand_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == DEMAND_MAGIC);
    if (self->data)
        roaring_bitmap_free (self->data);
    if (self->remaining)
        roaring_bitmap_free (self->remaining);
    if (self->taken)
        roaring_bitmap_free (self->taken);
    if (self->ranked)
        roaring_bitmap_free (self->ranked);
    if (self->asked)
        roaring_bitmap_free (self->asked);
    if (self->next_part)
        roaring_bitmap_free (self->next_part);
    history_destroy (&self->history);
    stream_order_destroy (&self->stream);
    free (self->left);
    sampler_list_destroy (&self->list);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

sampler_order_t
demand_order (const demand_t *self)
{
    return self->order;
}

const roaring_bitmap_t *
demand_data (const demand_t *self)
{
    return self->data;
}

const roaring_bitmap_t *
demand_remaining (const demand_t *self)
{
    return self->remaining;
}

history_t *
demand_history (const demand_t *self)
{
    return self->history;
}

bool
demand_has (const demand_t *self, uint32_t id)
{
    return self->history? history_has (self->history, id): roaring_bitmap_contains (self->data, id);
}

bool
demand_needs (const demand_t *self, uint32_t id)
{
    return self->history? history_needs (self->history, id): roaring_bitmap_contains (self->remaining, id);
}

bool
demand_needs_next (const demand_t *self, uint32_t id)
{
    return demand_has (self, id) && (!self->next_part || roaring_bitmap_contains (self->next_part, id));
}

bool
demand_has_parts (const demand_t *self)
{
    return self->next_part != NULL;
}

static void
s_copy_set (const roaring_bitmap_t *set, const uint32_t *pieces, size_t count, uint8_t *bits)
{
    roaring_uint32_iterator_t ids;
    roaring_init_iterator (set, &ids);
    for (size_t index = 0; index < count; index++) {
        uint32_t first = DEMAND_PIECE * pieces [index], found [DEMAND_PIECE], filled = 0;
        if (roaring_move_uint32_iterator_equalorlarger (&ids, first))
            filled = roaring_read_uint32_iterator (&ids, found, DEMAND_PIECE);
        bits [index] = 0;
        for (uint32_t next = 0; next < filled && found [next] - first < DEMAND_PIECE; next++)
            bits [index] |= (uint8_t) (1U << (found [next] - first));
    }
}

void
demand_copy_remaining (const demand_t *self, const uint32_t *pieces, size_t count, uint8_t *bits)
{
    if (self->history)
        history_copy_remaining (self->history, pieces, count, bits);
    else
        s_copy_set (self->remaining, pieces, count, bits);
}

bool
demand_list_remaining (const demand_t *self, uint32_t *ids, size_t max, size_t *count_p)
{
    if (demand_remaining_count (self) > max)
        return false;
    if (self->history)
        return history_list_remaining (self->history, ids, max, count_p);
    *count_p = (size_t) roaring_bitmap_get_cardinality (self->remaining);
    roaring_bitmap_to_uint32_array (self->remaining, ids);
    return true;
}

void
demand_spread (const demand_t *self, uint32_t *bounds, size_t parts)
{
    if (self->history) {
        history_spread (self->history, bounds, parts);
        return;
    }
    uint64_t count = roaring_bitmap_get_cardinality (self->data);
    bounds [0] = roaring_bitmap_minimum (self->data);
    bounds [parts] = roaring_bitmap_maximum (self->data) + 1;
    for (size_t part = 1; part < parts; part++) {
        bool found = roaring_bitmap_select (self->data, (uint32_t) (count * part / parts), &bounds [part]);
        assert (found);
    }
}

uint64_t
demand_remaining_count (const demand_t *self)
{
    return self->history? history_remaining (self->history): self->remaining_count;
}

uint64_t
demand_epoch_count (const demand_t *self)
{
    return self->history? history_size (self->history): self->epoch_count;
}

uint32_t
demand_next (const demand_t *self)
{
    assert (self->magic == DEMAND_MAGIC);
    assert (demand_is_given (self));
    assert (self->remaining_count > 0);
    return self->list_count > 0? self->next: roaring_bitmap_minimum (self->remaining);
}

uint32_t
demand_occurrence (const demand_t *self)
{
    return self->occurrence;
}

static void
s_draw_of_set (demand_t *self, uint32_t id)
{
    assert (self->remaining_count > 0);
    assert (!demand_is_given (self) || id == demand_next (self));
    if (self->list) {
        const uint32_t *occurrences = self->list->occurrences;
        self->occurrence = occurrences? occurrences [self->cursor]
            : self->list->times [id] - self->left [id];
        self->left [id]--;
    }
    if (!self->list || self->left [id] == 0) {
        bool removed = roaring_bitmap_remove_checked (self->remaining, id);
        assert (removed);
    }
    self->remaining_count--;
    self->drawn_count++;
    if (self->list_count > 0) {
        self->cursor++;
        s_look_next (self);
        s_skip_gone (self);
    }
}

void
demand_draw (demand_t *self, uint32_t id)
{
    assert (self->magic == DEMAND_MAGIC);
    if (!self->history)
        s_draw_of_set (self, id);
    else
        history_draw (self->history, id);
}

static bool
s_any_remains (const demand_t *self, const stream_piece_t *piece)
{
    for (uint32_t index = 0; index < piece->count; index++)
        if (roaring_bitmap_contains (self->remaining, piece->ids [index]))
            return true;
    return false;
}

bool
demand_entered (demand_t *self, stream_piece_t *piece)
{
    assert (self->magic == DEMAND_MAGIC);
    while (self->stream && stream_order_entered (self->stream, piece))
        if (s_any_remains (self, piece))
            return true;
    return false;
}

void
demand_drop (demand_t *self, uint32_t id)
{
    assert (self->magic == DEMAND_MAGIC);
    if (self->history) {
        history_drop (self->history, id);
        return;
    }
    if (!roaring_bitmap_contains (self->data, id))
        return;
    uint64_t to_come = roaring_bitmap_contains (self->remaining, id);
    uint64_t occurrences = 1;
    if (self->list) {
        to_come = self->left [id];
        occurrences = self->list->times [id];
        self->left [id] = 0;
    }
    roaring_bitmap_remove (self->data, id);
    roaring_bitmap_remove (self->remaining, id);
    self->epoch_count -= occurrences;
    self->remaining_count -= to_come;
    self->drawn_count -= occurrences - to_come;
    s_skip_gone (self);
}

void
demand_epoch_begin (demand_t *self)
{
    assert (self->magic == DEMAND_MAGIC);
    self->epoch++;
    if (self->history)
        history_epoch_begin (self->history);
    else
        s_epoch_begin (self);
    if (!self->next_part)
        return;
    s_take_part (self, self->next_part);
    s_look_ahead (self);
}

typedef struct {
    const demand_t *demand;
    roaring_bitmap_t *ids;
} to_come_t;

static bool
s_comes (const demand_t *self, uint32_t id)
{
    return roaring_bitmap_contains (self->data, id)
        && !(self->taken && roaring_bitmap_contains (self->taken, id));
}

static void
s_note_coming (void *context, uint32_t id)
{
    to_come_t *to_come = context;
    if (s_comes (to_come->demand, id))
        roaring_bitmap_add (to_come->ids, id);
}

//  Checks an order with a pool.  The sample at its cursor is `next`, already drawn from the order.
static void
s_check_stream (const demand_t *self)
{
    to_come_t to_come = { .demand = self, .ids = xalloc_jobs (roaring_bitmap_create ()) };
    if (self->cursor < self->list_count) {
        s_note_coming (&to_come, self->next);
        assert (self->cursor + 1 + stream_order_left (self->stream) == self->list_count);
    }
    stream_order_rest (self->stream, s_note_coming, &to_come);
    assert (roaring_bitmap_equals (to_come.ids, self->remaining));              //  D4
    assert (roaring_bitmap_get_cardinality (to_come.ids) == self->remaining_count);             //  D2
    assert (roaring_bitmap_get_cardinality (self->data) == self->epoch_count);  //  D2
    roaring_bitmap_free (to_come.ids);
}

static void
s_check_list (const demand_t *self)
{
    roaring_bitmap_t *to_come = xalloc_jobs (roaring_bitmap_create ());
    uint32_t *left = xalloc_jobs (calloc (self->sample_count, sizeof *left));
    uint64_t count = 0;
    for (size_t place = self->cursor; place < self->list_count; place++)
        if (s_comes (self, s_at (self, place))) {
            roaring_bitmap_add (to_come, s_at (self, place));
            left [s_at (self, place)]++;
            count++;
        }
    assert (roaring_bitmap_equals (to_come, self->remaining));                  //  D4
    assert (s_count_from (self, 0) == self->epoch_count);                       //  D2
    assert (count == self->remaining_count);                                    //  D2
    assert (self->cursor == self->list_count || s_at (self, self->cursor) == self->next);
    assert (!self->left || memcmp (left, self->left, self->sample_count * sizeof *left) == 0);  //  D5
    free (left);
    roaring_bitmap_free (to_come);
}

static void
s_check_uncompressed (const roaring_bitmap_t *set)
{
    roaring_statistics_t statistics;
    roaring_bitmap_statistics (set, &statistics);
    assert (statistics.n_run_containers == 0);                                  //  D1
}

static void
s_check_readable (void *context, uint32_t id)
{
    assert (roaring_bitmap_contains ((const roaring_bitmap_t *) context, id));  //  S1
}

void
demand_check (const demand_t *self, const roaring_bitmap_t *readable)
{
    assert (self->magic == DEMAND_MAGIC);
    if (self->history) {
        history_check (self->history);                                          //  S2
        history_each (self->history, s_check_readable, (void *) readable);
        return;
    }
    assert (roaring_bitmap_is_subset (self->remaining, self->data));            //  D1, S1
    assert (roaring_bitmap_is_subset (self->data, readable));                   //  S1
    s_check_uncompressed (self->data);
    s_check_uncompressed (self->remaining);
    //  D4
    assert (self->cursor >= self->list_count || roaring_bitmap_contains (self->remaining, self->next));
    if (self->stream)
        s_check_stream (self);
    else
    if (self->list_count > 0)
        s_check_list (self);
    else {
        assert (roaring_bitmap_get_cardinality (self->data) == self->epoch_count);              //  D2
        assert (roaring_bitmap_get_cardinality (self->remaining) == self->remaining_count);     //  D2
    }
    assert (self->drawn_count + self->remaining_count == self->epoch_count);    //  D3, S2
}
