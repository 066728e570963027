/*  fuzz_members -- any bytes as an answer of etcd's, and as frames between members: refused, or members with
 *  names that are some, and frames within their bounds.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "cluster.h"
#include "members.h"
#include "utf8.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static void
s_require (int condition)
{
    if (!condition)
        abort ();
}

//  What goes to people, and into a header.
static void
s_try_texts (const char *data, size_t size)
{
    char text [24];
    if (members_answer_error (data, size, text, sizeof text))
        for (size_t at = 0, length; text [at]; at += length) {
            length = utf8_safe_sequence (text + at, strlen (text + at));
            s_require (length > 0);
        }
    if (members_answer_token (data, size, text, sizeof text))
        for (const char *at = text; *at; at++)
            s_require (*at > ' ' && *at <= '~');
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    enum { ROOM = 8 };
    static member_t members [ROOM];
    char strange [40];
    size_t count;
    int found = members_answer_range ((const char *) data, size, "p/", members, ROOM, &count, strange,
        sizeof strange);
    s_require (found >= -1 && found <= ROOM);
    for (int at = 0; at < found; at++)
        s_require (members_is_name (members [at].name, strlen (members [at].name)));
    members_answer_number ((const char *) data, size, "result", "TTL");
    s_try_texts ((const char *) data, size);
    peer_question_frame_t question;
    peer_answer_frame_t answer;
    if (cluster_read_question (data, size, &question) && question.kind != PEER_PING)
        s_require (question.bytes > 0 && question.bytes <= PEER_BLOCK_BYTES
            && question.offset + question.bytes > question.offset);
    if (cluster_read_answer (data, size, &answer))
        s_require (answer.reason < PEER_REASONS);
    return 0;
}
