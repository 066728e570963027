//  How many threads `tureen work` decodes with: as many as it is told, else as many processors as the process
//  may use and a container's quota pays for.  The command is run in the test's process; the machine is made
//  up, and no pool is to be had, which ends it.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "command.h"
#include "pool.h"
#include "wire.h"

uint32_t __wrap_machine_processors (const char *root);
pool_t *__wrap_pool_new (const pool_options_t *options);

static uint32_t s_processors;
static size_t s_threads;

uint32_t
__wrap_machine_processors (const char *root)
{
    assert_string_equal (root, "");
    return s_processors;
}

pool_t *
__wrap_pool_new (const pool_options_t *options)
{
    s_threads = options->threads;
    return NULL;
}

//  The threads of a worker on a machine with so many processors.
static size_t
s_run (uint32_t processors, char *threads)
{
    char *argv [] = { "work", "--connect", "tcp://127.0.0.1:1", threads, NULL };
    s_processors = processors;
    s_threads = 0;
    assert_int_equal (command_work (threads? 4: 3, argv), 1);
    return s_threads;
}

static void
test_threads (void **state)
{
    (void) state;
    assert_int_equal (s_run (3, NULL), 3);
    assert_int_equal (s_run (1, NULL), 1);
    assert_int_equal (s_run (3, "--threads=5"), 5);
    assert_int_equal (s_run (1000, NULL), WIRE_WORK_PROCESSORS_MAX);
}

int
main (void)
{
    const struct CMUnitTest tests [] = { cmocka_unit_test (test_threads) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
