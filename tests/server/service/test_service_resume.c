/*  Jobs that go on where another stopped, as the service takes their states: of the same data only, and from
 *  the sample on that was not taken.  */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>
#include "reply.h"
#include "service_asserts.h"
#include "service_play.h"

enum { BATCH = 4, LISTED = 24, TAKEN = 2 * BATCH };

#define JOIN(more) "{\"dataset\":\"train\",\"batch_size\":4,\"epochs\":1,\"pipeline\":\"eval\"," \
    "\"transport\":\"inline\"," more "}"
#define STATE "\"resume\":{\"fingerprint\":\"%s\",\"data\":\"%s\",\"epoch\":\"0\",\"batches\":\"2\"%s}"

//  A JOIN with a list of LISTED ids, in an order that is neither ascending nor descending.
static void
s_join_list (play_t *play, uint32_t peer, const char *text)
{
    wire_head_t head = reply_head (WIRE_JOIN, 0, 77);
    uint64_t numbers [1 + LISTED] = { WIRE_IDS_LIST };
    for (uint64_t index = 0; index < LISTED; index++)
        numbers [1 + index] = index * 7 % PLAY_SAMPLES;
    frame_t frames [3] = { { (const uint8_t *) &head, sizeof head },
        { (const uint8_t *) text, strlen (text) }, { (const uint8_t *) numbers, sizeof numbers } };
    play_say_frames (play, peer, PLAY_A1, frames, 3);
    service_serve (play_service (play), play_now_ms (play));
}

//  A text of JOINED; valid until the next call with this place.
static const char *
s_told (const play_t *play, uint32_t peer, const char *key, char text [80])
{
    const play_sent_t *sent = play_last (play, peer, WIRE_JOINED);
    if (!sent)
        fail_msg ("no JOINED: %s", play_last (play, peer, 0)? play_last (play, peer, 0)->text: "nothing");
    json_t *joined = json_loads (sent->text, 0, NULL);
    assert_non_null (joined);
    snprintf (text, 80, "%s", json_string_value (json_object_get (joined, key)));
    json_decref (joined);
    return text;
}

//  A node of a job.  The parts of all nodes were made when so many batches and places were behind.
typedef struct {
    uint64_t node, nodes, cut_batches, cut_places;
} part_t;

//  The list's place that the node has as the row of a batch.
static uint64_t
s_place (const part_t *part, uint64_t batch, uint64_t row)
{
    uint64_t first = part->cut_places;
    while (first % part->nodes != part->node)
        first++;
    return first + ((batch - part->cut_batches) * BATCH + row) * part->nodes;
}

//  Takes the epoch, and asserts that its batches are the part's, from this one on, and as many as on each
//  node: in the last one a node may have padding alone.
static void
s_assert_rest (play_t *play, uint32_t peer, uint64_t first, const part_t *part)
{
    uint64_t job = play_last (play, peer, WIRE_JOINED)->job;
    wire_batch_t batch = { .index = 0 };
    for (int turn = 0; turn < 2000 && !play_last (play, peer, WIRE_EPOCH_END); turn++) {
        play_turn (play, 0);
        uint64_t ids [BATCH], count = play_count (play, peer, WIRE_BATCH);
        const play_sent_t *sent = play_last (play, peer, WIRE_BATCH);
        if (sent) {
            memcpy (&batch, sent->text, sizeof batch);
            memcpy (ids, sent->text + sizeof batch, sizeof ids);
            assert_int_equal (batch.index, first + count - 1);
            for (uint64_t row = 0; row < batch.count && s_place (part, batch.index, row) < LISTED; row++)
                assert_int_equal (ids [row], s_place (part, batch.index, row) * 7 % PLAY_SAMPLES);
        }
        wire_progress_t progress = { count, count, 0 };
        play_say (play, peer, PLAY_A1, WIRE_PROGRESS, job, 5, &progress, sizeof progress);
    }
    assert_non_null (play_last (play, peer, WIRE_EPOCH_END));
    uint64_t most = (LISTED - part->cut_places + part->nodes - 1) / part->nodes;
    assert_int_equal (batch.index + 1, part->cut_batches + (most + BATCH - 1) / BATCH);
}

//  Must hold: a job with a list goes on behind the places that its state counts.
static void
a_list_goes_on_behind_its_places (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    char fingerprint [80], data [80], text [600];
    s_join_list (play, 1, JOIN ("\"slots\":3,\"order\":\"list\",\"frames\":[\"list\"]"));
    snprintf (text, sizeof text, JOIN ("\"slots\":3,\"order\":\"list\",\"frames\":[\"list\"]," STATE),
        s_told (play, 1, "fingerprint", fingerprint), s_told (play, 1, "data", data), ",\"places\":\"8\"");
    s_join_list (play, 2, text);
    assert_non_null (play_last (play, 2, WIRE_JOINED));
    s_assert_rest (play, 2, TAKEN / BATCH, &(part_t) { .nodes = 1 });
    play_destroy (&play);
}

//  The node's job goes on one batch behind the cut.
static void
s_go_on_as (const part_t *part)
{
    play_t *play = play_new (true);
    char fingerprint [80], data [80], text [700];
    uint32_t node = (uint32_t) part->node, nodes = (uint32_t) part->nodes,
        cut_batches = (uint32_t) part->cut_batches, cut_places = (uint32_t) part->cut_places;
    snprintf (text, sizeof text, JOIN ("\"slots\":3,\"order\":\"list\",\"frames\":[\"list\"],"
        "\"nodes\":%u,\"node\":%u"), nodes, node);
    s_join_list (play, 1, text);
    snprintf (text, sizeof text, JOIN ("\"slots\":3,\"order\":\"list\",\"frames\":[\"list\"],"
        "\"nodes\":%u,\"node\":%u,\"resume\":{\"fingerprint\":\"%s\",\"data\":\"%s\",\"epoch\":\"0\","
        "\"batches\":\"%u\","
        "\"places\":\"%u\",\"cut\":{\"batches\":\"%u\",\"places\":\"%u\"}}"), nodes, node,
        s_told (play, 1, "fingerprint", fingerprint), s_told (play, 1, "data", data), cut_batches + 1,
        cut_places + nodes * BATCH, cut_batches, cut_places);
    s_join_list (play, 2, text);
    assert_non_null (play_last (play, 2, WIRE_JOINED));
    s_assert_rest (play, 2, part->cut_batches + 1, part);
    play_destroy (&play);
}

//  Must hold: so does each of several nodes, which has each nodes-th place of the list, or of what was left
//  when the parts were made.
static void
a_list_goes_on_on_each_node (void **state)
{
    (void) state;
    for (uint32_t nodes = 2; nodes <= 3; nodes++)
        for (uint32_t node = 0; node < nodes; node++) {
            s_go_on_as (&(part_t) { .node = node, .nodes = nodes });
            //  One sample more than whole steps are left behind the cut.
            s_go_on_as (&(part_t) { .node = node, .nodes = nodes, .cut_batches = 1,
                .cut_places = nodes == 2? 7: 11 });
        }
}

//  Must hold: a state of other data, or of other samples of them, is refused, whichever of two sorts first.
static void
other_states_are_refused (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    char fingerprint [80], data [80], text [600];
    play_say_text (play, 1, PLAY_A1, WIRE_JOIN, 0, 1, JOIN ("\"seed\":\"5\""));
    play_turn (play, 0);
    s_told (play, 1, "fingerprint", fingerprint);
    s_told (play, 1, "data", data);
    static const char *const others [] = { "!", "~" },
        *const digests [] = { "0000000000000000", "ffffffffffffffff" };
    for (int index = 0; index < 4; index++) {
        bool is_other = index < 2;
        snprintf (text, sizeof text, JOIN ("\"seed\":\"5\"," STATE), is_other? others [index]: fingerprint,
            is_other? data: digests [index - 2], "");
        play_say_text (play, 2, PLAY_A1, WIRE_JOIN, 0, 1, text);
        play_turn (play, 0);
        assert_error (play, 2, "bad_state", is_other? "the state is of other data":
            "the state is of other samples of data set 'train'");
        play_forget_sent (play);
    }
    snprintf (text, sizeof text, JOIN ("\"seed\":\"5\"," STATE), fingerprint, data, "");
    play_say_text (play, 2, PLAY_A1, WIRE_JOIN, 0, 1, text);
    play_turn (play, 0);
    assert_non_null (play_last (play, 2, WIRE_JOINED));
    play_destroy (&play);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (a_list_goes_on_behind_its_places),
        cmocka_unit_test (a_list_goes_on_on_each_node),
        cmocka_unit_test (other_states_are_refused),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
