//  What JOIN says of a job over several nodes (docs/protocol.md: Nodes).

#include <inttypes.h>
#include <string.h>
#include "request_values.h"
#include "utf8.h"

bool
request_take_nodes (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    return request_take_integer (key, value, 1, WIRE_NODES_MAX, "", &join->nodes, refusal);
}

//  request_check_parts checks that the node exists.
bool
request_take_node (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    return request_take_integer (key, value, 0, WIRE_NODES_MAX - 1, "", &join->node, refusal);
}

bool
request_take_parts (const char *key, const json_t *value, request_join_t *join, refusal_t *refusal)
{
    static const char *const words [] = { "fresh", "fixed" };
    int word = request_word (value, words, 2);
    join->parts_fixed = word == 1;
    return word >= 0 || request_refuse_value (refusal, key, "\"fresh\" or \"fixed\"", value);
}

bool
request_take_cut (const char *key, const json_t *value, request_resume_t *resume, refusal_t *refusal)
{
    if (!json_is_object (value))
        return request_refuse_value (refusal, key, "an object: batches, places", value);
    const char *inner;
    json_t *entry;
    json_object_foreach ((json_t *) value, inner, entry) {
        char place [REQUEST_SHOWN_BYTES + 24], shown [REQUEST_SHOWN_BYTES];
        utf8_visible (inner, strlen (inner), shown, sizeof shown);
        snprintf (place, sizeof place, "resume.cut.%s", shown);
        uint64_t *number_p = strcmp (inner, "batches") == 0? &resume->cut_batches
            : strcmp (inner, "places") == 0? &resume->cut_places: NULL;
        if (!number_p)
            return refuse (refusal, "bad_request", "resume.cut: unknown key '%s'; there are batches, places",
                shown);
        if (!request_count (entry, REQUEST_EPOCHS_MAX, number_p))
            return request_refuse_value (refusal, place, "a string of decimal digits, at most 2^53", entry);
    }
    return true;
}

static bool
s_check_cut (const request_join_t *join, refusal_t *refusal)
{
    const request_resume_t *resume = &join->resume;
    bool has_cut = join->cut_frames || resume->cut_batches || resume->cut_places;
    if (has_cut && join->nodes == 1)
        return refuse (refusal, "bad_request",
            "resume.cut and frames \"cut\" are of a job over several nodes: give nodes and node");
    if (join->cut_frames && !resume->given)
        return refuse (refusal, "bad_request", "frames: \"cut\" needs resume");
    if (join->cut_frames && join->list_frames)
        return refuse (refusal, "bad_request",
            "frames: of a job that gives a list, resume.cut.places says where the epoch was cut; leave "
            "\"cut\" out");
    if (resume->cut_places > 0 && !join->list_frames)
        return refuse (refusal, "bad_request",
            "resume.cut.places: only of a job that gives a list; frames \"cut\" say what was taken before");
    return (resume->cut_batches <= resume->batches && resume->cut_places <= resume->places)
        || refuse (refusal, "bad_state",
            "resume.cut is behind resume: the parts of an epoch are made before their batches");
}

bool
request_check_parts (const request_join_t *join, refusal_t *refusal)
{
    if (join->node >= join->nodes)
        return refuse (refusal, "bad_request", "node: %" PRIu32 " of nodes %" PRIu32 ": nodes are counted "
            "from 0%s", join->node, join->nodes, join->nodes == 1?
            "; say in nodes how many take the job together": "");
    if (join->parts_fixed && join->nodes == 1)
        return refuse (refusal, "bad_request",
            "parts: of a job over several nodes: give nodes and node");
    return s_check_cut (join, refusal);
}
