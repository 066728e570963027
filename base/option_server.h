/*  option_server -- the options by which a command finds its server.  */
#ifndef OPTION_SERVER_H
#define OPTION_SERVER_H
#include "option.h"

//  Rows of a table: endpoint, key and server_key of the tureen_options_t that is this member of the type.
#define OPTION_SERVER_ROWS(type, member) \
    { "connect", "ENDPOINT", OPTION_AT (type, member.endpoint), \
        "where the server listens (default: $TUREEN_ENDPOINT, else the default endpoint,\n" \
        "see `tureen serve --help`)" }, \
    { "key", "PATH", OPTION_AT (type, member.key), \
        "of this client's certificate, for a server with keys on tcp (default: $TUREEN_KEY)" }, \
    { "server-key", "KEY", OPTION_AT (type, member.server_key), \
        "that server's public key, or the path of its certificate (default: $TUREEN_SERVER_KEY)" }

#endif
