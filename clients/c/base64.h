/*  base64 -- bytes as text and back: RFC 4648, with padding, strictly.  */
#ifndef BASE64_H
#define BASE64_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

//  Without the zero at the end.
size_t base64_text_bytes (size_t bytes);
//  Writes base64_text_bytes (bytes) characters and a zero.
void base64_write (const uint8_t *data, size_t bytes, char *text);

//  How many bytes the text encodes, by its length and padding; false: an impossible length.
bool base64_data_bytes (const char *text, size_t length, size_t *bytes_p);
//  Decodes that many bytes.  False: an invalid character, or unused bits that are not 0.
bool base64_read (const char *text, size_t length, uint8_t *data);

#endif
