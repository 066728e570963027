/*  fuzz_credentials -- any text as a client's certificate.  */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>
#include "credentials.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static void
s_require (int condition)
{
    if (!condition)
        abort ();
}

//  What was read is what libzmq takes for keys, and is the same when it is written and read again.
static void
s_check (const credentials_t *credentials)
{
    uint8_t key [32];
    char text [256], public_key [CREDENTIALS_KEY_CHARS + 1];
    credentials_t again;
    s_require (strlen (credentials->public_key) == CREDENTIALS_KEY_CHARS
        && zmq_z85_decode (key, credentials->public_key) != NULL);
    int used = snprintf (text, sizeof text, "curve\n    public-key = \"%s\"\n", credentials->public_key);
    if (credentials_are_given (credentials)) {
        s_require (zmq_curve_public (public_key, credentials->secret_key) == 0
            && !strcmp (public_key, credentials->public_key));
        used += snprintf (text + used, sizeof text - (size_t) used, "    secret-key = \"%s\"\n",
            credentials->secret_key);
    }
    s_require (!credentials_parse (&again, text, (size_t) used)
        && !memcmp (&again, credentials, sizeof again));
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    //  In memory of its own, so that reading past the end is seen.
    char *text = malloc (size? size: 1);
    s_require (text != NULL);
    if (size)
        memcpy (text, data, size);
    credentials_t credentials, wiped = { .public_key = "" };
    if (credentials_parse (&credentials, text, size))
        s_require (!memcmp (&credentials, &wiped, sizeof wiped));
    else
        s_check (&credentials);
    free (text);
    return 0;
}
