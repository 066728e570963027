#include "zmtp_parser.h"
#include <string.h>

enum {
    FLAG_MORE = 1, FLAG_LONG = 2, FLAG_COMMAND = 4,
    SIGNATURE_FIRST = 0xff, SIGNATURE_LAST = 0x7f, SIGNATURE_LAST_AT = 9, VERSION_AT = 10, VERSION = 3,
    MECHANISM_AT = 12, SHORT_HEAD_BYTES = 2
};

//  One byte of the greeting: the first byte that differs reveals a peer with an older version.
static void
s_greet (zmtp_parser_t *self, uint8_t byte)
{
    uint8_t at = self->greeted++;
    if ((at == 0 && byte != SIGNATURE_FIRST) || (at == SIGNATURE_LAST_AT && byte != SIGNATURE_LAST)
    ||  (at == VERSION_AT && byte < VERSION))
        self->is_wrong = true;
    if (at == MECHANISM_AT)
        self->is_encrypted = byte == 'C';
}

static uint64_t
s_size (const zmtp_parser_t *self)
{
    if (!(self->head [0] & FLAG_LONG))
        return self->head [1];
    uint64_t size = 0;
    for (size_t index = 1; index < ZMTP_PARSER_HEAD_BYTES; index++)
        size = size << 8 | self->head [index];
    return size;
}

//  A head is complete.
static void
s_begin_frame (zmtp_parser_t *self, uint64_t body_max, zmtp_parser_news_t *news)
{
    uint64_t body = s_size (self) < body_max? s_size (self): body_max;
    self->head_count = 0;
    self->body_left = s_size (self);
    if (self->head [0] & FLAG_COMMAND)
        return;
    news->frames++;
    news->body_bytes += body;
    self->frames++;
    news->open_frames++;
    news->open_bytes += body;
    if (self->head [0] & FLAG_MORE)
        return;
    self->frames = 0;
    news->open_frames = news->open_bytes = 0;
    news->has_ended = true;
}

static void
s_take_head (zmtp_parser_t *self, uint8_t byte, uint64_t body_max, zmtp_parser_news_t *news)
{
    self->head [self->head_count++] = byte;
    if (self->head_count == (self->head [0] & FLAG_LONG? ZMTP_PARSER_HEAD_BYTES: SHORT_HEAD_BYTES))
        s_begin_frame (self, body_max, news);
}

void
zmtp_parser_pass (zmtp_parser_t *self, const uint8_t *bytes, size_t size, uint64_t body_max,
    zmtp_parser_news_t *news)
{
    *news = (zmtp_parser_news_t) { .frames = 0 };
    size_t at = 0;
    while (at < size && !self->is_wrong) {
        uint64_t rest = size - at, body = self->body_left < rest? self->body_left: rest;
        at += (size_t) body;
        self->body_left -= body;
        if (at == size)
            break;
        if (self->greeted < ZMTP_PARSER_GREETING_BYTES)
            s_greet (self, bytes [at++]);
        else
            s_take_head (self, bytes [at++], body_max, news);
    }
}
