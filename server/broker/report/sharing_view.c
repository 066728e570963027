#include "sharing_view.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "job.h"
#include "sharing_tree.h"
#include "tenant.h"
#include "words.h"
#include "xalloc.h"

enum {
    PAIRS_MAX = SHARING_VIEW_JOBS_MAX * (SHARING_VIEW_JOBS_MAX - 1) / 2,
    WORDS_BYTES = 4096, WORDS_JOBS_MAX = 5
};

//  Trees as a viewer saw them.
struct sharing_picture {
    sharing_picture_t *next;
    const tenant_t *tenant;
    int64_t made_ms;
    uint64_t jobs [SAMPLER_JOBS_MAX];           //  by number in the sampler: id of a job in a tree; 0: none
    sharing_tree_t *trees [SAMPLER_JOBS_MAX];
    size_t count;
};

//  ---- which jobs are in trees

static bool
s_is_seen (const job_t *job, const tenant_t *tenant)
{
    return job && (!tenant || job->tenant == tenant);
}

//  Under `follow`, jobs that the strata have no room for draw along common passes, or apart.
static bool
s_is_in_tree (const job_t *job, const tenant_t *tenant)
{
    return s_is_seen (job, tenant) && job->asked.order == SAMPLER_ORDER_SHARED
        && (job->broker->options.policy == SAMPLER_POLICY_DSA || job->consumer.follows);
}

//  The viewer's members of a list that are in trees, or those that are not, by their jobs' ids.  (By their
//  numbers in the sampler they would tell of other tenants' jobs, which have had the numbers between.)
static size_t
s_choose (const dataset_t *dataset, const tenant_t *tenant, bool in_trees, const uint32_t *members,
    size_t count, uint32_t *chosen)
{
    size_t filled = 0;
    for (size_t index = 0; index < count; index++) {
        const job_t *job = dataset->jobs [members [index]];
        if (!s_is_seen (job, tenant) || s_is_in_tree (job, tenant) != in_trees)
            continue;
        size_t place = filled++;
        for (; place > 0 && dataset->jobs [chosen [place - 1]]->id > job->id; place--)
            chosen [place] = chosen [place - 1];
        chosen [place] = members [index];
    }
    return filled;
}

//  All of the data set's.
static size_t
s_choose_all (const dataset_t *dataset, const tenant_t *tenant, bool in_trees, uint32_t *chosen)
{
    uint32_t numbers [SAMPLER_JOBS_MAX];
    for (uint32_t number = 0; number < SAMPLER_JOBS_MAX; number++)
        numbers [number] = number;
    return s_choose (dataset, tenant, in_trees, numbers, SAMPLER_JOBS_MAX, chosen);
}

sharing_view_room_t
sharing_view_room (const broker_t *self, const tenant_t *tenant)
{
    size_t counts [BROKER_DATASETS_MAX] = { 0 }, pairs = PAIRS_MAX + 1, jobs = SHARING_VIEW_JOBS_MAX + 1;
    uint32_t chosen [SAMPLER_JOBS_MAX];
    uint64_t weight = 0;
    for (size_t index = 0; index < self->dataset_count; index++) {
        counts [index] = s_choose_all (self->datasets [index], tenant, true, chosen);
        weight += sharing_tree_weight (counts [index]);
    }
    while (pairs > PAIRS_MAX) {
        jobs--;
        pairs = 0;
        for (size_t index = 0; index < self->dataset_count; index++) {
            size_t told = counts [index] < jobs? counts [index]: jobs;
            pairs += told? told * (told - 1) / 2: 0;
        }
    }
    return (sharing_view_room_t) { .ids_max = sharing_tree_ids (weight), .pair_jobs = jobs };
}

//  ---- pictures

static sharing_picture_t *
s_make (const dataset_t *dataset, const tenant_t *tenant, uint64_t ids_max, int64_t now_ms)
{
    sharing_picture_t *self = xalloc_memory (calloc (1, sizeof *self));
    self->tenant = tenant;
    self->made_ms = now_ms;
    uint32_t jobs [SAMPLER_JOBS_MAX];
    size_t groups = tenant? 1: sampler_group_count (dataset->sampler);
    for (size_t group = 0; group < groups; group++) {
        size_t members = 0;
        const uint32_t *member = tenant? NULL: sampler_group (dataset->sampler, group, &members);
        size_t count = tenant? s_choose_all (dataset, tenant, true, jobs):
            s_choose (dataset, NULL, true, member, members, jobs);
        for (size_t index = 0; index < count; index++)
            self->jobs [jobs [index]] = dataset->jobs [jobs [index]]->id;
        if (count > 0)
            self->trees [self->count++] = sharing_tree_of (dataset->sampler, jobs, count,
                tenant == NULL && count == members, ids_max);
    }
    return self;
}

static void
s_destroy (sharing_picture_t *self)
{
    for (size_t index = 0; index < self->count; index++)
        sharing_tree_destroy (&self->trees [index]);
    free (self);
}

//  No job has come, gone or taken another's number since.
static bool
s_is_of_now (const sharing_picture_t *self, const dataset_t *dataset, int64_t now_ms)
{
    if (now_ms < self->made_ms || now_ms >= self->made_ms + SHARING_VIEW_MS)
        return false;
    for (uint32_t number = 0; number < SAMPLER_JOBS_MAX; number++) {
        const job_t *job = dataset->jobs [number];
        if (self->jobs [number] != (s_is_in_tree (job, self->tenant)? job->id: 0))
            return false;
    }
    return true;
}

//  Frees all pictures that are of before.
static const sharing_picture_t *
s_picture (dataset_t *dataset, const tenant_t *tenant, uint64_t ids_max, int64_t now_ms)
{
    const sharing_picture_t *found = NULL;
    for (sharing_picture_t **next = &dataset->pictures; *next; ) {
        sharing_picture_t *picture = *next;
        if (s_is_of_now (picture, dataset, now_ms)) {
            found = picture->tenant == tenant? picture: found;
            next = &picture->next;
            continue;
        }
        *next = picture->next;
        s_destroy (picture);
    }
    if (found)
        return found;
    sharing_picture_t *made = s_make (dataset, tenant, ids_max, now_ms);
    made->next = dataset->pictures;
    dataset->pictures = made;
    return made;
}

size_t
sharing_view_kept (const dataset_t *dataset)
{
    size_t count = 0;
    for (const sharing_picture_t *picture = dataset->pictures; picture; picture = picture->next)
        count++;
    return count;
}

void
sharing_view_forget (dataset_t *dataset)
{
    while (dataset->pictures) {
        sharing_picture_t *picture = dataset->pictures;
        dataset->pictures = picture->next;
        s_destroy (picture);
    }
}

//  ---- as JSON

static json_int_t
s_job_at (const sharing_picture_t *picture, const sharing_tree_t *tree, size_t place)
{
    return (json_int_t) picture->jobs [tree->places [place].job];
}

static json_t *
s_size (uint64_t size)
{
    return size == SHARING_TREE_UNKNOWN? json_null (): json_integer ((json_int_t) size);
}

static json_t *
s_vertices (const sharing_picture_t *picture, const sharing_tree_t *tree)
{
    json_t *list = json_array ();
    for (size_t place = 0; place < tree->on_path; place++) {
        const sharing_place_t *here = &tree->places [place];
        json_array_append_new (list, json_pack ("{s:o, s:o, s:I, s:{s:I, s:o, s:I}}",
            "size", s_size (here->vertex),
            "parent", place? json_integer ((json_int_t) place - 1): json_null (),
            "jobs", (json_int_t) (tree->on_path - place),
            "leaf", "job", s_job_at (picture, tree, place), "size", s_size (here->leaf),
            "remaining", (json_int_t) here->remaining));
    }
    return list;
}

static json_t *
s_off_path (const sharing_picture_t *picture, const sharing_tree_t *tree)
{
    json_t *list = json_array ();
    for (size_t place = tree->on_path; place < tree->count; place++)
        json_array_append_new (list, json_pack ("{s:I, s:I}", "job", s_job_at (picture, tree, place),
            "remaining", (json_int_t) tree->places [place].remaining));
    return list;
}

//  Of the first pair_jobs jobs: a row for each, with what it shares with each job before it.
static json_t *
s_pairs (const sharing_picture_t *picture, const sharing_tree_t *tree, size_t pair_jobs)
{
    json_t *jobs = json_array (), *common = json_array ();
    size_t told = tree->count < pair_jobs? tree->count: pair_jobs;
    for (size_t place = 0; place < told; place++) {
        json_t *row = json_array ();
        for (size_t other = 0; other < place; other++)
            json_array_append_new (row, s_size (sharing_tree_common (tree, place, other)));
        json_array_append_new (jobs, json_integer (s_job_at (picture, tree, place)));
        json_array_append_new (common, row);
    }
    size_t all = tree->count * (tree->count - 1) / 2;
    return json_pack ("{s:o, s:o, s:I}", "jobs", jobs, "common", common, "left_out",
        (json_int_t) (all - told * (told? told - 1: 0) / 2));
}

void
sharing_view_describe (dataset_t *dataset, const tenant_t *tenant, sharing_view_room_t room, int64_t now_ms,
    json_t *object)
{
    const sharing_picture_t *picture = s_picture (dataset, tenant, room.ids_max, now_ms);
    json_t *trees = json_array (), *alone = json_array ();
    for (size_t index = 0; index < picture->count; index++) {
        const sharing_tree_t *tree = picture->trees [index];
        json_array_append_new (trees, json_pack ("{s:b, s:I, s:I, s:o, s:o, s:o}", "kept", tree->is_kept,
            "ids", (json_int_t) tree->ids, "looked_at", (json_int_t) tree->looked_at,
            "vertices", s_vertices (picture, tree), "off_path", s_off_path (picture, tree),
            "pairs", s_pairs (picture, tree, room.pair_jobs)));
    }
    uint32_t others [SAMPLER_JOBS_MAX];
    size_t count = s_choose_all (dataset, tenant, false, others);
    for (size_t index = 0; index < count; index++)
        json_array_append_new (alone, json_integer ((json_int_t) dataset->jobs [others [index]]->id));
    json_object_set_new (object, "sharing_trees", trees);
    json_object_set_new (object, "drawing_alone", alone);
}

//  ---- in words

//  The other job, not told yet, that shares most with the one at the place; tree->count: none is known.
static size_t
s_most (const sharing_tree_t *tree, size_t place, const bool *is_told)
{
    size_t most = tree->count;
    for (size_t other = 0; other < tree->count; other++) {
        uint64_t size = other == place? SHARING_TREE_UNKNOWN: sharing_tree_common (tree, place, other);
        if (!is_told [other] && size != SHARING_TREE_UNKNOWN
                && (most == tree->count || size > sharing_tree_common (tree, place, most)))
            most = other;
    }
    return most;
}

//  "about 1200 with job 5 ('beta'), 900 with job 7, and at most 3 with each of 12 others": the largest ones
//  first.
static void
s_add_shares (char *text, const dataset_t *dataset, const sharing_tree_t *tree, size_t place)
{
    bool is_told [SAMPLER_JOBS_MAX] = { false };
    size_t known = 0, most;
    for (size_t other = 0; other < tree->count; other++)
        known += other != place && sharing_tree_common (tree, place, other) != SHARING_TREE_UNKNOWN;
    if (known == 0)
        append (text, WORDS_BYTES, "it is not known how many with others");
    else
        append (text, WORDS_BYTES, "it shares %s", tree->looked_at < tree->ids? "about ": "");
    size_t told = known < WORDS_JOBS_MAX? known: WORDS_JOBS_MAX, unknown = tree->count - 1 - known;
    for (size_t turn = 0; turn < told; turn++) {
        most = s_most (tree, place, is_told);
        const job_t *job = dataset->jobs [tree->places [most].job];
        is_told [most] = true;
        append (text, WORDS_BYTES,
            "%s%llu with job %llu", turn == 0? "": turn + 1 == tree->count - 1? " and ": ", ",
            (unsigned long long) sharing_tree_common (tree, place, most), (unsigned long long) job->id);
        if (*job->asked.name)
            append (text, WORDS_BYTES, " ('%s')", job->asked.name);
    }
    if (known > told)
        append (text, WORDS_BYTES, ", and at most %llu with %s%zu other%s",
            (unsigned long long) sharing_tree_common (tree, place, s_most (tree, place, is_told)),
            known - told == 1? "": "each of ", known - told, known - told == 1? "": "s");
    if (known > 0 && unknown > 0)
        append (text, WORDS_BYTES, "; of %zu other%s it is not known", unknown, unknown == 1? "": "s");
}

//  The last vertex is its job's alone, as leaves are.
static void
s_add_leaf (char *text, const sharing_tree_t *tree, size_t place)
{
    const sharing_place_t *here = &tree->places [place];
    bool is_last = place + 1 == tree->on_path;
    if (here->leaf == SHARING_TREE_UNKNOWN || (is_last && here->vertex == SHARING_TREE_UNKNOWN))
        return;
    append (text, WORDS_BYTES,
        "; %s%llu are in its leaf", tree->looked_at < tree->ids && !tree->is_kept? "about ": "",
        (unsigned long long) (here->leaf + (is_last? here->vertex: 0)));
}

//  Only a kept tree has places: without one, jobs are ordered for the answer.
static void
s_add_place (char *text, const dataset_t *dataset, const sharing_tree_t *tree, size_t place)
{
    if (place >= tree->on_path)
        append (text, WORDS_BYTES,
            "the job stands beside the tree of data set '%s' and draws alone for now, as it draws "
            "rarely, is at its epoch's end or has not begun it", dataset->name);
    else
    if (tree->is_kept)
        append (text, WORDS_BYTES,
            "the job stands at place %zu of %zu in the tree of data set '%s'", place + 1,
            tree->on_path, dataset->name);
    else
        append (text, WORDS_BYTES,
            "the job is one of %zu of data set '%s' that are looked at together", tree->count, dataset->name);
    append (text, WORDS_BYTES, "; of the %llu samples that it has to draw in this epoch ",
        (unsigned long long) tree->places [place].remaining);
    s_add_shares (text, dataset, tree, place);
    if (place < tree->on_path)
        s_add_leaf (text, tree, place);
}

char *
sharing_view_words (const job_t *job, const tenant_t *tenant, int64_t now_ms)
{
    static const char *const orders [] = { "shared", "private", "list", "seeded" };
    dataset_t *dataset = job->dataset;
    char *text = xalloc_memory (calloc (1, WORDS_BYTES));
    if (!s_is_in_tree (job, tenant)) {
        if (job->consumer.has_passes)
            append (text, WORDS_BYTES,
                "the job draws along common passes, in no tree: it takes its samples where one random order "
                "after another of all samples has them");
        else
        if (job->asked.order == SAMPLER_ORDER_SHARED)
            append (text, WORDS_BYTES,
                "the job draws apart, in no tree: its data would split the data set into too many "
                "strata");
        else
            append (text, WORDS_BYTES,
                "the job draws by itself, in no tree: order %s", orders [job->asked.order]);
        return text;
    }
    const sharing_picture_t *picture = s_picture (dataset, tenant,
        sharing_view_room (job->broker, tenant).ids_max, now_ms);
    for (size_t index = 0; index < picture->count; index++) {
        const sharing_tree_t *tree = picture->trees [index];
        for (size_t place = 0; place < tree->count; place++)
            if (tree->places [place].job == job->consumer.sampler_job && tree->count > 1)
                s_add_place (text, dataset, tree, place);
    }
    if (!*text)
        append (text, WORDS_BYTES,
            "the job is alone in its tree: no other one of order shared has samples in common with "
            "it");
    return text;
}
