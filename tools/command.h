/*  command -- what the program runs for its first argument, but for `serve` (serve.h).
 *
 *  argv [0] is that argument.  Each returns the exit status, and says on standard error why it is not 0.
 */
#ifndef COMMAND_H
#define COMMAND_H
#include <stdbool.h>
#include "option.h"

//  0; 1 no answer; 2 unusable arguments.
int command_status (int argc, char **argv);
//  0 the server serves the data sets; 1 no answer, or it refuses; 2 unusable arguments.
int command_add (int argc, char **argv);
//  0 it does not serve it any more; 1 no answer, or it refuses; 2 unusable arguments.
int command_remove (int argc, char **argv);
//  0 the server drains, or with --wait has ended; 1 no answer, or it refuses; 2 unusable arguments.
int command_drain (int argc, char **argv);
//  0 the server has ended; 1 no answer, or it refuses; 2 unusable arguments.
int command_stop (int argc, char **argv);
//  0 done; 1 it could not be done; 2 unusable arguments.
int command_key (int argc, char **argv);
//  0; 1 at run time: no server, refused, server gone, output not written; 2 unusable arguments; or 128 + the
//  signal that ended it.  Handles SIGINT and SIGTERM from here on: call it once a process.
int command_read (int argc, char **argv);
//  0 all prepared; 1 some were not (each is named); 2 unusable arguments.
int command_prepare (int argc, char **argv);
//  0 clean; 1 faults; 2 unusable arguments or files.
int command_audit (int argc, char **argv);
//  0 done; 1 something was damaged, or could not be done; 2 unusable arguments.
int command_cache (int argc, char **argv);
//  0 packed; 1 it failed; 2 unusable arguments; 128 + N stopped by signal N.
int command_pack (int argc, char **argv);
//  NAME=mask:FOLDER, NAME=image:FOLDER or NAME=file:FOLDER: ends the name in place.  False: it is none of
//  them.
bool command_pack_split_field (char *text, bool *is_mask_p, char **folder_p);
//  0 all are back; 1 some are not (each is named); 2 unusable arguments.
int command_unpack (int argc, char **argv);
//  0 all whole and shuffled; 1 not (standard output says what); 2 unusable arguments.
int command_verify (int argc, char **argv);
//  Shows a server until a key ends it.
int command_top (int argc, char **argv);
//  Runs until a signal ends it.
int command_work (int argc, char **argv);

//  Rows of an option table (option.h), by which a command finds its server: endpoint, key and server_key of
//  the tureen_options_t that is this member of the type.
#define COMMAND_SERVER_ROWS(type, member) \
    { "connect", "ENDPOINT", OPTION_AT (type, member.endpoint), \
        "where the server listens (default: $TUREEN_ENDPOINT, else the default endpoint,\n" \
        "see `tureen serve --help`)" }, \
    { "key", "PATH", OPTION_AT (type, member.key), \
        "of this client's certificate, for a server with keys on tcp (default: $TUREEN_KEY)" }, \
    { "server-key", "KEY", OPTION_AT (type, member.server_key), \
        "that server's public key, or the path of its certificate (default: $TUREEN_SERVER_KEY)" }

#endif
