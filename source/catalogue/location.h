/*  location -- the half of an error that helps: what a user should do about a path that does not exist, or is
 *  of another kind than the command takes.  Any thread.
 */
#ifndef LOCATION_H
#define LOCATION_H
#include <stdbool.h>

//  The remedy if path does not exist: half a sentence.  Addresses (s3://, hf://, https://) are told from
//  paths.
const char *location_remedy (const char *path);

//  Whether its name is that of a tar file, compressed or not.
bool location_is_tar (const char *path);

//  The command that makes packs of files with such a name: "tureen pack" or "python3 -m tureen.pack"; NULL:
//  none does.
const char *location_packer (const char *name);

//  Whether its name is that of a table of which `python3 -m tureen.labels` makes a labels file.
bool location_is_table (const char *name);

//  The remedy if path should be a data set's folder and is a file: half a sentence.
const char *location_folder_remedy (const char *path);

#endif
