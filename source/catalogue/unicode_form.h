/*  unicode_form -- whether two names are the same text in two Unicode normal forms: a letter and its accent
 *  as one character (NFC), or as two (NFD, as macOS wrote them).  They look the same, and are two files.
 *  Characters beyond the Basic Multilingual Plane are taken as they are.  Plain function; any thread.
 */
#ifndef UNICODE_FORM_H
#define UNICODE_FORM_H
#include <stdbool.h>
#include <stdint.h>

//  Not where they are the same bytes.  Any bytes: what is no UTF-8 equals itself alone.
bool unicode_form_is_other (const char *left, const char *right);

#endif
