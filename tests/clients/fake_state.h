/*  fake_state -- the fake server's structure, and what its three files know of each other.
 *
 *      fake_server.c    the thread: sockets, deeds, requests
 *      fake_job.c       the job: joining, orders, batches
 *      fake_keys.c      the clients that it admits
 */
#ifndef FAKE_STATE_H
#define FAKE_STATE_H
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include "fake_server.h"

enum { PART_MAX = 160, ROUTE_BYTES = 16, POLL_MS = 5, BIND_TRIES = 2000 };

#define FAKE_DATA "00000000000000bb"
#define FAKE_TOKEN "0123456789abcdef0123456789abcdef"

//  Holds in a test program, NDEBUG or not.
#define MUST(condition) \
    do { \
        if (!(condition)) { \
            fprintf (stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, strerror (errno)); \
            abort (); \
        } \
    } while (0)

typedef struct {
    const void *data;
    size_t size;
} part_t;

struct fake_server {
    fake_plan_t plan;
    char directory [64];
    char endpoint [128];
    char ring_path [128];
    void *keeper;                       //  a context while there is none of ours: libzmq's global state comes
                                        //  and goes with the last
    pthread_t thread;
    pthread_mutex_t mutex;
    //  Under the mutex.
    bool stop;
    fake_deed_t wish;
    fake_seen_t seen;
    //  The thread's own.
    void *context;
    void *router;
    void *zap;                          //  NULL: it admits every client
    uint64_t lives;
    int listener;
    int client;                         //  the ring's connection
    int memory;
    uint8_t *ring;
    size_t slot_bytes;
    uint8_t route [ROUTE_BYTES];
    size_t route_bytes;
    bool joined;
    bool running;
    bool inlined;
    bool silent;
    uint64_t done;                      //  the deed, so often
    bool deed_due;                      //  for the job that is there
    bool dead;
    int64_t died_ms;
    uint64_t job;
    uint64_t joins;
    uint64_t muted;
    uint64_t muted_tokens;
    uint64_t step_deaths;
    bool dying;                         //  as soon as it has read what there is
    uint64_t late_tag;                  //  of a question that was not answered; 0: none
    char run [33];
    bool is_forked;
    uint64_t *list;                     //  NULL: the job gave none
    size_t list_count;
    uint64_t *order;                    //  what is left of the epoch when it began
    size_t order_count;
    uint64_t before;                    //  samples of the epoch that were taken before
    size_t ring_bytes;
    uint32_t batch_size;
    uint32_t slots;
    uint32_t world_size;
    uint32_t rank;
    uint64_t gather_left;               //  NOTICEs before JOINED
    uint64_t gather_tag;
    int64_t gather_ms;
    uint64_t loose_left;
    uint64_t slot_sequence [WIRE_SLOTS_MAX];
    bool slot_busy [WIRE_SLOTS_MAX];
    uint64_t sequence;
    uint64_t epoch;
    uint64_t index;
    uint64_t position;                  //  in order
    int64_t beat_ms;
};

//  --- fake_keys.c

//  Before the ROUTER is bound; while it lives; and before its context ends.
void fake_use_keys (fake_server_t *self);
void fake_answer_zap (fake_server_t *self);
void fake_drop_keys (fake_server_t *self);

//  --- fake_job.c

void fake_send (fake_server_t *self, wire_kind_t kind, uint64_t job, uint64_t tag, const part_t *parts,
    size_t count);
void fake_send_text (fake_server_t *self, wire_kind_t kind, uint64_t job, uint64_t tag, const char *text);
//  The next batch as it would be in that slot; and sends one, as it is said: the bytes are those of its ids.
wire_batch_t fake_next_batch (fake_server_t *self, uint32_t slot);
void fake_send_batch (fake_server_t *self, const wire_batch_t *batch);
//  JOINED, after fake_take_join where ranks are gathered.
void fake_send_joined (fake_server_t *self, uint64_t tag);
//  The next batch or epoch's end; false: nothing, or no slot is free.
bool fake_send_next (fake_server_t *self);
void fake_free_slots (fake_server_t *self, const wire_progress_t *progress);
void fake_free_ring (fake_server_t *self);
//  parts: of the JOIN; text: its JSON.
void fake_take_join (fake_server_t *self, const char *text, const part_t *parts, uint64_t tag);
//  A number that is a string; 0: none.
uint64_t fake_decimal (json_t *object, const char *key);

#endif
