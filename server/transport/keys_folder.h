/*  keys_folder -- the folder of keys (keys.h) on the disk, for the server and for `tureen key`.  No state;
 *  any thread.  */
#ifndef KEYS_FOLDER_H
#define KEYS_FOLDER_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "certificate.h"

typedef struct {
    int folder, allowed;                //  descriptors; -1: not open
    uid_t owner;                        //  the server's user
} keys_folder_t;

//  Opens a guarded folder: it must be a folder, owned by us (for root: by any user) and writable only for its
//  owner; so must allowed/ in it.  make: first makes what is missing (0700).  0, or -errno, nothing open, and
//  in error a sentence with the remedy.
int keys_folder_open (keys_folder_t *self, const char *path, bool make, char *error, size_t error_bytes);
void keys_folder_close (keys_folder_t *self);

//  Files in allowed/ that may be certificates, in no order: calls visit for each name until it returns false.
//  0, or -errno.
int keys_folder_each (int allowed, bool (*visit) (void *context, const char *name), void *context);
//  Reads the certificate of a name in allowed/, without a secret.  0; -EBADMSG: *reason_p (static) says why
//  it admits no key; otherwise -errno.
int keys_folder_read (const keys_folder_t *self, const char *name, certificate_t *certificate,
    const char **reason_p);

#endif
