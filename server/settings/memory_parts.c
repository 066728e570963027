#include "memory_parts.h"

enum {
    RAW_PART = 50,                      //  2 % of packs: pieces of a 32nd of it mix well (docs/tiers.md)
    CACHE_PART = 40,                    //  2.5 % of the data
    MOST_PART = 8,                      //  of the memory, either of them
    RAW_SPARE_PART = 8, CACHE_SPARE_PART = 4    //  of the memory, if all data are pinned: as the defaults are
                                        //  of the machine's
};

static uint64_t
s_least (uint64_t left, uint64_t right)
{
    return left < right? left: right;
}

static uint64_t
s_most (uint64_t left, uint64_t right)
{
    return left > right? left: right;
}

static uint64_t
s_left (uint64_t all, uint64_t taken)
{
    return all > taken? all - taken: 0;
}

//  Takes of what is spare what is missing of a part, and returns that.
static uint64_t
s_take (uint64_t *spare_p, uint64_t wanted, uint64_t part)
{
    uint64_t taken = s_least (*spare_p, wanted > part? wanted - part: 0);
    *spare_p -= taken;
    return taken;
}

//  What the pool and versions cannot do without, or are given.
static uint64_t
s_raw_least (const memory_parts_wanted_t *wanted)
{
    return wanted->raw_given? wanted->raw_given: s_most (wanted->raw_least, 1);
}

static uint64_t
s_cache_least (const memory_parts_wanted_t *wanted)
{
    return wanted->cache_given? wanted->cache_given: s_most (wanted->cache_least, 1);
}

uint64_t
memory_parts_least (const memory_parts_wanted_t *wanted)
{
    return s_raw_least (wanted) + s_cache_least (wanted);
}

memory_parts_t
memory_parts_divide (const memory_parts_wanted_t *wanted)
{
    uint64_t most = wanted->memory / MOST_PART;
    memory_parts_t parts = { .memory = wanted->memory, .cache = wanted->cache_given,
        .raw = wanted->raw_given };
    if (!parts.raw)
        parts.raw = s_most (s_least (s_most (wanted->pack_bytes / RAW_PART, MEMORY_PARTS_LEAST), most),
            s_raw_least (wanted));
    if (!parts.cache)
        parts.cache = s_most (s_least (s_most (wanted->data_bytes / CACHE_PART, MEMORY_PARTS_LEAST), most),
            s_cache_least (wanted));
    uint64_t rest = s_left (wanted->memory, parts.raw);
    parts.cache = s_most (s_least (parts.cache, rest), s_cache_least (wanted));
    parts.raw = s_most (s_least (parts.raw, s_left (wanted->memory, parts.cache)), s_raw_least (wanted));
    rest = s_left (s_left (wanted->memory, parts.raw), parts.cache);
    uint64_t spare = rest - s_least (rest, wanted->pins_most);
    if (!wanted->raw_given)
        parts.raw += s_take (&spare, wanted->memory / RAW_SPARE_PART, parts.raw);
    if (!wanted->cache_given)
        parts.cache += s_take (&spare, wanted->memory / CACHE_SPARE_PART, parts.cache);
    parts.pins = parts.pins_now = s_least (rest, wanted->pins_most) + spare;
    parts.pictures = memory_parts_pictures (&parts, wanted->pins_most);
    return parts;
}

uint64_t
memory_parts_pictures (const memory_parts_t *parts, uint64_t pins_most)
{
    return s_left (parts->pins_now, pins_most);
}

uint64_t
memory_parts_usable (uint64_t machine_bytes)
{
    return machine_bytes - machine_bytes / 8;
}

uint64_t
memory_parts_pins_now (const memory_parts_t *parts, uint64_t machine_bytes)
{
    uint64_t usable = memory_parts_usable (machine_bytes), beside = parts->cache + parts->raw;
    return s_least (usable > beside? usable - beside: 0, parts->pins);
}
