#include "state.h"
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include <zlib.h>
#include "base64.h"

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
    char *text = malloc (base64_text_bytes (bytes) + 1);
    if (text)
        base64_write ((const uint8_t *) taken->words, bytes, text);
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
    size_t length = strlen (text), bytes;
    if (!base64_data_bytes (text, length, &bytes) || bytes % sizeof *taken->words
    ||  bytes / sizeof *taken->words > samples / 64 + (samples % 64 != 0))
        return message_fail (error, "the state's \"words\" have another length than its samples can have");
    taken->words = bytes? malloc (bytes): NULL;
    if (bytes && !taken->words)
        return message_fail (error, "out of memory for the state");
    taken->word_count = bytes / sizeof *taken->words;
    if (!base64_read (text, length, (uint8_t *) taken->words))
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
