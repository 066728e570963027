/*  fuzz_certificate -- any bytes as a file of the folder of keys.  */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "certificate.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static void
s_require (int condition)
{
    if (!condition)
        abort ();
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    //  Exactly as much as there is, so that a byte too far is noticed.
    char *text = malloc (size? size: 1);
    s_require (text != NULL);
    memcpy (text, data, size);
    certificate_t certificate;
    const char *reason = certificate_parse (&certificate, text, size);
    if (reason)
        s_require (*reason && !*certificate.public_text && !*certificate.secret_text);
    else
        s_require (certificate_is_key (certificate.public_text)
            && (!*certificate.tenant || certificate_is_name (certificate.tenant)));
    free (text);
    return 0;
}
