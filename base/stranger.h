/*  stranger -- whether another user may have put a file or a folder where this user expects an own one.
 *
 *  In a folder where all users may write (/tmp), each of them can make a name before the user that needs it:
 *  an output folder, to exchange the files in it; a link, by which output goes into another file; a state to
 *  resume from.  What a user names elsewhere is that user's word, also where it is another user's.
 */
#ifndef STRANGER_H
#define STRANGER_H
#include <stdbool.h>

//  Whether path belongs neither to this user, nor to root, nor to the owner of the folder that it is in, and
//  all users may write to that folder.  Of a link, its own owner counts.  False also where there is nothing.
//  Call it after path was opened, and before what was opened is used: no other user can then exchange it for
//  one that passes.
bool stranger_owns (const char *path);

//  What to say of it, behind the path.
#define STRANGER_WORDS "belongs to another user, and all users may write to the folder that it is in, so " \
    "it may have been put there for you: remove it, or choose another place"

#endif
