/*  peer_wire -- the messages between servers that keep blocks for each other.
 *
 *  A question is one frame, peer_question_frame_t.  An answer is a frame, peer_answer_frame_t, and behind a
 *  PEER_BYTES two more: a checksum of 32 bits for each unit (block_data.h), and the bytes.  The member that
 *  asked checks them, so a home does not look at what it gives.  Little-endian.
 *
 *      GET     asks the home of a block for some units of it           -> BYTES, or NO with a reason
 *      PING    asks whether the server is there                        -> PONG
 *      RENEW   says that some units turned out damaged: the home drops them.  No answer.
 *
 *  An object has a number within its data set: of a pack its volume, of single objects the sample's id.  No
 *  state; any thread.
 */
#ifndef PEER_WIRE_H
#define PEER_WIRE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PEER_WIRE_MAGIC = 0x72505554,       //  "TUPr"
    PEER_WIRE_VERSION = 1,
    PEER_BLOCK_BYTES = 4 * 1024 * 1024  //  of a data set's address space (block_data.h); has one home
};

typedef enum { PEER_GET = 1, PEER_PING, PEER_RENEW } peer_question_kind_t;
typedef enum { PEER_BYTES = 1, PEER_NO, PEER_PONG } peer_answer_kind_t;

//  Why a home gives nothing.  All mean that the store is to be asked.
typedef enum {
    PEER_REASON_NONE,
    PEER_REASON_BUSY,                   //  it has enough questions
    PEER_REASON_FULL,                   //  it does not have them, and has no room to keep them
    PEER_REASON_NOT_HOME,               //  nor is it their home, as it sees the members
    PEER_REASON_UNKNOWN_DATA,           //  it does not serve the data set, or has another version of it
    PEER_REASON_FAILED,                 //  the store did not give them to it
    PEER_REASON_INVALID,                //  the question makes no sense
    PEER_REASONS
} peer_reason_t;

typedef struct {
    uint32_t magic;
    uint16_t version, kind;
    uint64_t number;                    //  chosen by the asking member; comes back
    uint64_t key [2];                   //  of the data set
    uint64_t object, offset, bytes;     //  bytes: at most PEER_BLOCK_BYTES
} peer_question_frame_t;

typedef struct {
    uint32_t magic;
    uint16_t version, kind;
    uint64_t number;
    uint32_t reason, zero;
} peer_answer_frame_t;

_Static_assert (sizeof (peer_question_frame_t) == 56, "no padding");
_Static_assert (sizeof (peer_answer_frame_t) == 24, "no padding");

//  Whether the frame is a question, or an answer, of this version; then it is in *question or *answer.
bool peer_wire_read_question (const void *frame, size_t size, peer_question_frame_t *question);
bool peer_wire_read_answer (const void *frame, size_t size, peer_answer_frame_t *answer);
//  Its word in `status` and /metrics: "full"; static.
const char *peer_wire_reason (peer_reason_t reason);

#endif
