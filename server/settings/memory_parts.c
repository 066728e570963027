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

//  Takes of what is spare what is missing of a part, and returns that.
static uint64_t
s_take (uint64_t *spare_p, uint64_t wanted, uint64_t part)
{
    uint64_t taken = s_least (*spare_p, wanted > part? wanted - part: 0);
    *spare_p -= taken;
    return taken;
}

memory_parts_t
memory_parts_divide (const memory_parts_wanted_t *wanted)
{
    uint64_t most = wanted->memory / MOST_PART;
    memory_parts_t parts = { .memory = wanted->memory, .cache = wanted->cache_given,
        .raw = wanted->raw_given };
    if (!parts.raw)
        parts.raw = s_most (s_least (s_most (wanted->pack_bytes / RAW_PART, MEMORY_PARTS_LEAST), most),
            s_most (wanted->raw_least, 1));
    if (!parts.cache)
        parts.cache = s_most (s_least (s_most (wanted->data_bytes / CACHE_PART, MEMORY_PARTS_LEAST), most),
            s_most (wanted->cache_least, 1));
    uint64_t rest = wanted->memory > parts.raw? wanted->memory - parts.raw: 0;
    rest = rest > parts.cache? rest - parts.cache: 0;
    uint64_t spare = rest - s_least (rest, wanted->pins_most);
    if (!wanted->raw_given)
        parts.raw += s_take (&spare, wanted->memory / RAW_SPARE_PART, parts.raw);
    if (!wanted->cache_given)
        parts.cache += s_take (&spare, wanted->memory / CACHE_SPARE_PART, parts.cache);
    parts.pins = parts.pins_now = s_least (rest, wanted->pins_most) + spare;
    return parts;
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
