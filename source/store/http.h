/*  http -- what transfers and key services share of HTTP: libcurl's start, and the parts of an answer that we
 *  read ourselves.  All of it is foreign text: each function takes any bytes.
 *  Plain functions; any thread.
 */
#ifndef HTTP_H
#define HTTP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTTP_CODE_BYTES = 64, HTTP_PROXY_BYTES = 16, HTTP_PROXY_SHOWN_BYTES = 300 };

//  Starts libcurl, once; what it frees is wiped, since answers and headers can be secret.  0 or -ENOMEM, and
//  a later call tries again.
int http_begin (void);
//  The end of this CURL handle's transfer does not wait for the thread that asks a name server, which may
//  take long: it ends by itself and frees what it has.  Does nothing with a libcurl before 7.87.
void http_forget_resolver (void *easy);

//  Notes the environment variable by which this CURL handle's transfer goes through a proxy, "https_proxy";
//  "": it goes through none.  proxy: lent for the transfer.  libcurl alone knows which variable counts, and
//  whether no_proxy names the host.
void http_watch_proxy (void *easy, char proxy [HTTP_PROXY_BYTES]);
//  The proxy that this variable names, for people: "http://proxy:3128 (http_proxy)", without user and
//  password.
void http_show_proxy (const char *variable, char shown [HTTP_PROXY_SHOWN_BYTES]);
//  Takes user and password out of what libcurl says of a proxy's address that it cannot use.
void http_hide_password (char *message);

//  The value behind "name:" of a header line, in the line, without blanks around it; NULL: another header.
const char *http_header (const char *line, size_t bytes, const char *name, size_t *value_bytes_p);
//  Content-Range's value, "bytes 0-4095/123456": the first byte and the bytes of the whole object.  False: it
//  is none that can be.
bool http_range (const char *value, size_t bytes, uint64_t *first_p, uint64_t *all_p);
//  The code in an error's XML, "NoSuchKey": its letters and digits; "": none.  Needs no end in the
//  text.
void http_error_code (const char *text, size_t bytes, char code [HTTP_CODE_BYTES]);

#endif
