#include "fake_state.h"
#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zmq.h>

uint8_t
fake_pixel (uint64_t id)
{
    return (uint8_t) (1 + id * 37 % 200);
}

//  --------------------------------------------------------------------------
//  Sending

void
fake_send (fake_server_t *self, wire_kind_t kind, uint64_t job, uint64_t tag, const part_t *parts,
    size_t count)
{
    wire_head_t head = { .magic = WIRE_MAGIC, .version = WIRE_VERSION, .kind = (uint8_t) kind, .job = job,
        .tag = tag };
    zmq_send (self->router, self->route, self->route_bytes, ZMQ_SNDMORE);
    zmq_send (self->router, &head, sizeof head, count? ZMQ_SNDMORE: 0);
    for (size_t index = 0; index < count; index++)
        zmq_send (self->router, parts [index].data, parts [index].size, index + 1 < count? ZMQ_SNDMORE: 0);
}

void
fake_send_text (fake_server_t *self, wire_kind_t kind, uint64_t job, uint64_t tag, const char *text)
{
    part_t part = { text, strlen (text) };
    fake_send (self, kind, job, tag, &part, 1);
}

//  --------------------------------------------------------------------------
//  Batches

static void
s_fill (fake_server_t *self, uint8_t *slot, const uint64_t *ids, uint32_t count)
{
    for (uint32_t index = 0; index < count; index++) {
        memset (slot + (size_t) index * FAKE_PIXELS, fake_pixel (ids [index]), FAKE_PIXELS);
        int64_t label = (int64_t) ids [index];
        memcpy (slot + (size_t) self->batch_size * FAKE_PIXELS + index * sizeof label, &label, sizeof label);
    }
}

//  The next step: its samples, and which of them are a rank's.
typedef struct {
    uint64_t samples, first, count;
} deal_t;

static deal_t
s_deal (const fake_server_t *self, uint64_t rank)
{
    uint64_t left = self->order_count - self->position,
        whole = (uint64_t) self->world_size * self->batch_size;
    deal_t deal = { .samples = left < whole? left: whole };
    uint64_t each = deal.samples / self->world_size, rest = deal.samples % self->world_size;
    deal.count = each + (rank < rest);
    deal.first = rank * each + (rank < rest? rank: rest);
    return deal;
}

//  The frame with the counts of the ranks and the ids of all of them: malloc'ed; NULL: there are no ranks.
static uint64_t *
s_make_step (const fake_server_t *self, size_t *bytes_p)
{
    uint64_t samples = s_deal (self, 0).samples;
    uint64_t *step = self->world_size > 1? calloc (self->world_size + samples, sizeof *step): NULL;
    *bytes_p = (self->world_size + samples) * sizeof *step;
    for (uint32_t rank = 0; step && rank < self->world_size; rank++)
        step [rank] = s_deal (self, rank).count;
    if (step)
        memcpy (step + self->world_size, self->order + self->position, samples * sizeof *step);
    return step;
}

//  Sends a batch, as it is said; the bytes are those of its ids.
void
fake_send_batch (fake_server_t *self, const wire_batch_t *batch)
{
    bool carried = batch->flags & WIRE_BATCH_INLINE;
    size_t step_bytes, parts_count = 2;
    uint64_t *ids = calloc (self->batch_size, sizeof *ids), *step = s_make_step (self, &step_bytes);
    uint8_t *bytes = carried? calloc (1, self->slot_bytes): self->ring + batch->slot * self->slot_bytes;
    MUST (ids && bytes);
    uint32_t count = batch->count < self->batch_size? batch->count: self->batch_size;
    uint64_t first = self->position + (batch->flags & WIRE_BATCH_PADDING? 0: s_deal (self, self->rank).first);
    for (uint32_t index = 0; index < count; index++)
        ids [index] = first + index < self->order_count? self->order [first + index]: index;
    if (carried || !self->slot_busy [batch->slot])
        s_fill (self, bytes, ids, count);
    part_t parts [4] = { { batch, sizeof *batch }, { ids, count * sizeof *ids } };
    if (step)
        parts [parts_count++] = (part_t) { step, step_bytes };
    if (carried)
        parts [parts_count++] = (part_t) { bytes, self->slot_bytes };
    fake_send (self, WIRE_BATCH, self->job, 0, parts, parts_count);
    free (ids);
    free (step);
    if (carried)
        free (bytes);
}

wire_batch_t
fake_next_batch (fake_server_t *self, uint32_t slot)
{
    uint32_t count = (uint32_t) s_deal (self, self->rank).count;
    uint32_t flags = (self->inlined || slot == WIRE_SLOT_NONE? WIRE_BATCH_INLINE: 0)
        | (count == 0 && self->world_size > 1? WIRE_BATCH_PADDING: 0);
    return (wire_batch_t) { .sequence = self->sequence, .epoch = self->epoch, .index = self->index,
        .slot = slot, .count = flags & WIRE_BATCH_PADDING? 1: count, .flags = flags };
}

//  The slot to fill next, or slots: none.  The last free one only once the others' batches are consumed.
static uint32_t
s_next_slot (const fake_server_t *self)
{
    uint32_t slot = self->slots, free_slots = 0;
    for (uint32_t other = self->slots; other-- > 0;)
        if (!self->slot_busy [other]) {
            slot = other;
            free_slots++;
        }
    return free_slots == 1 && self->seen.progress.consumed < self->sequence? self->slots: slot;
}

//  The order of the epoch that begins: all that is readable and not taken.  taken: a bitmap of the samples,
//  or NULL; places: of a list, behind us.
static void
s_begin_epoch (fake_server_t *self, const uint8_t *taken, uint64_t places)
{
    uint64_t all = self->list? self->list_count: self->plan.samples;
    free (self->order);
    self->order = calloc (all + 1, sizeof *self->order);
    MUST (self->order);
    self->order_count = self->position = 0;
    self->before = places;
    for (uint64_t place = places; place < all; place++) {
        uint64_t id = self->list? self->list [place]: place;
        bool had = taken && taken [id / 8] >> id % 8 & 1;
        self->before += had;
        if (!had && !(self->plan.has_bad && id == self->plan.bad))
            self->order [self->order_count++] = id;
    }
    uint64_t random = self->joins * 1000 + self->epoch;
    for (size_t count = self->order_count; self->plan.shuffle && !self->list && count > 1; count--) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        size_t other = (size_t) (random >> 33) % count;
        uint64_t id = self->order [count - 1];
        self->order [count - 1] = self->order [other];
        self->order [other] = id;
    }
}

static bool
s_is_over (const fake_server_t *self)
{
    return self->plan.epochs && self->epoch == self->plan.epochs;
}

static void
s_end_epoch (fake_server_t *self)
{
    wire_epoch_end_t end = { .epoch = self->epoch++, .samples = self->before + self->position,
        .batches = self->index };
    self->index = 0;
    end.flags = s_is_over (self)? WIRE_EPOCH_LAST: 0;
    part_t part = { &end, sizeof end };
    fake_send (self, WIRE_EPOCH_END, self->job, 0, &part, 1);
    s_begin_epoch (self, NULL, 0);
}

bool
fake_send_next (fake_server_t *self)
{
    if (!self->running || s_is_over (self))
        return false;
    if (self->position == self->order_count) {
        MUST (self->before + self->position > 0);
        s_end_epoch (self);
        return true;
    }
    uint32_t slot = self->loose_left? WIRE_SLOT_NONE: s_next_slot (self);
    if (slot == self->slots)
        return false;
    wire_batch_t batch = fake_next_batch (self, slot);
    fake_send_batch (self, &batch);
    if (slot == WIRE_SLOT_NONE)
        self->loose_left--;
    else {
        self->slot_busy [slot] = true;
        self->slot_sequence [slot] = self->sequence;
    }
    self->sequence++;
    self->index++;
    self->position += s_deal (self, 0).samples;
    if (self->position == self->order_count)
        s_end_epoch (self);
    pthread_mutex_lock (&self->mutex);
    self->seen.sent = self->sequence;
    self->seen.loose += slot == WIRE_SLOT_NONE;
    pthread_mutex_unlock (&self->mutex);
    return true;
}

void
fake_free_slots (fake_server_t *self, const wire_progress_t *progress)
{
    for (uint32_t slot = 0; slot < self->slots; slot++) {
        if (!self->slot_busy [slot] || self->slot_sequence [slot] >= progress->released
        ||  (progress->kept >> slot & 1))
            continue;
        self->slot_busy [slot] = false;
        if (!self->inlined)
            memset (self->ring + slot * self->slot_bytes, FAKE_POISON, self->slot_bytes);
    }
}

//  --------------------------------------------------------------------------
//  Joining

void
fake_free_ring (fake_server_t *self)
{
    if (self->ring)
        munmap (self->ring, self->ring_bytes);
    if (self->memory >= 0)
        close (self->memory);
    self->ring = NULL;
    self->memory = -1;
}

static void
s_make_ring (fake_server_t *self)
{
    size_t bytes = self->ring_bytes = self->slots * self->slot_bytes;
    self->memory = memfd_create ("fake", MFD_CLOEXEC);
    MUST (self->memory >= 0);
    MUST (ftruncate (self->memory, (off_t) (self->plan.ring == FAKE_RING_SHORT? bytes - 1: bytes)) == 0);
    self->ring = mmap (NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, self->memory, 0);
    MUST (self->ring != MAP_FAILED);
}

void
fake_send_joined (fake_server_t *self, uint64_t tag)
{
    char ring [512] = "null", text [2048], ranks [64] = "";
    self->joined = true;
    //  To a job of one it is an old server, that knows of no ranks.
    if (self->world_size > 1)
        snprintf (ranks, sizeof ranks, "\"rank\":%" PRIu32 ",\"world_size\":%" PRIu32 ",", self->rank,
            self->world_size);
    if (self->plan.ring != FAKE_NO_RING)
        snprintf (ring, sizeof ring, "{\"path\":\"%s%s\",\"token\":\"%s\",\"bytes\":\"%zu\"}",
        self->ring_path,
            self->plan.ring == FAKE_RING_WRONG_PATH? ".not": "", FAKE_TOKEN, self->slots * self->slot_bytes);
    snprintf (text, sizeof text, "{\"job\":\"%" PRIu64 "\",\"samples\":\"%" PRIu64 "\","
        "\"dataset_samples\":\"%" PRIu64 "\","
        "\"classes\":[\"cat\",\"dog\"],\"batch_size\":%" PRIu32 ",\"slots\":%" PRIu32 ","
        "\"slot_bytes\":\"%zu\",\"fields\":[{\"name\":\"image\",\"dtype\":\"uint8\","
        "\"shape\":[4,4,3],\"offset\":\"0\",\"sample_bytes\":\"48\"},"
        "{\"name\":\"label\",\"dtype\":\"int64\",\"shape\":[],\"offset\":\"%zu\",\"sample_bytes\":\"8\"}],"
        "\"ring\":%s,\"seed\":\"7\",\"fingerprint\":\"abcd\","
        "\"data\":\"" FAKE_DATA "\",\"run\":\"%s\",\"forked\":%s,%s\"pipeline\":[],"
        "\"heartbeat_ms\":%" PRIu32 ","
        "\"lease_ms\":90000,\"future\":1}", self->job, self->list? self->list_count: self->plan.samples,
        self->plan.samples, self->batch_size, self->slots, self->slot_bytes,
        (size_t) self->batch_size * FAKE_PIXELS,
        ring, self->run, self->is_forked? "true": "false", ranks,
        self->plan.heartbeat_ms? self->plan.heartbeat_ms: 1000);
    fake_send_text (self, WIRE_JOINED, self->job, tag, self->plan.joined? self->plan.joined: text);
}

//  Refuses, if that is the plan.
static bool
s_refuse (fake_server_t *self, uint64_t tag)
{
    uint64_t refusals = self->seen.refusals;
    if (!self->plan.refuse || self->joins < self->plan.refuse_after
    ||  (self->plan.refuse_times && refusals == self->plan.refuse_times))
        return false;
    json_t *error = json_pack ("{s:s, s:s}", "error",
        self->plan.refuse_code? self->plan.refuse_code: "unknown_dataset", "message", self->plan.refuse);
    char *body = json_dumps (error, JSON_COMPACT);
    fake_send_text (self, WIRE_ERROR, 0, tag, body);
    free (body);
    json_decref (error);
    pthread_mutex_lock (&self->mutex);
    self->seen.refusals++;
    pthread_mutex_unlock (&self->mutex);
    return true;
}

uint64_t
fake_decimal (json_t *object, const char *key)
{
    const char *text = json_string_value (json_object_get (object, key));
    return text? strtoull (text, NULL, 10): 0;
}

//  The numbers of all id frames of that name, joined; count_p: of them.
static uint64_t *
s_gather (json_t *root, const char *name, const part_t *parts, size_t *count_p)
{
    uint64_t *numbers = NULL;
    json_t *names = json_object_get (root, "frames");
    *count_p = 0;
    for (size_t index = 0; index < json_array_size (names); index++) {
        if (strcmp (json_string_value (json_array_get (names, index)), name))
            continue;
        const part_t *part = &parts [2 + index];
        size_t count = part->size / 8 - 1;
        numbers = reallocarray (numbers, *count_p + count + 1, sizeof *numbers);
        MUST (numbers);
        memcpy (numbers + *count_p, (const uint8_t *) part->data + 8, count * sizeof *numbers);
        *count_p += count;
    }
    return numbers;
}

//  Begins where the JOIN says; false: another run's state.
static bool
s_resume (fake_server_t *self, json_t *root, const part_t *parts)
{
    json_t *resume = json_object_get (root, "resume");
    const char *run = json_string_value (json_object_get (root, "run"));
    const char *fingerprint = json_string_value (json_object_get (resume, "fingerprint"));
    const char *data = json_string_value (json_object_get (resume, "data"));
    if (resume && (!fingerprint || strcmp (fingerprint, "abcd") || !data || strcmp (data, FAKE_DATA)))
        return false;
    free (self->list);
    self->list = s_gather (root, "list", parts, &self->list_count);
    self->epoch = fake_decimal (resume, "epoch");
    self->index = fake_decimal (resume, "batches");
    //  A rank that has everything may come for the others' sake.
    if (resume && s_is_over (self) && self->world_size == 1)
        return false;
    snprintf (self->run, sizeof self->run, "%s", run? run: "000000000000000000000000000000aa");
    self->is_forked = resume && self->plan.forks;
    if (self->is_forked)
        snprintf (self->run, sizeof self->run, "000000000000000000000000000000%02" PRIx64, self->joins);
    size_t count;
    uint64_t *words = s_gather (root, "taken", parts, &count);
    uint8_t *taken = calloc (self->plan.samples / 64 + 2, 8);
    MUST (taken && count <= self->plan.samples / 64 + 1);
    if (words)
        memcpy (taken, words, count * sizeof *words);
    free (words);
    s_begin_epoch (self, taken, fake_decimal (resume, "places"));
    free (taken);
    return true;
}

//  What it says of ranks.
static void
s_take_ranks (fake_server_t *self, json_t *root, const part_t *parts)
{
    json_t *world_size = json_object_get (root, "world_size"), *resume = json_object_get (root, "resume");
    self->world_size = world_size? (uint32_t) json_integer_value (world_size): 1;
    self->rank = (uint32_t) json_integer_value (json_object_get (root, "rank"));
    self->loose_left = self->joins? self->plan.loose: 0;
    size_t count;
    uint64_t *recent = s_gather (root, "recent", parts, &count);
    MUST (count <= FAKE_RECENT_MAX);
    pthread_mutex_lock (&self->mutex);
    self->seen.resume_epoch = fake_decimal (resume, "epoch");
    self->seen.resume_batches = fake_decimal (resume, "batches");
    self->seen.recent_count = count;
    if (count)
        memcpy (self->seen.recent, recent, count * sizeof *recent);
    pthread_mutex_unlock (&self->mutex);
    free (recent);
}

//  Forgets the job before, and makes ready for one as the JSON says.
void
fake_take_join (fake_server_t *self, const char *text, const part_t *parts, uint64_t tag)
{
    if (s_refuse (self, tag))
        return;
    if (self->joins && self->muted < self->plan.mute_joins) {
        self->muted++;
        return;
    }
    json_t *root = json_loads (text, 0, NULL);
    MUST (root);
    self->running = self->inlined = self->silent = false;
    self->sequence = 0;
    memset (self->slot_busy, 0, sizeof self->slot_busy);
    s_take_ranks (self, root, parts);
    if (!s_resume (self, root, parts)) {
        fake_send_text (self, WIRE_ERROR, 0, tag,
            "{\"error\":\"bad_state\",\"message\":\"the state is of other data\"}");
        json_decref (root);
        return;
    }
    self->job = FAKE_JOB + self->joins++;
    self->deed_due = self->plan.deed && self->done < (self->plan.deed_times? self->plan.deed_times: 1);
    json_t *slots = json_object_get (root, "slots");
    const char *transport = json_string_value (json_object_get (root, "transport"));
    self->batch_size = (uint32_t) json_integer_value (json_object_get (root, "batch_size"));
    self->slots = self->plan.slots? self->plan.slots: slots? (uint32_t) json_integer_value (slots): 4;
    self->slot_bytes = ((size_t) self->batch_size * (FAKE_PIXELS + 8) + 4095) / 4096 * 4096;
    if (transport && !strcmp (transport, "inline"))
        self->plan.ring = FAKE_NO_RING;
    json_decref (root);
    fake_free_ring (self);
    s_make_ring (self);
    self->gather_left = self->plan.gathering;
    self->gather_tag = tag;
    if (!self->gather_left)
        fake_send_joined (self, tag);
}
