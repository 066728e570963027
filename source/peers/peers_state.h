/*  peers_state -- the structure of a reader's view of the members, and what its files share; for them alone.
 *
 *      peers.c             links, questions, answers
 *      peers_homes.c       homes of blocks, by the members that are there
 */
#ifndef PEERS_STATE_H
#define PEERS_STATE_H
#include "cluster_state.h"
#include "homes.h"
#include "peer_patience.h"
#include "peers.h"
#include "watched_clock.h"
#include "way_meter.h"

enum { PEERS_AWAY_MS = 10000 };

typedef struct {
    char name [MEMBERS_NAME_BYTES];
    homes_member_t member;
    bool is_own;
    void *socket;                       //  NULL: not connected
    int descriptor;                     //  of the socket
    peer_state_t state;
    size_t asked;                       //  questions under way
    //  By the watched clock: the last message; since when it is asked without a pause; the last ping.
    uint64_t heard_ns, waits_ns, pinged_ns;
    int64_t away_ms, try_ms;            //  try: where it looks slow it is asked from then on
    peer_question_frame_t probe;        //  a question that was given up, to be asked again; no bytes: none
    uint64_t probed_ns;                 //  0: the probe is not under way
    way_meter_t meter;
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
    peer_question_t *questions [PEERS_QUESTIONS_MAX];
    size_t question_count;
    peer_question_t *done [PEERS_QUESTIONS_MAX];
    size_t done_count;
    uint64_t next_number;
    peer_patience_t patience;
    watched_clock_t clock;
    uint64_t pause_ns;                  //  as long as the owner may wait before it looks again
    way_meter_t store;
    //  written by the owner, under the lock, which others read under
    pthread_mutex_t lock;
    peer_link_t *links;
    size_t link_count;
};

//  -- peers_homes.c

//  The links have changed: homes are found anew.
void peers_homes_forget (peers_t *self);
//  Finds them anew if a member came or went.
void peers_homes_look (peers_t *self, int64_t now_ms);
//  The link of the block's home; SIZE_MAX: none.
size_t peers_homes_of (const peers_t *self, size_t data, uint64_t block);
//  The same if this server were not; SIZE_MAX: there is no other member.
size_t peers_homes_before (const peers_t *self, size_t data, uint64_t block);

#endif
