#include "chosen.h"
#include <assert.h>
#include <string.h>
#include "geometry.h"

typedef struct {
    const operation_t *operations;
    const pipeline_key_t *key;
    uint32_t view;
    chosen_t chosen;
} draw_t;

uint32_t
chosen_part (const operation_t *choice, keyed_random_t *random)
{
    assert (choice->kind == OPERATION_RANDOM_CHOICE);
    const double *weights = choice->group.weights;
    uint32_t last = 0;
    double sum = 0, until = 0;
    for (uint32_t part = 0; part < choice->group.parts; part++) {
        sum += weights [part];
        last = weights [part] > 0? part: last;
    }
    double at = keyed_random_uniform (random) * sum;
    for (uint32_t part = 0; part < last; part++) {
        until += weights [part];
        if (at < until)
            return part;
    }
    return last;
}

void
chosen_order (const operation_t *order, keyed_random_t *random, uint32_t parts [GROUP_PARTS_MAX])
{
    assert (order->kind == OPERATION_RANDOM_ORDER);
    uint32_t left = order->group.parts;
    for (uint32_t part = 0; part < left; part++)
        parts [part] = part;
    for (uint32_t place = 0; left > 1; place++, left--) {
        uint32_t at = place + (uint32_t) keyed_random_below (random, left), taken = parts [at];
        memmove (&parts [place + 1], &parts [place], (at - place) * sizeof *parts);
        parts [place] = taken;
    }
}

static void s_append (draw_t *self, size_t begin, size_t end);

static void
s_append_part (draw_t *self, size_t group, uint32_t part)
{
    const operation_t *operation = &self->operations [group];
    size_t begin = group + 1;
    for (uint32_t before = 0; before < part; before++)
        begin += operation->group.counts [before];
    s_append (self, begin, begin + operation->group.counts [part]);
}

static void
s_append_group (draw_t *self, size_t group)
{
    const operation_t *operation = &self->operations [group];
    keyed_random_t random;
    keyed_random_init (&random, self->key, self->view, operation->place);
    uint32_t parts [GROUP_PARTS_MAX];
    if (operation->kind == OPERATION_RANDOM_APPLY) {
        if (geometry_happens (operation, &random))
            s_append_part (self, group, 0);
        return;
    }
    if (operation->kind == OPERATION_RANDOM_CHOICE) {
        s_append_part (self, group, chosen_part (operation, &random));
        return;
    }
    chosen_order (operation, &random, parts);
    for (uint32_t place = 0; place < operation->group.parts; place++)
        s_append_part (self, group, parts [place]);
}

//  As deep as groups stand in groups: less than PIPELINE_OPERATIONS_MAX.
static void
s_append (draw_t *self, size_t begin, size_t end)
{
    for (size_t index = begin; index < end; index++) {
        assert (self->chosen.count < PIPELINE_OPERATIONS_MAX);
        self->chosen.operations [self->chosen.count++] = (uint8_t) index;
        if (!operation_is_group (&self->operations [index]))
            continue;
        s_append_group (self, index);
        index += operation_span (&self->operations [index]);
    }
}

chosen_t
chosen_draw (const operation_t *operations, size_t begin, size_t end, const pipeline_key_t *key,
    uint32_t view)
{
    draw_t draw = { .operations = operations, .key = key, .view = view };
    s_append (&draw, begin, end);
    return draw.chosen;
}
