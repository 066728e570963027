/*  prepare_files -- the files of `tureen prepare`: their common folder, their names below it, and what lies
 *  beside them in the folders of further fields.
 */
#ifndef PREPARE_FILES_H
#define PREPARE_FILES_H
#include <stddef.h>
#include <stdint.h>

typedef struct prepare_files prepare_files_t;

//  Takes count (> 0) paths.  NULL: said on standard error which file is not there, or given twice.
prepare_files_t *prepare_files_new (char *const *paths, size_t count);
void prepare_files_destroy (prepare_files_t **self_p);

//  The path that was given, and the one below the folder that all have in common; lent.
const char *prepare_files_path (const prepare_files_t *self, size_t index);
const char *prepare_files_name (const prepare_files_t *self, size_t index);

//  The file in folder that has the same name below it but for the extension: malloc'ed, the caller's; NULL:
//  there is none, or more than one, said on standard error.
char *prepare_files_partner (const prepare_files_t *self, size_t index, const char *folder);

//  Reads a whole file: malloc'ed, the caller's.  NULL: said on standard error.
uint8_t *prepare_files_read (const char *path, size_t *size_p);

#endif
