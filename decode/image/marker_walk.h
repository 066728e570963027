/*  marker_walk -- the markers of a JPEG, one after the other, over the data of scans.
 *
 *  For files that libjpeg has read without a complaint; of others it is bounded and says that they end.  Pure
 *  functions.
 */
#ifndef MARKER_WALK_H
#define MARKER_WALK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MARKER_SOS = 0xda, MARKER_COMMENT = 0xfe, MARKER_APP_FIRST = 0xe0, MARKER_APP_LAST = 0xef };

typedef struct {
    const uint8_t *bytes;
    size_t size;
    size_t at;                  //  0 before the first; at the end, behind the end marker
    uint8_t code;               //  of the marker that was found
    const uint8_t *segment;     //  from its 0xff to the end of its content
    size_t segment_bytes;
    bool in_scans;              //  the first scan's header has been passed
    bool ended;                 //  by an end marker
} marker_walk_t;

marker_walk_t marker_walk_begin (const uint8_t *bytes, size_t size);
//  The next marker that has content; false: there is none.
bool marker_walk_next (marker_walk_t *self);
//  Whether the one that was found carries metadata: an application's or a comment.
bool marker_walk_is_metadata (const marker_walk_t *self);
//  The next one that does.
bool marker_walk_metadata (marker_walk_t *self);

#endif
