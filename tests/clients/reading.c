#include "reading.h"
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <jansson.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { ARGUMENTS_MAX = 24 };

char reading_out [READING_BYTES], reading_err [READING_BYTES], reading_ids [READING_BYTES];
const char *reading_stdout;
static char s_directory [] = "/tmp/tureen-read-XXXXXX";

const char *
reading_path (const char *name)
{
    static char path [128];
    snprintf (path, sizeof path, "%s/%s", s_directory, name);
    return path;
}

void
reading_load (const char *name, char text [READING_BYTES])
{
    FILE *file = fopen (reading_path (name), "r");
    size_t size = file? fread (text, 1, READING_BYTES - 1, file): 0;
    text [size] = 0;
    if (file)
        fclose (file);
}

pid_t
reading_start_program (const char *name, const char *command, fake_server_t *fake,
    const char *const arguments [])
{
    char program [512];
    const char *folder = getenv ("TUREEN_BIN");
    snprintf (program, sizeof program, "%s/%s", folder? folder: ".", name);
    const char *all [ARGUMENTS_MAX + 5] = { name, command };
    size_t count = command? 2: 1;
    while (*arguments)
        all [count++] = *arguments++;
    if (fake) {
        all [count++] = "--connect";
        all [count++] = fake_endpoint (fake);
    }
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init (&files);
    unlink (reading_path ("ids"));
    posix_spawn_file_actions_addopen (&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen (&files, 1,
        reading_stdout && *reading_stdout? reading_stdout: reading_path ("out"),
        O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (reading_stdout && !*reading_stdout)
        posix_spawn_file_actions_addclose (&files, 1);
    posix_spawn_file_actions_addopen (&files, 2, reading_path ("err"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t process;
    int rc = posix_spawn (&process, program, &files, NULL, (char *const *) all, environ);
    posix_spawn_file_actions_destroy (&files);
    if (rc)
        fail_msg ("%s: %s", program, strerror (rc));
    return process;
}

pid_t
reading_start (fake_server_t *fake, const char *const arguments [])
{
    return reading_start_program ("tureen_read", NULL, fake, arguments);
}

int
reading_finish (pid_t process)
{
    int status;
    assert_int_equal (waitpid (process, &status, 0), process);
    reading_load ("out", reading_out);
    reading_load ("err", reading_err);
    reading_load ("ids", reading_ids);
    return WIFEXITED (status)? WEXITSTATUS (status): 1000 + WTERMSIG (status);
}

double
reading_result (const char *key)
{
    json_t *root = json_loads (reading_out, 0, NULL);
    if (!json_is_number (json_object_get (root, key)))
        fail_msg ("no %s in: %s (%s)", key, reading_out, reading_err);
    double value = json_number_value (json_object_get (root, key));
    json_decref (root);
    return value;
}

fake_server_t *
reading_fake (uint64_t samples, uint64_t epochs)
{
    fake_plan_t plan = { .samples = samples, .epochs = epochs };
    return fake_new (&plan);
}

void
reading_write (const char *name, const char *text)
{
    FILE *file = fopen (reading_path (name), "w");
    assert_non_null (file);
    fputs (text, file);
    fclose (file);
}

int
reading_set_up (void **state)
{
    (void) state;
    return mkdtemp (s_directory)? 0: -1;
}

int
reading_tear_down (void **state)
{
    (void) state;
    static const char *const names [] = { "out", "err", "ids", "list", "record", "state", "state.new" };
    for (size_t index = 0; index < sizeof names / sizeof *names; index++)
        unlink (reading_path (names [index]));
    return rmdir (s_directory);
}
