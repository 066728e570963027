#include "meeting.h"
#include <assert.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "budget.h"
#include "dataset_source.h"
#include "frames.h"
#include "tenant.h"

//  ---- the socket

meeting_outbox_t meeting_outbox;

outbox_status_t
outbox_send_text (void *router, const peer_t *peer, wire_kind_t kind, uint64_t job, uint64_t tag, char *text)
{
    assert_ptr_equal (router, &meeting_outbox);
    bool is_gone = meeting_outbox.is_gone [peer->bytes [0]];
    if (!is_gone) {
        assert_true (meeting_outbox.count < SENT_MAX);
        sent_t *sent = &meeting_outbox.sent [meeting_outbox.count++];
        *sent = (sent_t) { .peer = peer->bytes [0], .kind = kind, .job = job, .tag = tag };
        snprintf (sent->text, sizeof sent->text, "%s", text);
    }
    free (text);
    return is_gone? OUTBOX_GONE: OUTBOX_SENT;
}

const char *
meeting_text (size_t index)
{
    return index < meeting_outbox.count? meeting_outbox.sent [index].text: "";
}

void
meeting_assert_sent (size_t index, uint8_t peer, wire_kind_t kind, const char *fragment)
{
    if (index >= meeting_outbox.count)
        fail_msg ("%zu messages, expected one with '%s'", meeting_outbox.count, fragment);
    const sent_t *sent = &meeting_outbox.sent [index];
    if (sent->peer != peer || sent->kind != kind || sent->job != 0 || sent->tag != 100u + peer
        || !strstr (sent->text, fragment))
        fail_msg ("message %zu to %u, kind %d, tag %" PRIu64 ": %s; expected to %u '%s'", index, sent->peer,
            (int) sent->kind, sent->tag, sent->text, peer, fragment);
}

//  ---- the broker and the data

meeting_broker_t meeting_broker;
meeting_tenants_t meeting_tenants;
const char *meeting_shared_text;
static dataset_source_t s_source;

bool
broker_allows (broker_t *self, const broker_terms_t *terms, int64_t now_ms, refusal_t *refusal)
{
    (void) self;
    (void) now_ms;
    meeting_broker.asked++;
    meeting_broker.terms = *terms;
    return !meeting_broker.refuses || refuse (refusal, meeting_broker.refuses, "the broker says no");
}

bool
broker_agree (const broker_terms_t *one, uint32_t rank, const broker_terms_t *other, uint32_t other_rank,
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

tenant_t *
meeting_tenant (char *which)
{
    return (tenant_t *) (void *) which;
}

const char *
tenant_label (const broker_t *self, const tenant_t *tenant)
{
    (void) self;
    return meeting_tenants.count == 1? NULL: tenant == meeting_tenant (&meeting_tenants.one)? "one": "other";
}

uint64_t
tenant_share (const broker_t *self, const tenant_t *tenant, uint64_t whole)
{
    (void) self;
    assert_true (tenant == meeting_tenant (&meeting_tenants.one)
        || tenant == meeting_tenant (&meeting_tenants.other));
    return whole / meeting_tenants.count;
}

uint32_t
budget_job_cost_ms (const broker_t *self)
{
    (void) self;
    return 1000;
}

dataset_t *
dataset_named (broker_t *self, const tenant_t *tenant, const char *name)
{
    (void) self;
    (void) tenant;
    return strcmp (name, "train") == 0? (dataset_t *) (void *) &s_source: NULL;
}

bool
additions_allows (const additions_t *self, const tenant_t *tenant, const char *name, refusal_t *refusal)
{
    (void) self, (void) tenant, (void) name, (void) refusal;
    return true;
}

char *
dataset_names (const broker_t *self, const tenant_t *tenant)
{
    (void) self;
    (void) tenant;
    return strdup ("train");
}

size_t
dataset_shared_texts (const dataset_t *dataset, const tenant_t *tenant, sampler_order_t order,
    const char **texts, size_t texts_max)
{
    (void) dataset;
    (void) tenant;
    (void) order;
    (void) texts_max;
    texts [0] = meeting_shared_text;
    return meeting_shared_text != NULL;
}

void *
dataset_user (const dataset_t *self)
{
    (void) self;
    return &s_source;
}

//  How many joins hold it.
static size_t s_held;

void
dataset_hold (dataset_t *self)
{
    (void) self;
    s_held++;
}

void
dataset_let_go (dataset_t *self)
{
    (void) self;
    assert_true (s_held-- > 0);
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
catalogue_root (const catalogue_t *self)
{
    (void) self;
    return "/made/up";
}

const char *
catalogue_fingerprint (const catalogue_t *self)
{
    (void) self;
    return "print";
}

const uint32_t *
pack_order (const pack_t *self)
{
    (void) self;
    return NULL;                        //  no data set here is a pack
}

//  ---- a gathering, and the ranks that come to it

meeting_gathered_t meeting_gathered;
refusal_t meeting_refusal;
static log_t s_log = { .descriptor = -1 };

rank_gathering_t *
meeting_begin (void)
{
    meeting_outbox.count = 0;
    memset (meeting_outbox.is_gone, 0, sizeof meeting_outbox.is_gone);
    meeting_broker.refuses = NULL;
    meeting_broker.asked = 0;
    meeting_shared_text = NULL;
    meeting_tenants.present = meeting_tenant (&meeting_tenants.one);
    meeting_tenants.count = 1;
    rank_gathering_t *gathering = rank_gathering_new (&meeting_outbox, NULL, &s_log);
    assert_non_null (gathering);
    return gathering;
}

void
meeting_end (rank_gathering_t *gathering)
{
    rank_gathering_check (gathering);
    rank_gathering_destroy (&gathering);
    assert_null (gathering);
    meeting_forget_gathered ();
    assert_int_equal (s_held, 0);
}

join_t *
meeting_join (const rank_gathering_t *gathering, uint8_t number, uid_t uid, const char *members)
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
    caller_t caller = { .tenant = meeting_tenants.present, .uid = uid, .user = uid };
    join_t *join = join_new (frames, count, &peer, &caller, 100u + number, &meeting_refusal);
    const pipeline_t *like = join? rank_gathering_pipeline (gathering, caller.tenant,
        join->request.job): NULL;
    if (!join || !(join_place (join, NULL, NULL, like, &meeting_refusal)
        && join_read (join, frames, &meeting_refusal)
    &&  join_complete (join, &meeting_refusal)))
        fail_msg ("%s: %s", json, meeting_refusal.message);
    return join;
}

rank_gathering_status_t
meeting_add_of (rank_gathering_t *gathering, int64_t now_ms, uint8_t peer, uid_t uid, const char *members)
{
    join_t *join = meeting_join (gathering, peer, uid, members);
    meeting_refusal = (refusal_t) { .code = NULL };
    rank_gathering_status_t status = rank_gathering_add (gathering, &join, now_ms, meeting_gathered.joins,
        &meeting_gathered.terms, &meeting_refusal);
    meeting_gathered.count = status == RANK_GATHERING_COMPLETE? meeting_gathered.terms->world_size: 0;
    assert_true ((status == RANK_GATHERING_REFUSED) == (join != NULL));
    join_destroy (&join);
    rank_gathering_check (gathering);
    return status;
}

rank_gathering_status_t
meeting_add (rank_gathering_t *gathering, int64_t now_ms, uint8_t peer, const char *members)
{
    return meeting_add_of (gathering, now_ms, peer, UID, members);
}

const char *
meeting_with_data (const char *members)
{
    static char text [1024];
    snprintf (text, sizeof text, "%s", members);
    char *at = strstr (text, MEETING_DATA);
    request_digest_t all = request_digest_of_all (SAMPLES);
    if (at)
        memcpy (at, all.text, strlen (all.text));
    return text;
}

void
meeting_forget_gathered (void)
{
    while (meeting_gathered.count > 0)
        join_destroy (&meeting_gathered.joins [--meeting_gathered.count]);
}
