//  Each data set has homes of its own, since a member need not serve all of them.

#include "peers_state.h"

#include <stdlib.h>
#include <xxhash.h>

void
peers_homes_forget (peers_t *self)
{
    for (size_t data = 0; data < self->cluster->data_count; data++) {
        peer_view_t *view = &self->views [data];
        homes_destroy (&view->homes);
        free (view->links);
        free (view->lacks_until_ms);
        homes_destroy (&view->without);
        free (view->without_links);
        *view = (peer_view_t) { .homes = NULL };
    }
}

static bool
s_may_be_home (const peer_link_t *link, int64_t lacks_until_ms, int64_t now_ms)
{
    return link->is_own || (now_ms >= lacks_until_ms
        && (link->state != PEER_AWAY || now_ms < link->away_ms + PEERS_AWAY_MS));
}

//  When a member of the view may come or go without an answer.
static int64_t
s_next_change (const peer_link_t *link, int64_t lacks_until_ms, int64_t now_ms, int64_t next_ms)
{
    int64_t away_ms = link->state == PEER_AWAY? link->away_ms + PEERS_AWAY_MS: 0;
    if (lacks_until_ms > now_ms && lacks_until_ms < next_ms)
        next_ms = lacks_until_ms;
    return away_ms > now_ms && away_ms < next_ms? away_ms: next_ms;
}

//  The blocks that moved may be here without their home being here.
static void
s_note_change (peers_t *self, size_t data)
{
    self->views [data].looked = 0;
    atomic_store (&self->cluster->data [data].has_foreign, true);
}

static bool
s_is_same_view (const peers_t *self, const peer_view_t *view, const homes_member_t *members, size_t count)
{
    bool is_same = view->homes && count == view->member_count;
    for (size_t place = 0; is_same && place < count; place++)
        is_same = self->links [view->links [place]].member.id == members [place].id;
    return is_same;
}

//  Takes links, of the members at the same places.
static void
s_set_homes (peers_t *self, size_t data, homes_member_t *members, size_t *links, size_t count)
{
    peer_view_t *view = &self->views [data];
    homes_destroy (&view->homes);
    homes_destroy (&view->without);
    free (view->links);
    free (view->without_links);
    view->homes = count > 0? homes_new (members, count): NULL;
    view->links = links;
    view->member_count = count;
    view->without_links = calloc (count + 1, sizeof *links);
    view->unhelpful = 0;
    size_t others = 0;
    for (size_t place = 0; view->without_links && place < count; place++)
        if (!self->links [links [place]].is_own) {
            members [others] = members [place];
            view->without_links [others++] = links [place];
        }
    view->without = others > 0? homes_new (members, others): NULL;
    s_note_change (self, data);
}

static void
s_find_homes (peers_t *self, size_t data, int64_t now_ms)
{
    peer_view_t *view = &self->views [data];
    homes_member_t *members = calloc (self->link_count + 1, sizeof *members);
    size_t *links = calloc (self->link_count + 1, sizeof *links), count = 0;
    view->lacks_until_ms = view->lacks_until_ms? view->lacks_until_ms:
        calloc (self->link_count + 1, sizeof *view->lacks_until_ms);
    for (size_t at = 0; members && links && view->lacks_until_ms && at < self->link_count; at++) {
        const peer_link_t *link = &self->links [at];
        self->change_ms = s_next_change (link, view->lacks_until_ms [at], now_ms, self->change_ms);
        if (s_may_be_home (link, view->lacks_until_ms [at], now_ms)) {
            links [count] = at;
            members [count++] = link->member;
        }
    }
    if (links && !s_is_same_view (self, view, members, count)) {
        s_set_homes (self, data, members, links, count);
        links = NULL;
    }
    free (links);
    free (members);
}

void
peers_homes_look (peers_t *self, int64_t now_ms)
{
    if (!self->is_stale && now_ms < self->change_ms)
        return;
    self->is_stale = false;
    self->change_ms = INT64_MAX;
    for (size_t data = 0; data < self->cluster->data_count; data++)
        s_find_homes (self, data, now_ms);
}

//  The home of a block, by the data set's key, so that blocks of the same number have other homes.
static uint64_t
s_block_id (const peers_t *self, size_t data, uint64_t block)
{
    const uint64_t *key = block_data_key (self->cluster->data [data].shown.blocks)->words;
    uint64_t words [3] = { key [0], key [1], block };
    return XXH3_64bits (words, sizeof words);
}

size_t
peers_homes_of (const peers_t *self, size_t data, uint64_t block)
{
    const peer_view_t *view = &self->views [data];
    size_t place = view->homes? homes_of (view->homes, s_block_id (self, data, block)): HOMES_NONE;
    return place == HOMES_NONE? SIZE_MAX: view->links [place];
}

size_t
peers_homes_before (const peers_t *self, size_t data, uint64_t block)
{
    const peer_view_t *view = &self->views [data];
    return view->without? view->without_links [homes_of (view->without, s_block_id (self, data, block))]:
        SIZE_MAX;
}
