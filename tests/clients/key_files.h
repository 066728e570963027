/*  key_files -- certificates for tests, as `tureen key new` writes them, in a folder of the test's own.
 *  After cmocka.h.  */
#ifndef KEY_FILES_H
#define KEY_FILES_H
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

enum { KEY_CHARS = 40 };

typedef struct {
    char public_key [KEY_CHARS + 1];
    char secret_key [KEY_CHARS + 1];
} key_pair_t;

static inline key_pair_t
key_make (void)
{
    key_pair_t pair;
    assert_int_equal (zmq_curve_keypair (pair.public_key, pair.secret_key), 0);
    return pair;
}

static inline void
key_write_text (const char *path, const char *text, size_t size, mode_t mode)
{
    int file = open (path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true (file >= 0);
    assert_int_equal (write (file, text, size), size);
    assert_int_equal (fchmod (file, mode), 0);
    close (file);
}

//  PATH and PATH_secret.
static inline void
key_write (const key_pair_t *pair, const char *path)
{
    char text [512], secret [256];
    int size = snprintf (text, sizeof text,
        "#   A certificate\n\nmetadata\n    name = \"a \"quoted\" = name\"\ncurve\n"
        "    public-key = \"%s\"\n", pair->public_key);
    key_write_text (path, text, (size_t) size, 0644);
    snprintf (secret, sizeof secret, "%s_secret", path);
    size += snprintf (text + size, sizeof text - (size_t) size, "    secret-key = \"%s\"\n",
        pair->secret_key);
    key_write_text (secret, text, (size_t) size, 0600);
}

static inline void
key_remove (const char *path)
{
    char secret [256];
    snprintf (secret, sizeof secret, "%s_secret", path);
    unlink (path);
    unlink (secret);
}

//  What a group of tests has: a folder, in which a client (key_own) and a server have their files; and a pair
//  that is neither's.
static char key_folder [] = "/tmp/tureen-keys-XXXXXX", key_path [128], key_server_path [128];
static key_pair_t key_own, key_server, key_other;

static inline int
key_set_up (void **state)
{
    (void) state;
    assert_non_null (mkdtemp (key_folder));
    unsetenv ("TUREEN_KEY");
    unsetenv ("TUREEN_SERVER_KEY");
    key_own = key_make ();
    key_server = key_make ();
    key_other = key_make ();
    snprintf (key_path, sizeof key_path, "%s/own", key_folder);
    snprintf (key_server_path, sizeof key_server_path, "%s/server", key_folder);
    key_write (&key_own, key_path);
    key_write (&key_server, key_server_path);
    return 0;
}

static inline int
key_tear_down (void **state)
{
    (void) state;
    key_remove (key_path);
    key_remove (key_server_path);
    return rmdir (key_folder);
}

#endif
