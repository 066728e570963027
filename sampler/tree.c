#include "tree.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "xalloc.h"

enum { TREE_MAGIC = 0x13ee7a5e };

typedef struct {
    uint32_t job;
    roaring_bitmap_t *vertex, *leaf;
    uint64_t size;                              //  of the vertex
} node_t;

struct tree {
    uint32_t magic;
    size_t count;
    node_t nodes [SAMPLER_JOBS_MAX];            //  by place
    uint16_t places [SAMPLER_JOBS_MAX];         //  by job number; or TREE_NOWHERE
};

tree_t *
tree_new (void)
{
    tree_t *self = xalloc_jobs (calloc (1, sizeof *self));
    self->magic = TREE_MAGIC;
    for (uint32_t job = 0; job < SAMPLER_JOBS_MAX; job++)
        self->places [job] = TREE_NOWHERE;
    return self;
}

void
tree_destroy (tree_t **self_p)
{
    tree_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == TREE_MAGIC);
    for (size_t place = 0; place < self->count; place++) {
        roaring_bitmap_free (self->nodes [place].vertex);
        roaring_bitmap_free (self->nodes [place].leaf);
    }
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

size_t
tree_count (const tree_t *self)
{
    return self->count;
}

uint32_t
tree_job (const tree_t *self, size_t place)
{
    assert (place < self->count);
    return self->nodes [place].job;
}

size_t
tree_place (const tree_t *self, uint32_t job)
{
    assert (job < SAMPLER_JOBS_MAX);
    return self->places [job];
}

const roaring_bitmap_t *
tree_vertex (const tree_t *self, size_t place)
{
    assert (place < self->count);
    return self->nodes [place].vertex;
}

const roaring_bitmap_t *
tree_leaf (const tree_t *self, size_t place)
{
    assert (place < self->count);
    return self->nodes [place].leaf;
}

uint64_t
tree_vertex_size (const tree_t *self, size_t place)
{
    assert (place < self->count);
    return self->nodes [place].size;
}

//  ------------------------------------------------------------------------------------------------
//  The path

//  Says anew where the jobs from this place on are.
static void
s_number (tree_t *self, size_t from)
{
    for (size_t place = from; place < self->count; place++)
        self->places [self->nodes [place].job] = (uint16_t) place;
}

//  The node's vertex gains or loses ids that it does not have, or has.
//  Sets without common ids are joined by xor: where a union fills a container, CRoaring 0.2.66 makes a run of
//  it (T4).
static void
s_gain (node_t *node, const roaring_bitmap_t *ids, uint64_t count)
{
    roaring_bitmap_xor_inplace (node->vertex, ids);
    node->size += count;
}

static void
s_lose (node_t *node, const roaring_bitmap_t *ids, uint64_t count)
{
    roaring_bitmap_andnot_inplace (node->vertex, ids);
    node->size -= count;
}

//  These ids, which the new job lacks, leave the vertices before `place`.  Where they leave one, its leaf and
//  the leaves behind it get them.
static void
s_cut (tree_t *self, size_t place, const roaring_bitmap_t *lacking)
{
    roaring_bitmap_t *cut = xalloc_jobs (roaring_bitmap_create ());
    for (node_t *node = self->nodes; node < self->nodes + place; node++) {
        if (node->size > 0 && roaring_bitmap_intersect (node->vertex, lacking)) {
            roaring_bitmap_t *part = xalloc_jobs (roaring_bitmap_and (node->vertex, lacking));
            s_lose (node, part, roaring_bitmap_get_cardinality (part));
            roaring_bitmap_xor_inplace (cut, part);
            roaring_bitmap_free (part);
        }
        if (!roaring_bitmap_is_empty (cut))
            roaring_bitmap_xor_inplace (node->leaf, cut);
    }
    roaring_bitmap_free (cut);
}

void
tree_insert (tree_t *self, size_t place, uint32_t job, const roaring_bitmap_t *remaining,
    const roaring_bitmap_t *neighbour)
{
    assert (self->magic == TREE_MAGIC);
    assert (place <= self->count && self->count < SAMPLER_JOBS_MAX);
    assert (tree_place (self, job) == TREE_NOWHERE);
    node_t new = { .job = job };
    if (self->count == 0) {
        new.vertex = xalloc_jobs (roaring_bitmap_copy (remaining));
        new.leaf = xalloc_jobs (roaring_bitmap_create ());
    }
    else {
        bool is_last = place == self->count;
        node_t *next = &self->nodes [is_last? place - 1: place];
        //  A_p of the place, or all of A_(n-1).
        roaring_bitmap_t *common = xalloc_jobs (roaring_bitmap_andnot (neighbour, next->leaf));
        roaring_bitmap_t *lacking = xalloc_jobs (roaring_bitmap_andnot (common, remaining));
        roaring_bitmap_t *rest = xalloc_jobs (roaring_bitmap_andnot (remaining, common));
        roaring_bitmap_free (common);
        if (!roaring_bitmap_is_empty (lacking))
            s_cut (self, place, lacking);
        if (is_last) {
            new.vertex = rest;
            new.leaf = lacking;
            roaring_bitmap_clear (new.leaf);
        }
        else {
            //  The new job has a part of the next vertex; what it lacks of A_p is the next vertex now.
            roaring_bitmap_andnot_inplace (next->vertex, lacking);
            new.vertex = next->vertex;
            new.leaf = rest;
            next->vertex = lacking;
            next->size = roaring_bitmap_get_cardinality (lacking);
        }
    }
    new.size = roaring_bitmap_get_cardinality (new.vertex);
    memmove (&self->nodes [place + 1], &self->nodes [place], (self->count - place) * sizeof new);
    self->nodes [place] = new;
    self->count++;
    s_number (self, place);
}

void
tree_remove (tree_t *self, uint32_t job)
{
    assert (self->magic == TREE_MAGIC);
    size_t place = tree_place (self, job);
    assert (place < self->count);
    node_t *node = &self->nodes [place];
    if (place + 1 < self->count)
        s_gain (node + 1, node->vertex, node->size);
    else
    if (place > 0) {
        s_gain (node - 1, node [-1].leaf, roaring_bitmap_get_cardinality (node [-1].leaf));
        roaring_bitmap_clear (node [-1].leaf);
    }
    roaring_bitmap_free (node->vertex);
    roaring_bitmap_free (node->leaf);
    self->count--;
    memmove (node, node + 1, (self->count - place) * sizeof *node);
    self->places [job] = TREE_NOWHERE;
    s_number (self, place);
}

void
tree_raise (tree_t *self, size_t place)
{
    assert (self->magic == TREE_MAGIC);
    assert (place < self->count);
    if (place == 0)
        return;
    node_t *node = &self->nodes [place];
    roaring_bitmap_t *rising = xalloc_jobs (roaring_bitmap_and (node->vertex, node [-1].leaf));
    uint64_t count = roaring_bitmap_get_cardinality (rising);
    if (count > 0)
        s_lose (node, rising, count);
    while (count > 0) {
        node--;
        roaring_bitmap_andnot_inplace (node->leaf, rising);
        roaring_bitmap_t *higher = node > self->nodes? roaring_bitmap_and (rising, node [-1].leaf):
            roaring_bitmap_create ();
        uint64_t higher_count = roaring_bitmap_get_cardinality (xalloc_jobs (higher));
        if (higher_count < count) {
            if (higher_count > 0)
                roaring_bitmap_andnot_inplace (rising, higher);
            s_gain (node, rising, count - higher_count);
        }
        roaring_bitmap_free (rising);
        rising = higher;
        count = higher_count;
    }
    roaring_bitmap_free (rising);
}

//  What the job at place has of the next two vertices is common to it and to all behind the two.
void
tree_swap (tree_t *self, size_t place)
{
    assert (self->magic == TREE_MAGIC);
    assert (place + 1 < self->count);
    node_t *front = &self->nodes [place], *back = front + 1;
    roaring_bitmap_t *common;
    roaring_bitmap_xor_inplace (back->leaf, back->vertex);
    if (place + 2 == self->count) {
        common = front->leaf;
        front->leaf = xalloc_jobs (roaring_bitmap_create ());
        roaring_bitmap_free (back->vertex);
    }
    else {
        node_t *after = back + 1;
        if (back->size > 0)
            s_gain (after, back->vertex, back->size);
        common = xalloc_jobs (roaring_bitmap_and (after->vertex, front->leaf));
        s_lose (after, common, roaring_bitmap_get_cardinality (common));
        roaring_bitmap_andnot_inplace (front->leaf, common);
        roaring_bitmap_free (back->vertex);
    }
    back->vertex = common;
    back->size = roaring_bitmap_get_cardinality (common);
    //  The vertices stay in their places, jobs and leaves move.
    node_t moved = *front;
    front->job = back->job;
    front->leaf = back->leaf;
    back->job = moved.job;
    back->leaf = moved.leaf;
    s_number (self, place);
}

//  ------------------------------------------------------------------------------------------------
//  Draws

void
tree_draw (tree_t *self, size_t place, uint32_t id, const uint32_t *jobs, size_t count)
{
    assert (self->magic == TREE_MAGIC);
    assert (place < self->count);
    bool drew [SAMPLER_JOBS_MAX] = { false };   //  by place
    size_t last = place;
    for (size_t index = 0; index < count; index++) {
        size_t at = tree_place (self, jobs [index]);
        if (at == TREE_NOWHERE)
            continue;
        drew [at] = true;
        last = at > last? at: last;
        if (at < place)
            tree_draw_leaf (self, at, id);
    }
    bool removed = roaring_bitmap_remove_checked (self->nodes [place].vertex, id);
    assert (removed);
    self->nodes [place].size--;
    //  The jobs behind the last that drew it still share it.  Those before need it, too, but no longer with
    //  all behind them.
    for (size_t at = place; at < last; at++)
        if (!drew [at])
            roaring_bitmap_add (self->nodes [at].leaf, id);
    if (last + 1 < self->count) {
        roaring_bitmap_add (self->nodes [last + 1].vertex, id);
        self->nodes [last + 1].size++;
    }
}

void
tree_draw_leaf (tree_t *self, size_t place, uint32_t id)
{
    assert (place < self->count);
    bool removed = roaring_bitmap_remove_checked (self->nodes [place].leaf, id);
    assert (removed);
}

void
tree_drop (tree_t *self, uint32_t id)
{
    assert (self->magic == TREE_MAGIC);
    for (node_t *node = self->nodes; node < self->nodes + self->count; node++) {
        node->size -= roaring_bitmap_remove_checked (node->vertex, id);
        roaring_bitmap_remove (node->leaf, id);
    }
}

//  ------------------------------------------------------------------------------------------------
//  Invariants

static void
s_check_uncompressed (const roaring_bitmap_t *set)
{
    roaring_statistics_t statistics;
    roaring_bitmap_statistics (set, &statistics);
    assert (statistics.n_run_containers == 0);                                  //  T4
}

void
tree_check (const tree_t *self, const roaring_bitmap_t *const *remaining)
{
    assert (self->magic == TREE_MAGIC);
    uint64_t common_size = 0;
    roaring_bitmap_t *common = xalloc_jobs (roaring_bitmap_create ());
    for (size_t place = 0; place < self->count; place++) {
        const node_t *node = &self->nodes [place];
        assert (self->places [node->job] == place);
        assert (roaring_bitmap_get_cardinality (node->vertex) == node->size);   //  T2
        s_check_uncompressed (node->vertex);
        s_check_uncompressed (node->leaf);
        roaring_bitmap_or_inplace (common, node->vertex);
        common_size += node->size;
        assert (roaring_bitmap_get_cardinality (common) == common_size);        //  T1
        roaring_bitmap_t *all = xalloc_jobs (roaring_bitmap_or (common, node->leaf));
        assert (roaring_bitmap_equals (all, remaining [node->job]));            //  T1
        assert (roaring_bitmap_get_cardinality (all)
            == common_size + roaring_bitmap_get_cardinality (node->leaf));      //  T1
        roaring_bitmap_free (all);
    }
    assert (self->count == 0 || roaring_bitmap_is_empty (self->nodes [self->count - 1].leaf));  //  T3
    size_t count = 0;
    for (uint32_t job = 0; job < SAMPLER_JOBS_MAX; job++)
        count += self->places [job] != TREE_NOWHERE;
    assert (count == self->count);
    roaring_bitmap_free (common);
}

//  A_k is R_k and A_(k+1) together, and all that can be missing of it is in the leaf.
bool
tree_is_fresh (const tree_t *self)
{
    for (size_t place = 1; place < self->count; place++)
        if (roaring_bitmap_intersect (self->nodes [place].vertex, self->nodes [place - 1].leaf))
            return false;
    return true;
}
