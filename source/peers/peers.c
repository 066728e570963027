#include "peers.h"
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zmq.h>
#include "clock.h"
#include "homes.h"

enum {
    NS = 1000000,                       //  in a millisecond
    PEERS_AWAY_MS = 10000
};

typedef struct {
    char name [MEMBERS_NAME_BYTES];
    homes_member_t member;
    bool is_own;
    void *socket;                       //  NULL: not connected
    int descriptor;                     //  of the socket
    peer_state_t state;
    size_t asked;                       //  questions under way
    //  By the watched clock: the last message; since when it is asked without a pause; the last ping.
    //  0: never.
    uint64_t heard_ns, waits_ns, pinged_ns;
    uint64_t vain_ns;                   //  for so long it was asked since its last answer to a question,
                                        //  until all was given up
    int64_t away_ms, try_ms;            //  try: where it looks slow it is asked from then on
    peer_question_frame_t probe;        //  a question that was given up, to be asked again; no bytes: none
    uint64_t probed_ns;                 //  0: the probe is not under way
    peers_meter_t meter;
    bool is_tried;                      //  the question under way is one to a member that looks slow
    peer_figures_t figures;
} peer_link_t;

//  Homes of one data set's blocks.
typedef struct {
    homes_t *homes;
    size_t *links;                      //  by place in homes
    size_t member_count;                //  of homes
    int64_t *lacks_until_ms;            //  by link: it said that it does not serve the data
    homes_t *without;                   //  homes if this server were not; NULL: there is no other member
    size_t *without_links;
    uint32_t unhelpful;                 //  questions to those, in a row, that gave nothing
    uint64_t cursor, looked;            //  blocks: the next that may be foreign, and how many were looked at
} peer_view_t;

struct peers {
    uint32_t magic;
    cluster_t *cluster;
    void *context;
    exchange_t *fetches;
    //  owner only
    const member_list_t *list;
    uint64_t list_number;
    peer_view_t *views;                      //  by data set
    bool is_stale;                      //  views
    int64_t look_ms, change_ms;         //  of links and of views: the next look
    int64_t try_ms;                     //  no member that looks slow is asked before
    peer_question_t *questions [PEERS_QUESTIONS_MAX];
    size_t question_count;
    peer_question_t *done [PEERS_QUESTIONS_MAX];
    size_t done_count;
    uint64_t next_number;
    peers_timeout_t timeout;
    watched_clock_t clock;
    uint64_t pause_ns;                  //  as long as the owner may wait before it looks again
    peers_meter_t store;
    //  written by the owner, under the lock, which others read under
    pthread_mutex_t lock;
    peer_link_t *links;
    size_t link_count;
};

//  ---- how long a read takes by a way

//  Seconds of busy time after which half of what was measured has faded.
#define HALF_SECONDS 2.0

static double
s_busy_seconds (const peers_meter_t *self, uint64_t now_ns)
{
    return self->queued > 0 && now_ns > self->busy_since_ns? (double) (now_ns - self->busy_since_ns) / 1e9: 0;
}

void
peers_meter_begin (peers_meter_t *self, uint64_t bytes, uint64_t now_ns)
{
    if (self->queued == 0)
        self->busy_since_ns = now_ns;
    self->queued += bytes;
}

void
peers_meter_end (peers_meter_t *self, uint64_t begun, uint64_t came, uint64_t now_ns)
{
    assert (begun <= self->queued);
    self->seconds += s_busy_seconds (self, now_ns);
    self->bytes += (double) came;
    self->busy_since_ns = now_ns;
    self->queued -= begun;
    if (self->seconds > HALF_SECONDS) {
        self->seconds /= 2;
        self->bytes /= 2;
    }
}

double
peers_meter_predict (const peers_meter_t *self, uint64_t bytes, uint64_t now_ns)
{
    double seconds = self->seconds + s_busy_seconds (self, now_ns);
    if (seconds <= 0 || (self->bytes <= 0 && self->seconds <= 0))
        return 0;
    //  A way by which nothing came yet gets slower with every moment.
    double came = self->bytes > 1? self->bytes: 1;
    return ((double) self->queued + (double) bytes) * seconds / came;
}

void
peers_meter_forget (peers_meter_t *self)
{
    self->bytes = self->seconds = 0;
}


//  ---- how long a question may take

enum {
    FACTOR = 8, FIRST_MS = 250,         //  taken for usual before the first answer
    WEIGHT = 16,                        //  each answer moves the mean by a sixteenth of the difference
    STORE_FACTOR = 4,                   //  a home may take four times as long as a read of the store
    LEAST_MS = 500, MOST_MS = 10000
};

peers_timeout_t
peers_timeout_new (void)
{
    return (peers_timeout_t) { .typical_ns = (uint64_t) FIRST_MS * NS };
}

static void
s_learn (uint64_t *mean_ns, uint64_t nanoseconds)
{
    *mean_ns += nanoseconds / WEIGHT - *mean_ns / WEIGHT;
}

void
peers_timeout_learn (peers_timeout_t *self, uint64_t nanoseconds)
{
    s_learn (&self->typical_ns, nanoseconds);
}

void
peers_timeout_grow (peers_timeout_t *self)
{
    uint64_t least = (uint64_t) LEAST_MS * NS / FACTOR;
    if (self->typical_ns < least)
        self->typical_ns = least;
    //  A member that goes leaves hundreds of questions.  What grows beyond the bound is of no use, and takes
    //  as many answers to fade.
    if (self->typical_ns < (uint64_t) MOST_MS * NS / FACTOR)
        s_learn (&self->typical_ns, 2 * self->typical_ns);
}

void
peers_timeout_learn_store (peers_timeout_t *self, uint64_t nanoseconds)
{
    if (self->store_ns == 0)
        self->store_ns = nanoseconds;
    s_learn (&self->store_ns, nanoseconds);
}

uint64_t
peers_timeout_ns (const peers_timeout_t *self)
{
    uint64_t usual = FACTOR * self->typical_ns, fetched = STORE_FACTOR * self->store_ns,
        timeout = usual > fetched? usual: fetched, least = (uint64_t) LEAST_MS * NS,
        most = (uint64_t) MOST_MS * NS;
    return timeout < least? least: timeout > most? most: timeout;
}


//  ---- homes of blocks, by the members that are there

//  Each data set has homes of its own, since a member need not serve all of them.

//  The links have changed: homes are found anew.
static void
s_homes_forget (peers_t *self)
{
    for (size_t data = 0; data < cluster_data_count (self->cluster); data++) {
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
    //  The blocks that moved may be here without their home being here.
    view->looked = 0;
    cluster_set_foreign (self->cluster, data, true);
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

//  Finds them anew if a member came or went.
static void
s_homes_look (peers_t *self, int64_t now_ms)
{
    if (!self->is_stale && now_ms < self->change_ms)
        return;
    self->is_stale = false;
    self->change_ms = INT64_MAX;
    for (size_t data = 0; data < cluster_data_count (self->cluster); data++)
        s_find_homes (self, data, now_ms);
}

//  The home of a block, by the data set's key, so that blocks of the same number have other homes.
static uint64_t
s_block_id (const peers_t *self, size_t data, uint64_t block)
{
    const uint64_t *key = block_data_key (cluster_data (self->cluster, data)->blocks)->words;
    uint64_t words [3] = { key [0], key [1], block };
    return XXH3_64bits (words, sizeof words);
}

//  The link of the block's home; SIZE_MAX: none.
static size_t
s_homes_of (const peers_t *self, size_t data, uint64_t block)
{
    const peer_view_t *view = &self->views [data];
    size_t place = view->homes? homes_of (view->homes, s_block_id (self, data, block)): HOMES_NONE;
    return place == HOMES_NONE? SIZE_MAX: view->links [place];
}


//  ---- links, questions, answers

//  A link for each other member: a DEALER, what is known of it, and what came of asking.  Links change when
//  the list of members does, homes when a link's presence does.

#define PREFERENCE 4.0
#define SOON_SECONDS .25

enum {
    MAGIC = 0x009ee125,
    SILENT_MS = 2000, PING_MS = 1000,
    IDLE_MS = 5000,                     //  a member that gave no answer for so long is pinged
    LOOK_MS = 200, IDLE_LOOK_MS = 1000, //  between two looks at what is late, and when nothing is asked
    TRY_MS = 5000,                      //  a peer that looks slow is asked for one block so often, and
    TRY_PART = 4,                       //  all such blocks take one part in so many of the time
    UNHELPFUL_MAX = 32, ROOM_LOOKS = 64,
    LACKS_MS = 60000,                   //  a peer that does not serve a data set is no home for it
    ANSWER_BYTES_MAX = PEER_BLOCK_BYTES + 64,   //  with what CURVE adds
    QUEUE_MAX = 1000,
    RECONNECT_MS = 100, RECONNECT_MAX_MS = 1000
};

//  An answer; parts beyond FRAMES are counted and lost.
enum { HEAD, SUMS, BYTES, FRAMES };
typedef struct {
    zmq_msg_t parts [FRAMES];
    size_t sizes [FRAMES], count;
} message_t;


//  -- links

static void
s_disconnect (peer_link_t *link)
{
    if (link->socket)
        zmq_close (link->socket);
    link->socket = NULL;
}

static int
s_set (void *socket, int option, int value)
{
    return zmq_setsockopt (socket, option, &value, sizeof value);
}

static int
s_set_keys (void *socket, const cluster_t *cluster)
{
    const char *public_key = cluster_public_key (cluster), *secret_key = cluster_secret_key (cluster);
    if (!*public_key)
        return 0;
    return zmq_setsockopt (socket, ZMQ_CURVE_SERVERKEY, public_key, CLUSTER_KEY_CHARS + 1)
        || zmq_setsockopt (socket, ZMQ_CURVE_PUBLICKEY, public_key, CLUSTER_KEY_CHARS + 1)
        || zmq_setsockopt (socket, ZMQ_CURVE_SECRETKEY, secret_key, CLUSTER_KEY_CHARS + 1);
}

static int
s_set_options (void *socket, const cluster_t *cluster)
{
    int64_t answer = ANSWER_BYTES_MAX;
    return s_set (socket, ZMQ_LINGER, 0) || s_set (socket, ZMQ_SNDHWM, QUEUE_MAX)
        || s_set (socket, ZMQ_RCVHWM, QUEUE_MAX) || s_set (socket, ZMQ_IPV6, 1)
        || s_set (socket, ZMQ_RECONNECT_IVL, RECONNECT_MS)
        || s_set (socket, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS)
        || zmq_setsockopt (socket, ZMQ_MAXMSGSIZE, &answer, sizeof answer) || s_set_keys (socket, cluster);
}

//  Whether there is a socket.
static bool
s_connect (peers_t *self, peer_link_t *link)
{
    if (link->socket)
        return true;
    char address [MEMBERS_NAME_BYTES + 8];
    size_t bytes = sizeof link->descriptor;
    snprintf (address, sizeof address, "tcp://%s", link->name);
    link->socket = zmq_socket (self->context, ZMQ_DEALER);
    if (link->socket && s_set_options (link->socket, self->cluster) == 0
    &&  zmq_connect (link->socket, address) == 0
    &&  zmq_getsockopt (link->socket, ZMQ_FD, &link->descriptor, &bytes) == 0)
        return true;
    s_disconnect (link);
    return false;
}

static bool
s_send (peers_t *self, peer_link_t *link, const peer_question_frame_t *frame)
{
    return s_connect (self, link) && zmq_send (link->socket, frame, sizeof *frame, ZMQ_DONTWAIT) >= 0;
}


//  -- questions

static peer_question_frame_t
s_frame (const peers_t *self, size_t data, peer_question_kind_t kind)
{
    const uint64_t *key = block_data_key (cluster_data (self->cluster, data)->blocks)->words;
    return (peer_question_frame_t) { .magic = PEER_WIRE_MAGIC, .version = PEER_WIRE_VERSION,
        .kind = (uint16_t) kind, .key = { key [0], key [1] } };
}

//  Remembers a unit of it, to be asked for again.
static void
s_note_missed (const peers_t *self, peer_link_t *link, const peer_question_t *question)
{
    link->probe = s_frame (self, question->data, PEER_GET);
    link->probe.object = question->object;
    link->probe.offset = question->offset;
    link->probe.bytes = question->bytes < BLOCK_DATA_UNIT_BYTES? question->bytes: BLOCK_DATA_UNIT_BYTES;
}

static void
s_settle (peers_t *self, peer_question_t *question, bool is_answered)
{
    peer_link_t *link = &self->links [question->member];
    if (question->is_before) {
        peer_view_t *view = &self->views [question->data];
        view->unhelpful = is_answered? 0: view->unhelpful + 1;
    }
    question->is_answered = is_answered;
    question->nanoseconds = self->clock.now_ns - question->began_ns;
    if (link->is_tried) {
        link->try_ms = clock_now_ms () + TRY_MS;
        self->try_ms = clock_now_ms () + TRY_PART * (int64_t) (question->nanoseconds / NS);
        peers_meter_forget (&link->meter);    //  this one tells more than all before
    }
    link->is_tried = false;
    peers_meter_end (&link->meter, question->bytes, is_answered? question->bytes: 0, self->clock.now_ns);
    link->asked--;
    for (size_t at = 0; at < self->question_count; at++)
        if (self->questions [at] == question) {
            self->questions [at] = self->questions [--self->question_count];
            break;
        }
    self->done [self->done_count++] = question;
}

static bool
s_was_asked (const peer_link_t *link)
{
    return link->waits_ns > 0;
}

//  Of a member that is asked: its last message, or when the asking began.
static uint64_t
s_silent_since (const peer_link_t *link)
{
    return link->waits_ns > link->heard_ns? link->waits_ns: link->heard_ns;
}

static void
s_give_up_late (peers_t *self, peer_question_t *question)
{
    peer_link_t *link = &self->links [question->member];
    pthread_mutex_lock (&self->lock);
    link->figures.late++;
    pthread_mutex_unlock (&self->lock);
    s_note_missed (self, link, question);
    peers_timeout_grow (&self->timeout);
    s_settle (self, question, false);
    if (link->asked == 0)
        link->vain_ns += self->clock.now_ns - s_silent_since (link);
}

//  What was asked before is not waited for, and a new connection has nothing of it in its queues.
static void
s_set_away (peers_t *self, size_t member)
{
    peer_link_t *link = &self->links [member];
    link->probed_ns = 0;
    for (size_t at = self->question_count; at-- > 0;)
        if (self->questions [at]->member == member)
            s_give_up_late (self, self->questions [at]);
    s_disconnect (link);
    peers_meter_forget (&link->meter);
    pthread_mutex_lock (&self->lock);
    link->state = PEER_AWAY;
    pthread_mutex_unlock (&self->lock);
    link->away_ms = clock_now_ms ();
    link->pinged_ns = link->vain_ns = 0;
    self->is_stale = true;              //  its blocks get other homes after a while
}

static void
s_set_here (peers_t *self, peer_link_t *link)
{
    if (link->state == PEER_HERE)
        return;
    self->is_stale = self->is_stale || link->state == PEER_AWAY;
    pthread_mutex_lock (&self->lock);
    link->state = PEER_HERE;
    pthread_mutex_unlock (&self->lock);
}


//  -- the list of members

static peer_link_t *
s_find_link (peer_link_t *links, size_t count, const char *name)
{
    for (size_t at = 0; at < count; at++)
        if (strcmp (links [at].name, name) == 0)
            return &links [at];
    return NULL;
}

//  Links of members that stay are kept, with what is known of them.
static void
s_take_list (peers_t *self)
{
    uint64_t number = members_number (cluster_members (self->cluster));
    if (self->list && number == self->list_number)
        return;
    const member_list_t *list = members_take (cluster_members (self->cluster));
    peer_link_t *links = calloc (list->count + 1, sizeof *links);
    if (!links) {
        members_give_back (cluster_members (self->cluster), list);
        return;                         //  the next look tries again
    }
    //  A question's member is a place in the list.
    while (self->question_count > 0)
        s_settle (self, self->questions [self->question_count - 1], false);
    for (size_t at = 0; at < list->count; at++) {
        const member_t *member = &list->member [at];
        peer_link_t *known = s_find_link (self->links, self->link_count, member->name);
        if (known) {
            links [at] = *known;
            known->socket = NULL;
        }
        else
            snprintf (links [at].name, sizeof links [at].name, "%s", member->name);
        links [at].is_own = at == list->own;
        links [at].member = (homes_member_t) { .id = member->id, .weight = member->bytes };
    }
    for (size_t at = 0; at < self->link_count; at++)
        s_disconnect (&self->links [at]);
    s_homes_forget (self);
    pthread_mutex_lock (&self->lock);
    free (self->links);
    self->links = links;
    self->link_count = list->count;
    pthread_mutex_unlock (&self->lock);
    members_give_back (cluster_members (self->cluster), self->list);
    self->list = list;
    self->list_number = number;
    self->is_stale = true;
}

//  ZeroMQ's descriptor tells of an answer once, and a question that is sent meanwhile can take the news away.
static bool
s_has_answer (const peer_link_t *link)
{
    int events = 0;
    size_t bytes = sizeof events;
    return link->socket && zmq_getsockopt (link->socket, ZMQ_EVENTS, &events, &bytes) == 0
        && (events & ZMQ_POLLIN);
}

//  Whether an answer is due for so long that the member is away.  What was waited for before it was given up
//  counts: a reader that asks for one block at a time gives up each question before it makes a silence.  What
//  came, and only is not read yet because this thread had no time, is not silence.
static bool
s_is_silent (const peers_t *self, const peer_link_t *link)
{
    uint64_t since_ns = link->heard_ns, least_ns = (uint64_t) SILENT_MS * NS,
        timeout_ns = link->asked > 0? peers_timeout_ns (&self->timeout): 0;
    if (link->asked > 0)
        since_ns = s_silent_since (link) - link->vain_ns;
    else
    if (link->state != PEER_AWAY && link->pinged_ns > link->heard_ns)
        since_ns = link->pinged_ns;
    else
        return false;
    return self->clock.now_ns > since_ns + (timeout_ns > least_ns? timeout_ns: least_ns)
        && !s_has_answer (link);
}

//  A member that is away and answers pings is asked for a little of what was given up.  The pong says that
//  the connection is made, so the time of that does not count.
static void
s_probe (peers_t *self, peer_link_t *link)
{
    if (link->probed_ns)
        return;
    link->probe.number = ++self->next_number;
    if (s_send (self, link, &link->probe))
        link->probed_ns = self->clock.now_ns;
}

//  If the member has not answered the probe in time, its next pong is followed by another probe.
static void
s_look_at_probe (peers_t *self, peer_link_t *link)
{
    uint64_t now_ns = self->clock.now_ns;
    if (!link->probed_ns || now_ns < link->probed_ns + peers_timeout_ns (&self->timeout)
    ||  s_has_answer (link))
        return;
    peers_timeout_grow (&self->timeout);
    link->probed_ns = 0;
}

//  A member that is away is pinged until it is back.  One that was asked once and is not asked now is pinged
//  too: so its end is seen before the next question waits for it, even if it never answered.
static void
s_ping (peers_t *self, peer_link_t *link)
{
    uint64_t now_ns = self->clock.now_ns, idle_ns = (uint64_t) IDLE_MS * NS;
    bool is_idle = link->state != PEER_AWAY && s_was_asked (link) && link->asked == 0
        && now_ns > link->heard_ns + idle_ns;
    if (!(is_idle && now_ns >= link->pinged_ns + idle_ns)
    &&  !(link->state == PEER_AWAY && now_ns >= link->pinged_ns + (uint64_t) PING_MS * NS))
        return;
    link->pinged_ns = now_ns;
    if (s_send (self, link, &(peer_question_frame_t) { .magic = PEER_WIRE_MAGIC,
        .version = PEER_WIRE_VERSION, .kind = PEER_PING }))
        return;
    //  The next one makes another connection.  A probe on this one will not be answered.
    s_disconnect (link);
    link->probed_ns = 0;
}

//  What is late, what is silent, and what is to be pinged.
static void
s_look_at_links (peers_t *self, int64_t now_ms)
{
    if (now_ms < self->look_ms)
        return;
    self->look_ms = now_ms + LOOK_MS;
    for (size_t at = self->question_count; at-- > 0;) {
        peer_question_t *question = self->questions [at];
        if (self->clock.now_ns >= question->began_ns + peers_timeout_ns (&self->timeout)
        &&  !s_has_answer (&self->links [question->member]))
            s_give_up_late (self, question);
    }
    for (size_t member = 0; member < self->link_count; member++) {
        peer_link_t *link = &self->links [member];
        if (s_is_silent (self, link))
            s_set_away (self, member);
        s_look_at_probe (self, link);
        s_ping (self, link);
    }
}

static void
s_look (peers_t *self)
{
    uint64_t now_ns = clock_now_ns ();
    int64_t now_ms = (int64_t) (now_ns / NS);
    watched_clock_look (&self->clock, now_ns, self->pause_ns);
    s_take_list (self);
    s_look_at_links (self, now_ms);
    s_homes_look (self, now_ms);
}


//  -- the choice

//  Whether a member that looks too slow is asked.
static bool
s_is_trying (const peers_t *self)
{
    for (size_t at = 0; at < self->link_count; at++)
        if (self->links [at].is_tried && self->links [at].asked > 0)
            return true;
    return false;
}

//  A peer that looks too slow is asked all the same now and then, since it may be quicker by now.  One at a
//  time, and rarely where it takes long: with many slow members a reader would wait for tries alone.
static bool
s_is_too_slow (const peers_t *self, peer_link_t *link, size_t bytes)
{
    double by_peer = peers_meter_predict (&link->meter, bytes, self->clock.now_ns),
        by_store = peers_meter_predict (&self->store, bytes, clock_now_ns ());
    //  A store that nothing was read of may be quick.
    by_store = by_store > 0? by_store: SOON_SECONDS / PREFERENCE;
    if (by_peer <= SOON_SECONDS || by_peer <= PREFERENCE * by_store)
        return false;
    int64_t now_ms = clock_now_ms ();
    if (now_ms < link->try_ms || now_ms < self->try_ms || link->asked > 0 || s_is_trying (self))
        return true;
    link->is_tried = true;
    return false;
}

//  Whether the member may be asked for a block: it is there, and not slower than the store.
static bool
s_may_ask (peers_t *self, peer_link_t *link, size_t bytes)
{
    if (link->state == PEER_AWAY || self->question_count + self->done_count >= PEERS_QUESTIONS_MAX)
        return false;
    if (!s_is_too_slow (self, link, bytes))
        return true;
    pthread_mutex_lock (&self->lock);
    link->figures.slower++;
    pthread_mutex_unlock (&self->lock);
    return false;
}

//  Whether another member may be asked for a block of which this server is the home, but that is not here:
//  the one that would be the home without this server has it if this one is new, or was away.  If that did
//  not help of late, as when all caches are empty, it is tried rarely.
static bool
s_choose_before (peers_t *self, size_t data, uint64_t block, size_t bytes, peer_question_t *question)
{
    peer_view_t *view = &self->views [data];
    //  Its home if this server were not.
    size_t before = view->without? view->without_links [homes_of (view->without,
        s_block_id (self, data, block))]: SIZE_MAX;
    if (before == SIZE_MAX || (view->unhelpful >= UNHELPFUL_MAX && ++view->unhelpful % UNHELPFUL_MAX))
        return false;
    question->member = before;
    return s_may_ask (self, &self->links [before], bytes);
}

peers_way_t
peers_choose (peers_t *self, size_t data, uint64_t block, size_t bytes, peer_question_t *question)
{
    assert (self && self->magic == MAGIC); assert (data < cluster_data_count (self->cluster));
    s_look (self);
    size_t home = s_homes_of (self, data, block);
    if (home == SIZE_MAX)
        return PEERS_STORE;
    peer_link_t *link = &self->links [home];
    question->is_before = link->is_own;
    if (link->is_own)
        return s_choose_before (self, data, block, bytes, question)? PEERS_BEFORE: PEERS_HERE;
    question->member = home;
    return s_may_ask (self, link, bytes)? PEERS_PEER: PEERS_STORE;
}

bool
peers_ask (peers_t *self, peer_question_t *question)
{
    assert (self && self->magic == MAGIC); assert (question->member < self->link_count);
    assert (question->bytes > 0 && question->bytes <= PEER_BLOCK_BYTES);
    peer_link_t *link = &self->links [question->member];
    peer_question_frame_t frame = s_frame (self, question->data, PEER_GET);
    frame.number = question->number = ++self->next_number;
    frame.object = question->object;
    frame.offset = question->offset;
    frame.bytes = question->bytes;
    if (!s_send (self, link, &frame)) {
        //  ZeroMQ gives a connection up for good where a server without our keys answers.
        if (link->asked == 0)
            s_set_away (self, question->member);
        return false;
    }
    question->is_answered = false;
    question->began_ns = self->clock.now_ns;
    if (self->pause_ns > (uint64_t) LOOK_MS * NS)
        self->pause_ns = (uint64_t) LOOK_MS * NS;
    if (link->asked++ == 0)
        link->waits_ns = self->clock.now_ns;
    peers_meter_begin (&link->meter, question->bytes, self->clock.now_ns);
    self->questions [self->question_count++] = question;
    return true;
}

void
peers_drop (peers_t *self, const peer_question_t *question)
{
    assert (self && self->magic == MAGIC);
    for (size_t at = 0; at < self->question_count; at++)
        if (self->questions [at] == question)
            s_settle (self, self->questions [at], false);
    for (size_t at = 0; at < self->done_count; at++)
        if (self->done [at] == question)
            self->done [at] = self->done [--self->done_count];
}

bool
peers_make_room (peers_t *self, size_t data)
{
    assert (self && self->magic == MAGIC);
    block_data_t *blocks = (block_data_t *) cluster_data (self->cluster, data)->blocks;
    peer_view_t *view = &self->views [data];
    uint64_t bytes = block_data_bytes (blocks), count = (bytes + PEER_BLOCK_BYTES - 1) / PEER_BLOCK_BYTES;
    for (size_t looks = 0; cluster_has_foreign (self->cluster, data) && looks < ROOM_LOOKS; looks++) {
        if (view->looked >= count) {
            cluster_set_foreign (self->cluster, data, false);
            break;
        }
        uint64_t block = view->cursor % count, begin = block * PEER_BLOCK_BYTES,
            size = bytes - begin < PEER_BLOCK_BYTES? bytes - begin: PEER_BLOCK_BYTES;
        size_t home = s_homes_of (self, data, block);
        bool goes = home != SIZE_MAX && !self->links [home].is_own
            && block_data_has_some (blocks, begin, size);
        if ((goes && !block_data_make_room (blocks, begin, size)) || block_data_is_aside (blocks))
            return false;               //  the block may be here still: it is looked at again
        view->cursor++;
        view->looked++;
        if (goes)
            return true;
    }
    return false;
}

static void
s_renew (peers_t *self, size_t member, size_t data, uint64_t object, uint64_t offset, size_t bytes)
{
    peer_question_frame_t frame = s_frame (self, data, PEER_RENEW);
    frame.object = object;
    frame.offset = offset;
    frame.bytes = bytes;
    s_send (self, &self->links [member], &frame);
}

void
peers_renew (peers_t *self, size_t data, uint64_t object, uint64_t offset, size_t bytes)
{
    assert (self && self->magic == MAGIC); assert (bytes <= PEER_BLOCK_BYTES);
    const cluster_data_t *shown = cluster_data (self->cluster, data);
    uint64_t begin, object_bytes;
    s_look (self);
    shown->find (shown->context, object, &begin, &object_bytes);
    size_t home = s_homes_of (self, data, (begin + offset) / PEER_BLOCK_BYTES);
    if (home != SIZE_MAX && !self->links [home].is_own && self->links [home].state != PEER_AWAY)
        s_renew (self, home, data, object, offset, bytes);
}

void
peers_store_begin (peers_t *self, size_t bytes)
{
    peers_meter_begin (&self->store, bytes, clock_now_ns ());
}

void
peers_store_end (peers_t *self, size_t begun, size_t came, uint64_t nanoseconds)
{
    if (came == begun)
        peers_timeout_learn_store (&self->timeout, nanoseconds);
    peers_meter_end (&self->store, begun, came, clock_now_ns ());
}


//  -- answers

//  The question that this answers; NULL: it was given up.
static peer_question_t *
s_question (const peers_t *self, size_t member, uint64_t number)
{
    for (size_t at = 0; at < self->question_count; at++)
        if (self->questions [at]->number == number && self->questions [at]->member == member)
            return self->questions [at];
    return NULL;
}

static void
s_note_refusal (peers_t *self, const peer_question_t *question, peer_reason_t reason)
{
    self->links [question->member].figures.refused [reason]++;
    if (reason == PEER_REASON_UNKNOWN_DATA) {
        self->views [question->data].lacks_until_ms [question->member] = clock_now_ms () + LACKS_MS;
        self->is_stale = true;
    }
}

//  Of the object that is asked for, in the address space.
static uint64_t
s_place (const peers_t *self, const peer_question_t *question)
{
    const cluster_data_t *shown = cluster_data (self->cluster, question->data);
    uint64_t begin, bytes;
    shown->find (shown->context, question->object, &begin, &bytes);
    return begin + question->offset;
}

//  Whether the bytes are those that were asked for; then they are in their place.
static bool
s_take_bytes (const peers_t *self, const peer_question_t *question, message_t *message)
{
    return message->count == FRAMES && message->sizes [BYTES] == question->bytes
        && message->sizes [SUMS] == block_data_units (question->bytes) * sizeof (uint32_t)
        && block_data_copy (s_place (self, question), question->bytes, question->memory,
            zmq_msg_data (&message->parts [BYTES]), zmq_msg_data (&message->parts [SUMS]));
}

static void
s_on_answer (peers_t *self, size_t member, const peer_answer_frame_t *answer, message_t *message)
{
    peer_link_t *link = &self->links [member];
    link->heard_ns = self->clock.now_ns;
    if (answer->kind == PEER_PONG) {
        if (link->state == PEER_AWAY && link->probe.bytes > 0)
            s_probe (self, link);
        else
            s_set_here (self, link);
        return;
    }
    //  A pong is no answer to what it is asked for.
    link->vain_ns = 0;
    if (link->probed_ns && answer->number == link->probe.number) {
        peers_timeout_learn (&self->timeout, self->clock.now_ns - link->probed_ns);
        link->probe.bytes = link->probed_ns = 0;
        s_set_here (self, link);
    }
    peer_question_t *question = s_question (self, member, answer->number);
    if (!question)
        return;
    s_set_here (self, link);
    bool is_good = answer->kind == PEER_BYTES && s_take_bytes (self, question, message);
    if (is_good)
        peers_timeout_learn (&self->timeout, self->clock.now_ns - question->began_ns);
    pthread_mutex_lock (&self->lock);
    if (is_good) {
        link->figures.blocks++;
        link->figures.bytes += question->bytes;
        link->figures.nanoseconds += self->clock.now_ns - question->began_ns;
    }
    else
    if (answer->kind == PEER_NO)
        s_note_refusal (self, question, answer->reason);
    else {
        //  The home is told, since it does not look at what it gives.
        link->figures.damaged++;
        s_renew (self, member, question->data, question->object, question->offset, question->bytes);
    }
    pthread_mutex_unlock (&self->lock);
    s_settle (self, question, is_good);
}

//  One message; false: there is none.
static bool
s_receive (peers_t *self, size_t member)
{
    void *socket = self->links [member].socket;
    message_t message = { .count = 0 };
    bool more = true;
    while (more) {
        zmq_msg_t spare, *part = message.count < FRAMES? &message.parts [message.count]: &spare;
        zmq_msg_init (part);
        if (zmq_msg_recv (part, socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close (part);
            break;
        }
        more = zmq_msg_more (part);
        if (message.count < FRAMES)
            message.sizes [message.count] = zmq_msg_size (part);
        else
            zmq_msg_close (part);
        message.count++;
    }
    peer_answer_frame_t answer;
    if (message.count > 0 && !more
    &&  cluster_read_answer (zmq_msg_data (&message.parts [HEAD]), message.sizes [HEAD], &answer))
        s_on_answer (self, member, &answer, &message);
    for (size_t at = 0; at < message.count && at < FRAMES; at++)
        zmq_msg_close (&message.parts [at]);
    return message.count > 0;
}

peer_question_t *
peers_take (peers_t *self)
{
    assert (self && self->magic == MAGIC);
    s_look (self);
    for (size_t member = 0; member < self->link_count && self->done_count == 0; member++)
        while (self->links [member].socket && self->done_count < PEERS_QUESTIONS_MAX / 2
            && s_receive (self, member))
            ;
    return self->done_count > 0? self->done [--self->done_count]: NULL;
}

int
peers_patience_ms (peers_t *self)
{
    bool is_asked = self->question_count > 0, was_asked = false, has_answer = false;
    for (size_t member = 0; member < self->link_count; member++) {
        const peer_link_t *link = &self->links [member];
        has_answer = has_answer || s_has_answer (link);
        is_asked = is_asked || link->state == PEER_AWAY;
        was_asked = was_asked || s_was_asked (link);
    }
    self->pause_ns = (uint64_t) (is_asked? LOOK_MS: IDLE_LOOK_MS) * NS;
    return has_answer? 0: is_asked? LOOK_MS: was_asked? IDLE_LOOK_MS: -1;
}


//  -- fetches

cluster_fetch_t *
peers_next_fetch (peers_t *self)
{
    return exchange_try (self->fetches);
}

void
peers_fetched (peers_t *self, cluster_fetch_t *fetch, peer_reason_t reason)
{
    fetch->reason = reason;
    cluster_fetched (self->cluster, fetch);
}


//  -- for status

bool
peers_look (peers_t *self, const char *name, peer_state_t *state, peer_figures_t *figures)
{
    pthread_mutex_lock (&self->lock);
    const peer_link_t *link = s_find_link (self->links, self->link_count, name);
    if (link) {
        *state = link->state;
        *figures = link->figures;
    }
    pthread_mutex_unlock (&self->lock);
    return link;
}


//  -- life

size_t
peers_data (const peers_t *self, const block_data_t *blocks)
{
    return blocks? cluster_find (self->cluster, block_data_key (blocks)->words): SIZE_MAX;
}

size_t
peers_descriptors (const peers_t *self, int descriptors [PEERS_DESCRIPTORS_MAX])
{
    size_t count = 0;
    descriptors [count++] = exchange_descriptor (self->fetches);
    for (size_t member = 0; member < self->link_count; member++)
        if (self->links [member].socket)
            descriptors [count++] = self->links [member].descriptor;
    return count;
}

static bool
s_tell (void *context, const char *name, peer_state_t *state, peer_figures_t *figures)
{
    return peers_look (context, name, state, figures);
}

peers_t *
peers_new (cluster_t *cluster, const char *store)
{
    assert (cluster); assert (store);
    peers_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    *self = (peers_t) { .magic = MAGIC, .cluster = cluster, .is_stale = true,
        .views = calloc (cluster_data_count (cluster) + 1, sizeof *self->views), .context = zmq_ctx_new (),
        .fetches = exchange_new (CLUSTER_FETCHES_MAX, true),
        .timeout = peers_timeout_new (), .clock = watched_clock_new (clock_now_ns ()) };
    pthread_mutex_init (&self->lock, NULL);
    cluster_reader_t reader = { .fetches = self->fetches, .look = s_tell, .context = self };
    if (!self->views || !self->context || !self->fetches || !cluster_join (cluster, store, &reader)) {
        int error = errno? errno: ENOMEM;
        peers_destroy (&self);
        errno = error;
    }
    return self;
}

void
peers_destroy (peers_t **self_p)
{
    assert (self_p);
    peers_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == MAGIC); assert (self->question_count == 0);
    for (size_t member = 0; member < self->link_count; member++)
        s_disconnect (&self->links [member]);
    for (cluster_fetch_t *fetch; self->fetches && (fetch = exchange_try (self->fetches));)
        peers_fetched (self, fetch, PEER_REASON_FAILED);
    if (self->views)
        s_homes_forget (self);
    free (self->views);
    free (self->links);
    if (self->list)
        members_give_back (cluster_members (self->cluster), self->list);
    if (self->context)
        zmq_ctx_term (self->context);
    exchange_destroy (&self->fetches);
    pthread_mutex_destroy (&self->lock);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}
