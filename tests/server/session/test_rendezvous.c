/*  Ranks that wait for each other: requests are read as in the server; the broker, the catalogue
 *  and the socket are made up here.
 */
#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "frames.h"
#include "rendezvous.h"
#include "seed.h"
#include "source.h"

enum { SAMPLES = 1000, PEERS = 255, SENT_MAX = 4096, NOW = 1000000, TEXT_BYTES = 600, UID = 7 };

//  ---- the socket

typedef struct {
    uint8_t peer;
    wire_kind_t kind;
    uint64_t job, tag;
    char text [TEXT_BYTES];
} sent_t;

static struct {
    sent_t sent [SENT_MAX];
    size_t count;
    bool is_gone [PEERS];
} s_outbox;

outbox_status_t
outbox_send_text (void *router, const peer_t *peer, wire_kind_t kind, uint64_t job, uint64_t tag, char *text)
{
    assert_ptr_equal (router, &s_outbox);
    bool is_gone = s_outbox.is_gone [peer->bytes [0]];
    if (!is_gone) {
        assert_true (s_outbox.count < SENT_MAX);
        sent_t *sent = &s_outbox.sent [s_outbox.count++];
        *sent = (sent_t) { .peer = peer->bytes [0], .kind = kind, .job = job, .tag = tag };
        snprintf (sent->text, sizeof sent->text, "%s", text);
    }
    free (text);
    return is_gone? OUTBOX_GONE: OUTBOX_SENT;
}

//  The index-th message since the last look; "" if there are fewer.
static const char *
s_text (size_t index)
{
    return index < s_outbox.count? s_outbox.sent [index].text: "";
}

static void
s_assert_sent (size_t index, uint8_t peer, wire_kind_t kind, const char *fragment)
{
    if (index >= s_outbox.count)
        fail_msg ("%zu messages, expected one with '%s'", s_outbox.count, fragment);
    const sent_t *sent = &s_outbox.sent [index];
    if (sent->peer != peer || sent->kind != kind || sent->job != 0 || sent->tag != 100u + peer
        || !strstr (sent->text, fragment))
        fail_msg ("message %zu to %u, kind %d, tag %" PRIu64 ": %s; expected to %u '%s'", index, sent->peer,
            (int) sent->kind, sent->tag, sent->text, peer, fragment);
}

//  ---- the broker and the data

static struct {
    const char *refuses;            //  code; NULL: it allows
    size_t asked;
    broker_join_t join;             //  of the last question
} s_broker;

bool
broker_allows (broker_t *self, const broker_join_t *join, int64_t now_ms, refusal_t *refusal)
{
    (void) self;
    (void) now_ms;
    s_broker.asked++;
    s_broker.join = *join;
    return !s_broker.refuses || refuse (refusal, s_broker.refuses, "the broker says no");
}

bool
broker_agree (const broker_join_t *one, uint32_t rank, const broker_join_t *other, uint32_t other_rank,
    refusal_t *refusal)
{
    if (*one->run && *other->run && strcmp (one->run, other->run) != 0)
        return refuse (refusal, "ranks_differ", "rank %u has another run than rank %u", rank, other_rank);
    if (one->batch_size == other->batch_size && one->world_size == other->world_size
        && strcmp (one->data, other->data) == 0
    &&  strcmp (pipeline_text (one->pipeline), pipeline_text (other->pipeline)) == 0)
        return true;
    return refuse (refusal, "ranks_differ", "rank %u has batch_size %u, rank %u %u", rank, one->batch_size,
        other_rank, other->batch_size);
}

//  All tenants have the same share.
static struct {
    char one, other;                //  stand for them
    tenant_t *present;              //  whose are the requests that are made now
    uint64_t count;
} s_tenants;

static tenant_t *
s_tenant (char *which)
{
    return (tenant_t *) (void *) which;
}

size_t
broker_tenants (const broker_t *self)
{
    (void) self;
    return s_tenants.count;
}

const char *
tenant_name (const tenant_t *self)
{
    return self == s_tenant (&s_tenants.one)? "one": "other";
}

uint64_t
broker_share (const broker_t *self, const tenant_t *tenant, uint64_t whole)
{
    (void) self;
    assert_true (tenant == s_tenant (&s_tenants.one) || tenant == s_tenant (&s_tenants.other));
    return whole / s_tenants.count;
}

static source_t s_source;
static const char *s_shared_text;   //  of a job that is there

dataset_t *
broker_dataset (broker_t *self, const tenant_t *tenant, const char *name)
{
    (void) self;
    (void) tenant;
    return strcmp (name, "train") == 0? (dataset_t *) (void *) &s_source: NULL;
}

char *
broker_dataset_names (const broker_t *self, const tenant_t *tenant)
{
    (void) self;
    (void) tenant;
    return strdup ("train");
}

size_t
broker_shared_texts (const dataset_t *dataset, const tenant_t *tenant, sampler_order_t order,
    const char **texts, size_t texts_max)
{
    (void) dataset;
    (void) tenant;
    (void) order;
    (void) texts_max;
    texts [0] = s_shared_text;
    return s_shared_text != NULL;
}

void *
dataset_user (const dataset_t *self)
{
    (void) self;
    return &s_source;
}

uint32_t
dataset_samples (const dataset_t *self)
{
    (void) self;
    return SAMPLES;
}

size_t
catalogue_fields (const catalogue_t *self)
{
    (void) self;
    return 1;
}

const char *
catalogue_field_name (const catalogue_t *self, size_t field)
{
    (void) self;
    (void) field;
    return "image";
}

bool
catalogue_field_is_mask (const catalogue_t *self, size_t field)
{
    (void) self;
    (void) field;
    return false;
}

size_t
catalogue_labels (const catalogue_t *self)
{
    (void) self;
    return 0;
}

const catalogue_label_t *
catalogue_label (const catalogue_t *self, size_t label)
{
    (void) self;
    (void) label;
    return NULL;
}

const char *
catalogue_fingerprint (const catalogue_t *self)
{
    (void) self;
    return "print";
}

//  ---- a rendezvous, and who comes to it

static log_t s_log = { .descriptor = -1 };
static gathered_t s_gathered;
static refusal_t s_refusal;

static rendezvous_t *
s_begin (void)
{
    s_outbox.count = 0;
    memset (s_outbox.is_gone, 0, sizeof s_outbox.is_gone);
    s_broker.refuses = NULL;
    s_broker.asked = 0;
    s_shared_text = NULL;
    s_tenants.present = s_tenant (&s_tenants.one);
    s_tenants.count = 1;
    rendezvous_t *rendezvous = rendezvous_new (&s_outbox, NULL, &s_log);
    assert_non_null (rendezvous);
    return rendezvous;
}

static void
s_end (rendezvous_t *rendezvous)
{
    rendezvous_check (rendezvous);
    rendezvous_destroy (&rendezvous);
    assert_null (rendezvous);
}

//  A list whose ids are no small block of memory, as a real one's are none.
#define LISTED_8 9, 5, 5, 900, 0, 9, 1, 2
#define LISTED_64 LISTED_8, LISTED_8, LISTED_8, LISTED_8, LISTED_8, LISTED_8, LISTED_8, LISTED_8
#define LISTED LISTED_64, LISTED_64, LISTED_64, LISTED_64, LISTED_64, LISTED_64, LISTED_64, LISTED_64
enum { LISTED_COUNT = 512 };

//  The request of a peer that sends these members beside data set and batch size; the tag is 100 and the
//  peer's
//  number.
//  With "subset" it asks for the first half, with "list" for LISTED, with "taken" it has had 5 samples, with
//  "recent" it has had step 0 of epoch 2.
static join_request_t *
s_join_request (const rendezvous_t *rendezvous, uint8_t number, uid_t uid, const char *members)
{
    static const uint64_t half [] = { WIRE_IDS_RANGES, 0, SAMPLES / 2 }, taken [] = { WIRE_IDS_RANGES, 0, 5 };
    static const uint64_t ids [] = { WIRE_IDS_LIST, LISTED };
    static const uint64_t recent [] = { WIRE_IDS_RECENT, 0, 2, 0, 3, 2, 1, 7, 8, 9 };
    char json [1024];
    assert (members);                   //  gcc asks, under sanitizers
    snprintf (json, sizeof json, "{\"dataset\":\"train\",%s%s}",
        strstr (members, "batch_size")? "": "\"batch_size\":8,", members);
    frame_t frames [5] = { frame_of ("", 0), frame_of_text (json) };
    size_t count = 2;
    if (strstr (members, "subset"))
        frames [count++] = frame_of (half, sizeof half);
    if (strstr (members, "[\"list\""))
        frames [count++] = frame_of (ids, sizeof ids);
    if (strstr (members, "taken"))
        frames [count++] = frame_of (taken, sizeof taken);
    if (strstr (members, "recent"))
        frames [count++] = frame_of (recent, sizeof recent);
    peer_t peer = { .bytes = { number }, .size = 1 };
    join_request_t *join_request = join_request_new (frames, count, &peer, 100u + number, &s_refusal);
    caller_t caller = { .tenant = s_tenants.present, .uid = uid, .user = uid };
    const pipeline_t *like = join_request? rendezvous_pipeline (rendezvous, caller.tenant,
        join_request->request.job): NULL;
    if (!join_request || !(join_request_place (join_request, NULL, &caller, like, &s_refusal)
        && join_request_read (join_request, frames, &s_refusal)
    &&  join_request_complete (join_request, &s_refusal)))
        fail_msg ("%s: %s", json, s_refusal.message);
    return join_request;
}

static rendezvous_status_t
s_add_of (rendezvous_t *rendezvous, int64_t now_ms, uint8_t peer, uid_t uid, const char *members)
{
    join_request_t *join_request = s_join_request (rendezvous, peer, uid, members);
    s_refusal = (refusal_t) { .code = NULL };
    rendezvous_status_t status = rendezvous_add (rendezvous, &join_request, now_ms, &s_gathered, &s_refusal);
    assert_true ((status == RENDEZVOUS_REFUSED) == (join_request != NULL));
    join_request_destroy (&join_request);
    rendezvous_check (rendezvous);
    return status;
}

static rendezvous_status_t
s_add (rendezvous_t *rendezvous, int64_t now_ms, uint8_t peer, const char *members)
{
    return s_add_of (rendezvous, now_ms, peer, UID, members);
}

//  Rank r of job j, of two.
#define RANK(number) "\"job\":\"j\",\"world_size\":2,\"rank\":" #number
#define RESUME(epoch, batches) ",\"resume\":{\"fingerprint\":\"print\",\"data\":\"" S_ALL "\"," \
    "\"epoch\":" #epoch \
    ",\"batches\":" #batches "}"
#define RUN ",\"run\":\"4b7c1d2e3f405162738495a6b7c8d9ea\""
#define INSTANCE(digit) ",\"instance\":\"0000000000000000000000000000000" #digit "\""
#define S_ALL "f3f1c0e1e1e1e1e1"        //  replaced by what stands for all the data: s_with_data

//  The members, with the data's own digest where they say S_ALL; good until the next call.
static const char *
s_with_data (const char *members)
{
    static char text [1024];
    snprintf (text, sizeof text, "%s", members);
    char *at = strstr (text, S_ALL);
    data_digest_t all = data_digest_of_all (SAMPLES);
    if (at)
        memcpy (at, all.text, strlen (all.text));
    return text;
}

//  ---- complete

static void
two_ranks_in_either_order (void **state)
{
    (void) state;
    for (unsigned turn = 0; turn < 2; turn++) {
        rendezvous_t *rendezvous = s_begin ();
        const char *first = turn? RANK (1) ",\"name\":\"b\"" INSTANCE (2) ",\"rank_wait\":30"
            : RANK (0) ",\"name\":\"a\"" INSTANCE (1);
        const char *second = turn? RANK (0) ",\"name\":\"a\"" INSTANCE (1)
            : RANK (1) ",\"name\":\"b\"" INSTANCE (2) ",\"rank_wait\":30";
        assert_int_equal (s_add (rendezvous, NOW, 1, first), RENDEZVOUS_WAITS);
        assert_int_equal (rendezvous_count (rendezvous, NULL), 1);
        assert_true (rendezvous_bytes (rendezvous, NULL) > 0);
        assert_string_equal (rendezvous_of (rendezvous, &(peer_t) { .bytes = { 1 }, .size = 1 }, NULL), "j");
        assert_null (rendezvous_of (rendezvous, &(peer_t) { .bytes = { 2 }, .size = 1 }, NULL));
        s_assert_sent (0, 1, WIRE_NOTICE,
            turn? "1 of 2 ranks of job 'j' are here; waiting for rank 0, for 300 more seconds"
            : "1 of 2 ranks of job 'j' are here; waiting for rank 1, for 300 more seconds");
        assert_non_null (strstr (s_text (0), "\"notice\":\"gathering\""));
        assert_int_equal (s_add (rendezvous, NOW + 10, 2, second), RENDEZVOUS_COMPLETE);
        assert_int_equal (s_outbox.count, 1);
        assert_int_equal (s_gathered.count, 2);
        assert_true (s_gathered.join_requests [0]->peer.bytes [0] == 1 + turn
            && s_gathered.join_requests [1]->peer.bytes [0] == 2 - turn);
        const broker_join_t *join = &s_gathered.join;
        assert_string_equal (join->name, "a");
        assert_string_equal (join->job_name, "j");
        assert_true (join->world_size == 2 && join->rank_wait_seconds == 30 && join->batch_size == 8
            && !join->seed_given);
        assert_true (join->instances [0] [31] == '1' && join->instances [1] [31] == '2');
        assert_null (join->positions);
        assert_int_equal (rendezvous_count (rendezvous, NULL), 0);
        assert_int_equal (rendezvous_bytes (rendezvous, NULL), 0);
        gathered_clear (&s_gathered);
        s_end (rendezvous);
    }
}

//  The furthest state is the job's, whoever has it; the seed is the one that somebody says.
static void
furthest_leads (void **state)
{
    (void) state;
    rendezvous_t *rendezvous = s_begin ();
    assert_int_equal (s_add (rendezvous, NOW, 1,
        s_with_data (RANK (0) ",\"order\":\"private\"" RESUME (2, 0))), RENDEZVOUS_WAITS);
    assert_int_equal (s_add (rendezvous, NOW, 2,
        s_with_data (RANK (1) ",\"order\":\"private\",\"seed\":\"5\"" RUN RESUME (2, 1)
        ",\"frames\":[\"taken\",\"recent\"]")), RENDEZVOUS_COMPLETE);
    const broker_join_t *join = &s_gathered.join;
    assert_true (join->epoch == 2 && join->epoch_batches == 1 && join->seed_given && join->seed == 5);
    assert_int_equal (roaring_bitmap_get_cardinality (join->taken), 5);
    assert_true (join->recent_count == 1 && join->recent [0].epoch == 2 && join->recent [0].samples == 3);
    assert_int_equal (strlen (join->run), WIRE_RUN_BYTES);
    assert_non_null (join->positions);
    assert_true (join->positions [0].epoch == 2 && join->positions [0].batches == 0);
    assert_true (join->positions [1].epoch == 2 && join->positions [1].batches == 1);
    gathered_clear (&s_gathered);
    //  A later epoch is further than any number of batches; among equals rank 0's.
    assert_int_equal (s_add (rendezvous, NOW, 1, s_with_data (RANK (1) RUN RESUME (1, 900))),
        RENDEZVOUS_WAITS);
    assert_int_equal (s_add (rendezvous, NOW, 2, s_with_data (RANK (0) RESUME (2, 0))), RENDEZVOUS_COMPLETE);
    assert_true (join->epoch == 2 && join->epoch_batches == 0 && strlen (join->run) == WIRE_RUN_BYTES);
    assert_ptr_equal (join->fresh_run, s_gathered.join_requests [0]->fresh_run);
    gathered_clear (&s_gathered);
    assert_int_equal (s_add (rendezvous, NOW, 1, s_with_data (RANK (1) RUN RESUME (2, 3))),
        RENDEZVOUS_WAITS);
    assert_int_equal (s_add (rendezvous, NOW, 2, s_with_data (RANK (0) RESUME (2, 3))), RENDEZVOUS_COMPLETE);
    assert_ptr_equal (join->fresh_run, s_gathered.join_requests [0]->fresh_run);
    assert_null (join->positions);
    gathered_clear (&s_gathered);
    s_end (rendezvous);
}

//  The job's ids are held once, and are there in the end whoever came, went and leads.
static void
data_are_held_once (void **state)
{
    (void) state;
    rendezvous_t *rendezvous = s_begin ();
    for (int round = 0; round < 3; round++) {
        s_outbox.is_gone [1] = s_outbox.is_gone [2] = false;
        assert_int_equal (s_add (rendezvous, NOW, 1,
            "\"job\":\"j\",\"world_size\":3,\"rank\":0,\"frames\":[\"subset\"]"), RENDEZVOUS_WAITS);
        assert_int_equal (s_add (rendezvous, NOW, 2,
            "\"job\":\"j\",\"world_size\":3,\"rank\":1,\"frames\":[\"subset\"]"), RENDEZVOUS_WAITS);
        if (round > 0) {
            s_outbox.is_gone [round] = true;
            rendezvous_beat (rendezvous, NOW + RENDEZVOUS_NOTICE_MS);
            rendezvous_check (rendezvous);
            s_outbox.is_gone [round] = false;
            assert_int_equal (s_add (rendezvous, NOW + 2000, 3,
                round == 1? "\"job\":\"j\",\"world_size\":3,\"rank\":0,"
                "\"frames\":[\"subset\"]":
                "\"job\":\"j\",\"world_size\":3,\"rank\":1,\"frames\":[\"subset\"]"), RENDEZVOUS_WAITS);
        }
        assert_int_equal (s_add (rendezvous, NOW + 2000, 4,
            "\"job\":\"j\",\"world_size\":3,\"rank\":2,\"frames\":[\"subset\"]"), RENDEZVOUS_COMPLETE);
        assert_int_equal (roaring_bitmap_get_cardinality (s_gathered.join.subset), SAMPLES / 2);
        gathered_clear (&s_gathered);
    }
    s_end (rendezvous);
}

//  The list lies in what it was made into, which is there and whole.
static void
s_assert_listed (const broker_join_t *join)
{
    static const uint32_t listed [LISTED_COUNT] = { LISTED };
    assert_non_null (join->list_made);
    assert_ptr_equal (sampler_list_ids (join->list_made), join->list);
    assert_int_equal (sampler_list_count (join->list_made), join->list_count);
    assert_int_equal (join->list_count, LISTED_COUNT);
    assert_memory_equal (join->list, listed, sizeof listed);
    assert_int_equal (sampler_list_times (join->list_made, 5), LISTED_COUNT / 4);
    assert_int_equal (roaring_bitmap_get_cardinality (sampler_list_set (join->list_made)), 6);
}

#define LIST_RANK(number) RANK (number) ",\"order\":\"list\",\"frames\":[\"list\"]"

//  The same of lists, which are held by reference: one that dies leaves its own to who comes after it, and in
//  the end it goes to who leads.  A made list that is lost, or let go by both, is found in s_assert_listed.
static void
lists_are_held_once (void **state)
{
    (void) state;
    for (unsigned leader = 0; leader < 2; leader++) {
        rendezvous_t *rendezvous = s_begin ();
        assert_int_equal (s_add (rendezvous, NOW, 1, leader? LIST_RANK (1): LIST_RANK (0)), RENDEZVOUS_WAITS);
        size_t bytes = rendezvous_bytes (rendezvous, NULL);
        assert_true (bytes > sampler_list_bytes (LISTED_COUNT, SAMPLES));
        assert_int_equal (s_add (rendezvous, NOW, 2, leader? LIST_RANK (0): LIST_RANK (1)),
            RENDEZVOUS_COMPLETE);
        s_assert_listed (&s_gathered.join);
        size_t held = 0;
        for (size_t rank = 0; rank < s_gathered.count; rank++)
            held += s_gathered.join_requests [rank]->join.list_made != NULL;
        assert_int_equal (held, 1);
        gathered_clear (&s_gathered);
        s_end (rendezvous);
    }
}

//  A job came between two ranks, and where it has its mark must not part them.
static void
ranks_have_one_share_point (void **state)
{
    (void) state;
    static const char operations [] = RANK (0)
        ",\"pipeline\":[{\"op\":\"resize\",\"size\":[32,32]},{\"op\":\"center_crop\",\"size\":16}]";
    static const char of_another [] = RANK (1)
        ",\"pipeline\":[{\"op\":\"resize\",\"size\":[32,32]},{\"op\":\"center_crop\",\"size\":16}]";
    rendezvous_t *rendezvous = s_begin ();
    assert_int_equal (s_add (rendezvous, NOW, 1, operations), RENDEZVOUS_WAITS);
    join_request_t *early = s_join_request (rendezvous, 9, UID,
        "\"pipeline\":[{\"op\":\"resize\",\"size\":[32,32]},{\"share\":true},"
        "{\"op\":\"center_crop\",\"size\":16}]");
    s_shared_text = pipeline_shared_text (early->join.pipeline);
    join_request_t *alone = s_join_request (rendezvous, 9, UID,
        "\"pipeline\":[{\"op\":\"resize\",\"size\":[32,32]},{\"op\":\"center_crop\",\"size\":16}]");
    assert_string_equal (pipeline_shared_text (alone->join.pipeline), s_shared_text);
    assert_string_not_equal (pipeline_shared_text (rendezvous_pipeline (rendezvous, s_tenants.present, "j")),
        s_shared_text);
    assert_int_equal (s_add (rendezvous, NOW, 2, of_another), RENDEZVOUS_COMPLETE);
    gathered_clear (&s_gathered);
    join_request_destroy (&early);
    join_request_destroy (&alone);
    s_end (rendezvous);
}

//  ---- notices, and an end to waiting

static void
notices_come_each_second (void **state)
{
    (void) state;
    rendezvous_t *rendezvous = s_begin ();
    s_add (rendezvous, NOW, 1, "\"job\":\"j\",\"world_size\":13,\"rank\":0,\"gather\":60");
    s_add (rendezvous, NOW + 300, 2, "\"job\":\"j\",\"world_size\":13,\"rank\":12");
    s_assert_sent (0, 1, WIRE_NOTICE,
        "1 of 13 ranks of job 'j' are here; waiting for ranks 1, 2, 3, 4, 5, 6, 7, 8 and 4 "
        "more, for 60");
    s_assert_sent (1, 2, WIRE_NOTICE,
        "2 of 13 ranks of job 'j' are here; waiting for ranks 1, 2, 3, 4, 5, 6, 7, 8 and 3 "
        "more, for 60");
    s_outbox.count = 0;
    rendezvous_beat (rendezvous, NOW + 500);
    assert_int_equal (s_outbox.count, 0);
    rendezvous_beat (rendezvous, NOW + 1000);
    assert_int_equal (s_outbox.count, 2);
    s_assert_sent (0, 1, WIRE_NOTICE, "for 59 more seconds");
    s_assert_sent (1, 2, WIRE_NOTICE, "for 59 more seconds");
    rendezvous_beat (rendezvous, NOW + 1500);
    assert_int_equal (s_outbox.count, 2);
    rendezvous_beat (rendezvous, NOW + 2000);
    assert_int_equal (s_outbox.count, 4);
    s_end (rendezvous);
}

static void
lists_of_who_is_missing (void **state)
{
    (void) state;
    rendezvous_t *rendezvous = s_begin ();
    s_add (rendezvous, NOW, 1, "\"job\":\"j\",\"world_size\":3,\"rank\":1");
    s_assert_sent (0, 1, WIRE_NOTICE, "waiting for ranks 0 and 2, for");
    s_add (rendezvous, NOW, 2, "\"job\":\"k\",\"world_size\":10,\"rank\":9");
    s_assert_sent (1, 2, WIRE_NOTICE, "waiting for ranks 0, 1, 2, 3, 4, 5, 6, 7 and 8, for");
    s_add (rendezvous, NOW, 3, "\"job\":\"l\",\"world_size\":64,\"rank\":0,\"batch_size\":1");
    s_assert_sent (2, 3, WIRE_NOTICE, "waiting for ranks 1, 2, 3, 4, 5, 6, 7, 8 and 55 more, for");
    json_t *status = rendezvous_status (rendezvous, NULL, NOW + 1000);
    assert_int_equal (json_array_size (status), 3);
    const json_t *last = json_array_get (status, 2);
    assert_string_equal (json_string_value (json_object_get (last, "job")), "j");
    assert_int_equal (json_integer_value (json_object_get (last, "world_size")), 3);
    assert_int_equal (json_array_size (json_object_get (last, "missing")), 2);
    assert_int_equal (json_integer_value (json_array_get (json_object_get (last, "missing"), 1)), 2);
    assert_true (json_number_value (json_object_get (last, "left")) == 299);
    json_decref (status);
    s_end (rendezvous);
}

//  Whoever has waited for as long as it wants to ends the waiting of all.
static void
too_late (void **state)
{
    (void) state;
    rendezvous_t *rendezvous = s_begin ();
    s_add (rendezvous, NOW, 1, "\"job\":\"j\",\"world_size\":3,\"rank\":0,\"gather\":60");
    s_add (rendezvous, NOW + 5000, 2, "\"job\":\"j\",\"world_size\":3,\"rank\":2,\"gather\":10");
    s_add (rendezvous, NOW, 3, "\"job\":\"k\",\"world_size\":2,\"rank\":0,\"gather\":60");
    rendezvous_beat (rendezvous, NOW + 14999);
    s_outbox.count = 0;
    rendezvous_beat (rendezvous, NOW + 15000);
    assert_int_equal (s_outbox.count, 2);
    s_assert_sent (0, 1, WIRE_ERROR,
        "2 of 3 ranks of job 'j' came within 15 seconds; missing: rank 1: start all of them "
        "with one job name and world size, or give gather= more time");
    s_assert_sent (1, 2, WIRE_ERROR, "\"error\":\"ranks_missing\"");
    assert_int_equal (rendezvous_count (rendezvous, NULL), 1);
    assert_null (rendezvous_pipeline (rendezvous, s_tenants.present, "j"));
    rendezvous_check (rendezvous);
    //  The name is free again.
    assert_int_equal (s_add (rendezvous, NOW + 15000, 1, RANK (0)), RENDEZVOUS_WAITS);
    s_end (rendezvous);
}

static void
stopping (void **state)
{
    (void) state;
    rendezvous_t *rendezvous = s_begin ();
    s_add (rendezvous, NOW, 1, RANK (0));
    s_add (rendezvous, NOW, 2, "\"job\":\"k\",\"world_size\":2,\"rank\":1");
    s_outbox.count = 0;
    rendezvous_stop (rendezvous);
    assert_int_equal (s_outbox.count, 2);
    for (size_t index = 0; index < 2; index++)
        s_assert_sent (index, s_outbox.sent [index].peer, WIRE_ERROR, "\"error\":\"stopping\"");
    assert_true (rendezvous_count (rendezvous, NULL) == 0 && rendezvous_bytes (rendezvous, NULL) == 0);
    s_end (rendezvous);
}

//  ---- who comes twice, and who is gone

static void
same_client_takes_its_place (void **state)
{
    (void) state;
    rendezvous_t *rendezvous = s_begin ();
    s_add (rendezvous, NOW, 1, RANK (0) INSTANCE (1) ",\"frames\":[\"subset\"]");
    s_outbox.count = 0;
    assert_int_equal (s_add (rendezvous, NOW + 1, 2, RANK (0) INSTANCE (1) ",\"frames\":[\"subset\"]"),
        RENDEZVOUS_WAITS);
    assert_int_equal (s_outbox.count, 1);
    s_assert_sent (0, 2, WIRE_NOTICE, "1 of 2 ranks");
    assert_null (rendezvous_of (rendezvous, &(peer_t) { .bytes = { 1 }, .size = 1 }, NULL));
    assert_int_equal (s_add (rendezvous, NOW + 2, 3, RANK (1) ",\"frames\":[\"subset\"]"),
        RENDEZVOUS_COMPLETE);
    assert_int_equal (s_gathered.join_requests [0]->peer.bytes [0], 2);
    assert_int_equal (roaring_bitmap_get_cardinality (s_gathered.join.subset), SAMPLES / 2);
    gathered_clear (&s_gathered);
    s_end (rendezvous);
}

//  Another client is refused, unless the one that waits is dead, which is found out first.
static void
other_client_of_a_rank (void **state)
{
    (void) state;
    rendezvous_t *rendezvous = s_begin ();
    s_add (rendezvous, NOW, 1, RANK (0) INSTANCE (1));
    assert_int_equal (s_add (rendezvous, NOW + 7000, 2, RANK (0) INSTANCE (2)), RENDEZVOUS_REFUSED);
    assert_refusal (&s_refusal, "job_taken",
        "rank 0 of job 'j' is waiting already, since 7 seconds: two runs use one job name");
    assert_int_equal (s_add (rendezvous, NOW + 7000, 2, RANK (0)), RENDEZVOUS_REFUSED);
    assert_refusal (&s_refusal, "job_taken", "rank 0 of job 'j' is waiting already");
    assert_int_equal (rendezvous_count (rendezvous, NULL), 1);
    s_outbox.is_gone [1] = true;
    assert_int_equal (s_add (rendezvous, NOW + 8000, 3, RANK (0) INSTANCE (3)), RENDEZVOUS_WAITS);
    assert_string_equal (rendezvous_of (rendezvous, &(peer_t) { .bytes = { 3 }, .size = 1 }, NULL), "j");
    //  Of two that wait one is dead.
    s_add (rendezvous, NOW, 4, "\"job\":\"k\",\"world_size\":3,\"rank\":0" INSTANCE (4));
    s_add (rendezvous, NOW, 5, "\"job\":\"k\",\"world_size\":3,\"rank\":1" INSTANCE (5));
    s_outbox.is_gone [5] = true;
    assert_int_equal (s_add (rendezvous, NOW, 6, "\"job\":\"k\",\"world_size\":3,\"rank\":1" INSTANCE (6)),
        RENDEZVOUS_WAITS);
    assert_int_equal (s_add (rendezvous, NOW, 7, "\"job\":\"k\",\"world_size\":3,\"rank\":2"),
        RENDEZVOUS_COMPLETE);
    assert_int_equal (s_gathered.join_requests [1]->peer.bytes [0], 6);
    gathered_clear (&s_gathered);
    s_end (rendezvous);
}

static void
gone_while_waiting (void **state)
{
    (void) state;
    rendezvous_t *rendezvous = s_begin ();
    s_add (rendezvous, NOW, 1, "\"job\":\"j\",\"world_size\":3,\"rank\":0");
    s_add (rendezvous, NOW, 2, "\"job\":\"j\",\"world_size\":3,\"rank\":1");
    s_outbox.is_gone [1] = true;
    s_outbox.count = 0;
    rendezvous_beat (rendezvous, NOW + 1000);
    rendezvous_check (rendezvous);
    assert_int_equal (s_outbox.count, 1);
    s_assert_sent (0, 2, WIRE_NOTICE, "1 of 3 ranks of job 'j' are here; waiting for ranks 0 and 2");
    s_outbox.is_gone [2] = true;
    rendezvous_beat (rendezvous, NOW + 2000);
    assert_true (rendezvous_count (rendezvous, NULL) == 0 && rendezvous_bytes (rendezvous, NULL) == 0);
    //  One that is gone before its first notice.
    assert_int_equal (s_add (rendezvous, NOW, 1, RANK (0)), RENDEZVOUS_WAITS);
    assert_true (rendezvous_count (rendezvous, NULL) == 0 && rendezvous_bytes (rendezvous, NULL) == 0);
    s_end (rendezvous);
}

//  ---- who does not fit

static void
ranks_that_differ (void **state)
{
    (void) state;
    rendezvous_t *rendezvous = s_begin ();
    s_add (rendezvous, NOW, 1, "\"job\":\"j\",\"world_size\":3,\"rank\":0");
    s_add (rendezvous, NOW, 2, "\"job\":\"j\",\"world_size\":3,\"rank\":1");
    s_outbox.count = 0;
    assert_int_equal (s_add (rendezvous, NOW, 3,
        "\"job\":\"j\",\"world_size\":3,\"rank\":2,\"batch_size\":16"), RENDEZVOUS_REFUSED);
    assert_refusal (&s_refusal, "ranks_differ", "rank 0 has batch_size 8, rank 2 16");
    //  Asked first whether they live, then refused.
    assert_int_equal (s_outbox.count, 4);
    s_assert_sent (2, 1, WIRE_ERROR, "\"error\":\"ranks_differ\"");
    s_assert_sent (3, 2, WIRE_ERROR, "rank 0 has batch_size 8, rank 2 16");
    assert_true (rendezvous_count (rendezvous, NULL) == 0 && rendezvous_bytes (rendezvous, NULL) == 0);
    //  The world's size too, also where the rank is beyond the others'.
    s_add (rendezvous, NOW, 1, RANK (0));
    assert_int_equal (s_add (rendezvous, NOW, 2,
        "\"job\":\"j\",\"world_size\":40,\"rank\":39,\"batch_size\":8"), RENDEZVOUS_REFUSED);
    assert_refusal (&s_refusal, "ranks_differ", "");
    assert_int_equal (rendezvous_count (rendezvous, NULL), 0);
    s_end (rendezvous);
}

//  What only some of them say is compared with each that says it, whoever came first.
static void
ranks_of_two_runs (void **state)
{
    (void) state;
    for (unsigned silent = 0; silent < 2; silent++) {
        rendezvous_t *rendezvous = s_begin ();
        s_add (rendezvous, NOW, 1, silent? "\"job\":\"j\",\"world_size\":3,\"rank\":0"
            : "\"job\":\"j\",\"world_size\":3,\"rank\":0" RUN);
        s_add (rendezvous, NOW, 2, silent? "\"job\":\"j\",\"world_size\":3,\"rank\":1" RUN
            : "\"job\":\"j\",\"world_size\":3,\"rank\":1");
        assert_int_equal (s_add (rendezvous, NOW, 3, "\"job\":\"j\",\"world_size\":3,\"rank\":2,"
            "\"run\":\"00000000000000000000000000000001\""), RENDEZVOUS_REFUSED);
        assert_refusal (&s_refusal, "ranks_differ", silent? "rank 1 has another run than rank 2"
            : "rank 0 has another run than rank 2");
        assert_int_equal (rendezvous_count (rendezvous, NULL), 0);
        s_end (rendezvous);
    }
}

//  A run that was killed while it waited, and is started anew with other settings, is not held up by itself.
static void
dead_ranks_differ_from_nobody (void **state)
{
    (void) state;
    rendezvous_t *rendezvous = s_begin ();
    s_add (rendezvous, NOW, 1, "\"job\":\"j\",\"world_size\":3,\"rank\":0");
    s_add (rendezvous, NOW, 2, "\"job\":\"j\",\"world_size\":3,\"rank\":1");
    s_outbox.is_gone [1] = s_outbox.is_gone [2] = true;
    assert_int_equal (s_add (rendezvous, NOW, 3, RANK (0) ",\"batch_size\":16"), RENDEZVOUS_WAITS);
    assert_int_equal (rendezvous_count (rendezvous, NULL), 1);
    assert_int_equal (s_add (rendezvous, NOW, 4, RANK (1) ",\"batch_size\":16"), RENDEZVOUS_COMPLETE);
    gathered_clear (&s_gathered);
    s_end (rendezvous);
}

static void
other_users_and_plain_jobs (void **state)
{
    (void) state;
    rendezvous_t *rendezvous = s_begin ();
    s_add (rendezvous, NOW, 1, RANK (0));
    assert_int_equal (s_add_of (rendezvous, NOW, 2, UID + 1, RANK (1)), RENDEZVOUS_REFUSED);
    assert_refusal (&s_refusal, "job_taken", "the job name 'j' is another user's at present: take another");
    assert_int_equal (rendezvous_count (rendezvous, NULL), 1);
    join_request_t *plain = s_join_request (rendezvous, 3, UID, "\"job\":\"j\""),
        *other = s_join_request (rendezvous, 3, UID, "\"job\":\"k\"");
    join_request_t *nameless = s_join_request (rendezvous, 3, UID, "\"name\":\"j\"");
    join_request_t *foreign = s_join_request (rendezvous, 3, UID + 1, "\"job\":\"j\"");
    assert_false (rendezvous_leaves_name (rendezvous, plain, NOW + 3000, &s_refusal));
    assert_refusal (&s_refusal, "job_taken", "1 of 2 ranks wait for a job of the name 'j', since 3 seconds");
    assert_false (rendezvous_leaves_name (rendezvous, foreign, NOW, &s_refusal));
    assert_refusal (&s_refusal, "job_taken", "another user's");
    assert_true (rendezvous_leaves_name (rendezvous, other, NOW, &s_refusal));
    assert_true (rendezvous_leaves_name (rendezvous, nameless, NOW, &s_refusal));
    s_outbox.is_gone [1] = true;
    assert_true (rendezvous_leaves_name (rendezvous, plain, NOW, &s_refusal));
    assert_int_equal (rendezvous_count (rendezvous, NULL), 0);
    join_request_destroy (&plain);
    join_request_destroy (&other);
    join_request_destroy (&nameless);
    join_request_destroy (&foreign);
    s_end (rendezvous);
}

//  What can never work is told to the first; what may be otherwise when all are here is not asked of it.
static void
broker_is_asked_at_first (void **state)
{
    (void) state;
    rendezvous_t *rendezvous = s_begin ();
    s_broker.refuses = "budget";
    assert_int_equal (s_add (rendezvous, NOW, 1, RANK (0)), RENDEZVOUS_REFUSED);
    assert_refusal (&s_refusal, "budget", "the broker says no");
    assert_int_equal (rendezvous_count (rendezvous, NULL), 0);
    s_broker.refuses = "job_taken";
    assert_int_equal (s_add (rendezvous, NOW, 1, s_with_data (RANK (0) ",\"epochs\":4" RESUME (4, 0))),
        RENDEZVOUS_WAITS);
    assert_true (s_broker.join.epoch == 3 && s_broker.join.epochs == 4);
    size_t asked = s_broker.asked;
    assert_int_equal (s_add (rendezvous, NOW, 2, s_with_data (RANK (1) ",\"epochs\":4" RESUME (3, 2))),
        RENDEZVOUS_COMPLETE);
    assert_int_equal (s_broker.asked, asked);
    assert_true (s_gathered.join.epoch == 4 && s_gathered.join.positions [1].batches == 2);
    gathered_clear (&s_gathered);
    s_end (rendezvous);
}

//  What a request that claims a list points to.
static const uint32_t s_no_ids;

static void
bounds (void **state)
{
    (void) state;
    rendezvous_t *rendezvous = s_begin ();
    char members [100];
    for (unsigned job = 0; job < RENDEZVOUS_MAX; job++) {
        snprintf (members, sizeof members, "\"job\":\"j%u\",\"world_size\":2,\"rank\":0", job);
        assert_int_equal (s_add (rendezvous, NOW, (uint8_t) (1 + job), members), RENDEZVOUS_WAITS);
    }
    assert_int_equal (s_add (rendezvous, NOW, 100, RANK (0)), RENDEZVOUS_REFUSED);
    assert_refusal (&s_refusal, "busy", "64 jobs wait for ranks already, at most 64 may");
    assert_int_equal (s_add (rendezvous, NOW, 100, "\"job\":\"j5\",\"world_size\":2,\"rank\":1"),
        RENDEZVOUS_COMPLETE);
    gathered_clear (&s_gathered);
    assert_int_equal (s_add (rendezvous, NOW, 100, RANK (0)), RENDEZVOUS_WAITS);
    //  A request that claims more ids than all may have.
    join_request_t *large = s_join_request (rendezvous, 101, UID, RANK (1));
    large->join.list = &s_no_ids;
    large->join.list_count = RENDEZVOUS_BYTES_MAX / sizeof *large->join.list;
    assert_int_equal (rendezvous_add (rendezvous, &large, NOW, &s_gathered, &s_refusal), RENDEZVOUS_REFUSED);
    assert_refusal (&s_refusal, "budget", "bytes already, at most 268435456 may");
    join_request_destroy (&large);
    s_end (rendezvous);
}

//  ---- several tenants

//  Must hold: a name is a tenant's own: ranks of two tenants do not meet, a plain job's name is free, and
//  each is told of its own.
static void
tenants_do_not_meet (void **state)
{
    (void) state;
    rendezvous_t *rendezvous = s_begin ();
    tenant_t *one = s_tenant (&s_tenants.one), *other = s_tenant (&s_tenants.other);
    s_tenants.count = 2;
    assert_int_equal (s_add (rendezvous, NOW, 1, RANK (0)), RENDEZVOUS_WAITS);
    s_tenants.present = other;
    join_request_t *plain = s_join_request (rendezvous, 9, UID, "\"job\":\"j\"");
    assert_null (rendezvous_pipeline (rendezvous, other, "j"));
    assert_true (rendezvous_leaves_name (rendezvous, plain, NOW, &s_refusal));
    join_request_destroy (&plain);
    //  Another batch size, and the rank that the first one has: no refusal, and nobody is told.
    assert_int_equal (s_add_of (rendezvous, NOW, 2, UID + 1, RANK (0) ",\"batch_size\":16"),
        RENDEZVOUS_WAITS);
    assert_true (rendezvous_count (rendezvous, one) == 1 && rendezvous_count (rendezvous, other) == 1);
    assert_int_equal (rendezvous_bytes (rendezvous, one) + rendezvous_bytes (rendezvous, other),
        rendezvous_bytes (rendezvous, NULL));
    json_t *status = rendezvous_status (rendezvous, other, NOW);
    assert_int_equal (json_array_size (status), 1);
    json_decref (status);
    assert_int_equal (s_add_of (rendezvous, NOW, 3, UID + 1, RANK (1) ",\"batch_size\":16"),
        RENDEZVOUS_COMPLETE);
    assert_true (s_gathered.join.batch_size == 16 && s_gathered.join.tenant == other);
    gathered_clear (&s_gathered);
    assert_int_equal (s_outbox.count, 2);                       //  one notice to each of those who began
    assert_true (rendezvous_count (rendezvous, one) == 1 && rendezvous_count (rendezvous, other) == 0);
    s_tenants.present = one;
    assert_int_equal (s_add (rendezvous, NOW, 4, RANK (1)), RENDEZVOUS_COMPLETE);
    assert_int_equal (s_gathered.join.batch_size, 8);
    gathered_clear (&s_gathered);
    s_end (rendezvous);
}

//  Must hold: one that has as many as it may have leaves the other its share, and is told its own figures.
static void
tenants_have_shares (void **state)
{
    (void) state;
    rendezvous_t *rendezvous = s_begin ();
    char members [100];
    s_tenants.count = 2;
    for (unsigned job = 0; job < RENDEZVOUS_MAX / 2; job++) {
        snprintf (members, sizeof members, "\"job\":\"j%u\",\"world_size\":2,\"rank\":0", job);
        assert_int_equal (s_add (rendezvous, NOW, (uint8_t) (1 + job), members), RENDEZVOUS_WAITS);
    }
    for (int turn = 0; turn < 2; turn++) {                      //  the second time the other has some, which
                                                                //  changes nothing
        assert_int_equal (s_add (rendezvous, NOW, 100, RANK (0)), RENDEZVOUS_REFUSED);
        assert_refusal (&s_refusal, "busy", "32 jobs wait for ranks already, at most 32 may");
        s_tenants.present = s_tenant (&s_tenants.other);
        join_request_t *large = s_join_request (rendezvous, 101, UID,
            "\"job\":\"k\",\"world_size\":2,\"rank\":1");
        large->join.list = &s_no_ids;
        large->join.list_count = RENDEZVOUS_BYTES_MAX / 2 / sizeof *large->join.list;
        assert_int_equal (rendezvous_add (rendezvous, &large, NOW, &s_gathered, &s_refusal),
            RENDEZVOUS_REFUSED);
        assert_refusal (&s_refusal, "budget", "at most 134217728 may");
        join_request_destroy (&large);
        snprintf (members, sizeof members, "\"job\":\"j%d\",\"world_size\":2,\"rank\":0", turn);
        assert_int_equal (s_add (rendezvous, NOW, (uint8_t) (102 + turn), members), RENDEZVOUS_WAITS);
        s_tenants.present = s_tenant (&s_tenants.one);
    }
    s_end (rendezvous);
}

//  ---- random comings and goings, beside a table

enum { JOBS = 3, WORLD = 4, STEPS = 60, ROUNDS = 300 };

typedef struct {
    uint8_t peer;               //  0: nobody
    unsigned instance;
    int64_t end_ms;
} seat_t;

typedef struct {
    seat_t seats [JOBS] [WORLD];
} table_t;

static unsigned
s_seated (const table_t *table, unsigned job)
{
    unsigned count = 0;
    for (unsigned rank = 0; rank < WORLD; rank++)
        count += table->seats [job] [rank].peer != 0;
    return count;
}

//  Those who are dead leave as soon as they are sent something.
static void
s_reclaim_dead (table_t *table, unsigned job)
{
    for (unsigned rank = 0; rank < WORLD; rank++)
        if (s_outbox.is_gone [table->seats [job] [rank].peer])
            table->seats [job] [rank].peer = 0;
}

//  True: it was refused.
static bool
s_random_coming (rendezvous_t *rendezvous, table_t *table, uint64_t *random, int64_t now_ms, uint8_t peer,
    uint64_t seed)
{
    unsigned job = (unsigned) test_below (random, JOBS), rank = (unsigned) test_below (random, WORLD);
    unsigned instance = (unsigned) test_below (random, 3), gather = 1 + (unsigned) test_below (random, 5);
    char members [200];
    snprintf (members, sizeof members,
        "\"job\":\"j%u\",\"world_size\":%d,\"rank\":%u,\"gather\":%u,\"instance\":\"%032x\","
        "\"frames\":[\"subset\"]", job, WORLD, rank, gather, instance);
    seat_t *seat = &table->seats [job] [rank];
    if (seat->peer && seat->instance != instance)
        s_reclaim_dead (table, job);
    bool is_taken = seat->peer && seat->instance != instance;
    rendezvous_status_t status = s_add (rendezvous, now_ms, peer, members);
    if (!is_taken)
        *seat = (seat_t) { peer, instance, now_ms + gather * 1000 };
    bool is_complete = s_seated (table, job) == WORLD;
    rendezvous_status_t expected = is_taken? RENDEZVOUS_REFUSED: is_complete? RENDEZVOUS_COMPLETE:
        RENDEZVOUS_WAITS;
    if (status != expected)
        fail_msg ("seed %" PRIu64 ": expected %d, got %d %s", seed, (int) expected, (int) status,
            s_refusal.message);
    if (!is_complete)
        return is_taken;
    for (unsigned place = 0; place < WORLD; place++)
        assert_int_equal (s_gathered.join_requests [place]->peer.bytes [0], table->seats [job] [place].peer);
    assert_int_equal (roaring_bitmap_get_cardinality (s_gathered.join.subset), SAMPLES / 2);
    gathered_clear (&s_gathered);
    memset (table->seats [job], 0, sizeof table->seats [job]);
    return is_taken;
}

//  Time passes: who is late, or dead, is there no more.
static void
s_random_beat (rendezvous_t *rendezvous, table_t *table, int64_t now_ms)
{
    rendezvous_beat (rendezvous, now_ms);
    for (unsigned job = 0; job < JOBS; job++) {
        bool is_late = false;
        for (unsigned rank = 0; rank < WORLD; rank++)
            is_late = is_late || (table->seats [job] [rank].peer
                && now_ms >= table->seats [job] [rank].end_ms);
        if (is_late)
            memset (table->seats [job], 0, sizeof table->seats [job]);
        else
            s_reclaim_dead (table, job);
    }
}

static void
matches_a_table (void **state)
{
    (void) state;
    size_t refused = 0;
    for (uint64_t seed = test_seed (), round = 0; round < ROUNDS; seed++, round++) {
        uint64_t random = seed;
        table_t table = { 0 };
        int64_t now_ms = NOW;
        rendezvous_t *rendezvous = s_begin ();
        for (uint8_t step = 1; step <= STEPS; step++) {
            refused += s_random_coming (rendezvous, &table, &random, now_ms, step, seed);
            if (test_below (&random, 4) == 0)
                s_outbox.is_gone [1 + test_below (&random, step)] = true;
            now_ms += (int64_t) test_below (&random, 2) * RENDEZVOUS_NOTICE_MS;
            //  A notice is due each second, so that the dead are found in that beat.
            s_random_beat (rendezvous, &table, now_ms += RENDEZVOUS_NOTICE_MS);
            rendezvous_check (rendezvous);
            for (unsigned job = 0; job < JOBS; job++)
                for (unsigned rank = 0; rank < WORLD; rank++) {
                    peer_t peer = { .bytes = { table.seats [job] [rank].peer }, .size = 1 };
                    if (peer.bytes [0] && !rendezvous_of (rendezvous, &peer, NULL))
                        fail_msg ("seed %" PRIu64 ", step %u: %u is forgotten", seed, step, peer.bytes [0]);
                }
        }
        size_t jobs = 0;
        for (unsigned job = 0; job < JOBS; job++)
            jobs += s_seated (&table, job) > 0;
        assert_int_equal (rendezvous_count (rendezvous, NULL), jobs);
        s_end (rendezvous);
    }
    assert_true (refused > 100);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (two_ranks_in_either_order),
        cmocka_unit_test (furthest_leads),
        cmocka_unit_test (data_are_held_once),
        cmocka_unit_test (lists_are_held_once),
        cmocka_unit_test (ranks_have_one_share_point),
        cmocka_unit_test (notices_come_each_second),
        cmocka_unit_test (lists_of_who_is_missing),
        cmocka_unit_test (too_late),
        cmocka_unit_test (stopping),
        cmocka_unit_test (same_client_takes_its_place),
        cmocka_unit_test (other_client_of_a_rank),
        cmocka_unit_test (gone_while_waiting),
        cmocka_unit_test (ranks_that_differ),
        cmocka_unit_test (ranks_of_two_runs),
        cmocka_unit_test (dead_ranks_differ_from_nobody),
        cmocka_unit_test (other_users_and_plain_jobs),
        cmocka_unit_test (broker_is_asked_at_first),
        cmocka_unit_test (bounds),
        cmocka_unit_test (tenants_do_not_meet),
        cmocka_unit_test (tenants_have_shares),
        cmocka_unit_test (matches_a_table),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
