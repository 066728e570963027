/*  custom_command -- the command line behind an operation of the operator's own, and what stands for it.
 *
 *  The identity is a digest of the words, of the files that they name, and of what the command says of itself
 *  in its greeting.  So another command, or a changed script, has another identity, and its pixels are never
 *  taken for those of the first.  What a script loads by itself is in it only if its greeting has a version.
 *  Plain data; any thread.
 */
#ifndef CUSTOM_COMMAND_H
#define CUSTOM_COMMAND_H
#include <stddef.h>
#include "custom.h"

typedef struct {
    char **words;               //  for execve, NULL behind the last
    size_t count;
    char *path;                 //  of the executable
} custom_command_t;

//  Words are divided by blanks; '..' and ".." hold one together.  The first is looked for in PATH.  0, or
//  -EINVAL and what is wrong; custom_command_clear is due in both cases.
int custom_command_parse (custom_command_t *self, const char *text, char *error, size_t error_bytes);
void custom_command_clear (custom_command_t *self);
//  0, or -errno and *path_p is the file that cannot be read.
int custom_command_identity (const custom_command_t *self, const char *greeting,
    char identity [CUSTOM_IDENTITY_BYTES + 1], const char **path_p);

#endif
