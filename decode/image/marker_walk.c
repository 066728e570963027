#include "marker_walk.h"
#include <string.h>

enum { MARKER_TEM = 0x01, MARKER_RST0 = 0xd0, MARKER_SOI = 0xd8, MARKER_EOI = 0xd9, CODE_BYTES = 2 };

marker_walk_t
marker_walk_begin (const uint8_t *bytes, size_t size)
{
    return (marker_walk_t) { .bytes = bytes, .size = size };
}

//  Leaves out what may stand before a marker: in a scan its data and its restarts, elsewhere filling 0xffs.
static bool
s_find (marker_walk_t *self)
{
    bool in_scan = self->code == MARKER_SOS;
    while (self->at + 1 < self->size) {
        const uint8_t *at = memchr (self->bytes + self->at, 0xff, self->size - 1 - self->at);
        if (!at || (!in_scan && at != self->bytes + self->at))
            return false;
        self->at = (size_t) (at - self->bytes);
        bool is_data = at [1] == 0 || (at [1] >= MARKER_RST0 && at [1] < MARKER_SOI);
        if (at [1] != 0xff && !(in_scan && is_data))
            return true;
        self->at += at [1] == 0xff? 1: CODE_BYTES;
    }
    return false;
}

bool
marker_walk_next (marker_walk_t *self)
{
    while (!self->ended && s_find (self)) {
        const uint8_t *at = self->bytes + self->at;
        self->code = at [1];
        self->ended = self->code == MARKER_EOI;
        //  Restart markers outside of scans, too: libjpeg passes over them.
        if (self->ended || self->code == MARKER_TEM
            || (self->code >= MARKER_RST0 && self->code <= MARKER_SOI)) {
            self->at += CODE_BYTES;
            continue;
        }
        size_t left = self->size - self->at;
        self->in_scans |= self->code == MARKER_SOS;
        self->segment = at;
        self->segment_bytes = left < 2 * CODE_BYTES? 0: CODE_BYTES + (size_t) (at [2] << 8 | at [3]);
        if (self->segment_bytes < 2 * CODE_BYTES || self->segment_bytes > left)
            return false;
        self->at += self->segment_bytes;
        return true;
    }
    return false;
}

bool
marker_walk_is_metadata (const marker_walk_t *self)
{
    return self->code == MARKER_COMMENT || (self->code >= MARKER_APP_FIRST && self->code <= MARKER_APP_LAST);
}

bool
marker_walk_metadata (marker_walk_t *self)
{
    while (marker_walk_next (self))
        if (marker_walk_is_metadata (self))
            return true;
    return false;
}
