/*  custom_command -- the command line behind an operation of the operator's own, and what stands for it.
 *
 *  The identity is a digest of the words, of the files that they name, and of what the command says of itself
 *  in its greeting.  So another command, or a changed script, has another identity, and its pixels are never
 *  taken for those of the first.  What a script loads by itself is in it only if its greeting has a version.
 *  The files are those that custom_command_parse found: a process that was started between that and a
 *  custom_command_look, or between two, has run no others, whenever it read them.
 *  Plain data, not changed after custom_command_parse; any thread.
 */
#ifndef CUSTOM_COMMAND_H
#define CUSTOM_COMMAND_H
#include <stddef.h>
#include "custom.h"

enum { CUSTOM_COMMAND_WORDS_MAX = 64, CUSTOM_COMMAND_DIGEST_BYTES = CUSTOM_IDENTITY_BYTES / 2 };

typedef struct {
    char *words [CUSTOM_COMMAND_WORDS_MAX + 1];         //  for execve, NULL behind the last
    size_t count;
    char *path;                 //  of the executable
    uint8_t files [CUSTOM_COMMAND_WORDS_MAX] [CUSTOM_COMMAND_DIGEST_BYTES];     //  0: the word names none
} custom_command_t;

//  Words are divided by blanks; '..' and ".." hold one together.  The first is looked for in PATH.  0, or
//  -EINVAL and what is wrong; custom_command_clear is due in both cases.
int custom_command_parse (custom_command_t *self, const char *text, char *error, size_t error_bytes);
void custom_command_clear (custom_command_t *self);
//  0; -ESTALE: *path_p is another file than it was, or gone; or -errno, and it cannot be read.
int custom_command_look (const custom_command_t *self, const char **path_p);
void custom_command_identity (const custom_command_t *self, const char *greeting,
    char identity [CUSTOM_IDENTITY_BYTES + 1]);

#endif
