/*  reading -- `tureen read` as a process, for its tests: run against a fake server, with a folder for what it
 *  prints and writes.
 */
#ifndef READING_H
#define READING_H
#include <stdint.h>
#include <sys/types.h>
#include "fake_server.h"

enum { READING_BYTES = 16384 };

//  What the last one that was waited for printed, and its file `ids`.
extern char reading_out [READING_BYTES], reading_err [READING_BYTES], reading_ids [READING_BYTES];
//  Where standard output goes: a path; "": closed; NULL: to the file `out`.
extern const char *reading_stdout;

//  Of a group of tests.
int reading_set_up (void **state);
int reading_tear_down (void **state);
//  Of a file in the folder; good until the next call.
const char *reading_path (const char *name);
//  A whole file as a text; "" if there is none.
void reading_load (const char *name, char text [READING_BYTES]);
void reading_write (const char *name, const char *text);
//  Starts it with arguments up to NULL; output goes to files.  fake: its endpoint is added.
pid_t reading_start_program (const char *name, const char *command, fake_server_t *fake,
    const char *const arguments []);
pid_t reading_start (fake_server_t *fake, const char *const arguments []);
//  Its exit status, or 1000 + the signal; loads what it wrote.
int reading_finish (pid_t process);
//  A number of what it printed as JSON.
double reading_result (const char *key);
fake_server_t *reading_fake (uint64_t samples, uint64_t epochs);

#define RUN(fake, ...) reading_finish (reading_start (fake, (const char *const []) { __VA_ARGS__, NULL }))
#define START(fake, ...) reading_start (fake, (const char *const []) { __VA_ARGS__, NULL })

#endif
