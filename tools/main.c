//  tureen -- one binary; the first argument says what it does.

#include <stdio.h>
#include <string.h>
#include "build_version.h"
#include "command.h"
#include "custom_sandbox.h"
#include "machine.h"
#include "option.h"
#include "serve.h"

static const struct {
    const char *name;
    int (*run) (int argc, char **argv);
    const char *purpose;
} s_commands [] = {
    { "serve", serve_command, "prepare samples once and feed every job that needs them" },
    { "read", command_read, "take batches as a training job would, and measure" },
    { "status", command_status, "show a server's data sets, jobs and counters" },
    { "top", command_top, "show a server's jobs in a terminal, live" },
    { "add", command_add, "let a running server serve further data sets" },
    { "remove", command_remove, "take a data set from a running server" },
    { "drain", command_drain, "let a server's jobs end their epochs, and then the server" },
    { "stop", command_stop, "end a server now" },
    { "work", command_work, "lend this machine's processors to servers on others" },
    { "key", command_key, "make keys for clients on other hosts, and let them in" },
    { "pack", command_pack, "pack a data set, shuffled, for reading in large pieces" },
    { "verify", command_verify, "read a pack back: is every sample whole, is the order a shuffle?" },
    { "unpack", command_unpack, "give the files of a pack back" },
    { "cache", command_cache, "show, check or drop what servers keep on the local disk (--disk)" },
    { "prepare", command_prepare, "run a pipeline on files: what a job will see" },
    { "audit", command_audit, "say whether recorded epochs are what training assumes" }
};

enum { COMMANDS = sizeof s_commands / sizeof s_commands [0] };

static void
s_usage (FILE *stream)
{
    fputs ("usage: tureen COMMAND [OPTION ...]\n\n", stream);
    for (size_t index = 0; index < COMMANDS; index++)
        fprintf (stream, "  %-8s %s\n", s_commands [index].name, s_commands [index].purpose);
    fputs ("\n`tureen COMMAND --help` explains each; `tureen --version` names this build.\n", stream);
}

int
main (int argc, char **argv)
{
    const char *name = argc > 1? argv [1]: "", *names [COMMANDS];
    //  Before anything that what it executes would inherit.
    if (strcmp (name, CUSTOM_SANDBOX_COMMAND) == 0)
        return custom_sandbox_run (argc - 1, argv + 1);
    if (!machine_begin ())
        return 1;
    for (size_t index = 0; index < COMMANDS; index++) {
        names [index] = s_commands [index].name;
        if (strcmp (name, s_commands [index].name) == 0)
            return s_commands [index].run (argc - 1, argv + 1);
    }
    if (strcmp (name, "--version") == 0)
        return printf ("tureen %s\n", build_version ()) < 0;
    if (strcmp (name, "--help") == 0 || strcmp (name, "-h") == 0 || strcmp (name, "help") == 0) {
        s_usage (stdout);
        return 0;
    }
    if (strcmp (name, "explain") == 0) {
        fprintf (stderr, "tureen: there is no command 'explain': a job explains its own samples, in "
            "Python with loader.explain ()\n");
        return 2;
    }
    const char *nearest = *name? option_nearest (name, names, COMMANDS): NULL;
    if (nearest) {
        fprintf (stderr, "tureen: there is no command '%s'; did you mean '%s'?\n", name, nearest);
        return 2;
    }
    if (*name)
        fprintf (stderr, "tureen: there is no command '%s'\n\n", name);
    s_usage (stderr);
    return 2;
}
