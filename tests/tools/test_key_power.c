//  Keys, and the loss of power: what `tureen key` has said, and a server's own key, is so whatever the disk
//  has kept, and the server opens the folder.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "client_keys.h"
#include "command.h"
#include "effort.h"
#include "power_calls.h"

enum { USERS = 3, SERVER = USERS, EVENTS_MAX = 16, ERROR_BYTES = 512 };

static const char *const s_labels [USERS] = { "alice", "bob", "carol" };

//  What was done between two steps of the recording, and said to be done then.
typedef struct {
    int subject;                        //  a user, or SERVER
    bool is_in;
    size_t begin, end;
} event_t;

typedef struct {
    scratch_folder_t scratch;
    log_t log;
    char disk [100], folder [120], lost [100], lost_folder [120];
    certificate_t users [USERS];
    char server [CERTIFICATE_KEY_CHARS + 1];
    event_t events [EVENTS_MAX];
    size_t count;
} world_t;

static int
s_begin (void **state)
{
    static world_t world;
    world = (world_t) { .log = { .descriptor = -1 } };
    *state = &world;
    if (!scratch_begin (&world.scratch))
        return -1;
    world.log.descriptor = open ("/dev/null", O_WRONLY | O_CLOEXEC);
    snprintf (world.disk, sizeof world.disk, "%s/disk", world.scratch.path);
    snprintf (world.folder, sizeof world.folder, "%s/keys", world.disk);
    snprintf (world.lost, sizeof world.lost, "%s/lost", world.scratch.path);
    snprintf (world.lost_folder, sizeof world.lost_folder, "%s/keys", world.lost);
    for (size_t user = 0; user < USERS; user++)
        certificate_make (&world.users [user]);
    return mkdir (world.disk, 0700);
}

static int
s_end (void **state)
{
    world_t *self = *state;
    power_forget ();
    close (self->log.descriptor);
    return scratch_end (&self->scratch)? 0: -1;
}

static void
s_key (char *one, char *two, char *three, char *four, char *five)
{
    char *words [] = { "key", one, two, three, four, five, NULL };
    int count = 3 + !!three + !!four + !!five;
    assert_int_equal (command_key (count, words), 0);
}

static client_keys_t *
s_open (const world_t *self, const char *folder)
{
    client_keys_t *keys;
    char error [ERROR_BYTES];
    if (client_keys_open (&keys, folder, (log_t *) &self->log, error, sizeof error))
        fail_msg ("%s", error);
    client_keys_check (keys);
    return keys;
}

static void
s_do (world_t *self, int subject, bool is_in)
{
    event_t event = { subject, is_in, power.step_count, 0 };
    if (subject == SERVER) {
        client_keys_t *keys = s_open (self, self->folder);
        strcpy (self->server, client_keys_server_public (keys));
        client_keys_destroy (&keys);
    }
    else
    if (is_in) {
        char label [40];
        snprintf (label, sizeof label, "--name=%s", s_labels [subject]);
        s_key ("allow", self->folder, self->users [subject].public_text, "--tenant=vision", label);
    }
    else
        s_key ("revoke", self->folder, (char *) s_labels [subject], NULL, NULL);
    event.end = power.step_count;
    assert_true (self->count < EVENTS_MAX);
    self->events [self->count++] = event;
}

//  Whether something is said of the subject after so many steps, and *is_in_p what.
static bool
s_is_said (const world_t *self, int subject, size_t steps, bool *is_in_p)
{
    bool is_said = subject != SERVER;
    *is_in_p = false;
    for (size_t index = 0; index < self->count; index++) {
        const event_t *event = &self->events [index];
        if (event->subject != subject || steps <= event->begin)
            continue;
        is_said = steps >= event->end;
        *is_in_p = event->is_in;
    }
    return is_said;
}

//  The next start of the server, in the folder that a loss of power has left.
static void
s_check (const world_t *self, size_t steps, power_luck_t luck)
{
    bool is_in;
    client_keys_t *keys = s_open (self, self->lost_folder);
    if (s_is_said (self, SERVER, steps, &is_in) && strcmp (client_keys_server_public (keys),
        self->server) != 0)
        fail_msg ("power lost behind %zu steps, %d: the server has another key", steps, (int) luck);
    for (int user = 0; user < USERS; user++) {
        const client_keys_grant_t *grant = client_keys_find (keys, self->users [user].public_text);
        if (s_is_said (self, user, steps, &is_in) && is_in != (grant != NULL))
            fail_msg ("power lost behind %zu steps, %d: %s is %s", steps, (int) luck, s_labels [user],
                grant? "let in": "not let in");
        if (grant)
            assert_string_equal (grant->tenant, "vision");
    }
    client_keys_destroy (&keys);
}

//  Guards: after 'allowed' or 'revoked' was printed, no loss of power undoes it; nor the server's own key.
static void
test_allowed_and_revoked_stay (void **state)
{
    world_t *self = *state;
    uint64_t random = test_seed ();
    power_record (self->disk);
    s_do (self, 0, true);
    s_do (self, SERVER, true);
    s_do (self, 1, true);
    s_do (self, 0, false);
    s_do (self, 2, true);
    s_do (self, 0, true);
    s_do (self, 1, false);
    size_t all = power_stop ();
    for (size_t steps = 0; steps <= all; steps++)
        for (unsigned int turn = 0; turn < 2 + EFFORT (10); turn++) {
            power_luck_t luck = turn < POWER_SOME_LOST? (power_luck_t) turn: POWER_SOME_LOST;
            power_lose (self->lost, steps, luck, &random);
            s_check (self, steps, luck);
            power_remove (self->lost);
        }
    print_message ("%zu steps\n", all);
}

//  Guards: the server's key where that is the first thing in the folder.
static void
test_the_servers_key_first_in_its_folder (void **state)
{
    world_t *self = *state;
    uint64_t random = test_seed ();
    power_record (self->disk);
    s_do (self, SERVER, true);
    size_t all = power_stop ();
    for (size_t steps = 0; steps <= all; steps++)
        for (power_luck_t luck = POWER_ALL_LOST; luck <= POWER_SOME_LOST; luck++) {
            power_lose (self->lost, steps, luck, &random);
            s_check (self, steps, luck);
            power_remove (self->lost);
        }
}

//  Guards: of a new pair there is never the public key alone, and when it is said to be there it is.
static void
test_a_new_pair_is_whole (void **state)
{
    world_t *self = *state;
    uint64_t random = test_seed ();
    char path [120];
    const char *reason;
    certificate_t public, secret;
    snprintf (path, sizeof path, "%s/mine", self->disk);
    power_record (self->disk);
    s_key ("new", path, NULL, NULL, NULL);
    size_t all = power_stop ();
    for (size_t steps = 0; steps <= all; steps++)
        for (unsigned int turn = 0; turn < 2 + EFFORT (10); turn++) {
            power_lose (self->lost, steps,
                turn < POWER_SOME_LOST? (power_luck_t) turn: POWER_SOME_LOST, &random);
            int folder = open (self->lost, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                of_public = certificate_read (&public, folder, "mine", CERTIFICATE_ANY, geteuid (), &reason),
                of_secret = certificate_read (&secret, folder, "mine_secret", CERTIFICATE_SECRET, geteuid (),
                &reason);
            assert_true (of_secret == 0 || (of_secret == -ENOENT && steps < all));
            assert_true (of_public == 0 || (of_public == -ENOENT && steps < all));
            if (of_public == 0)
                assert_string_equal (of_secret == 0? secret.public_text: "", public.public_text);
            close (folder);
            power_remove (self->lost);
        }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_allowed_and_revoked_stay, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_the_servers_key_first_in_its_folder, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_a_new_pair_is_whole, s_begin, s_end)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
