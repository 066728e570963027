/*  stranger -- whether another user may have put a file or a folder where this user expects an own one.
 *
 *  In a folder where everybody may write (/tmp), anybody can make a name before its user does: an output folder
 *  whose files the maker can then exchange, a link that leads what is written to another file, a state to go
 *  on from.  What a user names elsewhere is that user's word, whoever owns it.
 */
#ifndef STRANGER_H
#define STRANGER_H
#include <stdbool.h>

//  Whether path belongs neither to this user, nor to root, nor to the owner of the folder that it is in, and
//  everybody may write to that folder.  Of a link, its own owner counts.  False also where there is nothing.
//  Call it after path was opened, and before what was opened is used: nobody can exchange it for one that
//  passes.
bool stranger_owns (const char *path);

//  What to say of it, behind the path.
#define STRANGER_WORDS "belongs to another user, who may have put it there for you, as everybody may write " \
    "to the folder that it is in: remove it, or choose another place"

#endif
