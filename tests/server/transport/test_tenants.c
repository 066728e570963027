/*  Tenants: which tenant a message belongs to, and what that caller may do; some callers have no tenant.  */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "seed.h"
#include "serve.h"
#include "tenant.h"

enum { ALICE = 1001, ANNE = 1002, BOB = 2001, MALLORY = 3001 };
static const uid_t REMOTE = (uid_t) -1;

//  -- keys that are let in, in place of a folder of them

static client_keys_grant_t s_grants [] = {
    { .key = "vision's", .label = "laptop", .tenant = "vision", .user = CLIENT_KEYS_USER_FIRST },
    { .key = "vision's second", .label = "desk", .tenant = "vision", .user = CLIENT_KEYS_USER_FIRST + 1 },
    { .key = "operator's", .label = "admin", .tenant = "operator", .is_operator = true,
        .user = CLIENT_KEYS_USER_FIRST + 2 },
    { .key = "lead's", .label = "lead", .tenant = "text", .is_operator = true,
        .user = CLIENT_KEYS_USER_FIRST + 3 },
    { .key = "nowhere's", .label = "old", .tenant = "disbanded", .user = CLIENT_KEYS_USER_FIRST + 4 },
    { .key = "worker's", .label = "box", .tenant = "disbanded", .is_worker = true,
        .user = CLIENT_KEYS_USER_FIRST + 5 },
};
static int s_keys;

const client_keys_grant_t *__wrap_client_keys_find (const client_keys_t *self, const char *key);

const client_keys_grant_t *
__wrap_client_keys_find (const client_keys_t *self, const char *key)
{
    assert_ptr_equal (self, &s_keys);
    for (size_t index = 0; index < sizeof s_grants / sizeof *s_grants; index++)
        if (strcmp (s_grants [index].key, key) == 0)
            return &s_grants [index];
    return NULL;
}

//  -- the server's own user, which root is not, the user that runs this test

enum { OWN = 4711 };

uid_t __wrap_geteuid (void);
uid_t
__wrap_geteuid (void)
{
    return OWN;
}

//  -- what every case begins and ends with

typedef struct {
    options_t options;
    broker_t *broker;
    tenants_t *tenants;
} fixture_t;

//  A server that was started with these settings and three data sets.
static void
start (fixture_t *self, const char *settings, bool with_keys)
{
    char *text = strdup (settings), *rest = text, error [512];
    char *argv [64] = { "serve", "--dataset", "one=/1", "--dataset", "two=/2", "--dataset", "three=/3" };
    int argc = 7;
    for (char *word; *settings && (word = strsep (&rest, " "));)
        argv [argc++] = word;
    if (options_parse (&self->options, argc, argv, error, sizeof error) != OPTION_RUN)
        fail_msg ("%s: %s", settings, error);
    free (text);
    broker_options_t options = { .cache_bytes = 64 << 20, .workers = 2, .jobs_bytes_max = 64 << 20,
        .seed = 1 };
    self->broker = broker_new (&options);
    for (size_t index = 0; index < 3; index++)
        dataset_add (self->broker, self->options.datasets [index].name, 100, BROKER_BAD_DROP, NULL);
    self->tenants = serve_tenants (self->broker, &self->options,
        with_keys? (const client_keys_t *) (const void *) &s_keys: NULL);
    assert_non_null (self->tenants);
}

static void
stop (fixture_t *self)
{
    tenants_destroy (&self->tenants);
    assert_null (self->tenants);
    broker_destroy (&self->broker);
    options_clear (&self->options);
}

static void
assert_no_tenant (const fixture_t *self, uid_t uid, const char *key)
{
    caller_t caller;
    if (tenants_caller (self->tenants, uid, key, &caller))
        fail_msg ("user %u, key %s: is of tenant '%s'", uid, key? key: "none", tenant_name (caller.tenant));
}

static caller_t
assert_caller (const fixture_t *self, uid_t uid, const char *key, const char *tenant, bool is_operator)
{
    caller_t caller;
    if (!tenants_caller (self->tenants, uid, key, &caller))
        fail_msg ("user %u, key %s: no tenant", uid, key? key: "none");
    assert_string_equal (tenant_name (caller.tenant), tenant);
    assert_int_equal (caller.is_operator, is_operator);
    assert_int_equal (caller.may_add, is_operator && !self->options.open);
    assert_int_equal (caller.uid, uid);
    return caller;
}

//  -- cases

static void
test_without_tenants (void **state)
{
    (void) state;
    fixture_t self;
    start (&self, "", false);
    caller_t caller = assert_caller (&self, OWN, NULL, "operator", true);
    assert_int_equal (caller.user, OWN);
    assert_caller (&self, 0, NULL, "operator", true);
    assert_no_tenant (&self, MALLORY, NULL);
    assert_no_tenant (&self, REMOTE, NULL);
    assert_no_tenant (&self, REMOTE, "vision's");
    stop (&self);
}

//  Every user that can connect is served, and a key changes nothing.
static void
test_open (void **state)
{
    (void) state;
    fixture_t self;
    start (&self, "--open", false);
    assert_int_equal (assert_caller (&self, MALLORY, NULL, "operator", true).user, MALLORY);
    assert_true (assert_caller (&self, REMOTE, NULL, "operator", true).user == BROKER_USER_UNKNOWN);
    assert_caller (&self, REMOTE, "anything", "operator", true);
    stop (&self);
}

static void
test_users (void **state)
{
    (void) state;
    fixture_t self;
    start (&self, "--group 5 --tenant vision=1002,1001 --tenant text=2001 --tenant-datasets vision=one,three "
        "--tenant-datasets text=*", false);
    caller_t alice = assert_caller (&self, ALICE, NULL, "vision", false),
        anne = assert_caller (&self, ANNE, NULL, "vision", false);
    caller_t bob = assert_caller (&self, BOB, NULL, "text", false),
        operator = assert_caller (&self, 0, NULL, "operator", true);
    assert_true (alice.tenant == anne.tenant && alice.tenant != bob.tenant
        && operator.tenant == tenant_named (self.broker, NULL));
    assert_false (caller_is (&alice, &anne));
    assert_false (caller_is (&alice, &bob));
    assert_true (caller_is (&alice, &alice));
    assert_no_tenant (&self, MALLORY, NULL);
    assert_no_tenant (&self, MALLORY, "vision's");
    assert_no_tenant (&self, REMOTE, NULL);
    assert_no_tenant (&self, REMOTE, "vision's");
    static const struct { const char *dataset; bool vision, text; } rights [] = {
        { "one", true, true }, { "two", false, true }, { "three", true, true } };
    for (size_t index = 0; index < 3; index++) {
        const dataset_t *dataset = dataset_named (self.broker, NULL, rights [index].dataset);
        assert_int_equal (tenant_may_use (alice.tenant, dataset), rights [index].vision);
        assert_int_equal (tenant_may_use (bob.tenant, dataset), rights [index].text);
        assert_true (tenant_may_use (operator.tenant, dataset));
        assert_int_equal (dataset_named (self.broker, alice.tenant, rights [index].dataset) != NULL,
            rights [index].vision);
    }
    stop (&self);
}

//  Root and the server's own user see everything, also where their jobs are a tenant's.
static void
test_operator_in_a_tenant (void **state)
{
    (void) state;
    fixture_t self;
    start (&self, "--group 5 --tenant vision=0,1001 --tenant-datasets vision=one", false);
    assert_caller (&self, 0, NULL, "vision", true);
    assert_caller (&self, ALICE, NULL, "vision", false);
    assert_caller (&self, OWN, NULL, "operator", true);
    stop (&self);
}

static void
test_client_keys (void **state)
{
    (void) state;
    fixture_t self;
    start (&self, "--keys /k --tenant vision=- --tenant text=-", true);
    caller_t laptop = assert_caller (&self, REMOTE, "vision's", "vision", false);
    caller_t desk = assert_caller (&self, REMOTE, "vision's second", "vision", false);
    assert_false (caller_is (&laptop, &desk));
    assert_caller (&self, REMOTE, "operator's", "operator", true);
    assert_caller (&self, REMOTE, "lead's", "text", true);
    //  Of a tenant that this server has not; unknown; none.
    assert_no_tenant (&self, REMOTE, "nowhere's");
    assert_no_tenant (&self, REMOTE, "a stranger's");
    assert_no_tenant (&self, REMOTE, NULL);
    //  On tcp what looks like a user of this machine is the peer's word.
    assert_no_tenant (&self, 0, NULL);
    assert_no_tenant (&self, OWN, "a stranger's");
    caller_t caller;
    assert_true (tenants_caller (self.tenants, 0, "vision's", &caller));
    assert_false (caller.is_operator);
    stop (&self);
}

//  Users of this machine come by ipc, beside keys on tcp.
static void
test_keys_and_users (void **state)
{
    (void) state;
    fixture_t self;
    start (&self, "--keys /k --tenant vision=1001 --tenant text=-", true);
    caller_t user = assert_caller (&self, 1001, CALLER_LOCAL, "vision", false);
    caller_t laptop = assert_caller (&self, REMOTE, "vision's", "vision", false);
    assert_false (caller_is (&user, &laptop));
    assert_caller (&self, OWN, CALLER_LOCAL, "operator", true);
    assert_no_tenant (&self, 1002, CALLER_LOCAL);
    assert_no_tenant (&self, REMOTE, CALLER_LOCAL);
    assert_no_tenant (&self, 1001, "a stranger's");
    assert_no_tenant (&self, 1001, NULL);
    assert_null (tenants_label (self.tenants, CALLER_LOCAL));
    stop (&self);
}

//  On tcp a worker's key alone may work, whatever its tenant, and do nothing else.  On ipc an operator may.
static void
test_workers (void **state)
{
    (void) state;
    fixture_t self;
    start (&self, "--keys /k --tenant vision=-", true);
    caller_t caller = assert_caller (&self, REMOTE, "worker's", "operator", false);
    assert_true (caller.may_work && caller.only_works);
    assert_string_equal (tenants_label (self.tenants, "worker's"), "box");
    assert_null (tenants_label (self.tenants, "a stranger's"));
    caller = assert_caller (&self, REMOTE, "operator's", "operator", true);
    assert_false (caller.may_work || caller.only_works);
    caller = assert_caller (&self, REMOTE, "vision's", "vision", false);
    assert_false (caller.may_work || caller.only_works);
    stop (&self);
    start (&self, "--group 5 --tenant vision=1001", false);
    assert_false (assert_caller (&self, ALICE, NULL, "vision", false).may_work);
    caller = assert_caller (&self, OWN, NULL, "operator", true);
    assert_true (caller.may_work && !caller.only_works);
    stop (&self);
}

//  Weights and limits come to the broker.
static void
test_limits (void **state)
{
    (void) state;
    fixture_t self;
    start (&self, "--group 5 --tenant a=1001 --tenant b=1002 --tenant-weight a=5 --tenant-weight operator=2 "
        "--tenant-jobs a=7", false);
    assert_int_equal (tenant_total (self.broker), 3);
    static const struct { const char *name; uint64_t part;
        } parts [] = { { "a", 5000 }, { "b", 1000 }, { "operator", 2000 } };
    for (size_t index = 0; index < 3; index++)
        assert_in_range (tenant_share (self.broker, tenant_named (self.broker, parts [index].name), 8000),
            parts [index].part - 10, parts [index].part);
    broker_check (self.broker);
    stop (&self);
}

//  Few for users without a tenant, a share for tenants, any number for operators.
static void
test_connections (void **state)
{
    (void) state;
    fixture_t self;
    const tenant_t *tenant;
    start (&self, "--group 5 --tenant a=1001,0 --tenant b=1002 --tenant-jobs a=10 --tenant-weight b=2",
        false);
    //  Also where it is one of a tenant's: what it has takes no place of the others'.
    tenant = tenant_named (self.broker, "a");
    assert_true (tenants_connections_max (self.tenants, 0, 100000, &tenant) == SIZE_MAX);
    assert_null (tenant);
    assert_true (tenants_connections_max (self.tenants, OWN, 100000, &tenant) == SIZE_MAX);
    assert_int_equal (tenants_connections_max (self.tenants, 1001, 100000, &tenant), 64 + 4 * 10);
    assert_ptr_equal (tenant, tenant_named (self.broker, "a"));
    //  Without a limit of its own: by the jobs that its weight stands for.
    size_t most = tenants_connections_max (self.tenants, 1002, 100000, &tenant);
    assert_int_equal (most, 64 + 4 * tenant_share (self.broker, tenant, 256));
    assert_ptr_equal (tenant, tenant_named (self.broker, "b"));
    //  Where descriptors are few: its part of half of them.
    assert_in_range (tenants_connections_max (self.tenants, 1001, 256, &tenant), 30, 32);
    assert_in_range (tenants_connections_max (self.tenants, 1002, 256, &tenant), 60, 64);
    assert_int_equal (tenants_connections_max (self.tenants, MALLORY, 100000, &tenant), 16);
    assert_null (tenant);
    stop (&self);
    start (&self, "--open", false);
    assert_true (tenants_connections_max (self.tenants, MALLORY, 100000, &tenant) == SIZE_MAX);
    stop (&self);
}

//  Beside a model: any users in any tenants, in any order.
static void
test_random_users (void **state)
{
    (void) state;
    uint64_t seed = test_seed (), random = seed;
    for (int round = 0; round < 30; round++) {
        enum { UIDS = 40, TENANTS = 4 };
        int of [UIDS];
        char settings [2048] = "--group 5";
        for (int uid = 0; uid < UIDS; uid++)
            of [uid] = (int) test_below (&random, TENANTS + 2);
        for (int tenant = 0; tenant < TENANTS; tenant++) {
            size_t used = strlen (settings),
                before = used += (size_t) sprintf (settings + used, " --tenant t%d=", tenant);
            for (int uid = UIDS; uid-- > 0;)
                if (of [uid] == tenant)
                    used += (size_t) sprintf (settings + used, "%s%d", used > before? ",": "",
                        70000 + 3 * uid);
            if (used == before)
                strcpy (settings + used, "-");
        }
        fixture_t self;
        start (&self, settings, false);
        for (uid_t uid = 69990; uid < 70000 + 3 * UIDS; uid++) {
            int expected = uid >= 70000 && (uid - 70000) % 3 == 0? of [(uid - 70000) / 3]: TENANTS;
            caller_t caller;
            bool known = tenants_caller (self.tenants, uid, NULL, &caller);
            if (known != (expected < TENANTS) || (known && tenant_name (caller.tenant) [1] - '0' != expected))
                fail_msg ("seed %" PRIu64 ", round %d: user %u", seed, round, uid);
            assert_true (!known || (caller.user == uid && !caller.is_operator));
        }
        stop (&self);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_without_tenants),
        cmocka_unit_test (test_open),
        cmocka_unit_test (test_users),
        cmocka_unit_test (test_operator_in_a_tenant),
        cmocka_unit_test (test_client_keys),
        cmocka_unit_test (test_keys_and_users),
        cmocka_unit_test (test_workers),
        cmocka_unit_test (test_limits),
        cmocka_unit_test (test_connections),
        cmocka_unit_test (test_random_users),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
