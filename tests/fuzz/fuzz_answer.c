/*  fuzz_answer -- any bytes as what a store or a key service answers: header lines, the XML of errors,
 *  and keys in XML and JSON.  The first byte chooses the parser.  */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "http.h"
#include "key_source.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static void
s_require (int condition)
{
    if (!condition)
        abort ();
}

static void
s_header_line (const char *text, size_t size)
{
    size_t length;
    const char *value = http_header (text, size, "ETag", &length);
    s_require (!value || (value >= text && value + length <= text + size));
    value = http_header (text, size, "Content-Range", &length);
    uint64_t first, all;
    if (value && http_range (value, length, &first, &all))
        s_require (first < all);
}

static void
s_code (const char *text, size_t size)
{
    char code [HTTP_CODE_BYTES];
    http_error_code (text, size, code);
    s_require (strlen (code) < HTTP_CODE_BYTES && strpbrk (code, "<> \r\n\"'&") == NULL);
}

//  Keys that were taken can stand in a header; others are none.
static void
s_keys (int (*parse) (const char *, size_t, account_key_t **, char *), const char *text, size_t size)
{
    account_key_t *key;
    char code [KEY_SOURCE_CODE_BYTES];
    int rc = parse (text, size, &key, code);
    s_require ((rc == 0) == (key != NULL) && strlen (code) < sizeof code);
    if (!key)
        return;
    s_require (strlen (key->name) > 0 && strlen (key->name) <= ACCOUNT_KEY_NAME_MAX
        && !strpbrk (key->name, "\r\n /") && strncmp (key->secret, "AWS4", 4) == 0
        && strlen (key->secret) > 4);
    s_require (!key->token || (strlen (key->token) <= ACCOUNT_KEY_TOKEN_MAX
        && !strpbrk (key->token, "\r\n ")));
    account_key_release (&key);
}

static void
s_word (const char *text, size_t size)
{
    char word [KEY_SOURCE_WORD_BYTES];
    s_require (key_source_parse_word (text, size, word) == (word [0] != 0) && !strpbrk (word, " \r\n"));
}

static void
s_time (const char *text, size_t size)
{
    char ended [64];
    int64_t seconds;
    size = size < sizeof ended - 1? size: sizeof ended - 1;
    memcpy (ended, text, size);
    ended [size] = 0;
    if (key_source_parse_time (ended, &seconds))
        s_require (seconds > -100000 && seconds < (int64_t) 8000 * 366 * 86400);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    //  In memory of its own, so that reading past the end is seen.
    char *text = malloc (size);
    s_require (text != NULL);
    memcpy (text, data + 1, size - 1);
    switch (data [0]) {
    case 'h':
        s_header_line (text, size - 1);
        break;
    case 'e':
        s_code (text, size - 1);
        break;
    case 'x':
        s_keys (key_source_parse_xml, text, size - 1);
        break;
    case 'j':
        s_keys (key_source_parse_json, text, size - 1);
        break;
    case 'w':
        s_word (text, size - 1);
        break;
    default:
        s_time (text, size - 1);
    }
    free (text);
    return 0;
}
