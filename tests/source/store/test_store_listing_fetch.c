//  A whole list from a bucket: what its pages and folders hold comes once and in order, through failures that
//  pass; a list that never ends, and one that is refused, are given up.
//
//  What answers is a process of the test's own.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "pace.h"
#include "store_listing.h"

//  More folders than are listed at the same time.  A list may have so many empty pages in a row.
enum { FOLDERS = 40, QUESTIONS = 2 + 2 * FOLDERS, EMPTY_PAGES = 1000 };
//  Of a list that a folder ends: a busy machine learns of the end when further pages are under way.
enum { QUESTIONS_OF_END = QUESTIONS * 3 / 4 };

//  Pauses before another try: a failure has passed by then.
int __wrap_nanosleep (const struct timespec *span, struct timespec *left);
int
__wrap_nanosleep (const struct timespec *span, struct timespec *left)
{
    (void) span; (void) left;
    return 0;
}


//  -- what answers

//  On a busy machine pages come slowly and are asked for again, as often as pace.h allows.
static unsigned
s_with_those_asked_again (unsigned questions)
{
    return questions + (unsigned) (PACE_SHARE * questions) + PACE_SAVED + PACE_OWED;
}

typedef struct {
    char list [16];                     //  questions about another list are those of a test before
    unsigned questions;
    unsigned last_page;                 //  the latest that was asked for
} told_t;

//  A question for a page: below which folder (-1: the address itself), and which page of it.
typedef struct {
    char list [16];
    int folder;
    unsigned page;
} question_t;

static question_t
s_parse (const char *text)
{
    question_t self = { .folder = -1 };
    const char *prefix = strstr (text, "prefix="), *token = strstr (text, "continuation-token=t");
    if (prefix)
        sscanf (prefix, "prefix=%15[a-z]%%2Ff%d", self.list, &self.folder);
    if (token)
        self.page = (unsigned) strtoul (token + strlen ("continuation-token=t"), NULL, 10);
    return self;
}

#define OBJECT "<Contents><Key>%s/%s</Key><ETag>v</ETag><Size>%u</Size></Contents>"
#define NEXT "<NextContinuationToken>t%u</NextContinuationToken>"

//  Half of the folders on each of two pages; "b" on both.  Each folder's objects on two pages, the later name
//  first.
static void
s_write_list (const question_t *self, FILE *body)
{
    char name [16];
    if (self->folder >= 0) {
        snprintf (name, sizeof name, "f%02d/%c", self->folder, self->page == 0? 'x': 'w');
        fprintf (body, OBJECT, self->list, name, (unsigned) self->folder + 100 * self->page);
    }
    else {
        fprintf (body, OBJECT, self->list, "b", 2);
        if (self->page == 1)
            fprintf (body, OBJECT, self->list, "a", 1);
        for (unsigned index = 0; index < FOLDERS / 2; index++)
            fprintf (body, "<CommonPrefixes><Prefix>%s/f%02u/</Prefix></CommonPrefixes>", self->list,
                self->page * FOLDERS / 2 + index);
    }
    if (self->page == 0)
        fprintf (body, NEXT, 1);
}

static void
s_write_page (const question_t *self, FILE *body)
{
    if (strcmp (self->list, "circle") == 0)
        fprintf (body, OBJECT NEXT, self->list, "a", 1, self->page % 3 + 1);
    else
    if (strcmp (self->list, "void") == 0)
        fprintf (body, NEXT, self->page + 1);
    else
    if (strcmp (self->list, "gaps") == 0) {
        bool is_last = self->page == 2 * EMPTY_PAGES + 1;
        if (self->page == EMPTY_PAGES || is_last)
            fprintf (body, OBJECT, self->list, is_last? "b": "a", 1);
        if (!is_last)
            fprintf (body, NEXT, self->page + 1);
    }
    else
        s_write_list (self, body);
}

//  The status that a question has instead of an answer; NULL: it is answered.
static const char *
s_refusal (const question_t *self)
{
    static bool s_were_asked [FOLDERS + 1] [2];
    bool *was_asked = &s_were_asked [self->folder + 1] [self->page % 2], is_first = !*was_asked;
    if (strcmp (self->list, "busy") == 0) {
        *was_asked = true;
        return is_first? "503 Slow Down": NULL;
    }
    if (self->folder != 6 && self->folder != 7)
        return NULL;
    return strcmp (self->list, "down") == 0? "503 Slow Down":
        strcmp (self->list, "closed") == 0? "403 Forbidden": NULL;
}

static void
s_serve_one (int peer, told_t *told)
{
    static char text [8192], answer [64 * 1024];
    size_t used = 0;
    text [0] = 0;
    for (ssize_t got = 1; got > 0 && used < sizeof text - 1 && !strstr (text, "\r\n\r\n"); ) {
        got = recv (peer, text + used, sizeof text - 1 - used, 0);
        used += got > 0? (size_t) got: 0;
        text [used] = 0;
    }
    question_t question = s_parse (text);
    const char *refusal = s_refusal (&question);
    if (strcmp (question.list, told->list) == 0) {
        told->questions++;
        told->last_page = question.page > told->last_page? question.page: told->last_page;
    }
    FILE *file = fmemopen (answer, sizeof answer, "w");
    fprintf (file, "HTTP/1.1 %s\r\nConnection: close\r\n\r\n", refusal? refusal: "200 OK");
    if (!refusal) {
        fputs ("<ListBucketResult>", file);
        s_write_page (&question, file);
        fputs ("</ListBucketResult>", file);
    }
    fclose (file);
    (void) !send (peer, answer, strlen (answer), MSG_NOSIGNAL);
}

typedef struct {
    pid_t process;
    told_t *told;
} world_t;

static int
s_set_up (void **state)
{
    static world_t world;
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    int listener = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal (bind (listener, (struct sockaddr *) &address, length), 0);
    assert_int_equal (listen (listener, 64), 0);
    assert_int_equal (getsockname (listener, (struct sockaddr *) &address, &length), 0);
    world.told = mmap (NULL, sizeof *world.told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true (world.told != MAP_FAILED);
    world.process = fork ();
    if (world.process == 0) {
        prctl (PR_SET_PDEATHSIG, SIGKILL);
        for (int peer; (peer = accept (listener, NULL, NULL)) >= 0; close (peer))
            s_serve_one (peer, world.told);
        _exit (0);
    }
    close (listener);
    char url [64];
    snprintf (url, sizeof url, "http://127.0.0.1:%u", ntohs (address.sin_port));
    setenv ("AWS_ENDPOINT_URL", url, 1);
    setenv ("AWS_ACCESS_KEY_ID", "a", 1);
    setenv ("AWS_SECRET_ACCESS_KEY", "b", 1);
    setenv ("AWS_SHARED_CREDENTIALS_FILE", "/nowhere", 1);
    setenv ("AWS_CONFIG_FILE", "/nowhere", 1);
    *state = &world;
    return 0;
}

static int
s_tear_down (void **state)
{
    world_t *self = *state;
    kill (self->process, SIGKILL);
    waitpid (self->process, NULL, 0);
    return munmap (self->told, sizeof *self->told);
}


//  -- tests

typedef struct {
    store_listing_t listing;
    told_t told;
    char error [900];
    int rc;
} fetched_t;

static fetched_t
s_fetch (void **state, const char *address, uint32_t patience_ms)
{
    world_t *world = *state;
    store_t *store;
    fetched_t self = { .rc = 0 };
    assert_int_equal (store_open (&store, address, self.error, sizeof self.error), 0);
    *world->told = (told_t) { .questions = 0 };
    snprintf (world->told->list, sizeof world->told->list, "%s", strrchr (address, '/') + 1);
    self.rc = store_listing_fetch (&self.listing, store, patience_ms, NULL, self.error, sizeof self.error);
    self.told = *world->told;
    store_destroy (&store);
    return self;
}

static void
s_assert_object (const store_listing_t *listing, size_t index, const char *name, uint64_t bytes)
{
    assert_string_equal (store_listing_name (listing, &listing->objects [index]), name);
    assert_int_equal (listing->objects [index].bytes, bytes);
    assert_ptr_equal (store_listing_find (listing, name), &listing->objects [index]);
    char longer [32];
    snprintf (longer, sizeof longer, "%s!", name);
    assert_null (store_listing_find (listing, longer));
    assert_int_equal (store_listing_from (listing, name), index);
    assert_int_equal (store_listing_from (listing, longer), index + 1);
}

static void
s_assert_whole (void **state, const char *address, unsigned questions)
{
    fetched_t fetched = s_fetch (state, address, 60000);
    assert_string_equal (fetched.error, "");
    assert_int_equal (fetched.rc, 0);
    assert_in_range (fetched.told.questions, questions, s_with_those_asked_again (questions));
    const store_listing_t *listing = &fetched.listing;
    assert_int_equal (listing->count, 2 + 2 * FOLDERS);
    s_assert_object (listing, 0, "a", 1);
    s_assert_object (listing, 1, "b", 2);
    for (unsigned folder = 0; folder < FOLDERS; folder++) {
        char name [16];
        snprintf (name, sizeof name, "f%02u/w", folder);
        s_assert_object (listing, 2 + 2 * folder, name, folder + 100);
        snprintf (name, sizeof name, "f%02u/x", folder);
        s_assert_object (listing, 3 + 2 * folder, name, folder);
    }
    store_listing_clear (&fetched.listing);
}

//  Guards: every object of every page comes once, in order, and is found by its name; no more pages are
//  asked for again than are allowed.
static void
test_a_list_is_whole (void **state)
{
    s_assert_whole (state, "s3://bucket/whole", QUESTIONS);
}

//  Guards: a page that failed is asked for again, and hardly any other is.
static void
test_each_page_fails_once (void **state)
{
    s_assert_whole (state, "s3://bucket/busy", 2 * QUESTIONS);
}

//  Guards: without patience one failure that may pass ends it, and says what the store said.
static void
test_folders_that_stay_busy (void **state)
{
    fetched_t fetched = s_fetch (state, "s3://bucket/down", 0);
    assert_int_equal (fetched.rc, -EBUSY);
    assert_non_null (strstr (fetched.error, "503"));
    assert_true (fetched.told.questions < QUESTIONS_OF_END);
    store_listing_clear (&fetched.listing);
}

//  Guards: of two folders that are refused the first ends it with its reason, and no more is asked.
static void
test_folders_that_are_refused (void **state)
{
    fetched_t fetched = s_fetch (state, "s3://bucket/closed", 60000);
    assert_int_equal (fetched.rc, -EKEYREJECTED);
    assert_non_null (strstr (fetched.error, "403"));
    assert_true (fetched.told.questions < QUESTIONS_OF_END);
    store_listing_clear (&fetched.listing);
}

//  Guards: a thousand empty pages in a row are waited for, twice; one more is a list without an end.
static void
test_empty_pages (void **state)
{
    fetched_t fetched = s_fetch (state, "s3://bucket/gaps", 60000);
    assert_int_equal (fetched.rc, 0);
    assert_int_equal (fetched.told.last_page, 2 * EMPTY_PAGES + 1);
    assert_int_equal (fetched.listing.count, 2);
    store_listing_clear (&fetched.listing);
    fetched = s_fetch (state, "s3://bucket/void", 60000);
    assert_int_equal (fetched.rc, -EPROTO);
    assert_non_null (strstr (fetched.error, "no list of objects"));
    assert_int_equal (fetched.told.last_page, EMPTY_PAGES);
    store_listing_clear (&fetched.listing);
}

//  Guards: pages that come round again end before the third round does.
static void
test_pages_in_a_circle (void **state)
{
    fetched_t fetched = s_fetch (state, "s3://bucket/circle", 60000);
    assert_int_equal (fetched.rc, -EPROTO);
    assert_in_range (fetched.told.questions, 4, s_with_those_asked_again (9));
    store_listing_clear (&fetched.listing);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_a_list_is_whole),
        cmocka_unit_test (test_each_page_fails_once),
        cmocka_unit_test (test_folders_that_stay_busy),
        cmocka_unit_test (test_folders_that_are_refused),
        cmocka_unit_test (test_empty_pages),
        cmocka_unit_test (test_pages_in_a_circle)
    };
    return cmocka_run_group_tests (tests, s_set_up, s_tear_down);
}
