#include "state.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include <zlib.h>

static const char *const s_orders [] = { [TUREEN_SHARED] = "shared", [TUREEN_PRIVATE] = "private",
    [TUREEN_LIST] = "list", [TUREEN_SEEDED] = "seeded" };

const char *
state_order_name (tureen_order_t order)
{
    assert (order >= TUREEN_SHARED && order <= TUREEN_SEEDED);
    return s_orders [order];
}

const char *
state_parts_name (tureen_parts_t parts)
{
    assert (parts == TUREEN_PARTS_FRESH || parts == TUREEN_PARTS_FIXED);
    return parts == TUREEN_PARTS_FIXED? "fixed": "fresh";
}

void
state_clear (state_t *self)
{
    position_taken_clear (&self->taken);
    position_taken_clear (&self->part.cut.taken);
}

//  --------------------------------------------------------------------------
//  Base64: bytes as text and back, RFC 4648, with padding, strictly

static const char s_letters [] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

//  Writes (bytes + 2) / 3 * 4 characters and a zero.
static void
s_base64_write (const uint8_t *data, size_t bytes, char *text)
{
    for (size_t place = 0; place < bytes; place += 3) {
        size_t count = bytes - place < 3? bytes - place: 3;
        uint32_t bits = (uint32_t) data [place] << 16;
        if (count > 1)
            bits |= (uint32_t) data [place + 1] << 8;
        if (count > 2)
            bits |= data [place + 2];
        for (size_t letter = 0; letter < 4; letter++)
            *text++ = letter <= count? s_letters [bits >> (18 - 6 * letter) & 63]: '=';
    }
    *text = 0;
}

static size_t
s_padding (const char *text, size_t length)
{
    size_t padding = 0;
    while (padding < 2 && padding < length && text [length - 1 - padding] == '=')
        padding++;
    return padding;
}

//  0 to 63; or 64: none of them.
static uint32_t
s_value (char letter)
{
    const char *place = letter? strchr (s_letters, letter): NULL;
    return place? (uint32_t) (place - s_letters): 64;
}

//  Decodes length / 4 * 3 - padding bytes.  False: an invalid character, or unused bits that are not 0.
static bool
s_base64_read (const char *text, size_t length, uint8_t *data)
{
    assert (length % 4 == 0);
    size_t padding = s_padding (text, length);
    for (size_t place = 0; place < length; place += 4) {
        size_t letters = place + 4 == length? 4 - padding: 4;
        uint32_t bits = 0;
        for (size_t letter = 0; letter < 4; letter++) {
            uint32_t value = letter < letters? s_value (text [place + letter]): 0;
            if (value == 64)
                return false;
            bits = bits << 6 | value;
        }
        for (size_t byte = 0; byte + 1 < letters; byte++) {
            *data++ = (uint8_t) (bits >> 16);
            bits = bits << 8 & 0xffffff;
        }
        if (bits && letters < 4)
            return false;
    }
    return true;
}

//  --------------------------------------------------------------------------
//  The checksum: of all values in the order of docs/state.md, a line each

static uLong
s_add_line (uLong sum, const char *text)
{
    sum = crc32_z (sum, (const Bytef *) text, strlen (text));
    return crc32_z (sum, (const Bytef *) "\n", 1);
}

static uLong
s_add_number (uLong sum, uint64_t number)
{
    char text [24];
    snprintf (text, sizeof text, "%" PRIu64, number);
    return s_add_line (sum, text);
}

//  words: the base64, of what is no list.
static uLong
s_add_taken (uLong sum, const position_taken_t *taken, const char *words)
{
    sum = s_add_number (sum, taken->count);
    return taken->list? sum: s_add_line (sum, words);
}

//  words, cut_words: of what was taken, and of the part's cut.
static void
s_checksum (const state_t *self, const char *words, const char *cut_words, char text [9])
{
    uLong sum = crc32_z (0, NULL, 0);
    sum = s_add_number (sum, STATE_VERSION);
    sum = s_add_line (sum, self->dataset);
    sum = s_add_line (sum, self->fingerprint);
    sum = s_add_line (sum, self->data);
    sum = s_add_number (sum, self->samples);
    sum = s_add_line (sum, s_orders [self->order]);
    sum = s_add_number (sum, self->seed);
    sum = s_add_number (sum, self->pool);
    sum = s_add_line (sum, self->run);
    sum = s_add_number (sum, self->epoch);
    sum = s_add_number (sum, self->batches);
    sum = s_add_taken (sum, &self->taken, words);
    if (self->part.nodes) {
        sum = s_add_number (sum, self->part.nodes);
        sum = s_add_number (sum, self->part.node);
        sum = s_add_line (sum, state_parts_name (self->part.parts));
        sum = s_add_number (sum, self->part.cut.batches);
        sum = s_add_taken (sum, &self->part.cut.taken, cut_words);
    }
    snprintf (text, 9, "%08lx", sum & 0xffffffffu);
}

//  --------------------------------------------------------------------------
//  Writing

//  The words' bytes as they lie: this machine is little-endian (wire.h).
static char *
s_words_text (const position_taken_t *taken)
{
    size_t bytes = taken->word_count * sizeof *taken->words;
    char *text = malloc ((bytes + 2) / 3 * 4 + 1);
    if (text)
        s_base64_write ((const uint8_t *) taken->words, bytes, text);
    return text;
}

static json_t *
s_decimal (uint64_t number)
{
    return json_sprintf ("%" PRIu64, number);
}

static json_t *
s_taken_object (const position_taken_t *taken, const char *words)
{
    if (taken->list)
        return json_pack ("{s:o}", "places", s_decimal (taken->count));
    return json_pack ("{s:o,s:s}", "count", s_decimal (taken->count), "words", words);
}

static json_t *
s_part_object (const state_part_t *part, const char *words)
{
    if (!part->nodes)
        return NULL;
    return json_pack ("{s:I,s:I,s:s,s:o,s:o}", "nodes", (json_int_t) part->nodes, "node",
        (json_int_t) part->node, "parts", state_parts_name (part->parts), "batches",
        s_decimal (part->cut.batches), "cut", s_taken_object (&part->cut.taken, words));
}

char *
state_write (const state_t *self)
{
    assert (self && self->order >= TUREEN_SHARED && self->order <= TUREEN_SEEDED);
    assert (!self->part.nodes || self->part.cut.taken.list == self->taken.list);
    char checksum [9];
    char *words = s_words_text (&self->taken), *cut_words = s_words_text (&self->part.cut.taken);
    json_t *part = words && cut_words? s_part_object (&self->part, cut_words): NULL;
    if (!words || !cut_words || !part != !self->part.nodes) {
        free (words);
        free (cut_words);
        return NULL;
    }
    s_checksum (self, words, cut_words, checksum);
    json_t *root = json_pack ("{s:i,s:s,s:s,s:s,s:o,s:s,s:o,s:I,s:s,s:o,s:o,s:o,s:o*,s:s}",
        "tureen_state", STATE_VERSION, "dataset", self->dataset, "fingerprint", self->fingerprint,
        "data", self->data, "samples", s_decimal (self->samples), "order", s_orders [self->order],
        "seed", s_decimal (self->seed), "pool", (json_int_t) self->pool, "run", self->run,
        "epoch", s_decimal (self->epoch), "batches", s_decimal (self->batches),
        "taken", s_taken_object (&self->taken, words), "part", part,
        "checksum", checksum);
    free (words);
    free (cut_words);
    char *text = root? json_dumps (root, JSON_ENSURE_ASCII): NULL;
    json_decref (root);
    return text;
}

//  --------------------------------------------------------------------------
//  Reading

//  A text of at most size - 1 bytes, none of them 0.
static bool
s_read_text (const json_t *root, const char *key, char *target, size_t size, message_error_t *error)
{
    const char *text = json_string_value (json_object_get (root, key));
    if (!text || strlen (text) >= size)
        return message_fail (error, "the state has no usable \"%s\"", key);
    memcpy (target, text, strlen (text) + 1);
    return true;
}

//  As many lower-case hexadecimal digits.
static bool
s_read_digits (const json_t *root, const char *key, char *target, size_t count, message_error_t *error)
{
    if (!s_read_text (root, key, target, count + 1, error))
        return false;
    if (strlen (target) == count && strspn (target, "0123456789abcdef") == count)
        return true;
    return message_fail (error, "the state's \"%s\": expected %zu hexadecimal digits", key, count);
}

//  A string of decimal digits, or an integer.  No leading zero: the text is part of the checksum.
static bool
s_read_number (const json_t *root, const char *key, uint64_t limit, uint64_t *number_p,
    message_error_t *error)
{
    uint64_t number;
    const json_t *value = json_object_get (root, key);
    const char *text = json_string_value (value);
    if (message_read_number (value, limit, &number) && !(text && text [0] == '0' && text [1])) {
        *number_p = number;
        return true;
    }
    return message_fail (error, "the state has no usable \"%s\"", key);
}

static bool
s_read_order (state_t *self, const json_t *root, message_error_t *error)
{
    char name [16];
    if (!s_read_text (root, "order", name, sizeof name, error))
        return false;
    for (int order = TUREEN_SHARED; order <= TUREEN_SEEDED; order++)
        if (!strcmp (name, s_orders [order])) {
            self->order = (tureen_order_t) order;
            return true;
        }
    return message_fail (error, "the state's \"order\": expected shared, private, list or seeded");
}

static bool
s_read_words (position_taken_t *taken, uint64_t samples, const char *text, message_error_t *error)
{
    size_t length = strlen (text), bytes = length / 4 * 3 - s_padding (text, length);
    if (length % 4 || bytes % sizeof *taken->words
    ||  bytes / sizeof *taken->words > samples / 64 + (samples % 64 != 0))
        return message_fail (error, "the state's \"words\" have another length than its samples can have");
    taken->words = bytes? malloc (bytes): NULL;
    if (bytes && !taken->words)
        return message_fail (error, "out of memory for the state");
    taken->word_count = bytes / sizeof *taken->words;
    if (!s_base64_read (text, length, (uint8_t *) taken->words))
        return message_fail (error, "the state's \"words\" are not base64");
    uint64_t bits = 0;
    for (size_t index = 0; index < taken->word_count; index++)
        bits += (uint64_t) __builtin_popcountll (taken->words [index]);
    if (bits != taken->count)
        return message_fail (error, "the state says %" PRIu64 " samples, its \"words\" have %" PRIu64,
            taken->count, bits);
    if (bytes && (!taken->words [taken->word_count - 1] || (taken->word_count > samples / 64
    &&  taken->words [taken->word_count - 1] >> samples % 64)))
        return message_fail (error, "the state's \"words\" end with another bit than one of its samples");
    return true;
}

//  *words_p is lent from root; NULL: a list.
static bool
s_read_taken (const state_t *self, position_taken_t *taken, const json_t *root, const char *key,
    const char **words_p, message_error_t *error)
{
    const json_t *value = json_object_get (root, key);
    const char *words = *words_p = json_string_value (json_object_get (value, "words"));
    taken->list = json_object_get (value, "places") != NULL;
    if (taken->list == (words != NULL))
        return message_fail (error,
            "the state's \"%s\": expected either \"count\" and \"words\", or \"places\"", key);
    if (!s_read_number (value, taken->list? "places": "count", taken->list? INT64_MAX: self->samples,
            &taken->count, error))
        return false;
    if (taken->list && self->order != TUREEN_LIST)
        return message_fail (error, "the state's \"%s\": only a list has \"places\"", key);
    return taken->list || s_read_words (taken, self->samples, words, error);
}

static bool
s_is_within (const position_taken_t *cut, const position_taken_t *taken)
{
    bool fine = cut->list == taken->list && cut->count <= taken->count
        && cut->word_count <= taken->word_count;
    for (size_t index = 0; fine && index < cut->word_count; index++)
        fine = (cut->words [index] & ~taken->words [index]) == 0;
    return fine;
}

//  A state of a whole job has no part.
static bool
s_read_part (state_t *self, const json_t *root, const char **words_p, message_error_t *error)
{
    const json_t *value = json_object_get (root, "part");
    state_part_t *part = &self->part;
    uint64_t nodes = 0, node = 0;
    if (!value)
        return true;
    const char *parts = json_string_value (json_object_get (value, "parts"));
    if (!s_read_number (value, "nodes", WIRE_NODES_MAX, &nodes, error)
    ||  !s_read_number (value, "node", WIRE_NODES_MAX, &node, error)
    ||  !s_read_number (value, "batches", INT64_MAX, &part->cut.batches, error))
        return false;
    if (nodes < 2 || node >= nodes)
        return message_fail (error, "the state's \"part\": node %" PRIu64 " of %" PRIu64, node, nodes);
    if (!parts || (strcmp (parts, "fresh") && strcmp (parts, "fixed")))
        return message_fail (error, "the state's \"parts\": expected fresh or fixed");
    part->nodes = (uint32_t) nodes;
    part->node = (uint32_t) node;
    part->parts = strcmp (parts, "fixed")? TUREEN_PARTS_FRESH: TUREEN_PARTS_FIXED;
    if (!s_read_taken (self, &part->cut.taken, value, "cut", words_p, error))
        return false;
    return (part->cut.batches <= self->batches && s_is_within (&part->cut.taken, &self->taken))
        || message_fail (error, "the state's \"cut\" is not in what was taken");
}

static bool
s_read (state_t *self, const json_t *root, message_error_t *error)
{
    uint64_t version, pool = 0;
    char checksum [9], expected [9];
    if (!message_read_number (json_object_get (root, "tureen_state"), UINT64_MAX, &version))
        return message_fail (error, "it is no state of a Tureen loader: no \"tureen_state\"");
    if (version != STATE_VERSION)
        return message_fail (error, "the state is of version %" PRIu64 "; this client reads version %d",
            version, STATE_VERSION);
    if (!s_read_text (root, "dataset", self->dataset, sizeof self->dataset, error)
    ||  !s_read_text (root, "fingerprint", self->fingerprint, sizeof self->fingerprint, error)
    ||  !s_read_digits (root, "data", self->data, WIRE_DATA_BYTES, error)
    ||  !s_read_number (root, "samples", (uint64_t) UINT32_MAX + 1, &self->samples, error)
    ||  !s_read_order (self, root, error)
    ||  !s_read_number (root, "seed", UINT64_MAX, &self->seed, error)
    ||  !s_read_number (root, "pool", WIRE_POOL_MAX, &pool, error)
    ||  !s_read_digits (root, "run", self->run, WIRE_RUN_BYTES, error)
    ||  !s_read_number (root, "epoch", INT64_MAX, &self->epoch, error)
    ||  !s_read_number (root, "batches", INT64_MAX, &self->batches, error)
    ||  !s_read_digits (root, "checksum", checksum, sizeof checksum - 1, error))
        return false;
    self->pool = (uint32_t) pool;
    const char *words, *cut_words = NULL;
    if (!s_read_taken (self, &self->taken, root, "taken", &words, error)
    ||  !s_read_part (self, root, &cut_words, error))
        return false;
    s_checksum (self, words, cut_words, expected);
    if (strcmp (checksum, expected))
        return message_fail (error, "the state is damaged: its checksum is %s, it says %s", expected,
            checksum);
    return true;
}

bool
state_read (state_t *self, const char *text, message_error_t *error)
{
    assert (self && text && error);
    memset (self, 0, sizeof *self);
    json_error_t trouble;
    json_t *root = json_loads (text, JSON_REJECT_DUPLICATES, &trouble);
    if (!root)
        return message_fail (error, "the state is no JSON: line %d: %s", trouble.line, trouble.text);
    bool fine = s_read (self, root, error);
    json_decref (root);
    if (!fine)
        state_clear (self);
    return fine;
}

//  --------------------------------------------------------------------------
//  Merging: of the states of all nodes of a job, one state of the whole job (docs/state.md, Nodes)

enum { STATE_NODE_BYTES = 64, STATE_NODES_BYTES = 160 };

static const char *
s_node_name (const state_t *state, char name [STATE_NODE_BYTES])
{
    if (state->part.nodes)
        snprintf (name, STATE_NODE_BYTES, "node %" PRIu32 " of %" PRIu32, state->part.node,
            state->part.nodes);
    else
        snprintf (name, STATE_NODE_BYTES, "a state of the whole job");
    return name;
}

//  Samples that the node was given since the parts were made.
static uint64_t
s_given (const state_t *state)
{
    uint64_t given = state->taken.count - state->part.cut.taken.count;
    return state->taken.list? (given + state->part.nodes - 1) / state->part.nodes: given;
}

static bool
s_is_same (const position_taken_t *one, const position_taken_t *other)
{
    return one->list == other->list && one->count == other->count && one->word_count == other->word_count
        && (!one->word_count || !memcmp (one->words, other->words, one->word_count * sizeof *one->words));
}

//  What all states must have in common.
static bool
s_check_alike (const state_t *first, const state_t *state, message_error_t *error)
{
    char one [STATE_NODE_BYTES], other [STATE_NODE_BYTES];
    const char *key = strcmp (state->fingerprint, first->fingerprint)? "fingerprint"
        : strcmp (state->data, first->data)? "data"
        : state->samples != first->samples? "samples"
        : state->order != first->order? "order"
        : state->pool != first->pool? "pool"
        : state->order == TUREEN_SEEDED && state->seed != first->seed? "seed"
        : state->taken.list != first->taken.list? "the list of ids": NULL;
    if (key)
        return message_fail (error, "the states are of different jobs: %s is another in %s than in %s; give "
            "states of one job", key, s_node_name (state, other), s_node_name (first, one));
    if (state->epoch != first->epoch)
        return message_fail (error, "the states are of different epochs: %s is in epoch %" PRIu64 ", %s in "
            "epoch %" PRIu64 "; give states that were taken after the same step", s_node_name (first, one),
            first->epoch, s_node_name (state, other), state->epoch);
    if (!state->part.nodes != !first->part.nodes)
        return message_fail (error, "%s and %s: give either one state of the whole job, or the states of all "
            "nodes after the same step", s_node_name (first, one), s_node_name (state, other));
    if (!first->part.nodes && (state->batches != first->batches || !s_is_same (&state->taken, &first->taken)))
        return message_fail (error, "the states are of the whole job and differ: batches %" PRIu64 " and %"
            PRIu64 " of epoch %" PRIu64 "; give one of them", first->batches, state->batches, first->epoch);
    return true;
}

static bool
s_check_part (const state_t *first, const state_t *state, message_error_t *error)
{
    const state_part_t *one = &first->part, *other = &state->part;
    if (one->nodes == other->nodes && one->parts == other->parts && one->cut.batches == other->cut.batches
    &&  s_is_same (&one->cut.taken, &other->cut.taken))
        return true;
    return message_fail (error, "the states are of different parts: node %" PRIu32 " of %" PRIu32 " was cut "
        "behind batch %" PRIu64 " (%s), node %" PRIu32 " of %" PRIu32 " behind batch %" PRIu64 " (%s); give "
        "states of one job", one->node, one->nodes, one->cut.batches, state_parts_name (one->parts),
        other->node, other->nodes, other->cut.batches, state_parts_name (other->parts));
}

static bool
s_check_twins (const state_t *one, const state_t *other, message_error_t *error)
{
    if (!strcmp (one->run, other->run) && one->batches == other->batches
    &&  s_is_same (&one->taken, &other->taken))
        return true;
    return message_fail (error,
        "there are two states of node %" PRIu32 ", of batches %" PRIu64 " and %" PRIu64 ": give states "
        "that all ranks of a node took after the same step", one->part.node, one->batches, other->batches);
}

static bool
s_check_missing (const state_t *const *nodes, uint32_t count, message_error_t *error)
{
    char list [STATE_NODES_BYTES] = "";
    uint64_t missing = 0, most = 0;
    for (uint32_t node = 0; node < count; node++) {
        size_t length = strlen (list);
        if (nodes [node])
            most = s_given (nodes [node]) > most? s_given (nodes [node]): most;
        else if (length + 16 < sizeof list)
            snprintf (list + length, sizeof list - length, "%s%" PRIu32, missing? ", ": "", node);
        else if (list [length - 1] != '.')
            snprintf (list + length, sizeof list - length, " ...");
        missing += !nodes [node];
    }
    return missing == 0 || message_fail (error, "the state of node%s %s of %" PRIu32 " is missing: about %"
        PRIu64 " samples that were given there would come twice; give one state of each node",
        missing > 1? "s": "", list, count, missing * most);
}

//  nodes: by number, of the first one's count; NULL: none was given.
static bool
s_sort_nodes (const state_t *states, size_t count, const state_t **nodes, message_error_t *error)
{
    for (size_t index = 0; index < count; index++) {
        const state_t **place = &nodes [states [index].part.node];
        if (!s_check_part (&states [0], &states [index], error)
        ||  (*place && !s_check_twins (*place, &states [index], error)))
            return false;
        *place = &states [index];
    }
    return s_check_missing (nodes, states [0].part.nodes, error);
}

//  What the state of a node says that was given all its places of a list that ends there.
static uint64_t
s_places_at_end (uint64_t cut, uint32_t nodes, uint32_t node, uint64_t end)
{
    uint64_t first = cut + (node + nodes - cut % nodes) % nodes;
    uint64_t own = first < end? (end - first + nodes - 1) / nodes: 0;
    return cut + own * nodes < end? cut + own * nodes: end;
}

//  Of a list all nodes have been given equally many places, but at its end, where some have no more.
static bool
s_merge_places (const state_t *const *nodes, state_t *merged, message_error_t *error)
{
    uint32_t count = nodes [0]->part.nodes;
    uint64_t cut = nodes [0]->part.cut.taken.count, most = 0, least = UINT64_MAX, twice = 0;
    bool fits = true;
    for (uint32_t node = 0; node < count; node++) {
        most = nodes [node]->taken.count > most? nodes [node]->taken.count: most;
        least = nodes [node]->taken.count < least? nodes [node]->taken.count: least;
    }
    bool is_at_end = (most - cut) % count;          //  only the list's end is so
    for (uint32_t node = 0; node < count; node++) {
        uint64_t places = nodes [node]->taken.count;
        fits &= nodes [node]->batches == nodes [0]->batches
            && places == (is_at_end? s_places_at_end (cut, count, node, most): most);
        twice += (places - least) / count;
    }
    merged->taken.count = most;
    return fits || message_fail (error, "the nodes have come to different places of their list, %" PRIu64
        " to %" PRIu64 ": about %" PRIu64 " samples would come twice. Give states that were taken after the "
        "same step (where samples cannot be read, at an epoch's end)", least, most, twice);
}

static bool
s_merge_words (const state_t *const *nodes, state_t *merged, message_error_t *error)
{
    uint32_t count = nodes [0]->part.nodes;
    uint64_t cut = nodes [0]->part.cut.taken.count, apart = cut;
    position_taken_t *taken = &merged->taken;
    for (uint32_t node = 0; node < count; node++)
        if (nodes [node]->taken.word_count > taken->word_count)
            taken->word_count = nodes [node]->taken.word_count;
    taken->words = calloc (taken->word_count + 1, sizeof *taken->words);
    if (!taken->words)
        return false;
    for (uint32_t node = 0; node < count; node++) {
        apart += nodes [node]->taken.count - cut;
        for (size_t index = 0; index < nodes [node]->taken.word_count; index++)
            taken->words [index] |= nodes [node]->taken.words [index];
    }
    for (size_t index = 0; index < taken->word_count; index++)
        taken->count += (uint64_t) __builtin_popcountll (taken->words [index]);
    return taken->count == apart || message_fail (error,
        "the states of the nodes have %" PRIu64 " samples in common, which no two nodes of a job are "
        "given: give states of one job", apart - taken->count);
}

//  *json_p: the text, or NULL where error says why, or memory is out.
static void
s_merge (const state_t *states, size_t count, char **json_p, message_error_t *error)
{
    for (size_t index = 1; index < count; index++)
        if (!s_check_alike (&states [0], &states [index], error))
            return;
    if (!states [0].part.nodes) {
        *json_p = state_write (&states [0]);
        return;
    }
    const state_t **nodes = calloc (states [0].part.nodes, sizeof *nodes);
    //  A state's words are its own; the merged one has others.
    state_t *merged = malloc (sizeof *merged);
    if (nodes && merged && s_sort_nodes (states, count, nodes, error)) {
        *merged = *nodes [0];
        merged->part = (state_part_t) { .nodes = 0 };
        merged->taken = (position_taken_t) { .list = nodes [0]->taken.list };
        for (uint32_t node = 0; node < nodes [0]->part.nodes; node++)
            if (nodes [node]->batches > merged->batches)
                merged->batches = nodes [node]->batches;
        if (merged->taken.list? s_merge_places (nodes, merged, error): s_merge_words (nodes, merged, error))
            *json_p = state_write (merged);
        state_clear (merged);
    }
    free (merged);
    free (nodes);
}

int
tureen_merge_states (const char *const *states, size_t count, char **json_p, char *error, size_t error_bytes)
{
    assert (json_p && (states || !count));
    message_error_t why = { "" };
    *json_p = NULL;
    size_t have = 0;
    state_t *all = calloc (count + 1, sizeof *all);
    for (; all && have < count; have++) {
        message_error_t what;
        if (!state_read (&all [have], states [have], &what)) {
            message_fail (&why, "state %zu: %.400s", have, what.text);
            break;
        }
    }
    if (all && !count)
        message_fail (&why, "there is no state to merge: give one of each node");
    if (all && count && have == count)
        s_merge (all, count, json_p, &why);
    while (all && have)
        state_clear (&all [--have]);
    free (all);
    int rc = *json_p? 0: *why.text? -EINVAL: -ENOMEM;
    if (error && error_bytes)
        snprintf (error, error_bytes, "%s", rc == -ENOMEM? "out of memory": why.text);
    return rc;
}
