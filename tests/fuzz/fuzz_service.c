/*  fuzz_service -- any messages of several users to a service and its broker, below the socket: before and
 *  after they have joined.
 *
 *  The input is a sequence of steps.  A step begins with a byte.  Its low three bits say which user speaks
 *  (the operator, two users of tenant a, one of tenant b, a user of no tenant, a key), the next two by which
 *  of four connections.  If bit 5 is set, time goes on instead, by 5 ms times the next byte.  Bit 6: the
 *  frames are as they stand, each two bytes of length (little-endian) and then so many bytes; the next byte
 *  says how many frames.  Otherwise a whole message follows: its kind, the job (0: the connection's last,
 *  else a number of tenant byte / 32), and two bytes of length and a body, which is left out if its length is
 *  65535.
 *
 *  Whatever is said: only tenant b hears of data set `secret`, the user of no tenant hears nothing, and all
 *  is put away at the end.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "reply.h"
#include "service_play.h"

enum { FRAMES = WIRE_FRAMES_MAX, CONNECTIONS = 4, USERS = 8 };

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

typedef struct {
    const uint8_t *at;
    size_t left;
} input_t;

static void
s_require (bool condition)
{
    if (!condition)
        abort ();
}

static uint8_t
s_byte (input_t *input)
{
    if (input->left == 0)
        return 0;
    input->left--;
    return *input->at++;
}

//  In memory of its own, so that a read beyond it is seen.
static frame_t
s_frame (input_t *input, size_t length)
{
    length = length < input->left? length: input->left;
    uint8_t *copy = malloc (length? length: 1);
    s_require (copy);
    memcpy (copy, input->at, length);
    input->at += length;
    input->left -= length;
    return (frame_t) { copy, length };
}

static size_t
s_length (input_t *input)
{
    size_t low = s_byte (input);
    return low | (size_t) s_byte (input) << 8;
}

static size_t
s_raw_frames (input_t *input, frame_t *frames)
{
    size_t count = s_byte (input) % (FRAMES + 1);
    for (size_t index = 0; index < count; index++)
        frames [index] = s_frame (input, s_length (input));
    return count;
}

static uint64_t
s_last_job (const play_t *play, uint32_t peer)
{
    const play_sent_t *joined = play_last (play, peer, WIRE_JOINED);
    return joined? joined->job: 0;
}

static size_t
s_whole_message (input_t *input, const play_t *play, uint32_t peer, frame_t *frames)
{
    uint8_t kind = s_byte (input), number = s_byte (input);
    size_t length = s_length (input), count = 0;
    uint64_t job = number == 0? s_last_job (play, peer): (uint64_t) (number >> 5) << 32 | (number & 31);
    wire_head_t head = reply_head ((wire_kind_t) kind, job, 1);
    input_t text = { (const uint8_t *) &head, sizeof head };
    frames [count++] = s_frame (&text, sizeof head);
    if (length != UINT16_MAX)
        frames [count++] = s_frame (input, length);
    return count;
}

static void
s_step (input_t *input, play_t *play)
{
    //  Users of one tenant have connections of their own, and those of others: else a reply's reader is not
    //  known.
    static const uint32_t users [USERS] = { PLAY_ROOT, PLAY_A1, PLAY_A2, PLAY_B, PLAY_STRANGER, PLAY_KEY,
        PLAY_A1, PLAY_B };
    uint8_t what = s_byte (input);
    uint32_t user = users [what & 7], peer = 10 * user + (what >> 3 & 3);
    frame_t frames [FRAMES + 1] = { { NULL, 0 } };
    if (what & 32) {
        play_turn (play, 5 * (int64_t) s_byte (input));
        return;
    }
    size_t count = what & 64? s_raw_frames (input, frames): s_whole_message (input, play, peer, frames);
    play_say_frames (play, peer, user, frames, count);
    for (size_t index = 0; index < count; index++)
        free ((void *) (uintptr_t) frames [index].data);
}

static void
s_check_sent (const play_t *play)
{
    for (uint32_t connection = 0; connection < CONNECTIONS; connection++) {
        s_require (!play_last (play, 10 * PLAY_STRANGER + connection, 0));
        static const uint32_t others [] = { PLAY_A1, PLAY_A2, PLAY_KEY };
        for (size_t index = 0; index < sizeof others / sizeof *others; index++) {
            const play_sent_t *sent = play_last (play, 10 * others [index] + connection, WIRE_STATUS_REPLY);
            s_require (!sent || !strstr (sent->text, "secret"));
        }
    }
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    input_t input = { data, size };
    play_t *play = play_new (true);
    while (input.left > 0) {
        s_step (&input, play);
        s_check_sent (play);
    }
    play_turn (play, 5);
    play_destroy (&play);
    return 0;
}
