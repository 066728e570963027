#include "permutation.h"
#include <assert.h>
#include "random.h"

enum {
    SMALL_COUNT = 4096,             //  below, a grid may have as few as 5 columns; from here on 33
    ROUNDS_SMALL = PERMUTATION_ROUNDS_MAX,
    ROUNDS_LARGE = 12
};

_Static_assert (ROUNDS_SMALL % 2 == 0 && ROUNDS_LARGE % 2 == 0, "rows and columns in turn");
_Static_assert (PERMUTATION_TABLE_MAX <= 256, "a rank of the table fits a byte");

//  Fisher and Yates.
static void
s_fill_table (permutation_t *self, random_t *random)
{
    for (uint32_t place = 0; place < self->count; place++)
        self->ranks [place] = (uint8_t) place;
    for (uint32_t place = self->count - 1; place > 0; place--) {
        uint32_t other = (uint32_t) random_below (random, place + 1);
        uint8_t rank = self->ranks [place];
        self->ranks [place] = self->ranks [other];
        self->ranks [other] = rank;
    }
}

static void
s_lay_grid (permutation_t *self, random_t *random)
{
    self->rows = 1;
    while ((uint64_t) self->rows * self->rows < self->count)
        self->rows *= 2;
    self->columns = (self->count - 1) / self->rows + 1;
    self->rounds = self->count < SMALL_COUNT? ROUNDS_SMALL: ROUNDS_LARGE;
    for (uint32_t round = 0; round < self->rounds; round++)
        self->keys [round] = random_next (random);
}

permutation_t
permutation_new (uint64_t seed, uint64_t epoch, uint32_t n)
{
    assert (n > 0);
    permutation_t self = { .count = n };
    random_t random = random_from_seed (random_mix (random_mix (random_mix (seed) ^ epoch) ^ n));
    if (n <= PERMUTATION_TABLE_MAX)
        s_fill_table (&self, &random);
    else
        s_lay_grid (&self, &random);
    return self;
}

//  Rows and columns are at most 65536 each, so that a cell's number fits.
uint32_t
permutation_at (const permutation_t *self, uint32_t position)
{
    assert (position < self->count);
    if (self->count <= PERMUTATION_TABLE_MAX)
        return self->ranks [position];
    uint32_t cell = position;
    do {
        uint32_t row = cell & (self->rows - 1), column = cell / self->rows;
        for (uint32_t round = 0; round < self->rounds; round += 2) {
            row = (row + (uint32_t) random_mix (self->keys [round] ^ column)) & (self->rows - 1);
            column += (uint32_t) ((random_mix (self->keys [round + 1] ^ row) >> 32) * self->columns >> 32);
            if (column >= self->columns)
                column -= self->columns;
        }
        cell = column * self->rows + row;
    } while (cell >= self->count);
    return cell;
}

static uint32_t
s_search (const permutation_t *self, uint32_t rank)
{
    uint32_t position = 0;
    while (self->ranks [position] != rank)
        position++;
    return position;
}

uint32_t
permutation_position (const permutation_t *self, uint32_t rank)
{
    assert (rank < self->count);
    if (self->count <= PERMUTATION_TABLE_MAX)
        return s_search (self, rank);
    uint32_t cell = rank;
    do {
        uint32_t row = cell & (self->rows - 1), column = cell / self->rows;
        for (uint32_t round = self->rounds; round > 0; round -= 2) {
            uint64_t high = random_mix (self->keys [round - 1] ^ row) >> 32;
            uint32_t step = (uint32_t) (high * self->columns >> 32);
            column = column >= step? column - step: column + self->columns - step;
            row = (row - (uint32_t) random_mix (self->keys [round - 2] ^ column)) & (self->rows - 1);
        }
        cell = column * self->rows + row;
    } while (cell >= self->count);
    return cell;
}
