#include "bucket_deli.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include "bucket_cache.h"
#include "bucket_draws.h"
#include "simulated_memory.h"

typedef struct {
    uint32_t *ids;                  //  that are fetched
    uint32_t count;
    double left;                    //  GETs
    double earliest;                //  however few they are, they take as long as one
} post_t;

typedef struct {
    const bucket_deli_plan_t *plan;
    bucket_draws_t *draws;
    bucket_cache_t *cache;
    post_t *posts;                  //  that have not come, in the order in which they were posted
    size_t post_count, post_room;
    double now, served_until;
    const uint32_t *order;          //  of the epoch
    uint32_t slice, announced, drawn;
    bucket_deli_epoch_t *epoch;
} deli_t;

//  The fewest GETs that a post has left, and how many posts have some.
static uint32_t
s_count_active (const deli_t *self, double *fewest_p)
{
    uint32_t active = 0;
    *fewest_p = INFINITY;
    for (size_t at = 0; at < self->post_count; at++)
        if (self->posts [at].left > 0) {
            *fewest_p = fmin (*fewest_p, self->posts [at].left);
            active++;
        }
    return active;
}

//  All posts that have GETs left advance alike up to now.
static void
s_advance (deli_t *self)
{
    double fewest;
    uint32_t active;
    while (self->served_until < self->now && (active = s_count_active (self, &fewest))) {
        double rate = self->plan->gets_per_second / active, left = self->now - self->served_until;
        bool is_one_done = fewest / rate <= left;
        double done = is_one_done? fewest: left * rate;
        for (size_t at = 0; at < self->post_count; at++)
            self->posts [at].left = fmax (self->posts [at].left - done, 0);
        self->served_until = is_one_done? self->served_until + fewest / rate: self->now;
    }
    self->served_until = fmax (self->served_until, self->now);
}

//  What the service does up to now.
static void
s_serve (deli_t *self)
{
    s_advance (self);
    size_t waiting = 0;
    for (size_t at = 0; at < self->post_count; at++) {
        post_t post = self->posts [at];
        if (post.left > 0 || post.earliest > self->now) {
            self->posts [waiting++] = post;
            continue;
        }
        for (uint32_t place = 0; place < post.count; place++)
            if (!bucket_cache_holds (self->cache, post.ids [place]))
                bucket_cache_insert (self->cache, post.ids [place]);
        free (post.ids);
    }
    self->post_count = waiting;
}

static void
s_append (deli_t *self, const post_t *post)
{
    if (self->post_count == self->post_room) {
        self->post_room = self->post_room? 2 * self->post_room: 16;
        post_t *posts = simulated_alloc (self->post_room, sizeof *posts);
        for (size_t at = 0; at < self->post_count; at++)
            posts [at] = self->posts [at];
        free (self->posts);
        self->posts = posts;
    }
    self->posts [self->post_count++] = *post;
}

static void
s_post (deli_t *self)
{
    uint32_t left = self->slice - self->announced;
    uint32_t count = left < self->plan->fetch? left: self->plan->fetch;
    post_t post = { .ids = simulated_alloc (count, sizeof *post.ids) };
    for (uint32_t at = 0; at < count; at++) {
        uint32_t id = self->order [self->announced++];
        if (!bucket_cache_holds (self->cache, id))
            post.ids [post.count++] = id;
    }
    self->epoch->gets += post.count;
    self->epoch->posts++;
    post.left = post.count;
    post.earliest = self->now + self->plan->get_seconds;
    if (post.count)
        s_append (self, &post);
    else
        free (post.ids);
}

//  How long the loader's own GET takes.
static double
s_get (deli_t *self)
{
    const bucket_deli_plan_t *plan = self->plan;
    if (!plan->is_shared || self->post_count == 0)
        return plan->get_seconds;
    self->served_until += 1 / plan->gets_per_second;
    return 2 * plan->get_seconds;
}

static void
s_load (deli_t *self, uint32_t id)
{
    s_serve (self);
    bool hit = bucket_cache_use (self->cache, id);
    double seconds = hit? self->plan->hit_seconds: s_get (self);
    self->now += seconds;
    self->epoch->loading += seconds;
    self->epoch->misses += !hit;
    self->epoch->gets += !hit;
    if (!hit && self->plan->fetch == 0)
        bucket_cache_insert (self->cache, id);
}

//  The loader draws all ids of a batch before it loads the first sample.
static void
s_play_batch (deli_t *self, uint32_t count)
{
    uint32_t first = self->drawn;
    for (; self->drawn < first + count; self->drawn++)
        if (self->plan->fetch && self->announced < self->slice
                && self->announced - self->drawn <= self->plan->threshold) {
            s_serve (self);
            s_post (self);
        }
    for (uint32_t at = first; at < self->drawn; at++)
        s_load (self, self->order [at]);
    self->now += count * self->plan->compute_seconds;
}

static void
s_play_epoch (deli_t *self)
{
    double begin = self->now;
    self->order = bucket_draws_epoch (self->draws, self->slice);
    self->announced = self->drawn = 0;
    while (self->drawn < self->slice) {
        uint32_t left = self->slice - self->drawn;
        s_play_batch (self, left < self->plan->batch? left: self->plan->batch);
    }
    self->epoch->draws = self->slice;
    self->epoch->seconds = self->now - begin;
}

void
bucket_deli_run (const bucket_deli_plan_t *plan, uint64_t seed, bucket_deli_epoch_t *epochs)
{
    assert (plan->batch > 0 && plan->workers > 0);
    deli_t self = { .plan = plan, .slice = plan->samples / plan->workers };
    self.draws = bucket_draws_new (plan->samples, seed);
    self.cache = bucket_cache_new (BUCKET_FIFO, plan->samples, plan->cache);
    for (uint32_t epoch = 0; epoch < plan->epochs; epoch++) {
        epochs [epoch] = (bucket_deli_epoch_t) { .draws = 0 };
        self.epoch = &epochs [epoch];
        s_play_epoch (&self);
    }
    for (size_t at = 0; at < self.post_count; at++)
        free (self.posts [at].ids);
    free (self.posts);
    bucket_cache_destroy (&self.cache);
    bucket_draws_destroy (&self.draws);
}

//  ---- cost

double
bucket_deli_disk_cost (const bucket_deli_cost_t *cost)
{
    return cost->machines * ((cost->system_gb + cost->data_gb) * cost->disk_gb
        + cost->seconds / 3600 * cost->machine_hour);
}

double
bucket_deli_bucket_cost (const bucket_deli_cost_t *cost)
{
    double lists = ceil (cost->samples / cost->page);
    if (cost->fetch > 0)
        lists *= ceil (cost->samples / cost->fetch);
    return cost->machines * ((cost->system_gb + cost->data_gb * cost->cached_share) * cost->disk_gb
            + cost->seconds / 3600 * cost->machine_hour)
        + cost->data_gb * cost->bucket_gb
        + cost->epochs * (cost->list_price * lists + cost->get_price * cost->samples / cost->group);
}
