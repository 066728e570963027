#include "certificate.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <sodium.h>
#include <zmq.h>
#include "file.h"

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
#define Z85 LETTERS ".-:+=^!/*?&<>()[]{}@%$#"

enum { INDENT = 4, TEMPORARY_BYTES = 40 };

//  ---- names and keys

bool
certificate_is_name (const char *text)
{
    size_t size = strnlen (text, CERTIFICATE_NAME_MAX + 1);
    return size > 0 && size <= CERTIFICATE_NAME_MAX && text [0] != '.'
        && strspn (text, LETTERS "._-") == size;
}

static bool
s_decode (uint8_t key [CERTIFICATE_KEY_BYTES], const char *text)
{
    return strnlen (text, CERTIFICATE_KEY_CHARS + 1) == CERTIFICATE_KEY_CHARS
        && strspn (text, Z85) == CERTIFICATE_KEY_CHARS && zmq_z85_decode (key, text);
}

bool
certificate_is_key (const char *text)
{
    uint8_t key [CERTIFICATE_KEY_BYTES], product [CERTIFICATE_KEY_BYTES];
    static const uint8_t any [CERTIFICATE_KEY_BYTES] = { 8 };
    //  Points of low order give the same product with every secret, and libsodium refuses that.  Zero, which
    //  czmq writes for no key, is such a point.
    return s_decode (key, text) && crypto_scalarmult (product, any, key) == 0;
}

//  Whether secret and public key belong together.
static bool
s_is_pair (const certificate_t *self)
{
    uint8_t public_key [CERTIFICATE_KEY_BYTES], secret_key [CERTIFICATE_KEY_BYTES],
        product [CERTIFICATE_KEY_BYTES];
    bool is_pair = s_decode (public_key, self->public_text) && s_decode (secret_key, self->secret_text)
        && crypto_scalarmult_base (product, secret_key) == 0
        && sodium_memcmp (product, public_key, sizeof product) == 0;
    sodium_memzero (secret_key, sizeof secret_key);
    return is_pair;
}

void
certificate_make (certificate_t *self)
{
    *self = (certificate_t) { .public_text = "" };
    int rc = zmq_curve_keypair (self->public_text, self->secret_text);
    assert (rc == 0);               //  libzmq was built without CURVE: Debian's is not
}

void
certificate_wipe (certificate_t *self)
{
    sodium_memzero (self, sizeof *self);
}

//  ---- reading

typedef enum { SECTION_NONE, SECTION_METADATA, SECTION_CURVE } section_t;

typedef struct {
    certificate_t *certificate;
    section_t section;
    bool had_metadata, had_curve, had_operator, had_worker;
} parser_t;

//  One line, without its end.
typedef struct {
    const char *text;
    size_t size;
} line_t;

static bool
s_is_word (line_t line, const char *word)
{
    return line.size == strlen (word) && memcmp (line.text, word, line.size) == 0;
}

static bool
s_is_blank (char letter)
{
    return letter == ' ' || letter == '\t';
}

static line_t
s_trim (line_t line)
{
    for (; line.size && s_is_blank (line.text [line.size - 1]); line.size--);
    return line;
}

//  Copies a value, which may occur only once.
static const char *
s_take (char *into, size_t into_bytes, line_t value)
{
    if (into [0])
        return "says something twice";
    if (value.size == 0 || value.size >= into_bytes)
        return "has a value that is empty or too long";
    memcpy (into, value.text, value.size);
    into [value.size] = 0;
    return NULL;
}

static const char *
s_take_key (char into [CERTIFICATE_KEY_CHARS + 1], line_t value)
{
    return value.size == CERTIFICATE_KEY_CHARS? s_take (into, CERTIFICATE_KEY_CHARS + 1, value):
        "has a key that is not 40 characters of Z85";
}

static const char *
s_take_operator (parser_t *self, line_t value)
{
    if (self->had_operator)
        return "says something twice";
    self->had_operator = true;
    self->certificate->is_operator = s_is_word (value, "yes");
    return self->certificate->is_operator
        || s_is_word (value, "no")? NULL: "has an operator that is neither yes nor no";
}

static const char *
s_take_worker (parser_t *self, line_t value)
{
    if (self->had_worker)
        return "says something twice";
    self->had_worker = true;
    self->certificate->is_worker = s_is_word (value, "yes");
    return self->certificate->is_worker
        || s_is_word (value, "no")? NULL: "has a worker that is neither yes nor no";
}

static const char *
s_setting (parser_t *self, line_t name, line_t value)
{
    certificate_t *certificate = self->certificate;
    if (self->section == SECTION_CURVE)
        return s_is_word (name, "public-key")? s_take_key (certificate->public_text, value):
            s_is_word (name, "secret-key")? s_take_key (certificate->secret_text, value):
            "has something else than keys under curve";
    if (s_is_word (name, "tenant"))
        return s_take (certificate->tenant, sizeof certificate->tenant, value);
    if (s_is_word (name, "since"))
        return s_take (certificate->since, sizeof certificate->since, value);
    if (s_is_word (name, "operator"))
        return s_take_operator (self, value);
    if (s_is_word (name, "worker"))
        return s_take_worker (self, value);
    return NULL;                    //  czmq's users keep names and addresses there
}

//  "name = "value"", indented and trimmed already.
static const char *
s_parse_setting (parser_t *self, line_t line)
{
    static const char wrong [] = "has a line that is not NAME = \"VALUE\"";
    if (self->section == SECTION_NONE)
        return "has a value outside of metadata and curve";
    const char *equals = memchr (line.text, '=', line.size);
    if (!equals)
        return wrong;
    line_t name = s_trim ((line_t) { line.text, (size_t) (equals - line.text) });
    line_t value = { equals + 1, line.size - (size_t) (equals + 1 - line.text) };
    for (; value.size && s_is_blank (value.text [0]); value.text++, value.size--);
    if (name.size == 0 || value.size < 2 || (value.text [0] != '"' && value.text [0] != '\'')
    ||  value.text [value.size - 1] != value.text [0])
        return wrong;
    char mark = value.text [0];
    value = (line_t) { value.text + 1, value.size - 2 };
    if (memchr (value.text, mark, value.size))
        return wrong;
    return s_setting (self, name, value);
}

static const char *
s_parse_section (parser_t *self, line_t line)
{
    bool *had = s_is_word (line, "metadata")? &self->had_metadata:
        s_is_word (line, "curve")? &self->had_curve: NULL;
    if (!had)
        return "has a section that is neither metadata nor curve";
    if (*had)
        return "says something twice";
    *had = true;
    self->section = had == &self->had_curve? SECTION_CURVE: SECTION_METADATA;
    return NULL;
}

static const char *
s_parse_line (parser_t *self, line_t line)
{
    if (line.size && line.text [line.size - 1] == '\r')
        line.size--;
    line = s_trim (line);
    for (size_t index = 0; index < line.size; index++)
        if ((uint8_t) line.text [index] < ' ' && line.text [index] != '\t')
            return "is no text";
    size_t indent = 0;
    for (; indent < line.size && line.text [indent] == ' '; indent++);
    if (indent == line.size || line.text [indent] == '#')
        return NULL;
    if (indent == 0)
        return s_parse_section (self, line);
    if (indent != INDENT)
        return "has a line that is not indented by 4 blanks";
    return s_parse_setting (self, (line_t) { line.text + indent, line.size - indent });
}

static const char *
s_judge (const certificate_t *self)
{
    if (!self->public_text [0])
        return "has no public key";
    if (!certificate_is_key (self->public_text))
        return "has a public key that is none";
    if (self->secret_text [0] && !s_is_pair (self))
        return "has a secret key that is not the public key's";
    if (self->is_operator && self->is_worker)
        return "is an operator's and a worker's";
    if (self->tenant [0] && !certificate_is_name (self->tenant))
        return "has a tenant's name that is none";
    if (strspn (self->since, LETTERS ":.+-") != strlen (self->since))
        return "has a time that is none";
    return NULL;
}

const char *
certificate_parse (certificate_t *self, const char *text, size_t size)
{
    *self = (certificate_t) { .public_text = "" };
    parser_t parser = { .certificate = self };
    const char *reason = size <= CERTIFICATE_BYTES_MAX? NULL: "is too long for a certificate";
    while (size && !reason) {
        const char *end = memchr (text, '\n', size);
        line_t line = { text, end? (size_t) (end - text): size };
        reason = s_parse_line (&parser, line);
        size_t used = line.size + (end? 1: 0);
        text += used;
        size -= used;
    }
    if (!reason)
        reason = s_judge (self);
    if (reason)
        certificate_wipe (self);
    return reason;
}

static const char *
s_judge_guard (const struct stat *status, certificate_guard_t guard, uid_t owner)
{
    if (!S_ISREG (status->st_mode))
        return "is no file";
    if (status->st_size > CERTIFICATE_BYTES_MAX)
        return "is too long for a certificate";
    if (guard == CERTIFICATE_ANY)
        return NULL;
    if (status->st_uid != owner && status->st_uid != 0)
        return "belongs to another user";
    if (guard == CERTIFICATE_SECRET && (status->st_mode & 077))
        return "can be read by others (chmod 600)";
    return status->st_mode & 022? "can be written by others (chmod go-w)": NULL;
}

//  Reads the text of an open file; 0 or -errno.
static int
s_read_all (int fd, char *text, size_t room, size_t *size_p)
{
    *size_p = 0;
    while (*size_p < room) {
        ssize_t got = read (fd, text + *size_p, room - *size_p);
        if (got == 0)
            return 0;
        if (got < 0 && errno != EINTR)
            return -errno;
        *size_p += got > 0? (size_t) got: 0;
    }
    return 0;
}

int
certificate_read (certificate_t *self, int folder, const char *path, certificate_guard_t guard, uid_t owner,
    const char **reason_p)
{
    char text [CERTIFICATE_BYTES_MAX + 1];
    struct stat status;
    size_t size = 0;
    *reason_p = NULL;
    *self = (certificate_t) { .public_text = "" };
    //  NONBLOCK: it may be a fifo.
    int fd = openat (folder, path,
        O_RDONLY | O_CLOEXEC | O_NONBLOCK | (guard == CERTIFICATE_ANY? 0: O_NOFOLLOW));
    if (fd < 0 && errno == ELOOP && guard != CERTIFICATE_ANY) {
        *reason_p = "is a link";
        return -EBADMSG;
    }
    if (fd < 0)
        return -errno;
    int rc = fstat (fd, &status)? -errno: 0;
    if (rc == 0)
        *reason_p = s_judge_guard (&status, guard, owner);
    if (rc == 0 && !*reason_p)
        rc = s_read_all (fd, text, sizeof text, &size);
    close (fd);
    if (rc == 0 && !*reason_p)
        *reason_p = certificate_parse (self, text, size);
    if (rc == 0 && !*reason_p && guard == CERTIFICATE_SECRET && !self->secret_text [0])
        *reason_p = "has no secret key";
    sodium_memzero (text, sizeof text);
    return *reason_p? -EBADMSG: rc;
}

//  ---- writing

static size_t
s_print (const certificate_t *self, bool with_secret, char text [CERTIFICATE_BYTES_MAX])
{
    int used = snprintf (text, CERTIFICATE_BYTES_MAX, "#   ZeroMQ CURVE %s\n", with_secret?
        "**Secret** Certificate\n#   DO NOT GIVE THIS FILE TO ANYBODY, nor let others read it":
        "Public Certificate");
    if (self->tenant [0])
        used += snprintf (text + used, CERTIFICATE_BYTES_MAX - (size_t) used,
            "metadata\n    tenant = \"%s\"\n    operator = \"%s\"\n    since = \"%s\"\n", self->tenant,
            self->is_operator? "yes": "no", self->since [0]? self->since: "unknown");
    if (self->tenant [0] && self->is_worker)
        used += snprintf (text + used, CERTIFICATE_BYTES_MAX - (size_t) used, "    worker = \"yes\"\n");
    used += snprintf (text + used, CERTIFICATE_BYTES_MAX - (size_t) used, "curve\n    public-key = \"%s\"\n",
        self->public_text);
    if (with_secret)
        used += snprintf (text + used, CERTIFICATE_BYTES_MAX - (size_t) used, "    secret-key = \"%s\"\n",
            self->secret_text);
    assert (used > 0 && used < CERTIFICATE_BYTES_MAX);
    return (size_t) used;
}

//  0 or -errno.
static int
s_fill (int fd, const char *text, size_t size, uid_t owner)
{
    //  Whatever the umask: its owner must be able to read it.
    if (fchmod (fd, 0600) || (owner != geteuid () && fchown (fd, owner, (gid_t) -1)))
        return -errno;
    int rc = file_write (fd, text, size);
    return rc? rc: fsync (fd)? -errno: 0;
}

//  Gives the file its own name, never over another file.  0 or -errno.
static int
s_name (int folder, const char *temporary, const char *name)
{
    if (linkat (folder, temporary, folder, name, 0) == 0)
        return 0;
    if (errno != EPERM && errno != EOPNOTSUPP)
        return -errno;
    //  This file system has no hard links.
    return renameat2 (folder, temporary, folder, name, RENAME_NOREPLACE)? -errno: 0;
}

int
certificate_write (const certificate_t *self, int folder, const char *name, bool with_secret, uid_t owner)
{
    char text [CERTIFICATE_BYTES_MAX], temporary [TEMPORARY_BYTES];
    uint64_t number;
    if (getrandom (&number, sizeof number, 0) != sizeof number)
        return -EIO;
    //  The file appears whole: a server that reads the folder meanwhile skips names with a dot.
    snprintf (temporary, sizeof temporary, ".new-%016" PRIx64, number);
    int fd = openat (folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    size_t size = s_print (self, with_secret, text);
    int rc = s_fill (fd, text, size, owner);
    sodium_memzero (text, sizeof text);
    if (close (fd) && rc == 0)
        rc = -errno;
    if (rc == 0)
        rc = s_name (folder, temporary, name);
    unlinkat (folder, temporary, 0);
    if (rc)
        return rc;
    //  A name that a loss of power may take back is not written.
    rc = file_sync (folder);
    if (rc)
        unlinkat (folder, name, 0);
    return rc;
}
