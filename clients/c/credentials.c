#include "credentials.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#define Z85 "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
#define SECRET_SUFFIX "_secret"

enum { KEY_BYTES = 32, PATH_BYTES = 4096 };

void
credentials_wipe (credentials_t *self)
{
    explicit_bzero (self, sizeof *self);
}

bool
credentials_are_given (const credentials_t *self)
{
    return *self->secret_key != 0;
}

//  --------------------------------------------------------------------------
//  A certificate's text

//  A piece of the text: a line, or a part of one.
typedef struct {
    const char *text;
    size_t size;
} piece_t;

static bool
s_is_word (piece_t piece, const char *word)
{
    return piece.size == strlen (word) && !memcmp (piece.text, word, piece.size);
}

static bool
s_is_blank (char letter)
{
    return letter == ' ' || letter == '\t' || letter == '\r';
}

static piece_t
s_trim (piece_t piece)
{
    for (; piece.size && s_is_blank (*piece.text); piece.text++, piece.size--);
    for (; piece.size && s_is_blank (piece.text [piece.size - 1]); piece.size--);
    return piece;
}

//  40 characters of Z85, for 32 bytes.
static bool
s_is_key (const char *text)
{
    uint8_t key [KEY_BYTES];
    bool is_key = strnlen (text, CREDENTIALS_KEY_CHARS + 1) == CREDENTIALS_KEY_CHARS
        && strspn (text, Z85) == CREDENTIALS_KEY_CHARS && zmq_z85_decode (key, text);
    explicit_bzero (key, sizeof key);
    return is_key;
}

//  NAME = "KEY", in the section `curve`.
static const char *
s_take_key (credentials_t *self, piece_t line)
{
    const char *equals = memchr (line.text, '=', line.size);
    if (!equals)
        return "it has a line under curve that is not NAME = \"KEY\"";
    piece_t name = s_trim ((piece_t) { line.text, (size_t) (equals - line.text) });
    piece_t value = s_trim ((piece_t) { equals + 1, line.size - (size_t) (equals + 1 - line.text) });
    char *key = s_is_word (name, "public-key")? self->public_key:
        s_is_word (name, "secret-key")? self->secret_key: NULL;
    if (!key)
        return "it has something else than keys under curve";
    if (*key)
        return "it has a key twice";
    if (value.size != CREDENTIALS_KEY_CHARS + 2 || (*value.text != '"' && *value.text != '\'')
    ||  value.text [value.size - 1] != *value.text)
        return "it has a key that is not 40 characters in quotation marks";
    memcpy (key, value.text + 1, CREDENTIALS_KEY_CHARS);
    return s_is_key (key)? NULL: "it has a key that is none";
}

//  is_curve_p: whether we are in that section.
static const char *
s_take_line (credentials_t *self, piece_t line, bool *is_curve_p)
{
    for (size_t index = 0; index < line.size; index++)
        if ((uint8_t) line.text [index] < ' ' && !s_is_blank (line.text [index]))
            return "it is no text";
    piece_t trimmed = s_trim (line);
    if (trimmed.size == 0 || *trimmed.text == '#')
        return NULL;
    if (!s_is_blank (*line.text)) {
        *is_curve_p = s_is_word (trimmed, "curve");
        return NULL;
    }
    return *is_curve_p? s_take_key (self, trimmed): NULL;
}

//  Keys that do not belong together would look like a wrong key of the server's.
static const char *
s_check (const credentials_t *self)
{
    char public_key [CREDENTIALS_KEY_CHARS + 1];
    if (!*self->public_key)
        return "it has no public key";
    if (*self->secret_key && (zmq_curve_public (public_key, self->secret_key)
        || strcmp (public_key, self->public_key)))
        return "its secret key is not that of its public key";
    return NULL;
}

const char *
credentials_parse (credentials_t *self, const char *text, size_t size)
{
    assert (self && (text || !size));
    const char *reason = size <= CREDENTIALS_FILE_BYTES_MAX? NULL: "it is too long";
    bool is_curve = false;
    *self = (credentials_t) { .public_key = "" };
    while (size && !reason) {
        const char *end = memchr (text, '\n', size);
        piece_t line = { text, end? (size_t) (end - text): size };
        reason = s_take_line (self, line, &is_curve);
        size_t used = line.size + (end? 1: 0);
        text += used;
        size -= used;
    }
    if (!reason)
        reason = s_check (self);
    if (reason)
        credentials_wipe (self);
    return reason;
}

//  --------------------------------------------------------------------------
//  Files

static int
s_complain (message_error_t *error, const char *option, const char *path, const char *what)
{
    message_fail (error, "options.%s: %.250s: %s", option, path, what);
    return -EINVAL;
}

//  Reads an open file: returns its length, at most one more than a certificate may have; or -errno.
static ssize_t
s_read_all (int file, char text [CREDENTIALS_FILE_BYTES_MAX + 1])
{
    size_t size = 0;
    while (size <= CREDENTIALS_FILE_BYTES_MAX) {
        ssize_t got = read (file, text + size, CREDENTIALS_FILE_BYTES_MAX + 1 - size);
        if (got < 0 && errno != EINTR)
            return -errno;
        if (got == 0)
            break;
        size += got > 0? (size_t) got: 0;
    }
    return (ssize_t) size;
}

//  NULL, or the fault.
static const char *
s_judge (int file, bool is_secret)
{
    struct stat status;
    if (fstat (file, &status))
        return strerror (errno);
    if (!S_ISREG (status.st_mode))
        return "it is no file";
    if (is_secret && status.st_mode & 077)
        return "others may read or write this secret: chmod 600 it; if they could before, make a new one "
            "(tureen key new)";
    return NULL;
}

//  option: for the sentence.
static int
s_read_file (credentials_t *self, const char *path, bool is_secret, const char *option,
    message_error_t *error)
{
    char text [CREDENTIALS_FILE_BYTES_MAX + 1];
    //  Not blocking: it may be a pipe without a writer.
    int file = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const char *reason = file < 0? strerror (errno): s_judge (file, is_secret);
    ssize_t size = reason? 0: s_read_all (file, text);
    if (size < 0)
        reason = strerror ((int) -size);
    if (!reason)
        reason = credentials_parse (self, text, (size_t) size);
    explicit_bzero (text, sizeof text);
    if (file >= 0)
        close (file);
    return reason? s_complain (error, option, path, reason): 0;
}

static int
s_read_own (credentials_t *self, const char *key, message_error_t *error)
{
    char path [PATH_BYTES];
    size_t size = strlen (key), suffix = strlen (SECRET_SUFFIX);
    if (size > suffix && !strcmp (key + size - suffix, SECRET_SUFFIX))
        return s_complain (error, "key", key,
            "give the certificate's path without \"" SECRET_SUFFIX "\", which is added");
    if (snprintf (path, sizeof path, "%s" SECRET_SUFFIX, key) >= (int) sizeof path)
        return s_complain (error, "key", key, "the path is too long");
    int rc = s_read_file (self, path, true, "key", error);
    if (rc == 0 && !*self->secret_key)
        rc = s_complain (error, "key", path, "it has no secret key");
    return rc;
}

//  A key may look like a path: if such a file exists, it is one.
static int
s_read_server (credentials_t *self, const char *server_key, message_error_t *error)
{
    credentials_t server = { .public_key = "" };
    if (s_is_key (server_key) && access (server_key, F_OK)) {
        memcpy (self->server_key, server_key, sizeof self->server_key);
        return 0;
    }
    int rc = -EINVAL;
    if (access (server_key, F_OK))
        message_fail (error, "options.server_key: %.250s: it is neither a public key (40 characters of Z85) "
            "nor a file: %s", server_key, strerror (errno));
    else
        rc = s_read_file (&server, server_key, false, "server_key", error);
    if (rc == 0)
        memcpy (self->server_key, server.public_key, sizeof self->server_key);
    credentials_wipe (&server);
    return rc;
}

static const char *
s_given (const char *given, const char *variable)
{
    if (!given || !*given)
        given = getenv (variable);
    return given && *given? given: NULL;
}

int
credentials_read (credentials_t *self, const char *key, const char *server_key, const char *address,
    message_error_t *error)
{
    assert (self && address && error);
    *self = (credentials_t) { .public_key = "" };
    key = s_given (key, "TUREEN_KEY");
    server_key = s_given (server_key, "TUREEN_SERVER_KEY");
    if ((!key && !server_key) || !strncmp (address, "ipc://", 6))
        return 0;
    int rc = -EINVAL;
    if (!zmq_has ("curve"))             //  UNTESTED: Debian's has it
        message_fail (error, "options.key: this libzmq was built without CURVE");
    else if (!key)
        message_fail (error, "options.key: required with options.server_key; the path of this client's "
            "certificate, or TUREEN_KEY; tureen key new FILE makes one");
    else if (!server_key)
        message_fail (error, "options.server_key: required with options.key; the server's public key, which "
            "its log names, or TUREEN_SERVER_KEY");
    else {
        rc = s_read_own (self, key, error);
        if (rc == 0)
            rc = s_read_server (self, server_key, error);
    }
    if (rc)
        credentials_wipe (self);
    return rc;
}
