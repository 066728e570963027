/*  profile -- what AWS's two files, credentials and config, say of one profile.
 *  Plain data; any thread.
 */
#ifndef PROFILE_H
#define PROFILE_H
#include <stdbool.h>
#include <stddef.h>

//  NULL: it is not set.  Begins as all zero.
typedef struct {
    bool is_there;                          //  the file has a section of the profile
    char *key, *secret, *token;             //  secret and token: wiped when they are cleared
    char *region, *endpoint;
    char *role, *session, *token_file;      //  of a web identity
    char *program;                          //  credential_process: a command; wiped, as it may say a secret
    //  other ways to keys, which Tureen does not go
    bool has_source;                        //  source_profile or credential_source
    bool has_sso;
} profile_t;

//  Adds what the file says of the profile called name; a file that is not there says nothing.  is_config:
//  sections are called "profile NAME".  0; or -errno: the file cannot be read, and error (always ended) says
//  why; or -ENOMEM, and error is as it was.
int profile_read (profile_t *self, const char *path, const char *name, bool is_config, char *error,
    size_t error_bytes);
void profile_clear (profile_t *self);

#endif
