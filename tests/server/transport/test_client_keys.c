/*  The folder of keys: nothing but a certificate in a guarded place admits a client, a key that is taken away
 *  is gone at the next look, and a lack of descriptors removes no key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "client_keys_fixture.h"
#include "seed.h"

enum { MODEL_ROUNDS = 20, MODEL_STEPS = 60, MODEL_KEYS = 5, MODEL_LABELS = 6 };

//  -- the server's own

static void
test_the_server_keeps_its_key (void **state)
{
    fixture_t *self = *state;
    mode_t mask = umask (0);
    client_keys_t *keys = open_keys (self);
    umask (mask);
    char public_text [41], secret_text [41];
    strcpy (public_text, client_keys_server_public (keys));
    strcpy (secret_text, client_keys_server_secret (keys));
    client_keys_destroy (&keys);
    assert_null (keys);
    client_keys_destroy (&keys);
    struct stat status;
    static const struct { const char *name; mode_t mode; } made [] = { { "", 0700 }, { "allowed", 0700 },
        { "server_secret", 0600 }, { "server", 0600 } };
    for (size_t index = 0; index < 4; index++) {
        assert_int_equal (lstat (in (self, made [index].name), &status), 0);
        assert_int_equal (status.st_mode & 07777, made [index].mode);
    }
    keys = open_keys (self);
    assert_string_equal (client_keys_server_public (keys), public_text);
    assert_string_equal (client_keys_server_secret (keys), secret_text);
    client_keys_destroy (&keys);
    //  The public one can be made again.
    assert_int_equal (unlink (in (self, "server")), 0);
    keys = open_keys (self);
    assert_string_equal (client_keys_server_public (keys), public_text);
    client_keys_destroy (&keys);
    assert_int_equal (access (in (self, "server"), F_OK), 0);
    assert_null (strstr (said (self), secret_text));
}

static void
test_folders_that_are_refused (void **state)
{
    fixture_t *self = *state;
    client_keys_t *keys = open_keys (self);
    client_keys_destroy (&keys);
    static const struct { const char *name; mode_t mode; int code; const char *what; } cases [] = {
        { "server_secret", 0640, -EBADMSG, "chmod 600" }, { "server_secret", 0604, -EBADMSG, "chmod 600" },
        { "server", 0602, -EBADMSG, "written by others" }, { "", 0720, -EPERM, "chmod 700" },
        { "allowed", 0702, -EPERM, "chmod 700" } };
    for (size_t index = 0; index < 5; index++) {
        struct stat status;
        assert_int_equal (stat (in (self, cases [index].name), &status), 0);
        assert_int_equal (chmod (self->path, cases [index].mode), 0);
        assert_refused (self, cases [index].code, cases [index].what);
        assert_int_equal (chmod (in (self, cases [index].name), status.st_mode & 07777), 0);
    }
    if (geteuid () == 0) {
        assert_int_equal (chown (self->directory, 65534, (gid_t) -1), 0);
        assert_refused (self, -EPERM, "belongs to user");
        assert_int_equal (chown (self->directory, 0, (gid_t) -1), 0);
    }
    certificate_t other;
    certificate_make (&other);
    char text [200];
    snprintf (text, sizeof text, "curve\n    public-key = \"%s\"\n", other.public_text);
    put (in (self, "server"), text, 0600);
    assert_refused (self, -EBADMSG, "is not the public key");
    put (in (self, "server_secret"), text, 0600);
    assert_refused (self, -EBADMSG, "no secret key");
    put (in (self, "server_secret"), "", 0600);
    assert_refused (self, -EBADMSG, "no public key");
    unlink (in (self, "server_secret"));
    assert_refused (self, -ENOENT, "put it back");
    unlink (in (self, "server"));
    keys = open_keys (self);
    client_keys_destroy (&keys);
    //  Not a folder at all, or elsewhere.
    snprintf (self->directory, sizeof self->directory, "%s/link", self->scratch.path);
    assert_int_equal (symlink ("keys", self->directory), 0);
    assert_refused (self, -ENOTDIR, "link");
    snprintf (self->directory, sizeof self->directory, "%s/keys/server", self->scratch.path);
    assert_refused (self, -ENOTDIR, "no folder");
    snprintf (self->directory, sizeof self->directory, "%s/nowhere/keys", self->scratch.path);
    assert_refused (self, -ENOENT, "cannot make");
}

//  A pair that was put there is read; nothing is made, so a lost or mistyped folder is noticed.
static void
test_a_pair_that_must_be_there (void **state)
{
    fixture_t *self = *state;
    certificate_t pair;
    char error [512];
    assert_int_equal (client_keys_pair (&pair, self->directory, error, sizeof error), -ENOENT);
    assert_non_null (strstr (error, "copy the folder"));
    assert_int_equal (access (self->directory, F_OK), -1);
    assert_int_equal (mkdir (self->directory, 0700), 0);
    assert_int_equal (client_keys_pair (&pair, self->directory, error, sizeof error), -ENOENT);
    assert_non_null (strstr (error, "server_secret"));
    assert_non_null (strstr (error, "copy the folder"));
    assert_int_equal (rmdir (self->directory), 0);
    client_keys_t *keys = open_keys (self);
    assert_int_equal (client_keys_pair (&pair, self->directory, error, sizeof error), 0);
    assert_string_equal (pair.public_text, client_keys_server_public (keys));
    assert_string_equal (pair.secret_text, client_keys_server_secret (keys));
    client_keys_destroy (&keys);
    bool struck = true;
    for (unsigned int nth = 1; struck; nth++) {
        fault_arm (nth, EIO, false);
        int rc = client_keys_pair (&pair, self->directory, error, sizeof error);
        struck = fault_disarm ();
        assert_int_equal (rc, struck? -EIO: 0);
        assert_true (!struck || strstr (error, strerror (EIO)));
    }
    assert_int_equal (chmod (in (self, "server_secret"), 0644), 0);
    assert_int_equal (client_keys_pair (&pair, self->directory, error, sizeof error), -EBADMSG);
    assert_non_null (strstr (error, "server_secret' can be read by others"));
    assert_string_equal (pair.secret_text, "");
    assert_int_equal (chmod (self->directory, 0770), 0);
    assert_int_equal (client_keys_pair (&pair, self->directory, error, sizeof error), -EPERM);
    assert_non_null (strstr (error, "chmod 700"));
    char link [sizeof self->directory + 8];
    snprintf (link, sizeof link, "%s-link", self->directory);
    assert_int_equal (symlink ("keys", link), 0);
    assert_int_equal (client_keys_pair (&pair, link, error, sizeof error), -ENOTDIR);
    assert_non_null (strstr (error, "name the folder itself"));
    if (geteuid () == 0) {
        assert_int_equal (chown (self->directory, 65534, (gid_t) -1), 0);
        assert_int_equal (client_keys_pair (&pair, self->directory, error, sizeof error), -EPERM);
        assert_non_null (strstr (error, "belongs to user"));
        assert_int_equal (chown (self->directory, 0, (gid_t) -1), 0);
    }
}

//  Every call fails once, and for ever: refused with a reason, or opened; nothing half made is in the way of
//  the next start.
static void
test_opening_that_fails (void **state)
{
    fixture_t *self = *state;
    certificate_t key;
    certificate_make (&key);
    allow (self, &key, "alice", "vision", false);
    char error [ERROR_BYTES];
    for (int forever = 0; forever < 2; forever++) {
        bool struck = true;
        for (unsigned int nth = 1; struck; nth++) {
            unlink (in (self, "server"));
            unlink (in (self, "server_secret"));
            client_keys_t *keys;
            fault_arm (nth, EIO, forever);
            int rc = client_keys_open (&keys, self->directory, &self->log, error, sizeof error);
            struck = fault_disarm ();
            assert_true (rc? !keys && *error: keys && !*error);
            assert_true (fault_has_words (error));
            if (rc == 0)
                client_keys_check (keys);
            client_keys_destroy (&keys);
            said (self);
        }
        client_keys_t *keys = open_keys (self);
        assert_non_null (client_keys_find (keys, key.public_text));
        client_keys_destroy (&keys);
    }
}

//  -- the clients that are admitted

static bool
is_vision (void *context, const char *name)
{
    (void) context;
    return strcmp (name, "vision") == 0;
}

static void
test_allowed_and_revoked (void **state)
{
    fixture_t *self = *state;
    certificate_t alice, bob, mallory;
    certificate_make (&alice);
    certificate_make (&bob);
    certificate_make (&mallory);
    client_keys_t *keys = open_keys (self);
    allow (self, &alice, "alice", "vision", false);
    assert_null (client_keys_find (keys, alice.public_text));
    assert_false (client_keys_look (keys));
    client_keys_check (keys);
    const client_keys_grant_t *grant = client_keys_find (keys, alice.public_text);
    assert_non_null (grant);
    assert_string_equal (grant->label, "alice");
    assert_string_equal (grant->tenant, "vision");
    assert_false (grant->is_operator);
    uint64_t user = grant->user;
    assert_true (user >= CLIENT_KEYS_USER_FIRST);
    assert_string_equal (said (self), "");
    client_keys_judge (keys, is_vision, NULL);
    assert_said (self, "the key 'alice' is let in: tenant 'vision'");
    assert_null (client_keys_find (keys, mallory.public_text));
    assert_null (client_keys_find (keys, ""));
    assert_null (client_keys_find (keys, "alice"));

    allow (self, &bob, "bob", "operator", true);
    assert_false (client_keys_look (keys));
    assert_true (client_keys_find (keys, bob.public_text)->is_operator);
    assert_int_equal (client_keys_find (keys, alice.public_text)->user, user);
    size_t count;
    client_keys_grants (keys, &count);
    assert_int_equal (count, 2);
    //  Another name is no other user.
    assert_int_equal (renameat (AT_FDCWD, in (self, "allowed/alice"), AT_FDCWD, self->path), 0);
    char to [300];
    strcpy (to, in (self, "allowed/alicia"));
    assert_int_equal (rename (in (self, "allowed/alice"), to), 0);
    assert_false (client_keys_look (keys));
    assert_int_equal (client_keys_find (keys, alice.public_text)->user, user);
    assert_string_equal (client_keys_find (keys, alice.public_text)->label, "alicia");
    said (self);

    assert_int_equal (unlink (in (self, "allowed/alicia")), 0);
    assert_true (client_keys_look (keys));
    assert_null (client_keys_find (keys, alice.public_text));
    assert_false (client_keys_has_user (keys, user));
    assert_said (self, "is revoked");
    assert_false (client_keys_look (keys));
    assert_string_equal (said (self), "");
    //  Once more: another user (K2).
    allow (self, &alice, "alice", "vision", false);
    assert_false (client_keys_look (keys));
    assert_int_not_equal (client_keys_find (keys, alice.public_text)->user, user);
    client_keys_destroy (&keys);
}

//  As czmq's store does not: within one second, of the same size.
static void
test_revoked_in_the_second_in_which_another_is_allowed (void **state)
{
    fixture_t *self = *state;
    certificate_t alice, bob;
    certificate_make (&alice);
    certificate_make (&bob);
    allow (self, &alice, "a", "vision", false);
    client_keys_t *keys = open_keys (self);
    assert_non_null (client_keys_find (keys, alice.public_text));
    assert_int_equal (unlink (in (self, "allowed/a")), 0);
    allow (self, &bob, "a", "vision", false);
    assert_true (client_keys_look (keys));
    assert_null (client_keys_find (keys, alice.public_text));
    assert_non_null (client_keys_find (keys, bob.public_text));
    client_keys_destroy (&keys);
}

static void
write_grant (fixture_t *self, const char *name, const certificate_t *key, const char *tenant,
    bool is_operator)
{
    char text [400], path [100];
    snprintf (text, sizeof text,
        "metadata\n    tenant = \"%s\"\n    operator = \"%s\"\ncurve\n    public-key = \"%s\"\n",
        tenant, is_operator? "yes": "no", key->public_text);
    snprintf (path, sizeof path, "allowed/%s", name);
    put (in (self, path), text, 0600);
}

//  Edited in place: if a key moves to another tenant it becomes another user's, and the jobs of its old user
//  lose it.
static void
test_moved_to_another_tenant (void **state)
{
    fixture_t *self = *state;
    certificate_t alice;
    certificate_make (&alice);
    client_keys_t *keys = open_keys (self);
    write_grant (self, "alice", &alice, "vision", false);
    assert_false (client_keys_look (keys));
    uint64_t user = client_keys_find (keys, alice.public_text)->user;
    write_grant (self, "alice", &alice, "vision", true);
    assert_false (client_keys_look (keys));
    assert_int_equal (client_keys_find (keys, alice.public_text)->user, user);
    assert_true (client_keys_find (keys, alice.public_text)->is_operator);
    write_grant (self, "alice", &alice, "speech", true);
    assert_true (client_keys_look (keys));
    assert_false (client_keys_has_user (keys, user));
    assert_string_equal (client_keys_find (keys, alice.public_text)->tenant, "speech");
    client_keys_destroy (&keys);
}

static void
test_files_that_admit_no_client (void **state)
{
    fixture_t *self = *state;
    certificate_t alice;
    certificate_make (&alice);
    client_keys_t *keys = open_keys (self);
    char text [400];
    static const struct { const char *name; mode_t mode; const char *what; } cases [] = {
        { "allowed/a b", 0600, "a name of other characters" },
        { "allowed/open", 0666, "written by others" } };
    snprintf (text, sizeof text, "metadata\n    tenant = \"vision\"\ncurve\n    public-key = \"%s\"\n",
        alice.public_text);
    for (size_t index = 0; index < 2; index++) {
        put (in (self, cases [index].name), text, cases [index].mode);
        assert_false (client_keys_look (keys));
        assert_null (client_keys_find (keys, alice.public_text));
        assert_said (self, cases [index].what);
        assert_false (client_keys_look (keys));
        assert_string_equal (said (self), "");
        unlink (in (self, cases [index].name));
    }
    put (in (self, "allowed/.hidden"), text, 0600);
    snprintf (text, sizeof text, "curve\n    public-key = \"%s\"\n", alice.public_text);
    put (in (self, "allowed/homeless"), text, 0600);
    assert_false (client_keys_look (keys));
    assert_said (self, "names no tenant");
    snprintf (text, sizeof text,
        "metadata\n    tenant = \"vision\"\ncurve\n    public-key = \"%s\"\n    secret-key = \"%s\"\n",
        alice.public_text, alice.secret_text);
    put (in (self, "allowed/homeless"), text, 0600);
    assert_false (client_keys_look (keys));
    const char *line = said (self);
    assert_non_null (strstr (line, "holds a secret key"));
    assert_null (strstr (line, alice.secret_text));
    assert_null (client_keys_find (keys, alice.public_text));
    unlink (in (self, "allowed/homeless"));
    //  Two that say different things: neither.
    write_grant (self, "one", &alice, "vision", false);
    write_grant (self, "two", &alice, "vision", false);
    assert_false (client_keys_look (keys));
    client_keys_check (keys);
    assert_non_null (client_keys_find (keys, alice.public_text));
    write_grant (self, "two", &alice, "vision", true);
    assert_true (client_keys_look (keys));
    assert_null (client_keys_find (keys, alice.public_text));
    assert_said (self, "says something else of it");
    client_keys_destroy (&keys);
}

static void
test_a_tenant_that_there_is_not (void **state)
{
    fixture_t *self = *state;
    certificate_t alice, bob;
    certificate_make (&alice);
    certificate_make (&bob);
    allow (self, &alice, "alice", "vision", false);
    allow (self, &bob, "bob", "speech", false);
    client_keys_t *keys = open_keys (self);
    client_keys_judge (keys, is_vision, NULL);
    const char *line = said (self);
    assert_non_null (strstr (line, "no tenant 'speech'"));
    assert_null (strstr (line, "no tenant 'vision'"));
    assert_non_null (strstr (line, "'alice' is let in"));
    assert_null (strstr (line, "'bob' is let in"));
    assert_true (client_keys_find (keys, alice.public_text)->admits);
    assert_false (client_keys_find (keys, bob.public_text)->admits);
    client_keys_judge (keys, is_vision, NULL);
    assert_string_equal (said (self), "");
    //  What was judged stays so, until a right changes.
    write_grant (self, "alice", &alice, "vision", true);
    assert_false (client_keys_look (keys));
    client_keys_judge (keys, is_vision, NULL);
    assert_said (self, "the key 'alice' is let in: tenant 'vision', operator");
    assert_null (strstr (said (self), "speech"));
    client_keys_destroy (&keys);
}

//  Without descriptors all keys stay; a key that was revoked meanwhile goes as soon as there are some.
static void
test_no_key_goes_for_want_of_descriptors (void **state)
{
    fixture_t *self = *state;
    certificate_t alice, bob;
    certificate_make (&alice);
    certificate_make (&bob);
    allow (self, &alice, "alice", "vision", false);
    allow (self, &bob, "bob", "vision", false);
    client_keys_t *keys = open_keys (self);
    assert_int_equal (unlink (in (self, "allowed/bob")), 0);
    static const int errors [] = { EMFILE, EIO, ENOMEM };
    for (int way = 0; way < 6; way++) {
        bool struck = true;
        for (unsigned int nth = 1; struck; nth++) {
            fault_arm (nth, errors [way / 2], way % 2);
            client_keys_look (keys);
            struck = fault_disarm ();
            client_keys_check (keys);
            assert_non_null (client_keys_find (keys, alice.public_text));
            const char *text = said (self);
            assert_true (fault_has_words (text));
            assert_true (nth > 1 || strstr (text, "keys stay as they are"));
        }
    }
    client_keys_look (keys);
    assert_null (client_keys_find (keys, bob.public_text));
    assert_non_null (client_keys_find (keys, alice.public_text));
    //  A folder that others may write says nothing that could be believed.
    assert_int_equal (chmod (in (self, "allowed"), 0777), 0);
    unlink (in (self, "allowed/alice"));
    assert_false (client_keys_look (keys));
    assert_non_null (client_keys_find (keys, alice.public_text));
    assert_said (self, "chmod 700");
    assert_int_equal (chmod (in (self, "allowed"), 0700), 0);
    assert_true (client_keys_look (keys));
    assert_said (self, "can be looked at again");
    //  No folder: no key.
    allow (self, &alice, "alice", "vision", false);
    client_keys_look (keys);
    unlink (in (self, "allowed/alice"));
    rmdir (in (self, "allowed"));
    assert_true (client_keys_look (keys));
    assert_null (client_keys_find (keys, alice.public_text));
    client_keys_destroy (&keys);
}

//  The owner of the parent folder puts a folder of its own in its place.  Root may read it, and does not take
//  it for the server's.
static void
test_another_users_folder_in_its_place (void **state)
{
    fixture_t *self = *state;
    char other [120];
    certificate_t alice, mallory;
    if (geteuid () != 0)
        skip ();                    //  others' folders are refused to begin with
    certificate_make (&alice);
    certificate_make (&mallory);
    allow (self, &alice, "alice", "vision", false);
    client_keys_t *keys = open_keys (self);
    said (self);
    snprintf (other, sizeof other, "%s.other", self->directory);
    assert_int_equal (rename (self->directory, other), 0);
    allow (self, &mallory, "mallory", "operator", true);
    static const char *const names [] = { "allowed/mallory", "allowed", "." };
    for (size_t index = 0; index < 3; index++)
        assert_int_equal (chown (in (self, names [index]), 65534, 65534), 0);
    assert_false (client_keys_look (keys));
    assert_null (client_keys_find (keys, mallory.public_text));
    assert_non_null (client_keys_find (keys, alice.public_text));
    assert_said (self, "of user 65534");
    for (size_t index = 0; index < 2; index++)
        assert_int_equal (index? rmdir (in (self, names [index])): unlink (in (self, names [index])), 0);
    assert_int_equal (rmdir (self->directory), 0);
    assert_int_equal (rename (other, self->directory), 0);
    assert_false (client_keys_look (keys));
    assert_non_null (client_keys_find (keys, alice.public_text));
    assert_said (self, "can be looked at again");
    client_keys_destroy (&keys);
}

//  A client that takes all descriptors does not keep a revoked key alive.
static void
test_revoked_without_a_descriptor (void **state)
{
    fixture_t *self = *state;
    certificate_t alice, bob;
    certificate_make (&alice);
    certificate_make (&bob);
    allow (self, &alice, "alice", "vision", false);
    allow (self, &bob, "bob", "vision", false);
    client_keys_t *keys = open_keys (self);
    uint64_t user = client_keys_find (keys, alice.public_text)->user;
    no_descriptors = true;
    assert_false (client_keys_look (keys));
    assert_non_null (client_keys_find (keys, bob.public_text));
    assert_int_equal (unlink (in (self, "allowed/bob")), 0);
    assert_true (client_keys_look (keys));
    client_keys_check (keys);
    assert_null (client_keys_find (keys, bob.public_text));
    assert_int_equal (client_keys_find (keys, alice.public_text)->user, user);
    no_descriptors = false;
    assert_false (client_keys_look (keys));
    assert_int_equal (client_keys_find (keys, alice.public_text)->user, user);
    client_keys_destroy (&keys);
}

//  What is not young any more and looks the same is not read again.
static void
test_nothing_is_read_twice_for_nothing (void **state)
{
    fixture_t *self = *state;
    certificate_t alice, bob;
    certificate_make (&alice);
    certificate_make (&bob);
    client_keys_t *keys = open_keys (self);
    write_grant (self, "alice", &alice, "vision", false);
    ahead = 10;
    client_keys_look (keys);
    opened = 0;
    client_keys_look (keys);
    unsigned int idle = opened;
    assert_int_equal (idle, 3);         //  the folder, the one in it, and that again
    write_grant (self, "bob", &bob, "vision", false);
    opened = 0;
    client_keys_look (keys);
    assert_int_equal (opened, idle + 1);
    assert_non_null (client_keys_find (keys, bob.public_text));
    client_keys_destroy (&keys);
}

//  Changed in place, with as many bytes, in the moment in which it was read.
static void
test_changed_within_one_tick (void **state)
{
    fixture_t *self = *state;
    certificate_t alice;
    certificate_make (&alice);
    client_keys_t *keys = open_keys (self);
    coarse.tv_sec = __real_time (NULL);
    write_grant (self, "alice", &alice, "vision", false);
    assert_false (client_keys_look (keys));
    write_grant (self, "alice", &alice, "speech", false);
    assert_true (client_keys_look (keys));
    assert_string_equal (client_keys_find (keys, alice.public_text)->tenant, "speech");
    client_keys_destroy (&keys);
}

static void
test_too_many (void **state)
{
    fixture_t *self = *state;
    certificate_t alice;
    certificate_make (&alice);
    client_keys_t *keys = open_keys (self);
    for (int index = 0; index <= CLIENT_KEYS_MAX; index++) {
        char name [40];
        snprintf (name, sizeof name, "k%04d", index);
        write_grant (self, name, &alice, "vision", false);
    }
    assert_false (client_keys_look (keys));
    client_keys_check (keys);
    assert_said (self, "more than 1024 files");
    assert_non_null (client_keys_find (keys, alice.public_text));
    client_keys_destroy (&keys);
}

//  -- beside a model

//  What a label's file says: key + 1, or 0: no file.
typedef struct {
    int key;
    bool is_operator, is_damaged;
    int tenant;
} label_t;

static const char *const tenants [] = { "vision", "speech" };

//  The label that decides on a key; -1: none does.
static int
model_find (const label_t labels [MODEL_LABELS], int key)
{
    int found = -1;
    for (int index = 0; index < MODEL_LABELS; index++) {
        if (labels [index].key != key + 1 || labels [index].is_damaged)
            continue;
        if (found >= 0 && (labels [found].tenant != labels [index].tenant
        ||  labels [found].is_operator != labels [index].is_operator))
            return -1;
        found = index;
    }
    return found;
}

static void
model_change (fixture_t *self, label_t *label, int index, const certificate_t keys [MODEL_KEYS],
    uint64_t *random)
{
    char name [40];
    snprintf (name, sizeof name, "l%d", index);
    uint64_t choice = test_below (random, 8);
    if (choice < 2) {
        *label = (label_t) { 0 };
        char path [60];
        snprintf (path, sizeof path, "allowed/%s", name);
        unlink (in (self, path));
    }
    else {
        *label = (label_t) { .key = 1 + (int) test_below (random, MODEL_KEYS),
            .is_operator = test_below (random, 4) == 0,
            .tenant = (int) test_below (random, 2), .is_damaged = choice == 2 };
        write_grant (self, name, &keys [label->key - 1],
            label->is_damaged? "no name": tenants [label->tenant], label->is_operator);
    }
}

//  Property: after every look exactly the keys in the folder are admitted, each with a user number that no
//  other key ever had.
static void
test_beside_a_model (void **state)
{
    fixture_t *self = *state;
    for (uint64_t round = 0, seed = test_seed (); round < MODEL_ROUNDS; round++, seed++) {
        uint64_t random = seed, users [MODEL_KEYS] = { 0 }, newest = CLIENT_KEYS_USER_FIRST - 1;
        int known_tenant [MODEL_KEYS];
        certificate_t certificates [MODEL_KEYS];
        label_t labels [MODEL_LABELS] = { { 0 } };
        for (int key = 0; key < MODEL_KEYS; key++)
            certificate_make (&certificates [key]);
        client_keys_t *keys = open_keys (self);
        for (int step = 0; step < MODEL_STEPS; step++) {
            for (uint64_t count = test_below (&random, 3); count; count--) {
                int index = (int) test_below (&random, MODEL_LABELS);
                model_change (self, &labels [index], index, certificates, &random);
            }
            bool gone = client_keys_look (keys), should = false;
            uint64_t last = newest;
            client_keys_check (keys);
            for (int key = 0; key < MODEL_KEYS; key++) {
                int label = model_find (labels, key);
                const client_keys_grant_t *grant = client_keys_find (keys, certificates [key].public_text);
                if ((label >= 0) != (grant != NULL))
                    fail_msg ("seed %" PRIu64 ", step %d: key %d is %slet in", seed, step, key,
                        grant? "": "not ");
                bool stays = users [key] && label >= 0 && known_tenant [key] == labels [label].tenant;
                should = should || (users [key] && !stays);
                if (grant && (grant->is_operator != labels [label].is_operator
                || strcmp (grant->tenant, tenants [labels [label].tenant])
                || (stays? grant->user != users [key]: grant->user <= last)))
                    fail_msg ("seed %" PRIu64 ", step %d: key %d is another user's", seed, step, key);
                if (!stays && users [key])
                    assert_false (client_keys_has_user (keys, users [key]));
                users [key] = grant? grant->user: 0;
                known_tenant [key] = label >= 0? labels [label].tenant: -1;
                if (grant && grant->user > newest)
                    newest = grant->user;
            }
            if (gone != should)
                fail_msg ("seed %" PRIu64 ", step %d: %s", seed, step,
                    gone? "no key went": "a key went unsaid");
            said (self);
        }
        client_keys_destroy (&keys);
        for (int index = 0; index < MODEL_LABELS; index++) {
            char path [40];
            snprintf (path, sizeof path, "allowed/l%d", index);
            unlink (in (self, path));
        }
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_the_server_keeps_its_key, begin, end),
        cmocka_unit_test_setup_teardown (test_a_pair_that_must_be_there, begin, end),
        cmocka_unit_test_setup_teardown (test_folders_that_are_refused, begin, end),
        cmocka_unit_test_setup_teardown (test_opening_that_fails, begin, end),
        cmocka_unit_test_setup_teardown (test_allowed_and_revoked, begin, end),
        cmocka_unit_test_setup_teardown (test_revoked_in_the_second_in_which_another_is_allowed, begin, end),
        cmocka_unit_test_setup_teardown (test_moved_to_another_tenant, begin, end),
        cmocka_unit_test_setup_teardown (test_files_that_admit_no_client, begin, end),
        cmocka_unit_test_setup_teardown (test_a_tenant_that_there_is_not, begin, end),
        cmocka_unit_test_setup_teardown (test_no_key_goes_for_want_of_descriptors, begin, end),
        cmocka_unit_test_setup_teardown (test_another_users_folder_in_its_place, begin, end),
        cmocka_unit_test_setup_teardown (test_revoked_without_a_descriptor, begin, end),
        cmocka_unit_test_setup_teardown (test_nothing_is_read_twice_for_nothing, begin, end),
        cmocka_unit_test_setup_teardown (test_changed_within_one_tick, begin, end),
        cmocka_unit_test_setup_teardown (test_too_many, begin, end),
        cmocka_unit_test_setup_teardown (test_beside_a_model, begin, end)
    };
    return cmocka_run_group_tests_name ("keys", tests, NULL, NULL);
}
