#include "location.h"
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>
#include "store.h"

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

const char *
location_remedy (const char *path)
{
    size_t size = strspn (path, LETTERS "0123456789+.-");
    if (size == 0 || strncmp (path + size, "://", 3) != 0)
        return "check the path";
    if (size == 4 && strncasecmp (path, "file", 4) == 0)
        return "give the path alone, without file://";
    if (store_is_meant (path))
        return "an object store or web server is read only where data are served, packed, verified or "
            "unpacked: give a folder of this machine";
    return "of addresses only s3://, http:// and https:// are known: copy the data to a folder of this "
        "machine, or mount it, and give that folder";
}

static bool
s_ends_in (const char *path, const char *ending)
{
    size_t length = strlen (path), size = strlen (ending);
    return length > size && strcasecmp (path + length - size, ending) == 0;
}

bool
location_is_tar (const char *path)
{
    static const char *const tars [] = { ".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.zst", ".tar.bz2" };
    for (size_t index = 0; index < sizeof tars / sizeof *tars; index++)
        if (s_ends_in (path, tars [index]))
            return true;
    return false;
}

const char *
location_packer (const char *name)
{
    static const char *const others [] = { ".parquet", ".arrow", ".lmdb", ".mdb", ".mds" };
    for (size_t index = 0; index < sizeof others / sizeof *others; index++)
        if (s_ends_in (name, others [index]))
            return "python3 -m tureen.pack";
    return location_is_tar (name)? "tureen pack": NULL;
}

bool
location_is_table (const char *name)
{
    return s_ends_in (name, ".csv");
}

const char *
location_folder_remedy (const char *path)
{
    static const char *const lists [] = { ".tsv", ".jsonl" };
    static const char *const others [] = { ".zip", ".7z", ".rar", ".h5", ".hdf5", ".tfrecord", ".beton" };
    if (location_is_tar (path))
        return "make a pack of the tar file with `tureen pack`, and give the pack's folder";
    if (location_packer (path))
        return "make a pack of it with `python3 -m tureen.pack`, and give the pack's folder";
    if (location_is_table (path))
        return "make a labels file of the table with `python3 -m tureen.labels`, and give the folder of the "
            "images";
    for (size_t index = 0; index < sizeof lists / sizeof *lists; index++)
        if (s_ends_in (path, lists [index]))
            return "give the folder that this list lies in, or make a pack of what it lists with `tureen "
                "pack`";
    for (size_t index = 0; index < sizeof others / sizeof *others; index++)
        if (s_ends_in (path, others [index]))
            return "files of this kind are not read: extract the samples into a folder with one folder a "
                "class, and give that";
    return "give the folder that holds the class folders";
}
