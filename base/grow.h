/*  grow -- an array that grows by one item at a time: its room doubles.  No state.  */
#ifndef GROW_H
#define GROW_H
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

//  items_p: the array's pointer, NULL at first; size: bytes of an item.  Makes room for one more than count.
//  False: there is no memory, and all is as it was.
static inline bool
grow_by_one (void *items_p, size_t count, size_t *room_p, size_t size)
{
    if (count < *room_p)
        return true;
    void *items;
    memcpy (&items, items_p, sizeof items);
    size_t room = *room_p? *room_p * 2: 16;
    void *more = reallocarray (items, room, size);
    if (!more)
        return false;
    memcpy (items_p, &more, sizeof more);
    *room_p = room;
    return true;
}

#endif
