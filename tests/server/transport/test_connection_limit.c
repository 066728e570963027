/*  The connection limit: a user with too many connections loses the youngest, no other user loses any, and no
 *  other descriptor is touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "connection_limit.h"
#include "receive_quota.h"
#include "scratch.h"
#include "seed.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { NOW = 1000000, ALICE = 65001, BOB = 65002, CAROL = 65003, CONNECTIONS_MAX = 200 };

FAULT_CALL (void *, NULL, calloc, (size_t count, size_t size), (count, size))
FAULT_CALL (void *, NULL, realloc, (void *memory, size_t size), (memory, size))

//  In the moment before the connection limit takes hold of a descriptor, ZeroMQ's thread has closed it and
//  another has its number.
static int s_hand_over = -1, s_other = -1;

int __real_dup3 (int from, int to, int flags);
int __wrap_dup3 (int from, int to, int flags);
int
__wrap_dup3 (int from, int to, int flags)
{
    if (from == s_hand_over && s_other >= 0) {
        __real_dup3 (s_other, from, O_CLOEXEC);
        s_hand_over = -1;
    }
    return __real_dup3 (from, to, flags);
}

//  Whether a file's system was asked about it: one that stands still would not answer.
static bool s_asked_of_file;

int __real_fstat (int fd, struct stat *status);
int __wrap_fstat (int fd, struct stat *status);
int
__wrap_fstat (int fd, struct stat *status)
{
    int rc = __real_fstat (fd, status);
    s_asked_of_file |= rc == 0 && !S_ISSOCK (status->st_mode);
    return rc;
}

//  -- what every case begins and ends with

typedef struct {
    int client, server;
} pair_t;

typedef struct {
    scratch_folder_t scratch;
    char path [100];
    int listener;
    connection_limit_t *connection_limit;
    int64_t now_ms;
    size_t alices, bobs;            //  the most they may have; Alice and Carol together
    pair_t pairs [CONNECTIONS_MAX];
    size_t count;
} fixture_t;

static const int s_team;            //  Alice and Carol

static size_t
s_most (void *context, uid_t uid, const void **group_p)
{
    const fixture_t *self = context;
    *group_p = uid == ALICE || uid == CAROL? &s_team: NULL;
    return *group_p? self->alices: uid == BOB? self->bobs: SIZE_MAX;
}

static int
listen_at (const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strcpy (address.sun_path, path);
    int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal (bind (fd, (struct sockaddr *) &address, sizeof address), 0);
    assert_int_equal (listen (fd, 64), 0);
    return fd;
}

static int
begin (void **state)
{
    fixture_t *self = calloc (1, sizeof *self);
    *state = self;
    if (!self || !scratch_begin (&self->scratch))
        return -1;
    alarm (300);
    self->now_ms = NOW;
    snprintf (self->path, sizeof self->path, "%s/s.sock", self->scratch.path);
    self->listener = listen_at (self->path);
    chmod (self->scratch.path, 0711);
    chmod (self->path, 0666);
    return connection_limit_new (&self->connection_limit, self->path, s_most, self);
}

static int
end (void **state)
{
    fixture_t *self = *state;
    fault_disarm ();
    connection_limit_destroy (&self->connection_limit);
    for (size_t index = 0; index < self->count; index++) {
        close (self->pairs [index].client);
        close (self->pairs [index].server);
    }
    close (self->listener);
    unlink (self->path);
    bool clean = scratch_end (&self->scratch);
    free (self);
    return clean? 0: -1;
}

static pair_t
come (int listener, const char *path, uid_t uid)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strcpy (address.sun_path, path);
    pair_t pair = { .client = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) };
    //  The kernel tells the effective user of the peer.
    assert_int_equal (seteuid (uid), 0);
    assert_int_equal (connect (pair.client, (struct sockaddr *) &address, sizeof address), 0);
    assert_int_equal (seteuid (0), 0);
    pair.server = accept4 (listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true (pair.server >= 0);
    receive_quota_accepted (pair.server, uid);
    return pair;
}

static size_t
add (fixture_t *self, uid_t uid)
{
    assert_true (self->count < CONNECTIONS_MAX);
    self->pairs [self->count] = come (self->listener, self->path, uid);
    return self->count++;
}

static bool
is_shut (const pair_t *pair)
{
    char byte;
    return recv (pair->client, &byte, 1, MSG_DONTWAIT) == 0;
}

static size_t
look (fixture_t *self)
{
    self->now_ms = connection_limit_due_ms (self->connection_limit) > self->now_ms?
        connection_limit_due_ms (self->connection_limit): self->now_ms;
    return connection_limit_look (self->connection_limit, self->now_ms);
}

static bool
is_root (void)
{
    if (getuid () != 0)
        print_message ("skipped: takes root to become another user\n");
    return getuid () == 0;
}

//  scratch_descriptors counts ".", ".." and the folder itself as well.
static size_t
in_use (void)
{
    return scratch_descriptors () - 3;
}

//  -- cases

//  The youngest go, whatever their descriptors' numbers, once; a user below the limit keeps all.
static void
test_the_youngest_go (void **state)
{
    fixture_t *self = *state;
    if (!is_root ())
        skip ();
    self->alices = 3;
    self->bobs = 100;
    //  Low numbers that become free for the youngest.
    int holes [4];
    for (int index = 0; index < 4; index++)
        holes [index] = dup (self->listener);
    add (self, BOB);
    size_t first = self->count;
    for (int index = 0; index < 3; index++) {
        add (self, ALICE);
        assert_int_equal (look (self), 0);
    }
    for (int index = 0; index < 4; index++)
        close (holes [index]);
    size_t fourth = add (self, ALICE), fifth = add (self, ALICE);
    assert_true (self->pairs [fourth].server < self->pairs [first].server);
    assert_int_equal (look (self), 2);
    assert_int_equal (look (self), 0);
    assert_int_equal (connection_limit_turned_away (self->connection_limit), 2);
    assert_int_equal (connection_limit_last (self->connection_limit), ALICE);
    for (size_t index = 0; index < self->count; index++)
        assert_int_equal (is_shut (&self->pairs [index]), index == fourth || index == fifth);
}

//  Which of many new ones is the youngest is known although they all come between two looks.  Each processor
//  has inodes of its own to give, so the numbers of sockets that are accepted in turn on two say nothing
//  about their age.
static void
test_the_youngest_of_one_look_go (void **state)
{
    fixture_t *self = *state;
    if (!is_root ())
        skip ();
    cpu_set_t all, one;
    assert_int_equal (sched_getaffinity (0, sizeof all, &all), 0);
    self->alices = 4;
    size_t processor = CPU_SETSIZE - 1;
    for (int index = 0; index < 8; index++) {
        do
            processor = (processor + 1) % CPU_SETSIZE;
        while (!CPU_ISSET (processor, &all));
        CPU_ZERO (&one);
        CPU_SET (processor, &one);
        assert_int_equal (sched_setaffinity (0, sizeof one, &one), 0);
        add (self, ALICE);
    }
    assert_int_equal (sched_setaffinity (0, sizeof all, &all), 0);
    assert_int_equal (look (self), 4);
    for (size_t index = 0; index < self->count; index++)
        assert_int_equal (is_shut (&self->pairs [index]), index >= 4);
}

//  Users of one group count together; others by themselves.
static void
test_groups_count_together (void **state)
{
    fixture_t *self = *state;
    if (!is_root ())
        skip ();
    self->alices = 4;
    self->bobs = 3;
    for (int index = 0; index < 3; index++) {
        add (self, ALICE);
        add (self, BOB);
        assert_int_equal (look (self), 0);
    }
    size_t carols [2] = { add (self, CAROL) };
    assert_int_equal (look (self), 0);
    carols [1] = add (self, CAROL);
    for (int index = 0; index < 20; index++)
        add (self, 0);                  //  any number
    assert_int_equal (look (self), 1);
    assert_false (is_shut (&self->pairs [carols [0]]));
    assert_true (is_shut (&self->pairs [carols [1]]));
    assert_int_equal (connection_limit_connections (self->connection_limit), 28);
}

//  What is not a connection that was accepted at the path: not even looked at twice.
static void
test_others_are_left_alone (void **state)
{
    fixture_t *self = *state;
    if (!is_root ())
        skip ();
    char other_path [120];
    snprintf (other_path, sizeof other_path, "%s.ring", self->path);
    int other = listen_at (other_path), couple [2], pipes [2];
    chmod (other_path, 0666);
    assert_int_equal (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, couple), 0);
    assert_int_equal (pipe2 (pipes, O_CLOEXEC), 0);
    pair_t ring = come (other, other_path, BOB), ours = come (self->listener, self->path, BOB);
    self->bobs = 0;
    //  The end of ours that we connected is in this process too, and is no visitor.
    assert_int_equal (look (self), 1);
    assert_int_equal (connection_limit_connections (self->connection_limit), 1);
    assert_true (is_shut (&ours));
    assert_false (is_shut (&ring));
    assert_int_equal (write (couple [0], "x", 1), 1);
    assert_int_equal (write (pipes [1], "x", 1), 1);
    //  The listener goes on.
    size_t later = add (self, 0);
    assert_false (is_shut (&self->pairs [later]));
    const int fds [] = { other, couple [0], couple [1], pipes [0], pipes [1], ring.client, ring.server,
        ours.client, ours.server };
    for (size_t index = 0; index < sizeof fds / sizeof *fds; index++)
        close (fds [index]);
    unlink (other_path);
}

//  Guards: the server goes on while the file system of an open file stands still.
static void
test_files_are_not_asked (void **state)
{
    fixture_t *self = *state;
    int folder = open (self->scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true (folder >= 0);
    add (self, 0);
    s_asked_of_file = false;
    look (self);
    assert_false (s_asked_of_file);
    assert_int_equal (connection_limit_connections (self->connection_limit), 1);
    close (folder);
}

//  Descriptors: as many as there are; and a look takes none, nor keeps what ZeroMQ closes.
static void
test_descriptors (void **state)
{
    fixture_t *self = *state;
    if (!is_root ())
        skip ();
    look (self);
    size_t before = connection_limit_descriptors (self->connection_limit);
    assert_int_equal (before, in_use ());
    struct rlimit limit, none;
    assert_int_equal (getrlimit (RLIMIT_NOFILE, &limit), 0);
    assert_int_equal (connection_limit_descriptors_max (self->connection_limit), limit.rlim_cur);
    pair_t ours = come (self->listener, self->path, BOB);
    //  Nothing is left.
    none = limit;
    none.rlim_cur = 0;
    assert_int_equal (setrlimit (RLIMIT_NOFILE, &none), 0);
    size_t shut = look (self);
    assert_int_equal (setrlimit (RLIMIT_NOFILE, &limit), 0);
    assert_int_equal (shut, 0);         //  dup3 needs a number below the limit, and there is none: it stays
                                        //  for the next look
    none.rlim_cur = (rlim_t) ours.server + 1;
    assert_int_equal (setrlimit (RLIMIT_NOFILE, &none), 0);
    shut = look (self);
    assert_int_equal (setrlimit (RLIMIT_NOFILE, &limit), 0);
    assert_int_equal (shut, 1);
    assert_int_equal (connection_limit_descriptors (self->connection_limit), before + 2);
    //  Both ends closed: if the connection limit had kept one, the peer would not see it end.
    int server = dup (ours.server);
    close (ours.server);
    close (server);
    struct pollfd item = { .fd = ours.client, .events = POLLIN };
    assert_int_equal (poll (&item, 1, 0), 1);
    assert_true (item.revents & POLLHUP);
    close (ours.client);
    look (self);
    assert_int_equal (connection_limit_descriptors (self->connection_limit), before);
    assert_int_equal (connection_limit_connections (self->connection_limit), 0);
}

//  Half a second between looks; less while many come.
static void
test_when_it_looks (void **state)
{
    fixture_t *self = *state;
    if (!is_root ())
        skip ();
    self->bobs = 1;
    self->alices = 100;
    assert_int_equal (connection_limit_look (self->connection_limit, NOW), 0);
    add (self, BOB);
    add (self, BOB);
    assert_int_equal (connection_limit_look (self->connection_limit, NOW + CONNECTION_LIMIT_LOOK_MS - 1), 0);
    assert_int_equal (connection_limit_look (self->connection_limit, NOW + CONNECTION_LIMIT_LOOK_MS), 1);
    assert_int_equal (connection_limit_due_ms (self->connection_limit),
        NOW + CONNECTION_LIMIT_LOOK_MS + CONNECTION_LIMIT_SOON_MS);
    self->now_ms = NOW + CONNECTION_LIMIT_LOOK_MS;
    assert_int_equal (look (self), 0);
    assert_int_equal (connection_limit_due_ms (self->connection_limit),
        self->now_ms + CONNECTION_LIMIT_LOOK_MS);
    for (int index = 0; index < CONNECTION_LIMIT_MANY; index++)
        add (self, ALICE);
    assert_int_equal (look (self), 0);
    assert_int_equal (connection_limit_due_ms (self->connection_limit),
        self->now_ms + CONNECTION_LIMIT_SOON_MS);
}

//  Without a path descriptors are counted, and users are not told apart.
static void
test_without_a_path (void **state)
{
    fixture_t *self = *state;
    connection_limit_t *connection_limit;
    assert_int_equal (connection_limit_new (&connection_limit, NULL, NULL, NULL), 0);
    assert_int_equal (connection_limit_look (connection_limit, NOW), 0);
    assert_int_equal (connection_limit_descriptors (connection_limit), in_use ());
    assert_int_equal (connection_limit_connections (connection_limit), 0);
    connection_limit_destroy (&connection_limit);
    //  The longest path of a socket, and one byte more.
    char path [sizeof ((struct sockaddr_un *) 0)->sun_path + 1];
    memset (path, 'x', sizeof path);
    path [sizeof path - 1] = 0;
    assert_int_equal (connection_limit_new (&connection_limit, path, s_most, self), -ENAMETOOLONG);
    assert_null (connection_limit);
    path [sizeof path - 2] = 0;
    assert_int_equal (connection_limit_new (&connection_limit, path, s_most, self), 0);
    connection_limit_destroy (&connection_limit);
}

//  No memory: those that were counted are looked at, the others the next time.
static void
test_faults (void **state)
{
    fixture_t *self = *state;
    if (!is_root ())
        skip ();
    connection_limit_t *connection_limit;
    fault_arm (1, ENOMEM, false);
    assert_int_equal (connection_limit_new (&connection_limit, self->path, s_most, self), -ENOMEM);
    assert_true (fault_disarm ());
    assert_null (connection_limit);
    self->bobs = 2;
    for (int index = 0; index < 3; index++)
        add (self, BOB);
    fault_arm (1, ENOMEM, true);
    assert_int_equal (look (self), 0);
    assert_true (fault_disarm ());
    assert_int_equal (look (self), 1);
}

//  -- beside a model

//  Connections come and go at random: after each look a group has the oldest of those that it had, up to its
//  limit.  In the model ages are those of looks; of one look's newcomers any may go.
static void
test_random_crowds (void **state)
{
    fixture_t *self = *state;
    if (!is_root ())
        skip ();
    static const uid_t users [] = { ALICE, BOB, CAROL, 0 };
    uint64_t seed = test_seed (), random = seed;
    int born [CONNECTIONS_MAX];
    uid_t of [CONNECTIONS_MAX];
    self->alices = 5;
    self->bobs = 3;
    for (int round = 1; round < 60; round++) {
        for (uint64_t newcomers = test_below (&random, 5); newcomers > 0
            && self->count < CONNECTIONS_MAX; newcomers--) {
            uid_t uid = users [test_below (&random, 4)];
            of [self->count] = uid;
            born [self->count] = round;
            add (self, uid);
        }
        look (self);
        size_t had [3] = { 0 };         //  Alice's and Carol's, Bob's, root's
        int eldest_shut [3] = { INT32_MAX, INT32_MAX, INT32_MAX }, youngest_kept [3] = { 0 };
        for (size_t index = 0; index < self->count; index++) {
            int group = of [index] == 0? 2: of [index] == BOB;
            if (is_shut (&self->pairs [index])) {
                eldest_shut [group] = born [index] < eldest_shut [group]? born [index]: eldest_shut [group];
                continue;
            }
            had [group]++;
            youngest_kept [group] = born [index] > youngest_kept [group]? born [index]: youngest_kept [group];
        }
        if (had [0] > 5 || had [1] > 3 || eldest_shut [2] != INT32_MAX)
            fail_msg ("seed %llu, round %d: %zu, %zu", (unsigned long long) seed, round, had [0], had [1]);
        for (int group = 0; group < 2; group++)
            if (eldest_shut [group] < youngest_kept [group]
                || (eldest_shut [group] != INT32_MAX && had [group] != (group? 3: 5)))
                fail_msg ("seed %llu, round %d, group %d: one of round %d was shut, one of %d stays, of %zu",
                    (unsigned long long) seed, round, group, eldest_shut [group], youngest_kept [group],
                    had [group]);
        //  Some leave, and what was shut is closed, as ZeroMQ does.
        for (size_t index = 0; index < self->count;) {
            if (!is_shut (&self->pairs [index]) && test_below (&random, 12) > 0) {
                index++;
                continue;
            }
            close (self->pairs [index].client);
            close (self->pairs [index].server);
            self->count--;
            self->pairs [index] = self->pairs [self->count];
            of [index] = of [self->count];
            born [index] = born [self->count];
        }
    }
}

//  -- beside threads that close and open

typedef struct {
    atomic_bool stop;
    atomic_int broken;
} churn_t;

//  Pairs of sockets that have nothing to do with it, under numbers that change all the time.
static void *
churn (void *argument)
{
    churn_t *self = argument;
    while (!atomic_load (&self->stop)) {
        int couple [2];
        char byte = 'x';
        if (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, couple) != 0)
            continue;
        for (int times = 0; times < 3; times++)
            if (send (couple [0], &byte, 1, MSG_NOSIGNAL) != 1 || recv (couple [1], &byte, 1, 0) != 1)
                atomic_fetch_add (&self->broken, 1);
        close (couple [0]);
        close (couple [1]);
    }
    return NULL;
}

//  Connections that are shut while other descriptors come and go under the same numbers: none of those is
//  ever shut.
static void
test_descriptors_that_change_hands (void **state)
{
    fixture_t *self = *state;
    if (!is_root ())
        skip ();
    churn_t work = { .stop = false };
    pthread_t threads [2];
    for (int index = 0; index < 2; index++)
        assert_int_equal (pthread_create (&threads [index], NULL, churn, &work), 0);
    size_t shut = 0;
    for (int round = 0; round < 300; round++) {
        pair_t pair = come (self->listener, self->path, BOB);
        shut += look (self);
        close (pair.server);
        close (pair.client);
    }
    atomic_store (&work.stop, true);
    for (int index = 0; index < 2; index++)
        pthread_join (threads [index], NULL);
    assert_int_equal (atomic_load (&work.broken), 0);
    assert_int_equal (shut, 300);
}

//  The same in the one moment in which it matters: what has the number by then stays open, be it another's
//  connection at the same path, or something else altogether.
static void
test_a_descriptor_that_changes_hands_is_left_alone (void **state)
{
    fixture_t *self = *state;
    if (!is_root ())
        skip ();
    for (int at_path = 0; at_path < 2; at_path++) {
        char byte;
        pair_t bobs = come (self->listener, self->path, BOB), other;
        if (at_path)
            other = come (self->listener, self->path, 0);
        else {
            int couple [2];
            assert_int_equal (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, couple), 0);
            other = (pair_t) { .client = couple [0], .server = couple [1] };
        }
        s_hand_over = bobs.server;
        s_other = other.server;
        assert_int_equal (look (self), 0);
        assert_int_equal (s_hand_over, -1);
        assert_int_equal (recv (other.client, &byte, 1, MSG_DONTWAIT), -1);
        close (bobs.server);
        close (bobs.client);
        close (other.server);
        close (other.client);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_the_youngest_go, begin, end),
        cmocka_unit_test_setup_teardown (test_the_youngest_of_one_look_go, begin, end),
        cmocka_unit_test_setup_teardown (test_groups_count_together, begin, end),
        cmocka_unit_test_setup_teardown (test_others_are_left_alone, begin, end),
        cmocka_unit_test_setup_teardown (test_files_are_not_asked, begin, end),
        cmocka_unit_test_setup_teardown (test_descriptors, begin, end),
        cmocka_unit_test_setup_teardown (test_when_it_looks, begin, end),
        cmocka_unit_test_setup_teardown (test_without_a_path, begin, end),
        cmocka_unit_test_setup_teardown (test_faults, begin, end),
        cmocka_unit_test_setup_teardown (test_random_crowds, begin, end),
        cmocka_unit_test_setup_teardown (test_descriptors_that_change_hands, begin, end),
        cmocka_unit_test_setup_teardown (test_a_descriptor_that_changes_hands_is_left_alone, begin, end),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
