#include "job_options.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <jansson.h>

enum {
    JOB_OPTIONS_BATCH_DEFAULT = 64,
    JOB_OPTIONS_BATCH_MAX = 65536,
    JOB_OPTIONS_NAME_BYTES_MAX = 64,
    JOB_OPTIONS_JSON_BYTES_MAX = 64 << 10,
    JOB_OPTIONS_ID_FRAMES_MAX = WIRE_FRAMES_MAX - 2,
    JOB_OPTIONS_NUMBERS_MAX = (WIRE_FRAME_BYTES_MAX - 8) / 8    //  in one id frame
};

#define JOB_OPTIONS_MAGIC 0x4a4f5054u

//  --------------------------------------------------------------------------
//  Checks: what the server would refuse, refused here with the option's name

static bool
s_check_subset (const tureen_options_t *options, message_error_t *error)
{
    if (options->subset_count > JOB_OPTIONS_NUMBERS_MAX / 2)
        return message_fail (error, "options.subset: %zu ranges; at most %d", options->subset_count,
            JOB_OPTIONS_NUMBERS_MAX / 2);
    if (options->subset_count == 0)
        return message_fail (error, "options.subset: no ranges");
    uint64_t end = 0;
    for (size_t index = 0; index < options->subset_count; index++) {
        const tureen_range_t *range = &options->subset [index];
        if (range->lo >= range->hi)
            return message_fail (error, "options.subset: range %" PRIu64 " to %" PRIu64 " is empty",
                range->lo, range->hi);
        if (range->lo < end)
            return message_fail (error, "options.subset: the ranges must be ascending and not overlap");
        end = range->hi;
    }
    return true;
}

static bool
s_check_ids (const tureen_options_t *options, message_error_t *error)
{
    //  With a state the order may be left out: the state has it.
    if (options->order != TUREEN_LIST && !(options->state && options->order == TUREEN_ORDER_DEFAULT))
        return message_fail (error, "options.ids: only with order TUREEN_LIST");
    if (options->subset)
        return message_fail (error, "options.ids excludes options.subset");
    if (options->id_count == 0)
        return message_fail (error, "options.ids: the list is empty");
    if (options->id_count > (size_t) JOB_OPTIONS_ID_FRAMES_MAX * JOB_OPTIONS_NUMBERS_MAX)
        return message_fail (error, "options.ids: %zu ids; at most %zu", options->id_count,
            (size_t) JOB_OPTIONS_ID_FRAMES_MAX * JOB_OPTIONS_NUMBERS_MAX);
    return true;
}

static bool
s_check_pool (const tureen_options_t *options, message_error_t *error)
{
    bool is_seeded = options->order == TUREEN_SEEDED
        || (options->order == TUREEN_ORDER_DEFAULT && (options->seeded || options->state));
    if (!is_seeded)
        return message_fail (error, "options.pool: only with order TUREEN_SEEDED");
    if (options->pool < WIRE_POOL_MIN || options->pool > WIRE_POOL_MAX)
        return message_fail (error, "options.pool: %" PRIu32 "; expected %d to %d samples", options->pool,
            WIRE_POOL_MIN, WIRE_POOL_MAX);
    return true;
}

//  The options of ranks are ignored if this process is alone, so that one program serves any number of ranks.
static bool
s_check_ranks (const tureen_options_t *options, message_error_t *error)
{
    if (options->world_size > WIRE_RANKS_MAX)
        return message_fail (error, "options.world_size: %" PRIu32 "; at most %d", options->world_size,
            WIRE_RANKS_MAX);
    uint32_t world_size = options->world_size? options->world_size: 1;
    if (options->rank >= world_size)
        return message_fail (error,
            "options.rank: %" PRIu32 "; expected less than options.world_size, which is %" PRIu32,
            options->rank, world_size);
    if (world_size > 1 && !options->job)
        return message_fail (error,
            "options.job: required with options.world_size; the ranks find each other by it");
    if (options->gather_seconds > WIRE_RANK_SECONDS_MAX)
        return message_fail (error, "options.gather_seconds: %" PRIu32 "; at most %d",
            options->gather_seconds, WIRE_RANK_SECONDS_MAX);
    if (options->rank_wait_seconds > WIRE_RANK_SECONDS_MAX)
        return message_fail (error, "options.rank_wait_seconds: %d; at most %d", options->rank_wait_seconds,
            WIRE_RANK_SECONDS_MAX);
    return true;
}

//  options.parts is ignored without nodes, for the same reason.
static bool
s_check_nodes (const tureen_options_t *options, message_error_t *error)
{
    if (options->nodes > WIRE_NODES_MAX)
        return message_fail (error, "options.nodes: %" PRIu32 "; at most %d", options->nodes, WIRE_NODES_MAX);
    uint32_t nodes = options->nodes? options->nodes: 1;
    if (options->node >= nodes)
        return message_fail (error,
            "options.node: %" PRIu32 "; expected less than options.nodes, which is %" PRIu32, options->node,
            nodes);
    return (unsigned) options->parts <= TUREEN_PARTS_FIXED
        || message_fail (error, "options.parts: not one of the values in tureen.h");
}

static bool
s_check (const tureen_options_t *options, message_error_t *error)
{
    if (!options->dataset || !*options->dataset)
        return message_fail (error, "options.dataset is required: a data set that the server has");
    if (options->batch_size > JOB_OPTIONS_BATCH_MAX)
        return message_fail (error, "options.batch_size: %" PRIu32 "; expected 1 to %d", options->batch_size,
            JOB_OPTIONS_BATCH_MAX);
    if (options->slots && (options->slots < WIRE_SLOTS_MIN || options->slots > WIRE_SLOTS_MAX))
        return message_fail (error, "options.slots: %" PRIu32 "; expected %d to %d", options->slots,
            WIRE_SLOTS_MIN, WIRE_SLOTS_MAX);
    if (options->epochs > INT64_MAX)
        return message_fail (error, "options.epochs: too many; 0 means no end");
    if ((unsigned) options->order > TUREEN_SEEDED || (unsigned) options->transport > TUREEN_INLINE
    ||  (unsigned) options->on_bad > TUREEN_BAD_FAIL)
        return message_fail (error,
            "options.order, options.transport or options.on_bad: not one of the values in tureen.h");
    if (options->name && strlen (options->name) > JOB_OPTIONS_NAME_BYTES_MAX)
        return message_fail (error, "options.name: longer than %d bytes", JOB_OPTIONS_NAME_BYTES_MAX);
    if (options->job && (!*options->job || strlen (options->job) > JOB_OPTIONS_NAME_BYTES_MAX))
        return message_fail (error, "options.job: expected 1 to %d bytes", JOB_OPTIONS_NAME_BYTES_MAX);
    if (options->timeout_ms < 0)
        return message_fail (error, "options.timeout_ms: %d; expected 0 or more", options->timeout_ms);
    if (!s_check_ranks (options, error) || !s_check_nodes (options, error))
        return false;
    if (options->pool && !s_check_pool (options, error))
        return false;
    if (options->ids && !s_check_ids (options, error))
        return false;
    return !options->subset || s_check_subset (options, error);
}

//  --------------------------------------------------------------------------
//  The state: it fills in options that were left out; options that both have must agree

static tureen_order_t
s_order (const tureen_options_t *options, const state_t *state)
{
    if (options->order)
        return options->order;
    if (options->ids)
        return TUREEN_LIST;
    if (state)
        return state->order;
    return options->seeded? TUREEN_SEEDED: TUREEN_SHARED;
}

static bool
s_check_state (const tureen_options_t *options, const state_t *state, message_error_t *error)
{
    if (options->order && options->order != state->order)
        return message_fail (error,
            "options.order: the state is of order %s; leave the order out, or begin without the "
            "state", state_order_name (state->order));
    if (options->seeded && options->seed != state->seed)
        return message_fail (error,
            "options.seed: %" PRIu64 ", and the state's is %" PRIu64 "; leave it out, or begin "
            "without the state", options->seed, state->seed);
    if (options->pool && options->pool != state->pool)
        return message_fail (error,
            "options.pool: %" PRIu32 ", and the state's is %" PRIu32 "; leave it out, or begin "
            "without the state", options->pool, state->pool);
    if (state->taken.list && !options->ids)
        return message_fail (error, "options.state: it is of a list; give the same options.ids again");
    if (!state->taken.list && options->ids)
        return message_fail (error, "options.state: it is of a job without a list, and options.ids is one");
    if (options->ids && state->taken.count > options->id_count)
        return message_fail (error,
            "options.state: %" PRIu64 " places of a list are behind it, and options.ids has %zu",
            state->taken.count, options->id_count);
    return true;
}

//  A node goes on in its own part.
static bool
s_check_part (const tureen_options_t *options, const state_t *state, message_error_t *error)
{
    const state_part_t *part = &state->part;
    uint32_t nodes = options->nodes? options->nodes: 1;
    if (!part->nodes || (part->nodes == nodes && part->node == options->node
    &&  part->parts == options->parts))
        return true;
    uint64_t given = state->taken.count - part->cut.taken.count;
    uint64_t others = (part->nodes - 1) * (state->taken.list? given / part->nodes: given);
    return message_fail (error,
        "options.state: it is that of node %" PRIu32 " of %" PRIu32 " with parts %s, this is node %" PRIu32
        " of %" PRIu32 "%s%s: about %" PRIu64 " samples that the other nodes were given would come twice. "
        "Give what tureen_merge_states makes of the states of all %" PRIu32 " nodes, or the state's nodes, "
        "node and parts", part->node, part->nodes, state_parts_name (part->parts), options->node, nodes,
        nodes > 1? " with parts ": "", nodes > 1? state_parts_name (options->parts): "", others, part->nodes);
}

//  The state of a whole job, in the middle of an epoch: its rest is cut into parts there.
static int
s_cut_state (const tureen_options_t *options, state_t *state)
{
    const position_cut_t cut = { .batches = state->batches, .taken = state->taken };
    if (options->nodes <= 1 || state->part.nodes || (!state->batches && !state->taken.count))
        return 0;
    if (!position_cut_copy (&state->part.cut, &cut))
        return -ENOMEM;
    state->part.nodes = options->nodes;
    state->part.node = options->node;
    state->part.parts = options->parts;
    return 0;
}

static int
s_take_state (job_options_t *self, const tureen_options_t *options, message_error_t *error)
{
    if (!options->state)
        return 0;
    message_error_t why;
    state_t *state = calloc (1, sizeof *state);
    if (!state)
        return -ENOMEM;
    if (!state_read (state, options->state, &why)) {
        free (state);
        message_fail (error, "options.state: %.400s", why.text);
        return -EINVAL;
    }
    self->state = state;
    if (!s_check_state (options, state, error) || !s_check_part (options, state, error))
        return -EINVAL;
    return s_cut_state (options, state);
}

//  --------------------------------------------------------------------------
//  The JSON

static json_t *
s_pipeline (const char *text, message_error_t *error)
{
    if (text [strspn (text, " \t\r\n")] != '[')
        return json_string (text);
    json_error_t trouble;
    json_t *pipeline = json_loads (text, JSON_REJECT_DUPLICATES, &trouble);
    if (!pipeline)
        message_fail (error, "options.pipeline: line %d, column %d: %s", trouble.line, trouble.column,
            trouble.text);
    return pipeline;
}

//  Sets key to value (a reference that it takes); NULL: a text that is no UTF-8, or no memory.
static bool
s_set (json_t *root, const char *key, json_t *value, message_error_t *error)
{
    if (json_object_set_new (root, key, value) == 0)
        return true;
    return message_fail (error, "options.%s: not UTF-8, or no memory", key);
}

static bool
s_set_pipeline (json_t *root, const char *text, message_error_t *error)
{
    json_t *pipeline = s_pipeline (text, error);
    if (!pipeline && *error->text)
        return false;                   //  the parser has reported it
    return s_set (root, "pipeline", pipeline, error);
}

//  Drawn at random for each loader, never stored: identifies the loader.
static json_t *
s_instance (void)
{
    uint8_t bytes [WIRE_RUN_BYTES / 2];
    char text [WIRE_RUN_BYTES + 1];
    for (size_t got = 0; got < sizeof bytes;) {
        ssize_t count = getrandom (bytes + got, sizeof bytes - got, 0);
        if (count < 0 && errno != EINTR)
            return NULL;
        got += count > 0? (size_t) count: 0;
    }
    for (size_t index = 0; index < sizeof bytes; index++)
        snprintf (text + 2 * index, 3, "%02x", bytes [index]);
    return json_string (text);
}

//  The keys in the order of docs/protocol.md; what was not set is left out.
static bool
s_set_all (json_t *root, const job_options_t *self, const tureen_options_t *options, message_error_t *error)
{
    static const char *const transports [] = { "auto", "inline" }, *const bad [] = { NULL, "drop", "fail" };
    json_t *epochs = options->epochs? json_integer ((json_int_t) options->epochs): json_null ();
    return s_set (root, "dataset", json_string (options->dataset), error)
        && s_set (root, "batch_size", json_integer (self->batch_size), error)
        && s_set (root, "epochs", epochs, error)
        && s_set (root, "drop_last", json_boolean (options->drop_last), error)
        && (!options->pipeline || s_set_pipeline (root, options->pipeline, error))
        && (!options->order || s_set (root, "order", json_string (state_order_name (options->order)), error))
        && (!options->slots || s_set (root, "slots", json_integer (options->slots), error))
        && s_set (root, "transport", json_string (transports [options->transport]), error)
        && (!options->seeded || s_set (root, "seed", json_sprintf ("%" PRIu64, options->seed), error))
        && (!self->pool || s_set (root, "pool", json_integer (self->pool), error))
        && (!options->on_bad || s_set (root, "on_bad", json_string (bad [options->on_bad]), error))
        && (!options->name || s_set (root, "name", json_string (options->name), error))
        && (!options->job || s_set (root, "job", json_string (options->job), error))
        && s_set (root, "instance", s_instance (), error);
}

static int
s_make_root (job_options_t *self, const tureen_options_t *options, message_error_t *error)
{
    self->root = json_object ();
    if (!self->root)
        return -ENOMEM;
    if (!s_set_all (self->root, self, options, error))
        return -EINVAL;
    //  A resumed JOIN is less than a kilobyte longer.
    size_t bytes = json_dumpb (self->root, NULL, 0, JSON_COMPACT);
    if (bytes <= JOB_OPTIONS_JSON_BYTES_MAX - 1024)
        return 0;
    message_fail (error, "options.pipeline: the request is longer than %d bytes",
        JOB_OPTIONS_JSON_BYTES_MAX - 1024);
    return -EINVAL;
}

//  --------------------------------------------------------------------------
//  The frames

//  Appends one frame: form, then count numbers; frame 0 is the JSON's.
static int
s_add_frame (job_options_frames_t *frames, wire_ids_form_t form, const uint64_t *numbers, size_t count)
{
    assert (frames->count < WIRE_FRAMES_MAX && count <= JOB_OPTIONS_NUMBERS_MAX);
    size_t bytes = 8 + count * sizeof *numbers;
    uint8_t *frame = malloc (bytes);
    if (!frame)
        return -ENOMEM;
    memset (frame, 0, 8);
    frame [0] = (uint8_t) form;
    if (count)
        memcpy (frame + 8, numbers, count * sizeof *numbers);
    frames->frames [frames->count++] = (message_frame_t) { .data = frame, .size = bytes };
    return 0;
}

//  As many frames as the numbers need, and the name of what they are for each.
static int
s_add_frames (job_options_frames_t *frames, json_t *names, const char *name, wire_ids_form_t form,
    const uint64_t *numbers, size_t count, message_error_t *error)
{
    for (size_t done = 0; done < count;) {
        size_t part = count - done < JOB_OPTIONS_NUMBERS_MAX? count - done: JOB_OPTIONS_NUMBERS_MAX;
        if (frames->count == WIRE_FRAMES_MAX - 1) {
            message_fail (error, "there are more ids than a request holds");
            return -EINVAL;
        }
        int rc = s_add_frame (frames, form, numbers + done, part);
        if (rc || json_array_append_new (names, json_string (name)))
            return -ENOMEM;
        done += part;
    }
    return 0;
}

static int
s_add_ids (const job_options_t *self, const job_options_resume_t *resume, job_options_frames_t *frames,
    json_t *names, message_error_t *error)
{
    const state_t *from = resume->from;
    int rc = 0;
    if (self->subset)
        rc = s_add_frames (frames, names, "subset", WIRE_IDS_RANGES, self->subset, self->subset_count * 2,
            error);
    if (!rc && self->list)
        rc = s_add_frames (frames, names, "list", WIRE_IDS_LIST, self->list, self->list_count, error);
    if (!rc && from && !from->taken.list)
        rc = s_add_frames (frames, names, "taken", WIRE_IDS_WORDS, from->taken.words, from->taken.word_count,
            error);
    const position_taken_t *cut = from? &from->part.cut.taken: NULL;
    if (!rc && cut && !cut->list)
        rc = s_add_frames (frames, names, "cut", WIRE_IDS_WORDS, cut->words, cut->word_count, error);
    //  Rather without recent steps than no JOIN at all.  UNTESTED: so full a JOIN has 16 million ids.
    size_t recent_frames = (resume->recent_count + JOB_OPTIONS_NUMBERS_MAX - 1) / JOB_OPTIONS_NUMBERS_MAX;
    if (!rc && from && frames->count + recent_frames < WIRE_FRAMES_MAX)
        rc = s_add_frames (frames, names, "recent", WIRE_IDS_RECENT, resume->recent, resume->recent_count,
            error);
    return rc;
}

//  docs/protocol.md, Nodes: where the epoch's parts were made.
static int
s_set_cut (const state_part_t *part, json_t *resume)
{
    if (!part->nodes)
        return 0;
    json_t *cut = json_pack ("{s:o,s:o}", "batches", json_sprintf ("%" PRIu64, part->cut.batches), "places",
        json_sprintf ("%" PRIu64, part->cut.taken.list? part->cut.taken.count: 0));
    return json_object_set_new (resume, "cut", cut);
}

//  docs/protocol.md, Resuming: the run, its seed and order, and its position.
static int
s_set_from (const state_t *from, json_t *root)
{
    json_t *resume = json_pack ("{s:s,s:s,s:o,s:o}", "fingerprint", from->fingerprint, "data", from->data,
        "epoch", json_sprintf ("%" PRIu64, from->epoch), "batches", json_sprintf ("%" PRIu64, from->batches));
    if (!resume || s_set_cut (&from->part, resume) || (from->taken.list
        && json_object_set_new (resume, "places", json_sprintf ("%" PRIu64, from->taken.count)))
    ||  json_object_set_new (root, "order", json_string (state_order_name (from->order)))
    ||  json_object_set_new (root, "seed", json_sprintf ("%" PRIu64, from->seed))
    ||  json_object_set_new (root, "run", json_string (from->run))
    ||  json_object_set (root, "resume", resume)) {
        json_decref (resume);
        return -ENOMEM;
    }
    json_decref (resume);
    return 0;
}

//  docs/protocol.md, Ranks: this rank's number, and how long to wait for the others.
static int
s_set_ranks (const job_options_t *self, uint32_t gather_seconds, json_t *root)
{
    if (self->world_size == 1)
        return 0;
    gather_seconds = gather_seconds? gather_seconds: self->gather_seconds;
    int wait_seconds = self->rank_wait_seconds > 0? self->rank_wait_seconds: 0;
    bool fine = json_object_set_new (root, "world_size", json_integer (self->world_size)) == 0
        && json_object_set_new (root, "rank", json_integer (self->rank)) == 0
        && (!gather_seconds || json_object_set_new (root, "gather", json_integer (gather_seconds)) == 0)
        && (!self->rank_wait_seconds
            || json_object_set_new (root, "rank_wait", json_integer (wait_seconds)) == 0);
    return fine? 0: -ENOMEM;
}

static int
s_set_nodes (const job_options_t *self, json_t *root)
{
    if (self->nodes == 1)
        return 0;
    bool fine = json_object_set_new (root, "nodes", json_integer (self->nodes)) == 0
        && json_object_set_new (root, "node", json_integer (self->node)) == 0
        && json_object_set_new (root, "parts", json_string (state_parts_name (self->parts))) == 0;
    return fine? 0: -ENOMEM;
}

//  Frame 1, when the other frames are known.
static int
s_make_json (const job_options_t *self, const job_options_resume_t *resume, json_t *names,
    job_options_frames_t *frames)
{
    json_t *root = json_copy (self->root);
    int rc = root? 0: -ENOMEM;
    if (!rc && resume->from)
        rc = s_set_from (resume->from, root);
    if (!rc)
        rc = s_set_ranks (self, resume->gather_seconds, root);
    if (!rc)
        rc = s_set_nodes (self, root);
    if (!rc && resume->inlined && json_object_set_new (root, "transport", json_string ("inline")))
        rc = -ENOMEM;
    if (!rc && json_array_size (names) && json_object_set (root, "frames", names))
        rc = -ENOMEM;
    char *text = rc? NULL: json_dumps (root, JSON_COMPACT);
    json_decref (root);
    if (!text)
        return -ENOMEM;
    frames->frames [0] = (message_frame_t) { .data = (const uint8_t *) text, .size = strlen (text) };
    return 0;
}

int
job_options_make_join (const job_options_t *self, const job_options_resume_t *resume,
    job_options_frames_t *frames, message_error_t *error)
{
    assert (self && self->magic == JOB_OPTIONS_MAGIC && resume && frames);
    memset (frames, 0, sizeof *frames);
    frames->count = 1;
    json_t *names = json_array ();
    int rc = names? s_add_ids (self, resume, frames, names, error): -ENOMEM;
    if (!rc)
        rc = s_make_json (self, resume, names, frames);
    json_decref (names);
    if (rc)
        job_options_frames_clear (frames);
    if (rc == -ENOMEM)
        message_fail (error, "out of memory for the request");
    return rc;
}

void
job_options_frames_clear (job_options_frames_t *frames)
{
    for (size_t index = 0; index < frames->count; index++)
        free ((void *) (uintptr_t) frames->frames [index].data);
    frames->count = 0;
}

static bool
s_copy_text (char *target, size_t size, const char *text)
{
    return (size_t) snprintf (target, size, "%s", text) < size;
}

bool
job_options_describe (const job_options_t *self, const tureen_info_t *info, state_t *state)
{
    assert (self && self->magic == JOB_OPTIONS_MAGIC && info);
    *state = (state_t) { .samples = info->dataset_samples, .order = self->order, .seed = info->seed,
        .pool = self->pool };
    const char *dataset = json_string_value (json_object_get (self->root, "dataset"));
    return s_copy_text (state->dataset, sizeof state->dataset, dataset)
        && s_copy_text (state->fingerprint, sizeof state->fingerprint, info->fingerprint)
        && s_copy_text (state->data, sizeof state->data, info->data) && *state->data && *info->run;
}

//  --------------------------------------------------------------------------

_Static_assert (sizeof (tureen_range_t) == 2 * sizeof (uint64_t), "ranges are sent as they lie");

//  A copy of count numbers.
static int
s_copy (uint64_t **copy_p, const void *numbers, size_t count)
{
    *copy_p = reallocarray (NULL, count, sizeof **copy_p);
    if (!*copy_p)
        return -ENOMEM;
    memcpy (*copy_p, numbers, count * sizeof **copy_p);
    return 0;
}

static int
s_fill (job_options_t *self, const tureen_options_t *options, message_error_t *error)
{
    int rc = s_take_state (self, options, error);
    if (rc)
        return rc;
    self->batch_size = options->batch_size? options->batch_size: JOB_OPTIONS_BATCH_DEFAULT;
    self->world_size = options->world_size? options->world_size: 1;
    self->rank = options->rank;
    self->nodes = options->nodes? options->nodes: 1;
    self->node = options->node;
    self->parts = options->parts;
    self->gather_seconds = options->gather_seconds;
    self->rank_wait_seconds = options->rank_wait_seconds;
    self->order = s_order (options, self->state);
    self->pool = self->state? self->state->pool: options->pool;
    self->list_count = options->ids? options->id_count: 0;
    self->subset_count = options->subset? options->subset_count: 0;
    if (self->list_count && s_copy (&self->list, options->ids, self->list_count))
        return -ENOMEM;
    if (self->subset_count && s_copy (&self->subset, options->subset, self->subset_count * 2))
        return -ENOMEM;
    return s_make_root (self, options, error);
}

int
job_options_new (job_options_t **self_p, const tureen_options_t *options, message_error_t *error)
{
    assert (self_p && options && error);
    *self_p = NULL;
    *error->text = 0;
    if (!s_check (options, error))
        return -EINVAL;
    job_options_t *self = calloc (1, sizeof *self);
    int rc = -ENOMEM;
    if (!self) goto exit;
    self->magic = JOB_OPTIONS_MAGIC;
    rc = s_fill (self, options, error);
    if (rc) goto exit;
    *self_p = self;
    self = NULL;
exit:
    if (rc == -ENOMEM)
        message_fail (error, "out of memory for the request");
    job_options_destroy (&self);
    return rc;
}

void
job_options_destroy (job_options_t **self_p)
{
    job_options_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == JOB_OPTIONS_MAGIC);
    json_decref (self->root);
    free (self->list);
    free (self->subset);
    if (self->state)
        state_clear (self->state);
    free (self->state);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

void
job_options_set_part (const job_options_t *self, uint64_t batches, position_cut_t *cut, state_part_t *part)
{
    assert (self && self->magic == JOB_OPTIONS_MAGIC);
    *part = (state_part_t) { .nodes = 0 };
    if (self->nodes == 1 || (!batches && !cut->taken.count)) {
        position_taken_clear (&cut->taken);
        return;
    }
    *part = (state_part_t) { .nodes = self->nodes, .node = self->node, .parts = self->parts, .cut = *cut };
    part->cut.taken.list = self->list;
    *cut = (position_cut_t) { .batches = 0 };
}
