/*  kept_messages -- what clients, servers and workers of each release say: tests/golden/VERSION/, a file a
 *  message or state.  The code of today understands it.
 */
#ifndef KEPT_MESSAGES_H
#define KEPT_MESSAGES_H
#include <glob.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

//  Calls use for each file with this ending, ".hex" or ".json": name is "0.1.0/join", of a file below
//  tests/golden without its ending.  Returns how many there are.
static inline size_t
kept_messages (const char *ending, void (*use) (const char *name))
{
    const char *source = getenv ("TUREEN_SOURCE");
    char pattern [1024], name [128];
    glob_t found;
    size_t folder = (size_t) snprintf (pattern, sizeof pattern, "%s/tests/golden/", source? source: ".");
    snprintf (pattern + folder, sizeof pattern - folder, "[0-9]*/*%s", ending);
    if (glob (pattern, 0, NULL, &found))
        return 0;
    for (size_t index = 0; index < found.gl_pathc; index++) {
        const char *path = found.gl_pathv [index];
        snprintf (name, sizeof name, "%.*s", (int) (strlen (path) - folder - strlen (ending)), path + folder);
        use (name);
    }
    size_t count = found.gl_pathc;
    globfree (&found);
    return count;
}

#endif
