//  What a server sends, through the client's parser.  The input is frames: two bytes of length
//  (little-endian), then the bytes; each is copied to memory of its own, so that reading past one is seen.
//  Where frame 0 is "STATE", frame 1 is a state's text instead, as a user may hand it over.
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "message.h"
#include "recent_steps.h"
#include "state.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

enum { FUZZ_FRAMES_MAX = 6 };

//  Jobs to which batches may belong: one alone, inline; and rank 1 of 2, with a ring.
#define FUZZ_JOINED "{\"job\":\"5\",\"samples\":\"6\",\"dataset_samples\":\"3000\",\"batch_size\":2," \
    "\"slots\":4,\"slot_bytes\":\"64\",\"fields\":[{\"name\":\"image\",\"dtype\":\"uint8\"," \
    "\"shape\":[2,2,3],\"offset\":\"0\",\"sample_bytes\":\"12\"}]," \
    "\"seed\":\"7\",\"fingerprint\":\"6d\",\"pipeline\":[],\"heartbeat_ms\":1000,\"lease_ms\":90000,"
static const char *const s_joined [2] = { FUZZ_JOINED "\"ring\":null}",
    FUZZ_JOINED "\"rank\":1,\"world_size\":2,\"ring\":{\"path\":\"/x\",\"token\":"
    "\"0123456789abcdef0123456789abcdef\",\"bytes\":\"256\"}}" };

//  What was accepted must hold what message.h promises.
static void
s_check_joined (const message_joined_t *joined)
{
    const tureen_info_t *info = &joined->info;
    size_t slot_bytes = joined->slot_bytes;
    assert (info->slots >= 1 && info->slots <= WIRE_SLOTS_MAX && info->batch_size == 2 && slot_bytes > 0);
    assert (slot_bytes <= SIZE_MAX / info->slots);
    assert (info->world_size >= 1 && info->world_size <= WIRE_RANKS_MAX && info->rank < info->world_size);
    for (size_t index = 0; index < info->field_count; index++) {
        const tureen_field_t *field = &info->fields [index];
        assert (field->dimensions <= TUREEN_DIMENSIONS_MAX && strlen (field->name) > 0);
        assert (field->offset <= slot_bytes && field->sample_bytes * 2 <= slot_bytes - field->offset);
        assert (!field->lengths || (strlen (field->lengths) > 0 && field->shape [0] > 0));
    }
    for (size_t index = 0; index < info->class_count; index++)
        assert (info->classes [index]);
    if (info->ring)
        assert (strlen (joined->ring_token) == WIRE_TOKEN_BYTES
        && joined->ring_path);
}

//  A batch that was accepted is read as the loader's thread reads it, and remembered as it is.
static void
s_use_batch (const message_frame_t *frames, size_t count, const message_batch_t *batch, uint32_t world_size)
{
    uint64_t ids [2 * 2], own [2];
    size_t numbers;
    recent_steps_t recent = { .world_size = world_size, .steps_max = 1 };
    assert (batch->head.count >= 1 && batch->head.count <= 2 && frames [2].size == batch->head.count * 8);
    assert (batch->step_count <= 2u * world_size && batch->step_count >= 1);
    assert (batch->payload == 0 || (batch->payload == count - 1 && frames [count - 1].size == 64));
    assert (batch->head.slot < 4 || (batch->head.slot == WIRE_SLOT_NONE && world_size > 1 && batch->payload));
    memcpy (own, batch->ids, batch->head.count * sizeof *own);
    memcpy (ids, batch->step, batch->step_count * sizeof *ids);
    bool fine = recent_steps_add (&recent, batch);
    assert (fine);
    const uint64_t *record = recent_steps_numbers (&recent, &numbers);
    assert (world_size == 1? !record: record [3] == batch->step_count
        && numbers == 4 + world_size + batch->step_count);
    recent_steps_clear (&recent);
}

static void
s_parse_batch (const message_frame_t *frames, size_t count)
{
    for (uint32_t index = 0; index < 2; index++) {
        message_error_t error;
        message_batch_t batch;
        message_joined_t *joined;
        message_frame_t own [2] = { { NULL, 0 },
            { (const uint8_t *) s_joined [index], strlen (s_joined [index]) } };
        bool fine = message_read_joined (own, 2, 2, &joined, &error);
        assert (fine);
        if (message_read_batch (frames, count, joined, &batch, &error))
            s_use_batch (frames, count, &batch, index + 1);
        message_joined_destroy (&joined);
    }
}

static void
s_parse (const message_frame_t *frames, size_t count)
{
    wire_head_t head;
    message_error_t error;
    message_note_t note;
    wire_epoch_end_t end;
    message_joined_t *joined;
    uint64_t samples;
    char *json;
    if (message_read_head (frames, count, &head, &error) != MESSAGE_OK)
        return;
    if (head.kind == WIRE_JOINED) {
        if (message_read_joined (frames, count, 2, &joined, &error))
            s_check_joined (joined);
        message_joined_destroy (&joined);
    }
    else if (head.kind == WIRE_BATCH)
        s_parse_batch (frames, count);
    else if (head.kind == WIRE_EPOCH_END)
        (void) !message_read_epoch_end (frames, count, &end, &error);
    else if (head.kind == WIRE_ENDED || head.kind == WIRE_ERROR || head.kind == WIRE_NOTICE) {
        if (message_read_note (frames, count, &note, &error))
            assert (strlen (note.code) < sizeof note.code && strlen (note.text) < sizeof note.text);
        if (head.kind == WIRE_NOTICE && message_read_unreadable (frames, count, &samples, &json, &error))
            free (json);
    }
    else if ((head.kind == WIRE_STATUS_REPLY || head.kind == WIRE_EXPLAIN_REPLY)
        && message_read_object (frames, count, &json, &error))
        free (json);
}

//  What was believed holds what state.h promises, and is the same again when it is written.
static void
s_parse_state (const message_frame_t *frame)
{
    message_error_t error;
    state_t state, again;
    char *text = strndup ((const char *) frame->data, frame->size);
    assert (text);
    if (state_read (&state, text, &error)) {
        assert (state.taken.word_count <= state.samples / 64 + 1 && strlen (state.run) == WIRE_RUN_BYTES);
        char *written = state_write (&state);
        assert (written);
        bool fine = state_read (&again, written, &error);
        assert (fine && again.taken.count == state.taken.count && again.epoch == state.epoch
            && again.order == state.order);
        const char *twins [] = { text, written };
        char *merged;
        if (tureen_merge_states (twins, 2, &merged, NULL, 0) == 0)
            free (merged);
        position_t *position = position_new (NULL, 0, state.samples < 4096? state.samples: 4096);
        if (state.part.nodes && !state.part.cut.taken.list)
            (void) !position_set_node (position, state.part.nodes, state.part.node, &state.part.cut);
        (void) !position_resume (position, state.epoch, state.batches, &state.taken);
        position_destroy (&position);
        state_clear (&again);
        free (written);
        state_clear (&state);
    }
    free (text);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    message_frame_t frames [FUZZ_FRAMES_MAX] = { { NULL, 0 } };
    uint8_t *copies [FUZZ_FRAMES_MAX];
    size_t count = 0;
    while (size >= 2 && count < FUZZ_FRAMES_MAX) {
        size_t length = (size_t) data [0] | (size_t) data [1] << 8;
        data += 2;
        size -= 2;
        length = length < size? length: size;
        copies [count] = malloc (length? length: 1);
        if (!copies [count])
            break;
        memcpy (copies [count], data, length);
        frames [count] = (message_frame_t) { copies [count], length };
        count++;
        data += length;
        size -= length;
    }
    if (count == 2 && frames [0].size == 5 && !memcmp (frames [0].data, "STATE", 5))
        s_parse_state (&frames [1]);
    else
        s_parse (frames, count);
    while (count--)
        free (copies [count]);
    return 0;
}
