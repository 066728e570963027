/*  service_asserts -- what the service's tests assert of its answers.  Not in service_play, which a fuzz
 *  target uses as well, without cmocka.  Include cmocka.h before.
 */
#ifndef SERVICE_ASSERTS_H
#define SERVICE_ASSERTS_H
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "service_play.h"

//  The last ERROR that was sent to the connection has this code, and the fragment in its text.
static inline void
assert_error (const play_t *play, uint32_t peer, const char *code, const char *fragment)
{
    const play_sent_t *sent = play_last (play, peer, WIRE_ERROR);
    char wanted [80];
    snprintf (wanted, sizeof wanted, "{\"error\":\"%s\"", code);
    if (!sent || strncmp (sent->text, wanted, strlen (wanted)) != 0 || !strstr (sent->text, fragment))
        fail_msg ("to %u: expected %s with '%s', it was tag %" PRIu64 ": %s", peer, code, fragment,
            sent? sent->tag: 0, sent? sent->text: "nothing");
}

//  The same, and it answers this tag.
static inline void
assert_error_for (const play_t *play, uint32_t peer, uint64_t tag, const char *code, const char *fragment)
{
    assert_error (play, peer, code, fragment);
    assert_int_equal (play_last (play, peer, WIRE_ERROR)->tag, tag);
}

#endif
