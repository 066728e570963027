#include "block_note.h"
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>
#include "block_cache.h"

enum { PLACE = 64 };                    //  in `sums`, behind the head

#define FORMAT "tureenN1"

typedef struct {
    char format [8];
    block_note_t note;
    uint64_t sum;                       //  of what stands before it
} record_t;

_Static_assert (PLACE >= sizeof (block_cache_head_t) && PLACE + sizeof (record_t) <= BLOCK_CACHE_BLOCK_BYTES,
    "behind the head, in its block");
_Static_assert (sizeof (record_t) == 8 + sizeof (block_note_t) + 8, "written as it is");

static uint64_t
s_sum (const record_t *record)
{
    return XXH3_64bits (record, offsetof (record_t, sum));
}

bool
block_note_read (int sums, block_note_t *note)
{
    record_t record;
    bool is_good = pread (sums, &record, sizeof record, PLACE) == sizeof record
        && memcmp (record.format, FORMAT, sizeof record.format) == 0 && record.sum == s_sum (&record)
        && record.note.kind < BLOCK_NOTE_KINDS && memchr (record.note.name, 0, sizeof record.note.name);
    *note = is_good? record.note: (block_note_t) { .kind = BLOCK_NOTE_UNKNOWN };
    return is_good;
}

int
block_note_write (int sums, const block_note_t *note)
{
    block_note_t before;
    record_t record = { .format = FORMAT, .note = *note };
    record.note.made_s = block_note_read (sums, &before)? before.made_s: time (NULL);
    if (memcmp (&before, &record.note, sizeof before) == 0)
        return 0;
    record.sum = s_sum (&record);
    ssize_t written = pwrite (sums, &record, sizeof record, PLACE);
    return written == sizeof record? 0: written < 0? -errno: -EIO;
}
