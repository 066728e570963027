#include "serve_customs.h"
#include <errno.h>
#include <stdio.h>
#include "complain.h"
#include "custom_sandbox.h"
#include "rlimits.h"
#include "sources.h"

enum { ERROR_BYTES = 1024, SIZE_BYTES = 32 };

static void
s_announce (const customs_t *customs)
{
    size_t count;
    const custom_t *list = customs_list (customs, &count);
    for (size_t index = 0; index < count; index++)
        printf ("operation '%s', identity %s%s\n", list [index].name, list [index].identity,
            list [index].is_random? ", random": "");
    if (!custom_sandbox_has_seccomp ())
        printf ("warning: operations may start processes and open sockets: this kernel has no seccomp\n");
    if (!custom_sandbox_has_landlock ())
        printf ("warning: operations may overwrite, empty and remove files of this user: this kernel has no "
            "Landlock\n");
}

//  The memory for an image and its result is a file.  Of a limit that it reaches no sample would be to blame.
static bool
s_allows_files (const options_t *options)
{
    char file [SIZE_BYTES], memory [SIZE_BYTES];
    if (rlimits_file_bytes () >= options->operation_bytes)
        return true;
    return complain ("serve", "an operation may need a file of %s (--operation-memory), and the limit of "
        "file sizes is %s: raise it (ulimit -f, LimitFSIZE=), or lower --operation-memory",
        sources_size (options->operation_bytes, memory, sizeof memory),
        sources_size (rlimits_file_bytes (), file, sizeof file));
}

int
serve_customs_open (customs_t **customs_p, const options_t *options, int end)
{
    customs_command_t commands [CUSTOM_MAX];
    char error [ERROR_BYTES];
    *customs_p = NULL;
    if (options->operation_count == 0)
        return 0;
    if (!s_allows_files (options))
        return -EFBIG;
    for (size_t index = 0; index < options->operation_count; index++)
        commands [index] = (customs_command_t) { options->operations [index].name,
            options->operations [index].command };
    customs_options_t wanted = { .commands = commands, .count = options->operation_count,
        .memory_bytes = options->operation_bytes, .seconds = options->operation_seconds, .end = end };
    int rc = customs_open (customs_p, &wanted, error, sizeof error);
    if (rc == 0)
        s_announce (*customs_p);
    else
    if (rc != -EINTR)
        complain ("serve", "%s", error);
    return rc;
}

void
serve_customs_look (customs_t *customs, log_t *log, int64_t now_ms)
{
    const char *name;
    uint64_t times;
    char text [CUSTOMS_TEXT_BYTES];
    while (customs_next_news (customs, now_ms, &name, &times, text))
        if (times > 0)
            log_event (log, LOG_LEVEL_WARNING, "operation",
                LOG_FIELDS (LOG_TEXT ("operation", name), LOG_NUMBER ("times", times)),
                "operation '%s' failed %llu times, the last time: %s", name, (unsigned long long) times,
                text);
        else
            log_event (log, LOG_LEVEL_WARNING, "operation_changed", LOG_FIELDS (LOG_TEXT ("operation", name)),
                "operation '%s': %s; until then no process of it is started, and those that run serve on",
                name, text);
}
