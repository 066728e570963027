//  Certificates: nothing but a whole one is taken, as czmq writes them, and other users cannot read a secret
//  from its first moment on.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "client_keys_fixture.h"
#include "seed.h"

#include <czmq.h>

enum { MUTATIONS = 20000 };

static char good [CERTIFICATE_BYTES_MAX];       //  text of a certificate with everything in it

static const char *
good_text (void)
{
    certificate_t key;
    certificate_make (&key);
    snprintf (good, sizeof good, "#   comment\nmetadata\n    tenant = \"vision\"\n    operator = \"yes\"\n"
        "    since = \"2026-11-22T15:00:00Z\"\n    email = \"x@y\"\n    #   another\n\ncurve\n    public-key "
        "= \"%s\"\n"
        "    secret-key = '%s'\n", key.public_text, key.secret_text);
    return good;
}

static void
test_everything_in_a_certificate (void **state)
{
    (void) state;
    certificate_t parsed;
    const char *text = good_text ();
    assert_null (certificate_parse (&parsed, text, strlen (text)));
    assert_string_equal (parsed.tenant, "vision");
    assert_string_equal (parsed.since, "2026-11-22T15:00:00Z");
    assert_true (parsed.is_operator);
    assert_int_equal (strlen (parsed.public_text), 40);
    assert_int_equal (strlen (parsed.secret_text), 40);
    //  Lines that end as on other systems are the same, and so is the last one without an end.
    char lines [2 * CERTIFICATE_BYTES_MAX];
    size_t size = 0;
    for (const char *at = text; *at; at++) {
        if (*at == '\n')
            lines [size++] = '\r';
        lines [size++] = *at;
    }
    assert_null (certificate_parse (&parsed, lines, size));
    assert_string_equal (parsed.tenant, "vision");
    assert_null (certificate_parse (&parsed, text, strlen (text) - 1));
    certificate_wipe (&parsed);
    assert_string_equal (parsed.secret_text, "");
}

//  Replaces the first occurrence of a piece of the good text.
static void
assert_bad (const char *piece, const char *by, const char *reason)
{
    char text [2 * CERTIFICATE_BYTES_MAX];
    const char *from = good_text (), *at = strstr (from, piece);
    assert_non_null (at);
    snprintf (text, sizeof text, "%.*s%s%s", (int) (at - from), from, by, at + strlen (piece));
    certificate_t parsed;
    const char *said_reason = certificate_parse (&parsed, text, strlen (text));
    if (!said_reason || !strstr (said_reason, reason))
        fail_msg ("'%s' for '%s': '%s', not '%s'", by, piece, said_reason? said_reason: "good", reason);
    assert_string_equal (parsed.public_text, "");
    assert_string_equal (parsed.secret_text, "");
}

static void
test_damaged_certificates (void **state)
{
    (void) state;
    static const struct { const char *piece, *by, *reason; } cases [] = {
        { "public-key", "public", "something else than keys" },
        { "    public-key", "public-key", "a section" },
        { "    public-key", "        public-key", "indented" },
        { "    public-key", "\tpublic-key", "a section" },
        { "curve\n", "", "" },
        { "curve\n", "curve\ncurve\n", "twice" },
        { "curve\n", "curve = 1\n", "section" },
        { "metadata\n", "metadata\nmetadata\n", "twice" },
        { "metadata\n", "", "outside" },
        { "metadata\n", "data\n", "section" },
        { "\"vision\"", "vision", "NAME =" },
        { "\"vision\"", "\"vision", "NAME =" },
        { "\"vision\"", "\"vi\"sion\"", "NAME =" },
        { "\"vision\"", "\"vision\" x", "NAME =" },
        { "\"vision\"", "\"\"", "empty" },
        { "\"vision\"", "\"", "NAME =" },
        { "\"vision\"", "\"vi sion\"", "tenant" },
        { "\"vision\"", "\".vision\"", "tenant" },
        { "\"vision\"", "\"../vision\"", "tenant" },
        { "\"vision\"", "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"",
            "too long" },
        { "\"vision\"", "\"vision\"\n    tenant = \"other\"", "twice" },
        { "\"yes\"", "\"maybe\"", "operator" },
        { "\"yes\"", "\"yes\"\n    operator = \"no\"", "twice" },
        { "\"yes\"", "\"no\"\n    worker = \"maybe\"", "worker" },
        { "\"yes\"", "\"no\"\n    worker = \"no\"\n    worker = \"yes\"", "twice" },
        { "\"yes\"", "\"yes\"\n    worker = \"yes\"", "operator's and a worker's" },
        { "22T15", "22\x01T15", "no text" },
        { "22T15", "22 T15", "time" },
        { "22T15", "22\xff", "time" },
        { "tenant =", "tenant :", "NAME =" },
        { "tenant =", "=", "NAME =" },
        { "secret-key = '", "secret-key = 'x", "40 characters" },
        { "secret-key = '", "secret-key = '0000000000000000000000000000000000000000'\n    secret-key = '",
            "twice" },
        { "public-key = \"", "public-key = \"~", "40 characters" }
    };
    char text [CERTIFICATE_BYTES_MAX + 100];
    for (size_t index = 0; index < sizeof cases / sizeof cases [0]; index++)
        assert_bad (cases [index].piece, cases [index].by, cases [index].reason);
    certificate_t parsed, other;
    certificate_make (&other);
    snprintf (strstr (strcpy (text, good_text ()), "secret-key = '") + strlen ("secret-key = '"), 60, "%s'\n",
        other.secret_text);
    assert_string_equal (certificate_parse (&parsed, text, strlen (text)),
        "has a secret key that is not the public key's");
    assert_non_null (certificate_parse (&parsed, "", 0));
    assert_non_null (certificate_parse (&parsed, "curve\n", 6));
    char zeros [64] = { 0 };
    assert_non_null (certificate_parse (&parsed, zeros, sizeof zeros));
    static char large [CERTIFICATE_BYTES_MAX + 1];
    memset (large, '#', sizeof large);
    assert_string_equal (certificate_parse (&parsed, large, sizeof large), "is too long for a certificate");
    strcpy (text, good_text ());
    memcpy (large, text, strlen (text));
    assert_null (certificate_parse (&parsed, large, CERTIFICATE_BYTES_MAX));
}

//  Keys with a known secret, of another length, with other letters, or with numbers beyond 32 bits.
static void
test_keys_that_are_none (void **state)
{
    (void) state;
    certificate_t key;
    certificate_make (&key);
    assert_true (certificate_is_key (key.public_text));
    static const uint8_t low_orders [] [32] = { { 0 }, { 1 },
        { 0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4, 0x6a,
            0xda, 0x09, 0x8d, 0xeb,
            0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49, 0xb8, 0x00 } };
    char text [CERTIFICATE_KEY_CHARS + 1];
    for (size_t index = 0; index < 3; index++)
        assert_false (certificate_is_key (zmq_z85_encode (text, low_orders [index], 32)));
    assert_false (certificate_is_key (""));
    assert_false (certificate_is_key ("0000"));
    memcpy (text, key.public_text, sizeof text);
    text [39] = ' ';
    assert_false (certificate_is_key (text));
    memcpy (text, "#####", 5);          //  85^5 - 1
    text [39] = '0';
    assert_false (certificate_is_key (text));
    assert_false (certificate_is_name (""));
    assert_false (certificate_is_name (".x"));
    assert_false (certificate_is_name ("a/b"));
    assert_true (certificate_is_name ("alice.laptop-2_x"));
}

//  Property: whatever is changed of a certificate, it is refused or still means a key.  Replay:
//  TEST_SEED=<seed>.
static void
test_mutations (void **state)
{
    (void) state;
    uint64_t seed = test_seed (), random = seed;
    for (int round = 0; round < MUTATIONS; round++) {
        char text [CERTIFICATE_BYTES_MAX];
        size_t size = strlen (round % 100 == 0? good_text (): good);
        memcpy (text, good, size);
        for (uint64_t count = 1 + test_below (&random, 4); count; count--)
            switch (test_below (&random, 4)) {
            case 0: text [test_below (&random, size)] = (char) test_below (&random, 256); break;
            case 1: text [test_below (&random, size)] = "\n \"'=#\r0" [test_below (&random, 8)]; break;
            case 2: size = 1 + test_below (&random, size); break;
            default: {
                size_t from = test_below (&random, size), to = test_below (&random, size),
                    most = size - (from > to? from: to);
                memmove (text + to, text + from, test_below (&random, most + 1));
            }
            }
        certificate_t parsed;
        if (certificate_parse (&parsed, text, size) == NULL && (!certificate_is_key (parsed.public_text)
        ||  (parsed.tenant [0] && !certificate_is_name (parsed.tenant))))
            fail_msg ("seed %" PRIu64 ", round %d: a bad certificate was taken", seed, round);
    }
}

//  czmq reads what we write, and we what czmq writes.
static void
test_czmq_agrees (void **state)
{
    fixture_t *self = *state;
    certificate_t key, read_back;
    const char *reason;
    int folder = open (self->scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    certificate_make (&key);
    strcpy (key.tenant, "vision");
    assert_int_equal (certificate_write (&key, folder, "ours_secret", true, geteuid ()), 0);
    snprintf (self->path, sizeof self->path, "%s/ours", self->scratch.path);
    zcert_t *theirs = zcert_load (self->path);
    assert_non_null (theirs);
    assert_string_equal (zcert_public_txt (theirs), key.public_text);
    assert_string_equal (zcert_secret_txt (theirs), key.secret_text);
    assert_string_equal (zcert_meta (theirs, "tenant"), "vision");
    snprintf (self->path, sizeof self->path, "%s/theirs", self->scratch.path);
    mode_t mask = umask (077);
    assert_int_equal (zcert_save (theirs, self->path), 0);
    umask (mask);
    assert_int_equal (certificate_read (&read_back, folder, "theirs", CERTIFICATE_GUARDED, geteuid (),
        &reason), 0);
    assert_string_equal (read_back.public_text, key.public_text);
    assert_string_equal (read_back.secret_text, "");
    assert_int_equal (certificate_read (&read_back, folder, "theirs_secret", CERTIFICATE_SECRET, geteuid (),
        &reason), 0);
    assert_string_equal (read_back.secret_text, key.secret_text);
    zcert_destroy (&theirs);
    close (folder);
}

//  -- files

static void
assert_read (int folder, const char *name, certificate_guard_t guard, int code, const char *what)
{
    certificate_t certificate;
    const char *reason;
    int rc = certificate_read (&certificate, folder, name, guard, geteuid (), &reason);
    if (rc != code || (what && (!reason || !strstr (reason, what))))
        fail_msg ("%s: %d, '%s'; not %d, '%s'", name, rc, reason? reason: "", code, what? what: "");
}

static void
test_files_that_are_not_guarded (void **state)
{
    fixture_t *self = *state;
    int folder = open (self->scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    certificate_t key;
    certificate_make (&key);
    mode_t mask = umask (0);
    assert_int_equal (certificate_write (&key, folder, "a", true, geteuid ()), 0);
    umask (mask);
    struct stat status;
    assert_int_equal (fstatat (folder, "a", &status, 0), 0);
    assert_int_equal (status.st_mode & 07777, 0600);
    assert_read (folder, "a", CERTIFICATE_SECRET, 0, NULL);
    fchmodat (folder, "a", 0640, 0);
    assert_read (folder, "a", CERTIFICATE_SECRET, -EBADMSG, "read by others");
    assert_read (folder, "a", CERTIFICATE_GUARDED, 0, NULL);
    fchmodat (folder, "a", 0620, 0);
    assert_read (folder, "a", CERTIFICATE_GUARDED, -EBADMSG, "written by others");
    assert_read (folder, "a", CERTIFICATE_ANY, 0, NULL);
    fchmodat (folder, "a", 0600, 0);
    if (geteuid () == 0) {
        assert_int_equal (fchownat (folder, "a", 65534, (gid_t) -1, 0), 0);
        assert_read (folder, "a", CERTIFICATE_GUARDED, -EBADMSG, "another user");
    }
    assert_int_equal (symlinkat ("a", folder, "link"), 0);
    assert_read (folder, "link", CERTIFICATE_GUARDED, -EBADMSG, "link");
    assert_read (folder, "link", CERTIFICATE_ANY, 0, NULL);
    assert_int_equal (mkfifoat (folder, "fifo", 0600), 0);
    assert_read (folder, "fifo", CERTIFICATE_ANY, -EBADMSG, "no file");
    assert_int_equal (mkdirat (folder, "folder", 0700), 0);
    assert_read (folder, "folder", CERTIFICATE_GUARDED, -EBADMSG, "no file");
    assert_read (folder, "nothing", CERTIFICATE_GUARDED, -ENOENT, NULL);
    assert_int_equal (certificate_write (&key, folder, "public", false, geteuid ()), 0);
    assert_read (folder, "public", CERTIFICATE_SECRET, -EBADMSG, "no secret");
    close (folder);
}

//  Whatever fails, nothing is left, and what was there is as it was.
static void
test_writing_that_fails (void **state)
{
    fixture_t *self = *state;
    int folder = open (self->scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    certificate_t key, other, read_back;
    const char *reason;
    certificate_make (&key);
    certificate_make (&other);
    bool struck = true;
    for (unsigned int nth = 1; struck; nth++) {
        fault_arm (nth, ENOSPC, nth % 2);
        int rc = certificate_write (&key, folder, "a", true, geteuid ());
        struck = fault_disarm ();
        assert_int_equal (rc, struck? -ENOSPC: 0);
        assert_int_equal (scratch_entries (self->scratch.path), rc == 0);
        unlinkat (folder, "a", 0);
    }
    for (int round = 0; round < 2; round++) {
        no_links = round;
        write_most = round? 7: SIZE_MAX;
        assert_int_equal (certificate_write (&key, folder, "a", true, geteuid ()), 0);
        assert_int_equal (certificate_write (&other, folder, "a", true, geteuid ()), -EEXIST);
        assert_int_equal (certificate_read (&read_back, folder, "a", CERTIFICATE_SECRET, geteuid (), &reason),
            0);
        assert_string_equal (read_back.secret_text, key.secret_text);
        write_most = SIZE_MAX;
        assert_int_equal (scratch_entries (self->scratch.path), 1);
        unlinkat (folder, "a", 0);
    }
    close (folder);
}

int
main (void)
{
    setenv ("ZSYS_SIGHANDLER", "false", 1);
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_everything_in_a_certificate),
        cmocka_unit_test (test_damaged_certificates),
        cmocka_unit_test (test_keys_that_are_none),
        cmocka_unit_test (test_mutations),
        cmocka_unit_test_setup_teardown (test_czmq_agrees, begin, end),
        cmocka_unit_test_setup_teardown (test_files_that_are_not_guarded, begin, end),
        cmocka_unit_test_setup_teardown (test_writing_that_fails, begin, end)
    };
    return cmocka_run_group_tests_name ("certificate", tests, NULL, NULL);
}
