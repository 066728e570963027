/*  claims -- what tests of the endpoint begin and end with, and claims: granted, or
 *  refused with words.
 *
 *  All directories are the test's own, by way of XDG_RUNTIME_DIR.  After cmocka.h.
 */
#ifndef CLAIMS_H
#define CLAIMS_H
#include "endpoint.h"
#include "scratch.h"

enum { ERROR_BYTES = 512 };
enum { OTHERS = 65534 };            //  the number of a group

typedef struct {
    scratch_folder_t scratch;
    char socket [100];              //  an ipc path in it
    char text [120];                //  the endpoint of that path
} claims_t;

extern const endpoint_access_t claims_all_users, claims_keys, claims_group;

int claims_begin (void **state);
int claims_end (void **state);

//  A path in the scratch folder; good until the next call.
const char *claims_in (const claims_t *self, const char *name);
void claims_make_file (const char *path, const char *text);
//  A socket at path; -1 or the descriptor that listens.  Not listening: as a dead server leaves it.
int claims_make_socket (const char *path, bool live);
//  Opens the folder in which ours is to every user.
void claims_open_the_way (const claims_t *self);

endpoint_t *claims_claim_for (const char *text, const endpoint_access_t *access);
endpoint_t *claims_claim (const char *text);
void claims_assert_refused_for (const char *text, const endpoint_access_t *access, int code,
    const char *what, const char *remedy);
void claims_assert_refused (const char *text, int code, const char *what, const char *remedy);

#endif
