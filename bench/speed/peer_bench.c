/*  peer_bench -- what blocks cost that another member gives, beside bare ZeroMQ.
 *
 *      peer_bench --folder DIR [--keys] [--rounds N] [--megabytes N] [--together N]
 *
 *  Two processes.  `peers`: a peer server reads blocks of 4 MiB from its cache on the local disk (a folder of
 *  DIR, best in tmpfs), and a reader's side asks for them, checks and copies each to its place.  `bare`: a
 *  ROUTER sends one and the same 4 MiB again and again, and a DEALER receives them.  Both have as many
 *  blocks under way, the same keys or none, and a processor for each side.  Rounds take turns; a ratio is of
 *  two that follow each other.
 */
#include "block_cache.h"
#include "block_data.h"
#include "clock.h"
#include "cluster.h"
#include "median.h"
#include "option.h"
#include "peers.h"
#include <assert.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

enum { BLOCK = PEER_BLOCK_BYTES, BLOCKS = 64, TOGETHER_MAX = 16, ROUNDS_MAX = 99, KEY_BYTES = 41 };

typedef struct {
    const char *folder;
    bool keys;
    uint32_t rounds, megabytes, together;
    char public_key [KEY_BYTES], secret_key [KEY_BYTES];
    int port;                           //  of the peer server; the next one: of the bare sender
} bench_t;

#define AT(member) OPTION_AT (bench_t, member)
static const option_row_t s_rows [] = {
    { "folder", "DIR", AT (folder), "for the caches; best in tmpfs" },
    { "keys", NULL, AT (keys), "encrypted, as between machines" },
    { "rounds", "N", AT (rounds), "of each (9)", 1, ROUNDS_MAX },
    { "megabytes", "N", AT (megabytes), "in a round (1024)", 64, 1 << 20 },
    { "together", "N", AT (together), "blocks under way (4)", 1, TOGETHER_MAX }
};
static const option_table_t s_table = { .program = "peer_bench", .rows = s_rows,
    .count = OPTION_ROWS (s_rows) };

static void
s_check (bool is_good, const char *what)
{
    if (!is_good) {
        fprintf (stderr, "peer_bench: %s\n", what);
        exit (1);
    }
}

static void
s_find (const void *context, uint64_t object, uint64_t *begin, uint64_t *bytes)
{
    (void) context; (void) object;
    *begin = 0;
    *bytes = (uint64_t) BLOCKS * BLOCK;
}


//  -- a member

typedef struct {
    block_cache_t *cache;
    block_data_t *blocks;
    members_t *members;
    cluster_t *cluster;
} member_side_t;

//  All homes are the first member's.
static void
s_open_member (member_side_t *self, const bench_t *bench, int number)
{
    char folder [4096], names [128], own [64], error [512] = "";
    snprintf (folder, sizeof folder, "%s/%d", bench->folder, number);
    snprintf (names, sizeof names, "127.0.0.1:%d=1000T,127.0.0.1:%d=1", bench->port, bench->port + 2);
    snprintf (own, sizeof own, "127.0.0.1:%d", bench->port + (number? 2: 0));
    uint64_t room = (uint64_t) (BLOCKS + 2) * BLOCK;
    s_check (block_cache_open (&self->cache, folder, room, error, sizeof error) == 0, error);
    block_data_key_t key = { { 0, 0 } };
    block_data_key_add (&key, "bench", "1", (uint64_t) BLOCKS * BLOCK);
    s_check (block_data_open (&self->blocks, self->cache, &key, (uint64_t) BLOCKS * BLOCK) == 0,
        "no cache");
    s_check (members_open (&self->members, names, own, room, error, sizeof error) == 0, error);
    self->cluster = cluster_new (&(cluster_options_t) { .members = self->members, .name = own,
        .public_key = bench->keys? bench->public_key: NULL,
        .secret_key = bench->keys? bench->secret_key: NULL });
    s_check (self->cluster && cluster_add (self->cluster, &(cluster_data_t) { .blocks = self->blocks,
        .store = "bench", .objects = 1, .find = s_find }), "no cluster");
}

//  The process ends with its parent.
static void
s_run_giver (const bench_t *bench)
{
    member_side_t side;
    char error [512] = "";
    s_open_member (&side, bench, 0);
    uint8_t *memory = malloc (BLOCK);
    s_check (memory, "no memory");
    for (uint32_t block = 0; block < BLOCKS; block++) {
        memset (memory, (int) block + 1, BLOCK);
        block_data_store (side.blocks, (uint64_t) block * BLOCK, BLOCK, memory, false);
    }
    s_check (cluster_start (side.cluster, error, sizeof error) == 0, error);
    while (true)
        pause ();
}

static void
s_run_bare (const bench_t *bench)
{
    char address [64];
    uint8_t *memory = calloc (1, BLOCK);
    void *context = zmq_ctx_new (), *router = zmq_socket (context, ZMQ_ROUTER);
    int on = 1;
    snprintf (address, sizeof address, "tcp://127.0.0.1:%d", bench->port + 1);
    if (bench->keys) {
        zmq_setsockopt (router, ZMQ_CURVE_SERVER, &on, sizeof on);
        zmq_setsockopt (router, ZMQ_CURVE_SECRETKEY, bench->secret_key, KEY_BYTES);
    }
    s_check (memory && zmq_bind (router, address) == 0, "the bare sender cannot listen");
    while (true) {
        uint8_t peer [64], said [64];
        int size = zmq_recv (router, peer, sizeof peer, 0);
        if (size <= 0 || zmq_recv (router, said, sizeof said, 0) < 0)
            continue;
        zmq_msg_t message;
        zmq_msg_init_data (&message, memory, BLOCK, NULL, NULL);
        zmq_send (router, peer, (size_t) size, ZMQ_SNDMORE);
        zmq_msg_send (&message, router, 0);
    }
}

//  Each side has a processor of its own, as on two machines.
static void
s_pin (size_t processor)
{
    cpu_set_t set;
    CPU_ZERO (&set);
    CPU_SET (processor, &set);
    s_check (sched_setaffinity (0, sizeof set, &set) == 0, "two processors are needed");
}

static pid_t
s_fork (const bench_t *bench, void (*run) (const bench_t *bench))
{
    pid_t child = fork ();
    s_check (child >= 0, "cannot fork");
    if (child == 0) {
        prctl (PR_SET_PDEATHSIG, SIGKILL);
        s_pin (0);
        run (bench);
    }
    return child;
}


//  -- rounds: bytes a second

static double
s_peers_round (peers_t *peers, const bench_t *bench, uint8_t *memory)
{
    peer_question_t questions [TOGETHER_MAX];
    uint64_t blocks = (uint64_t) bench->megabytes * 1048576 / BLOCK, asked = 0, got = 0,
        began_ns = clock_now_ns ();
    size_t free_ones = bench->together;
    peer_question_t *waiting [TOGETHER_MAX];
    for (uint32_t at = 0; at < bench->together; at++)
        waiting [at] = &questions [at];
    while (got < blocks) {
        while (free_ones > 0 && asked < blocks) {
            peer_question_t *question = waiting [--free_ones];
            *question = (peer_question_t) { .offset = asked % BLOCKS * BLOCK, .bytes = BLOCK,
                .memory = memory + (size_t) (question - questions) * BLOCK };
            s_check (peers_choose (peers, 0, asked % BLOCKS, BLOCK, question) == PEERS_PEER
                && peers_ask (peers, question), "the other member is not asked");
            asked++;
        }
        peer_question_t *done = peers_take (peers);
        if (!done) {
            static int descriptors [PEERS_DESCRIPTORS_MAX];
            static struct pollfd items [PEERS_DESCRIPTORS_MAX];
            size_t count = peers_descriptors (peers, descriptors);
            for (size_t at = 0; at < count; at++)
                items [at] = (struct pollfd) { .fd = descriptors [at], .events = POLLIN };
            poll (items, count, peers_patience_ms (peers));
            continue;
        }
        s_check (done->is_answered && *done->memory == done->offset / BLOCK + 1, "a block did not come");
        got++;
        waiting [free_ones++] = done;
    }
    return (double) blocks * BLOCK / ((double) (clock_now_ns () - began_ns) / 1e9);
}

static double
s_bare_round (void *dealer, const bench_t *bench)
{
    uint64_t blocks = (uint64_t) bench->megabytes * 1048576 / BLOCK, asked = 0, began_ns = clock_now_ns ();
    for (uint64_t got = 0; got < blocks; got++) {
        for (; asked < blocks && asked < got + bench->together; asked++)
            zmq_send (dealer, "", 0, 0);
        zmq_msg_t message;
        zmq_msg_init (&message);
        s_check (zmq_msg_recv (&message, dealer, 0) == BLOCK, "bare ZeroMQ gave nothing");
        zmq_msg_close (&message);
    }
    return (double) blocks * BLOCK / ((double) (clock_now_ns () - began_ns) / 1e9);
}

static void *
s_connect (void *context, const bench_t *bench)
{
    char address [64];
    void *dealer = zmq_socket (context, ZMQ_DEALER);
    snprintf (address, sizeof address, "tcp://127.0.0.1:%d", bench->port + 1);
    if (bench->keys) {
        zmq_setsockopt (dealer, ZMQ_CURVE_SERVERKEY, bench->public_key, KEY_BYTES);
        zmq_setsockopt (dealer, ZMQ_CURVE_PUBLICKEY, bench->public_key, KEY_BYTES);
        zmq_setsockopt (dealer, ZMQ_CURVE_SECRETKEY, bench->secret_key, KEY_BYTES);
    }
    int none = 0;
    zmq_setsockopt (dealer, ZMQ_LINGER, &none, sizeof none);
    s_check (zmq_connect (dealer, address) == 0, "cannot connect");
    return dealer;
}

int
main (int argc, char **argv)
{
    bench_t bench = { .rounds = 9, .megabytes = 1024, .together = 4 };
    option_result_t result;
    int status = option_parse (&s_table, &bench, argc, argv, &result);
    if (status >= 0)
        return status;
    s_check (bench.folder, "name a folder for the caches with --folder DIR");
    zmq_curve_keypair (bench.public_key, bench.secret_key);
    bench.port = 20000 + getpid () % 20000;
    pid_t children [] = { s_fork (&bench, s_run_giver), s_fork (&bench, s_run_bare) };
    s_pin (1);
    member_side_t side;
    s_open_member (&side, &bench, 1);
    peers_t *peers = peers_new (side.cluster, "bench");
    void *context = zmq_ctx_new (), *dealer = s_connect (context, &bench);
    uint8_t *memory = malloc ((size_t) TOGETHER_MAX * BLOCK);
    s_check (peers && memory, "no memory");
    sleep (2);                          //  the giver fills its cache
    double ratios [ROUNDS_MAX], rates [2][ROUNDS_MAX];
    for (uint32_t round = 0; round < bench.rounds + 1; round++) {
        double of_peers = s_peers_round (peers, &bench, memory), of_bare = s_bare_round (dealer, &bench);
        if (round == 0)
            continue;                   //  connections, and memory that is new
        rates [0][round - 1] = of_peers;
        rates [1][round - 1] = of_bare;
        ratios [round - 1] = of_bare / of_peers;
    }
    printf ("%u blocks under way, %s: peers %.0f MB/s, bare ZeroMQ %.0f MB/s; a block costs %.2f times as "
        "much\n", bench.together, bench.keys? "encrypted": "plain", median_of (rates [0], bench.rounds) / 1e6,
        median_of (rates [1], bench.rounds) / 1e6, median_of (ratios, bench.rounds));
    for (size_t at = 0; at < 2; at++) {
        kill (children [at], SIGKILL);
        waitpid (children [at], NULL, 0);
    }
    zmq_close (dealer);
    zmq_ctx_term (context);
    peers_destroy (&peers);
    cluster_destroy (&side.cluster);
    members_close (&side.members);
    block_data_close (&side.blocks);
    block_cache_close (&side.cache);
    free (memory);
    return 0;
}
