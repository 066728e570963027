#include "operation_group.h"
#include <assert.h>
#include <stdio.h>

enum { SPAN_MAX = PIPELINE_OPERATIONS_MAX - 2, WEIGHT_MAX = 1000 * 1000 };
#define COUNTS_EXPECTED "a list of 1 to 16 whole numbers, 1 to 30 operations together"
_Static_assert (SPAN_MAX == 30 && GROUP_PARTS_MAX == 16, "COUNTS_EXPECTED names them");

int
operation_group_parse_apply (operation_t *self, const operation_keys_t *keys)
{
    uint32_t count = 0;
    self->group.probability = 0.5;
    self->group.parts = 1;
    int rc = operation_keys_whole (keys, "count", OPERATION_KEY_REQUIRED, 1, SPAN_MAX, &count);
    self->group.counts [0] = (uint8_t) count;
    return rc? rc: operation_keys_number (keys, "p", 0, 1, &self->group.probability);
}

void
operation_group_write_apply (const operation_t *self, operation_text_t *text)
{
    operation_text_put (text, ",\"count\":%u,\"p\":", self->group.counts [0]);
    operation_text_number (text, self->group.probability, false);
}

static int
s_parse_counts (operation_t *self, const operation_keys_t *keys)
{
    double counts [GROUP_PARTS_MAX], sum = 0;
    size_t parts = 0;
    bool is_valid = operation_keys_list (keys, "counts", 0, SPAN_MAX, GROUP_PARTS_MAX, counts, &parts);
    for (size_t part = 0; is_valid && part < parts; part++) {
        self->group.counts [part] = (uint8_t) counts [part];
        is_valid = self->group.counts [part] == counts [part];
        sum += counts [part];
    }
    self->group.parts = (uint32_t) parts;
    if (is_valid && sum >= 1 && sum <= SPAN_MAX)
        return 0;
    return operation_keys_refuse (keys, "counts", COUNTS_EXPECTED);
}

int
operation_group_parse_choice (operation_t *self, const operation_keys_t *keys)
{
    int rc = s_parse_counts (self, keys);
    double *weights = self->group.weights, sum = 0;
    size_t count = 0;
    for (uint32_t part = 0; part < self->group.parts; part++)
        weights [part] = 1;
    if (rc || !json_object_get (keys->object, "p"))
        return rc;
    bool is_valid = operation_keys_list (keys, "p", 0, WEIGHT_MAX, GROUP_PARTS_MAX, weights, &count);
    for (size_t part = 0; is_valid && part < count; part++)
        sum += weights [part];
    if (is_valid && count == self->group.parts && sum > 0)
        return 0;
    return operation_keys_refuse (keys, "p",
        "as many numbers as \"counts\" has, each from 0 to %d and not all 0", WEIGHT_MAX);
}

static void
s_write_counts (const operation_t *self, operation_text_t *text)
{
    for (uint32_t part = 0; part < self->group.parts; part++)
        operation_text_put (text, part? ",%u": ",\"counts\":[%u", self->group.counts [part]);
    operation_text_put (text, "]");
}

void
operation_group_write_choice (const operation_t *self, operation_text_t *text)
{
    s_write_counts (self, text);
    for (uint32_t part = 0; part < self->group.parts; part++) {
        operation_text_put (text, part? ",": ",\"p\":[");
        operation_text_number (text, self->group.weights [part], false);
    }
    operation_text_put (text, "]");
}

int
operation_group_parse_order (operation_t *self, const operation_keys_t *keys)
{
    return s_parse_counts (self, keys);
}

void
operation_group_write_order (const operation_t *self, operation_text_t *text)
{
    s_write_counts (self, text);
}

bool
operation_group_is (const operation_t *self)
{
    return self->kind == OPERATION_RANDOM_APPLY || self->kind == OPERATION_RANDOM_CHOICE
        || self->kind == OPERATION_RANDOM_ORDER;
}

size_t
operation_group_span (const operation_t *self)
{
    size_t span = 0;
    for (uint32_t part = 0; operation_group_is (self) && part < self->group.parts; part++)
        span += self->group.counts [part];
    return span;
}

bool
operation_group_is_random (const operation_t *self)
{
    uint32_t ways = 0;
    assert (operation_group_is (self));
    for (uint32_t part = 0; part < self->group.parts; part++)
        ways += self->kind == OPERATION_RANDOM_ORDER || self->group.weights [part] > 0;
    return ways > 1;
}
