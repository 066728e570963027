/*  members_print -- a member of a cluster that does nothing but print the list of members as it sees it.
 *
 *      members_print LIST HOST:PORT BYTES
 *
 *  A line for each change, until standard input ends; then it leaves the list as a server does.
 *
 *      source TEXT                 once
 *      opened MS                   how long members_open took
 *      members NAME=BYTES ..       (* before this one's name)
 *      trouble TEXT                "trouble" alone: there is none
 *      registered 1                or 0
 *      closed MS                   how long members_close took
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "clock.h"
#include "members.h"

enum { STEP_MS = 10 };

static void
s_print_list (members_t *members)
{
    const member_list_t *list = members_take (members);
    printf ("members");
    for (size_t at = 0; at < list->count; at++)
        printf (" %s%s=%" PRIu64, at == list->own? "*": "", list->member [at].name, list->member [at].bytes);
    printf ("\n");
    members_give_back (members, list);
}

static void
s_print_changes (members_t *members)
{
    members_look_t before = { .trouble = "", .is_registered = false }, now;
    uint64_t number = 0;
    bool is_first = true;
    struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
    do {
        members_look (members, &now);
        if (is_first)
            printf ("source %s\n", now.source);
        if (members_number (members) != number) {
            number = members_number (members);
            s_print_list (members);
        }
        if (is_first || strcmp (now.trouble, before.trouble) != 0)
            printf ("trouble%s%s\n", *now.trouble? " ": "", now.trouble);
        if (is_first || now.is_registered != before.is_registered)
            printf ("registered %d\n", now.is_registered);
        before = now;
        is_first = false;
    }
    while (poll (&input, 1, STEP_MS) == 0);
}

int
main (int count, char **arguments)
{
    uint64_t bytes = count == 4? strtoull (arguments [3], NULL, 10): 0;
    if (bytes == 0) {
        fprintf (stderr, "usage: members_print LIST HOST:PORT BYTES\n");
        return 2;
    }
    setvbuf (stdout, NULL, _IOLBF, 0);
    char error [1024];
    members_t *members;
    int64_t begun_ms = clock_now_ms ();
    if (members_open (&members, arguments [1], arguments [2], bytes, error, sizeof error)) {
        fprintf (stderr, "members_print: %s\n", error);
        return 1;
    }
    printf ("opened %" PRId64 "\n", clock_now_ms () - begun_ms);
    s_print_changes (members);
    begun_ms = clock_now_ms ();
    members_close (&members);
    printf ("closed %" PRId64 "\n", clock_now_ms () - begun_ms);
    return 0;
}
