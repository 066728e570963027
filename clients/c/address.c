#include "address.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime_folder.h"

//  The default address; the length that it would have, as snprintf.
static int
s_default (char address [ADDRESS_BYTES])
{
    char folder [PATH_MAX];
    int length = runtime_folder_default (folder, sizeof folder);
    if (length < 0 || (size_t) length >= sizeof folder)
        return ADDRESS_BYTES;
    return snprintf (address, ADDRESS_BYTES, "ipc://%s/server.sock", folder);
}

bool
address_resolve (const char *given, char address [ADDRESS_BYTES], message_error_t *error)
{
    assert (address);
    if (!given || !*given)
        given = getenv ("TUREEN_ENDPOINT");
    int length = given && *given? snprintf (address, ADDRESS_BYTES, "%s", given): s_default (address);
    if (length < 0 || length >= ADDRESS_BYTES)
        return message_fail (error, "the endpoint is longer than %d bytes", ADDRESS_BYTES - 1);
    if (strncmp (address, "ipc://", 6) && strncmp (address, "tcp://", 6))
        return message_fail (error, "endpoint \"%.200s\": expected ipc://PATH or tcp://HOST:PORT", address);
    return true;
}

//  Whether a server listens here without --listen.
static bool
s_is_ordinary (const char *address)
{
    char usual [ADDRESS_BYTES];
    return s_default (usual) < ADDRESS_BYTES && !strcmp (address, usual);
}

//  The command that starts a server there: what follows a data set.
static void
s_listen (const char *address, char text [ADDRESS_BYTES])
{
    bool is_tcp = !strncmp (address, "tcp://", 6);
    text [0] = 0;
    if (!s_is_ordinary (address))
        snprintf (text, ADDRESS_BYTES, " --listen %.150s%s", address, is_tcp? " --keys DIR": "");
}

bool
address_absent (const char *address, const char *how, message_error_t *error)
{
    char listen [ADDRESS_BYTES];
    s_listen (address, listen);
    return message_fail (error, "no server is at %.150s: %s; start one with: "
        "tureen serve --dataset NAME=DIRECTORY%s", address, how, listen);
}

bool
address_fail (const char *address, int timeout_ms, message_error_t *error)
{
    char listen [ADDRESS_BYTES];
    s_listen (address, listen);
    //  A server does not answer users that it does not serve, so that they learn nothing.
    char user [64] = "";
    if (!strncmp (address, "ipc://", 6))
        snprintf (user, sizeof user, ", or it does not serve user %u", (unsigned) geteuid ());
    return message_fail (error, "no server answered at %.150s within %g seconds%s; start one with: "
        "tureen serve --dataset NAME=DIRECTORY%s", address, timeout_ms / 1e3, user, listen);
}
