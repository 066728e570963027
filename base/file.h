/*  file -- files and folders that users name: opened without waiting for whatever they may be instead, read
 *  and written whole, kept when the power fails, and told from those that another user put there.  Any
 *  thread; no state.
 */
#ifndef FILE_H
#define FILE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

//  ---- read: a regular file; or a pipe that is open already and has no name, as the shell's <(COMMAND) gives
//  one.  A fifo, a device or a socket is refused.

//  A descriptor that waits for what is read, close-on-exec; or -errno, -EINVAL where it is no regular file.
int file_open (const char *path);
//  The same as a stream; NULL with errno.
FILE *file_stream (const char *path);
//  The whole file, malloc'ed, with a zero behind it that does not count.  0; or -errno, -EFBIG with more than
//  bytes_max.
int file_whole (const char *path, size_t bytes_max, char **bytes_p, size_t *size_p);
//  How many bytes from `offset` on could be read: fewer at the file's end, or where a read fails (errno).  0
//  in errno beforehand tells which.
size_t file_read_at (int fd, void *memory, size_t bytes, uint64_t offset);
//  All of them, from `offset` on.  0 or -errno; then some of them may be written.
int file_write_at (int fd, const void *memory, size_t bytes, uint64_t offset);
//  The same from the descriptor's place on.
int file_write (int fd, const void *memory, size_t bytes);
//  What -errno or errno of these means: "is no regular file", or what the system says.
const char *file_error (int error);

//  ---- kept when the power fails.  Where a file system syncs nothing (EINVAL: pipes and terminals, and
//  folders of some), there is nothing to wait for, and that is no error.

//  The bytes of a file, or the names in a folder.  0 or -errno, with errno.
int file_sync (int fd);
//  The name of a folder, which is in the folder above it.  That one may be readable for others only.  The
//  name of a mount point is not there: that folder is of another file system.  0 or -errno.
int file_sync_name (int folder);

//  ---- of another user.  In a folder where all users may write (/tmp), each of them can make a name before
//  the user that needs it: an output folder, to exchange the files in it; a link, by which output goes into
//  another file; a state to resume from.  What a user names elsewhere is that user's word, also where it is
//  another user's.

//  Whether path belongs neither to this user, nor to root, nor to the owner of the folder that it is in, and
//  all users may write to that folder.  Of a link, its own owner counts.  False also where there is nothing.
//  Call it after path was opened, and before what was opened is used: no other user can then exchange it for
//  one that passes.
bool file_is_foreign (const char *path);

//  What to say of it, behind the path.
#define FILE_FOREIGN_WORDS "belongs to another user, and all users may write to the folder that it is in, " \
    "so it may have been put there for you: remove it, or choose another place"

#endif
