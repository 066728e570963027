/*  disk_sync -- what is written stays when the power fails.  Any thread; no state.
 *
 *  Where a file system syncs nothing (EINVAL: pipes and terminals, and folders of some), there is nothing to
 *  wait for, and that is no error.
 */
#ifndef DISK_SYNC_H
#define DISK_SYNC_H

//  The bytes of a file, or the names in a folder.  0 or -errno, with errno.
int disk_sync (int fd);
//  The name of a folder, which is in the folder above it.  That one may be readable for others only.  The
//  name of a mount point is not there: that folder is of another file system.  0 or -errno.
int disk_sync_name (int folder);

#endif
