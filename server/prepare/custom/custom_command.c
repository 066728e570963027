#include "custom_command.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <sodium.h>
#include "needed.h"

enum { BLOCK_BYTES = 64 * 1024, FILE_BYTES_MAX = 64 * 1024 * 1024,
    DIGEST_BYTES = CUSTOM_COMMAND_DIGEST_BYTES };
_Static_assert (DIGEST_BYTES >= crypto_generichash_BYTES_MIN, "libsodium makes such digests");

//  ---- words

static bool
s_is_blank (char character)
{
    return character == ' ' || character == '\t' || character == '\n';
}

//  Writes the next word to target, and returns what is behind it; NULL: a quotation mark is not closed.
static const char *
s_word (const char *text, char *target)
{
    char quote = 0;
    for (; *text && (quote || !s_is_blank (*text)); text++)
        if (quote && *text == quote)
            quote = 0;
        else
        if (!quote && (*text == '\'' || *text == '"'))
            quote = *text;
        else
            *target++ = *text;
    *target = 0;
    return quote? NULL: text;
}

static int
s_fail (char *error, size_t error_bytes, const char *what, const char *name)
{
    snprintf (error, error_bytes, what, name);
    return -EINVAL;
}

static bool
s_is_file (const char *path)
{
    struct stat status;
    return stat (path, &status) == 0 && S_ISREG (status.st_mode);
}

//  As a shell would find it: by its path if it has a slash, else in the folders of PATH.
static int
s_find (custom_command_t *self, char *error, size_t error_bytes)
{
    const char *name = self->words [0], *folders = strchr (name, '/')? "": getenv ("PATH");
    char path [PATH_MAX];
    for (const char *at = folders? folders: "/usr/bin:/bin"; ; at++) {
        size_t size = strcspn (at, ":");
        int length = snprintf (path, sizeof path, "%.*s%s%s", (int) size, at, size? "/": "", name);
        if (length > 0 && (size_t) length < sizeof path && s_is_file (path)) {
            if (access (path, X_OK) != 0)
                return s_fail (error, error_bytes, "'%s' may not be executed: make it so (chmod +x), or "
                    "name the program that runs it, as in python3 FILE", path);
            self->path = needed_memory (strdup (path));
            return 0;
        }
        at += size;
        if (!*at)
            return s_fail (error, error_bytes, "there is no program '%s': check the path, or PATH", name);
    }
}

//  ---- the identity

static void
s_add (crypto_generichash_state *state, const void *bytes, uint64_t size)
{
    crypto_generichash_update (state, (const unsigned char *) &size, sizeof size);
    crypto_generichash_update (state, bytes, size);
}

static int
s_add_content (crypto_generichash_state *state, int file)
{
    unsigned char *block = needed_memory (malloc (BLOCK_BYTES));
    ssize_t size;
    while ((size = read (file, block, BLOCK_BYTES)) > 0)
        crypto_generichash_update (state, block, (size_t) size);
    int rc = size < 0? -errno: 0;
    free (block);
    return rc;
}

//  Of a very large file (weights of a network) its size and the time of its last change stand for it.
static int
s_add_file (crypto_generichash_state *state, const char *path)
{
    int file = open (path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (file < 0)
        return -errno;
    int rc = fstat (file, &status)? -errno: 0;
    if (rc == 0) {
        int64_t told [] = { status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec };
        bool is_large = status.st_size > FILE_BYTES_MAX;
        s_add (state, told, is_large? sizeof told: sizeof *told);
        rc = is_large? 0: s_add_content (state, file);
    }
    close (file);
    return rc;
}

//  Of the file that a word names, now; zeros: none.
static int
s_digest (const char *path, uint8_t digest [DIGEST_BYTES])
{
    crypto_generichash_state state;
    memset (digest, 0, DIGEST_BYTES);
    if (!s_is_file (path))
        return 0;
    crypto_generichash_init (&state, NULL, 0, DIGEST_BYTES);
    int rc = s_add_file (&state, path);
    if (rc == 0)
        crypto_generichash_final (&state, digest, DIGEST_BYTES);
    return rc;
}

static const char *
s_path (const custom_command_t *self, size_t index)
{
    return index? self->words [index]: self->path;
}

int
custom_command_look (const custom_command_t *self, const char **path_p)
{
    int rc = 0;
    for (size_t index = 0; rc == 0 && index < self->count; index++) {
        uint8_t digest [DIGEST_BYTES];
        *path_p = s_path (self, index);
        rc = s_digest (*path_p, digest);
        if (rc == -ENOENT || (rc == 0 && memcmp (digest, self->files [index], DIGEST_BYTES) != 0))
            rc = -ESTALE;
    }
    return rc;
}

void
custom_command_identity (const custom_command_t *self, const char *greeting,
    char identity [CUSTOM_IDENTITY_BYTES + 1])
{
    static const char tag [] = "tureen-operation-1";
    crypto_generichash_state state;
    unsigned char digest [DIGEST_BYTES];
    crypto_generichash_init (&state, NULL, 0, sizeof digest);
    s_add (&state, tag, sizeof tag);
    s_add (&state, greeting, strlen (greeting));
    for (size_t index = 0; index < self->count; index++) {
        s_add (&state, self->words [index], strlen (self->words [index]));
        s_add (&state, self->files [index], DIGEST_BYTES);
    }
    crypto_generichash_final (&state, digest, sizeof digest);
    sodium_bin2hex (identity, CUSTOM_IDENTITY_BYTES + 1, digest, sizeof digest);
}

//  ---- all of it

static int
s_parse_words (custom_command_t *self, const char *text, char *error, size_t error_bytes)
{
    char *word = needed_memory (malloc (strlen (text) + 1));
    const char *rest = text;
    while (rest && *(rest += strspn (rest, " \t\n")) && self->count < CUSTOM_COMMAND_WORDS_MAX) {
        rest = s_word (rest, word);
        self->words [self->count++] = needed_memory (strdup (word));
    }
    free (word);
    if (!rest)
        return s_fail (error, error_bytes, "a quotation mark is not closed in: %s", text);
    if (*rest)
        return s_fail (error, error_bytes, "more than 64 words in: %s", text);
    return self->count > 0? 0: s_fail (error, error_bytes, "there is no command%s", "");
}

int
custom_command_parse (custom_command_t *self, const char *text, char *error, size_t error_bytes)
{
    *self = (custom_command_t) { .count = 0 };
    int rc = s_parse_words (self, text, error, error_bytes);
    rc = rc? rc: s_find (self, error, error_bytes);
    for (size_t index = 0; rc == 0 && index < self->count; index++)
        if (s_digest (s_path (self, index), self->files [index]))
            rc = s_fail (error, error_bytes, "'%s' cannot be read: make it readable", s_path (self, index));
    return rc;
}

void
custom_command_clear (custom_command_t *self)
{
    for (size_t index = 0; index < self->count; index++)
        free (self->words [index]);
    free (self->path);
    *self = (custom_command_t) { .count = 0 };
}
