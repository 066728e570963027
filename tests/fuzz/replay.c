/*  replay -- main () for a fuzz target without libFuzzer: runs every file of the folders and files it is
 *  given.  */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static int
replay_file (const char *path)
{
    FILE *file = fopen (path, "rb");
    if (!file) {
        perror (path);
        return 1;
    }
    size_t size = 0, room = 1 << 16;
    uint8_t *data = malloc (room);
    for (size_t got; data && (got = fread (data + size, 1, room - size, file)) > 0;) {
        size += got;
        if (size == room)
            data = realloc (data, room *= 2);
    }
    fclose (file);
    if (!data)
        return 1;
    LLVMFuzzerTestOneInput (data, size);
    free (data);
    return 0;
}

//  Returns the number of files that could not be read; counts those replayed.
static int
replay_path (const char *path, size_t *replayed)
{
    struct stat status;
    if (stat (path, &status) || !S_ISDIR (status.st_mode)) {
        ++*replayed;
        return replay_file (path);
    }
    struct dirent **entries;
    int count = scandir (path, &entries, NULL, alphasort);
    int failures = count < 0;
    for (int index = 0; index < count; index++) {
        char name [4096];
        snprintf (name, sizeof name, "%s/%s", path, entries [index]->d_name);
        if (entries [index]->d_name [0] != '.')
            failures += replay_path (name, replayed);
        free (entries [index]);
    }
    if (count >= 0)
        free (entries);
    return failures;
}

int
main (int argc, char **argv)
{
    size_t replayed = 0;
    int failures = 0;
    for (int index = 1; index < argc; index++)
        failures += replay_path (argv [index], &replayed);
    printf ("replayed %zu inputs\n", replayed);
    return failures || !replayed;       //  an empty corpus is a broken test
}
