#include "base64.h"
#include <assert.h>
#include <string.h>

static const char s_letters [] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t
base64_text_bytes (size_t bytes)
{
    return (bytes + 2) / 3 * 4;
}

void
base64_write (const uint8_t *data, size_t bytes, char *text)
{
    for (size_t place = 0; place < bytes; place += 3) {
        size_t count = bytes - place < 3? bytes - place: 3;
        uint32_t bits = (uint32_t) data [place] << 16;
        if (count > 1)
            bits |= (uint32_t) data [place + 1] << 8;
        if (count > 2)
            bits |= data [place + 2];
        for (size_t letter = 0; letter < 4; letter++)
            *text++ = letter <= count? s_letters [bits >> (18 - 6 * letter) & 63]: '=';
    }
    *text = 0;
}

static size_t
s_padding (const char *text, size_t length)
{
    size_t padding = 0;
    while (padding < 2 && padding < length && text [length - 1 - padding] == '=')
        padding++;
    return padding;
}

bool
base64_data_bytes (const char *text, size_t length, size_t *bytes_p)
{
    *bytes_p = length / 4 * 3 - (length? s_padding (text, length): 0);
    return length % 4 == 0;
}

//  0 to 63; or 64: none of them.
static uint32_t
s_value (char letter)
{
    const char *place = letter? strchr (s_letters, letter): NULL;
    return place? (uint32_t) (place - s_letters): 64;
}

bool
base64_read (const char *text, size_t length, uint8_t *data)
{
    assert (length % 4 == 0);
    size_t padding = s_padding (text, length);
    for (size_t place = 0; place < length; place += 4) {
        size_t letters = place + 4 == length? 4 - padding: 4;
        uint32_t bits = 0;
        for (size_t letter = 0; letter < 4; letter++) {
            uint32_t value = letter < letters? s_value (text [place + letter]): 0;
            if (value == 64)
                return false;
            bits = bits << 6 | value;
        }
        for (size_t byte = 0; byte + 1 < letters; byte++) {
            *data++ = (uint8_t) (bits >> 16);
            bits = bits << 8 & 0xffffff;
        }
        if (bits && letters < 4)
            return false;
    }
    return true;
}
