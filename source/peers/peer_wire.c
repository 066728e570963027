#include "peer_wire.h"
#include <string.h>

_Static_assert (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "frames are read as they are");

bool
peer_wire_read_question (const void *frame, size_t size, peer_question_frame_t *question)
{
    if (size != sizeof *question)
        return false;
    memcpy (question, frame, sizeof *question);
    if (question->magic != PEER_WIRE_MAGIC || question->version != PEER_WIRE_VERSION)
        return false;
    if (question->kind == PEER_PING)
        return true;
    return (question->kind == PEER_GET || question->kind == PEER_RENEW) && question->bytes > 0
        && question->bytes <= PEER_BLOCK_BYTES && question->offset <= UINT64_MAX - PEER_BLOCK_BYTES;
}

bool
peer_wire_read_answer (const void *frame, size_t size, peer_answer_frame_t *answer)
{
    if (size != sizeof *answer)
        return false;
    memcpy (answer, frame, sizeof *answer);
    return answer->magic == PEER_WIRE_MAGIC && answer->version == PEER_WIRE_VERSION
        && answer->kind >= PEER_BYTES && answer->kind <= PEER_PONG && answer->reason < PEER_REASONS
        && answer->zero == 0;
}

const char *
peer_wire_reason (peer_reason_t reason)
{
    static const char *const words [PEER_REASONS] = {
        [PEER_REASON_NONE] = "none", [PEER_REASON_BUSY] = "busy", [PEER_REASON_FULL] = "full",
        [PEER_REASON_NOT_HOME] = "not_home", [PEER_REASON_UNKNOWN_DATA] = "unknown_data",
        [PEER_REASON_FAILED] = "failed", [PEER_REASON_INVALID] = "invalid"
    };
    return words [reason];
}
