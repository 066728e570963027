/*  zmtp_parser -- the frames of a ZMTP 3 connection, as its bytes pass by: how many, how large, and where
 *  messages end.
 *
 *  From the ZMTP 3.0 specification: a greeting of 64 bytes, then frames: a byte of flags, a size of one byte
 *  or eight, the body.
 *  Under CURVE the flag for more frames is encrypted: each frame counts as a message then.  Owner: one
 *  thread.
 */
#ifndef ZMTP_PARSER_H
#define ZMTP_PARSER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ZMTP_PARSER_GREETING_BYTES = 64, ZMTP_PARSER_HEAD_BYTES = 9 };

//  All zero at the beginning.
typedef struct {
    uint8_t greeted;            //  bytes of the greeting so far
    bool is_wrong;              //  not ZMTP 3: the parser counts nothing from here on
    bool is_encrypted;
    uint8_t head [ZMTP_PARSER_HEAD_BYTES];
    uint8_t head_count;
    uint64_t body_left;
    uint32_t frames;            //  of the message that has not ended
} zmtp_parser_t;

//  The frames in some bytes.  Frames with commands (handshake, heartbeats) are no part of messages, and not
//  counted.
typedef struct {
    uint64_t frames;
    uint64_t body_bytes;        //  of these frames, received already or not
    uint64_t open_frames;       //  those of them that belong to an unfinished message ..
    uint64_t open_bytes;
    bool has_ended;             //  .. which began in these bytes: the message that was open before has ended
} zmtp_parser_news_t;

//  A body of more than body_max counts as body_max: ZeroMQ, which bounds sizes, will not take it.
void zmtp_parser_pass (zmtp_parser_t *self, const uint8_t *bytes, size_t size, uint64_t body_max,
    zmtp_parser_news_t *news);

#endif
