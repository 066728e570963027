/*  meeting -- a gathering of ranks for tests: requests are read as in the server; the broker, the catalogue
 *  and the socket are made up here.  There is one meeting at a time.
 */
#ifndef MEETING_H
#define MEETING_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "rank_gathering.h"

enum { SAMPLES = 1000, PEERS = 255, SENT_MAX = 4096, NOW = 1000000, TEXT_BYTES = 600, UID = 7 };

//  ---- the socket

typedef struct {
    uint8_t peer;
    wire_kind_t kind;
    uint64_t job, tag;
    char text [TEXT_BYTES];
} sent_t;

typedef struct {
    sent_t sent [SENT_MAX];
    size_t count;
    bool is_gone [PEERS];
} meeting_outbox_t;

extern meeting_outbox_t meeting_outbox;

//  The index-th message since the last look; "" if there are fewer.
const char *meeting_text (size_t index);
void meeting_assert_sent (size_t index, uint8_t peer, wire_kind_t kind, const char *fragment);

//  ---- the broker and the data

typedef struct {
    const char *refuses;            //  code; NULL: it allows
    size_t asked;
    broker_terms_t terms;             //  of the last question
} meeting_broker_t;

//  All tenants have the same share.
typedef struct {
    char one, other;                //  stand for them
    tenant_t *present;              //  the tenant of the requests that are made now
    uint64_t count;
} meeting_tenants_t;

extern meeting_broker_t meeting_broker;
extern meeting_tenants_t meeting_tenants;
extern const char *meeting_shared_text;         //  of a job that is there

tenant_t *meeting_tenant (char *which);

//  ---- a gathering, and the ranks that come to it

//  The joins of the last complete job, by rank, and what the job asks for.
typedef struct {
    join_t *joins [WIRE_RANKS_MAX];
    const broker_terms_t *terms;
    uint32_t count;
} meeting_gathered_t;

extern meeting_gathered_t meeting_gathered;
extern refusal_t meeting_refusal;

rank_gathering_t *meeting_begin (void);
void meeting_end (rank_gathering_t *gathering);

//  A list with ids in no small block of memory, as a real one has.
#define LISTED_8 9, 5, 5, 900, 0, 9, 1, 2
#define LISTED_64 LISTED_8, LISTED_8, LISTED_8, LISTED_8, LISTED_8, LISTED_8, LISTED_8, LISTED_8
#define LISTED LISTED_64, LISTED_64, LISTED_64, LISTED_64, LISTED_64, LISTED_64, LISTED_64, LISTED_64
enum { LISTED_COUNT = 512 };

//  The join of a peer that sends these members beside data set and batch size; the tag is 100 and the
//  peer's number.
//  With "subset" it asks for the first half, with "list" for LISTED, with "taken" it has had 5 samples, with
//  "recent" it has had step 0 of epoch 2.
join_t *meeting_join (const rank_gathering_t *gathering, uint8_t number, uid_t uid,
    const char *members);
rank_gathering_status_t meeting_add_of (rank_gathering_t *gathering, int64_t now_ms, uint8_t peer, uid_t uid,
    const char *members);
rank_gathering_status_t meeting_add (rank_gathering_t *gathering, int64_t now_ms, uint8_t peer,
    const char *members);
//  Frees the joins of the last complete job.
void meeting_forget_gathered (void);

//  Rank r of job j, of two.
#define RANK(number) "\"job\":\"j\",\"world_size\":2,\"rank\":" #number
#define RESUME(epoch, batches) ",\"resume\":{\"fingerprint\":\"print\",\"data\":\"" MEETING_DATA "\"," \
    "\"epoch\":" #epoch \
    ",\"batches\":" #batches "}"
#define RUN ",\"run\":\"4b7c1d2e3f405162738495a6b7c8d9ea\""
#define INSTANCE(digit) ",\"instance\":\"0000000000000000000000000000000" #digit "\""
#define MEETING_DATA "f3f1c0e1e1e1e1e1"     //  replaced by what stands for all the data: meeting_with_data

//  The members, with the data's own digest where they say MEETING_DATA; good until the next call.
const char *meeting_with_data (const char *members);

#endif
