//  Pages of a store's list: what is in them, in every way that stores write them; and what is no page.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "effort.h"
#include "seed.h"
#include "store_listing.h"

enum { FOLDERS_MAX = 8, PAGE_BYTES = 256 * 1024, OBJECTS_MAX = 40, NAME_BYTES = 24 };

typedef struct {
    char folders [FOLDERS_MAX] [64];
    size_t count;
} seen_t;

static int
s_on_folder (void *context, const char *folder)
{
    seen_t *seen = context;
    assert_true (seen->count < FOLDERS_MAX);
    snprintf (seen->folders [seen->count++], 64, "%s", folder);
    return 0;
}

static int
s_take (store_listing_t *listing, const char *path, const char *page, seen_t *seen, char **token_p)
{
    return store_listing_take_page (listing, path, (const uint8_t *) page, strlen (page), s_on_folder, seen,
        token_p);
}

#define HEAD "<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
#define TAIL "</ListBucketResult>"
#define SIMPLE "<Contents><Key>p/a</Key><ETag>&quot;1&quot;</ETag><Size>5</Size></Contents>"

//  Guards: Amazon's page, a page without quotes around versions, with a namespace's prefix, with owners and
//  other things around, with a line for each element; names below the address, folders' marks left out.
static void
test_pages (void **state)
{
    (void) state;
    store_listing_t listing = { .text = NULL };
    seen_t seen = { .count = 0 };
    char *token;
    assert_int_equal (s_take (&listing, "my data", HEAD "<Name>b</Name><Prefix>my+data/</Prefix>"
        "<NextContinuationToken>1/a b&lt;=</NextContinuationToken><KeyCount>4</KeyCount>"
        "<EncodingType>url</EncodingType>"
        "<Contents><Key>my+data/</Key><ETag>\"0\"</ETag><Size>0</Size></Contents>"
        "<Contents><Key>my+data/x%2By/a%26%C3%A4.jpg</Key>"
        "<LastModified>2026-01-01T00:00:00.000Z</LastModified>"
        "<Owner><ID>1</ID><Key>no key</Key></Owner><ETag>&quot;abc-2&quot;</ETag><Size>123456789012</Size>"
        "<StorageClass>STANDARD</StorageClass></Contents>"
        "<CommonPrefixes><Prefix>my+data/100%25/</Prefix></CommonPrefixes>" TAIL, &seen, &token), 0);
    assert_string_equal (token, "1/a b<=");
    free (token);
    assert_int_equal (s_take (&listing, "my data", "<s3:ListBucketResult xmlns:s3='x'>"
        "<s3:Contents><s3:Key>my data/100%.jpg</s3:Key><s3:Size>7</s3:Size><s3:ETag>f00</s3:ETag>"
        "</s3:Contents>"
        "<s3:Contents><s3:Size>0</s3:Size><s3:Key>my data/none</s3:Key></s3:Contents>"
        "<s3:Contents><s3:Size>1</s3:Size><s3:Key>my data/weak</s3:Key><s3:ETag>W/&quot;b&quot;</s3:ETag>"
        "</s3:Contents>"
        "</s3:ListBucketResult>", &seen, &token), 0);
    assert_null (token);
    assert_int_equal (s_take (&listing, "my data", "<ListBucketResult>\n  <Contents>\n    "
        "<Key>my data/line</Key>\n    <Size>3</Size>\n    <ETag>\"c\"</ETag>\n  </Contents>\n"
        "  <CommonPrefixes>\n    <Prefix>my data/lines/</Prefix>\n  </CommonPrefixes>\n</ListBucketResult>\n",
        &seen, &token), 0);
    assert_int_equal (seen.count, 2);
    assert_string_equal (seen.folders [0], "100%/");
    assert_string_equal (seen.folders [1], "lines/");
    static const struct { const char *name, *version; uint64_t bytes; } expected [] = {
        { "x+y/a&\xc3\xa4.jpg", "\"abc-2\"", 123456789012 }, { "100%.jpg", "\"f00\"", 7 },
        { "none", "", 0 }, { "weak", "W/\"b\"", 1 }, { "line", "\"c\"", 3 } };
    assert_int_equal (listing.count, 5);
    for (size_t index = 0; index < listing.count; index++) {
        const store_object_t *object = &listing.objects [index];
        assert_string_equal (store_listing_name (&listing, object), expected [index].name);
        assert_string_equal (store_listing_version (&listing, object), expected [index].version);
        assert_int_equal (object->bytes, expected [index].bytes);
    }
    store_listing_clear (&listing);
}

//  Guards: what is no page, or not whole, leaves the listing as it was.
static void
test_no_pages (void **state)
{
    (void) state;
    static const char *const pages [] = { "", "no", "<html></html>", "<Error><Code>x</Code></Error>", HEAD,
        "<a>" HEAD SIMPLE TAIL "</a>", HEAD "<Contents><Size>5</Size></Contents>" TAIL,
        HEAD "<Contents><Key>p/a</Key></Contents>" TAIL,
        HEAD "<Contents><Key>p/a</Key><Size>-5</Size></Contents>" TAIL,
        HEAD "<Contents><Key>p/a</Key><Size>5x</Size></Contents>" TAIL,
        HEAD "<Contents><Key>p/a</Key><Size>99999999999999999999</Size></Contents>" TAIL,
        HEAD "<Contents><Key>other/a</Key><Size>5</Size></Contents>" TAIL,
        HEAD "<Contents><Key>pa</Key><Size>5</Size></Contents>" TAIL,
        HEAD SIMPLE TAIL "more" };
    for (size_t index = 0; index < sizeof pages / sizeof *pages; index++) {
        store_listing_t listing = { .text = NULL };
        seen_t seen = { .count = 0 };
        char *token;
        if (s_take (&listing, "p", pages [index], &seen, &token) != -EPROTO)
            fail_msg ("'%s' is taken", pages [index]);
        assert_null (token);
        assert_int_equal (listing.count, 0);
        store_listing_clear (&listing);
    }
    //  A version and a name without an end.
    char *page = malloc (PAGE_BYTES), long_text [9000], *token;
    memset (long_text, 'x', sizeof long_text);
    long_text [sizeof long_text - 1] = 0;
    store_listing_t listing = { .text = NULL };
    seen_t seen = { .count = 0 };
    snprintf (page, PAGE_BYTES,
        HEAD "<Contents><Key>p/a</Key><ETag>%.200s</ETag><Size>5</Size></Contents>" TAIL, long_text);
    assert_int_equal (s_take (&listing, "p", page, &seen, &token), -EPROTO);
    snprintf (page, PAGE_BYTES, HEAD "<Contents><Key>p/%s</Key><Size>5</Size></Contents>" TAIL, long_text);
    assert_int_equal (s_take (&listing, "p", page, &seen, &token), -EPROTO);
    store_listing_clear (&listing);
    free (page);
}

//  Guards: a page that ends anywhere is none.
static void
test_cut_pages (void **state)
{
    (void) state;
    static const char page [] = HEAD SIMPLE "<CommonPrefixes><Prefix>p/f/</Prefix></CommonPrefixes>" TAIL;
    for (size_t bytes = 0; bytes < sizeof page - 1; bytes++) {
        store_listing_t listing = { .text = NULL };
        seen_t seen = { .count = 0 };
        char *token;
        assert_int_equal (store_listing_take_page (&listing, "p", (const uint8_t *) page, bytes, s_on_folder,
            &seen, &token), -EPROTO);
        assert_int_equal (listing.count + seen.count, 0);
        store_listing_clear (&listing);
    }
}

static char
s_letter (uint64_t *state, bool is_encoded)
{
    static const char plain [] = "ab/. %+&<>'\"=~-";
    return is_encoded && test_below (state, 4) == 0? (char) (1 + test_below (state, 255)):
        plain [test_below (state, sizeof plain - 1)];
}

static size_t
s_write_name (char *target, size_t room, const char *name, bool is_encoded, uint64_t *state)
{
    size_t used = 0;
    for (; *name; name++) {
        bool is_safe = strchr ("ab/.=~-", *name), needs_entity = strchr ("&<>'\"", *name);
        const char *format = !is_encoded? (needs_entity? "&#%u;": "%c"):
            *name == ' ' && test_below (state, 2)? "+":
            is_safe && test_below (state, 4)? "%c": "%%%02X";
        used += (size_t) snprintf (target + used, room - used, format, (unsigned) (unsigned char) *name);
    }
    return used;
}

//  Property: names of any bytes come back, in whatever way they are written, and are found.
static void
test_any_names (void **state)
{
    (void) state;
    char *page = malloc (PAGE_BYTES);
    for (uint64_t round = 0, seed = test_seed (); round < EFFORT (300); round++, seed++) {
        uint64_t random = seed;
        bool is_encoded = test_below (&random, 2);
        size_t count = 1 + test_below (&random, OBJECTS_MAX);
        char names [OBJECTS_MAX] [NAME_BYTES];
        size_t used = (size_t) snprintf (page, PAGE_BYTES, HEAD "%s",
            is_encoded? "<EncodingType>url</EncodingType>": "");
        for (size_t index = 0; index < count; index++) {
            size_t length = 1 + test_below (&random, NAME_BYTES - 3);
            for (size_t at = 0; at < length; at++)
                names [index] [at] = s_letter (&random, is_encoded);
            names [index] [length] = 'x';           //  no folder
            names [index] [length + 1] = 0;
            used += (size_t) snprintf (page + used, PAGE_BYTES - used, "<Contents><Key>");
            used += s_write_name (page + used, PAGE_BYTES - used, names [index], is_encoded, &random);
            used += (size_t) snprintf (page + used, PAGE_BYTES - used, "</Key><Size>%zu</Size></Contents>",
                index);
        }
        snprintf (page + used, PAGE_BYTES - used, TAIL);
        store_listing_t listing = { .text = NULL };
        seen_t seen = { .count = 0 };
        char *token;
        if (s_take (&listing, "", page, &seen, &token) || listing.count != count)
            fail_msg ("seed %llu: %zu of %zu in %s", (unsigned long long) seed, listing.count, count, page);
        for (size_t index = 0; index < count; index++) {
            const store_object_t *object = &listing.objects [index];
            assert_string_equal (store_listing_name (&listing, object), names [index]);
            assert_int_equal (object->bytes, index);
        }
        store_listing_clear (&listing);
    }
    free (page);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_pages),
        cmocka_unit_test (test_no_pages),
        cmocka_unit_test (test_cut_pages),
        cmocka_unit_test (test_any_names)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
