/*  raw_store_state -- the raw store's inside, for its own files.  */
#ifndef RAW_STORE_STATE_H
#define RAW_STORE_STATE_H
#include "raw_store.h"

enum { STORE_MAGIC = 0x72617773, BUCKETS_MIN = 1024, PASSED_OVER_MAX = 256 };

//  Requests of one source.
typedef struct {
    raw_request_t *first, *last;
} line_t;

typedef struct {
    line_t lines [RAW_SOURCES_MAX];
    uint64_t occupied;                  //  a bit for each line that is not empty
    uint32_t turn;                      //  the line that is next
    size_t part, alone, bytes;          //  alone <= part
    uint32_t passed_over;               //  how often there was no memory for its first request
    bool is_short;                      //  at the last look there was no memory
} lane_t;

struct raw_store {
    uint32_t magic;
    //  set at birth
    size_t budget_bytes;
    uint32_t (*position) (void *context, uint32_t source, uint32_t id);
    void *position_context;
    //  owner only
    raw_sample_t **buckets;             //  by hash of source and id
    size_t bucket_count;                //  a power of two
    size_t sample_count;
    size_t memory_bytes;
    lane_t lanes [RAW_LANES_MAX];
    uint32_t lane_count;                //  lanes from here on were never used
    uint32_t turn;                      //  the lane that is next
    uint64_t held_back;                 //  sources
    size_t queued, handed_out;
};

static inline uint64_t
raw_store_source_bit (uint32_t source)
{
    return UINT64_C (1) << source;
}

#endif
