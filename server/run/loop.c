#include "loop.h"
#include <string.h>
#include <zmq.h>
#include "clock.h"
#include "machine.h"
#include "options.h"
#include "receive_quota.h"
#include "tenant.h"

enum { BEAT_MS = 500, TOLD_MS = 10000, TURN_MS = 1000, MEMORY_MS = 10000 };

static int
s_patience_ms (const loop_t *self, int64_t now_ms, int64_t beat_ms)
{
    int64_t next = broker_wakeup (self->broker),
        due_ms = service_idle_due_ms (self->service);
    if (beat_ms < next)
        next = beat_ms;
    if (connection_limit_due_ms (self->connection_limit) < next)
        next = connection_limit_due_ms (self->connection_limit);
    if (due_ms < next)
        next = due_ms;
    if (service_wakeup (self->service) < next)
        next = service_wakeup (self->service);
    int64_t tasks_ms = tasks_wakeup (self->tasks);
    if (tasks_ms < next)
        next = tasks_ms;
    return next <= now_ms? 0: (int) (next - now_ms);
}

static bool
s_is_gone (void *context, const caller_t *caller)
{
    const loop_t *self = context;
    return caller->uid == (uid_t) -1 && !client_keys_has_user (self->keys, caller->user);
}

//  Callers with a revoked key have no jobs from this moment on.
static void
s_look_at_keys (loop_t *self, int64_t now_ms)
{
    if (!self->keys)
        return;
    bool gone = client_keys_look (self->keys);
    client_keys_judge (self->keys, tenants_has, self->broker);
    if (gone)
        service_revoke (self->service, s_is_gone, self, now_ms);
}

//  How many more there are, if it is time to log them: one line in ten seconds.
static uint64_t
s_to_tell (loop_told_t *told, uint64_t count, int64_t now_ms)
{
    uint64_t more = count - told->count;
    if (more == 0 || (told->count > 0 && now_ms - told->at_ms < TOLD_MS))
        return 0;
    *told = (loop_told_t) { count, now_ms };
    return more;
}

static void
s_look_at_connection_limit (loop_t *self, int64_t now_ms)
{
    connection_limit_look (self->connection_limit, now_ms);
    uint64_t times = s_to_tell (&self->turned_away, connection_limit_turned_away (self->connection_limit),
        now_ms);
    if (times == 0)
        return;
    caller_t caller;
    uid_t uid = connection_limit_last (self->connection_limit);
    bool known = tenants_caller (self->tenants, uid, CALLER_LOCAL, &caller);
    log_event (self->log, LOG_LEVEL_NOTICE, "crowd",
        LOG_FIELDS (LOG_TEXT ("tenant", known? tenant_name (caller.tenant): NULL),
        LOG_NUMBER ("user", uid), LOG_NUMBER ("times", times)),
        "%llu connections were closed again, the last of user %u, because "
        "their tenants or users had more than their share; %zu of %zu descriptors are in use",
        (unsigned long long) times,
        (unsigned) uid, connection_limit_descriptors (self->connection_limit),
        connection_limit_descriptors_max (self->connection_limit));
}

static void
s_look_at_receive_quota (loop_t *self, int64_t now_ms)
{
    uint64_t times = s_to_tell (&self->resets, receive_quota_resets (), now_ms);
    if (times == 0)
        return;
    log_event (self->log, LOG_LEVEL_WARNING, "flood", LOG_FIELDS (LOG_NUMBER ("times", times)),
        "%llu connections were closed because of what they had sent: messages of too many frames or without "
        "an end, no ZMTP 3, or more than may wait (%zu MiB of one connection, %zu of one user)",
        (unsigned long long) times, RECEIVE_QUOTA_CONNECTION_MAX >> 20, self->waiting_bytes_max >> 20);
}

static void
s_look_at_shortages (loop_t *self, int64_t now_ms)
{
    uint64_t times = s_to_tell (&self->shortages, tasks_shortages (self->tasks), now_ms);
    if (times == 0)
        return;
    log_event (self->log, LOG_LEVEL_WARNING, "shortage", LOG_FIELDS (LOG_NUMBER ("times", times)),
        "memory or descriptors are short: "
        "reading or preparing was put off %llu times, and goes on when there are some; %zu of %zu "
        "descriptors are in use",
        (unsigned long long) times, connection_limit_descriptors (self->connection_limit),
        connection_limit_descriptors_max (self->connection_limit));
}

static void
s_look_whether_aside (loop_t *self, const block_cache_figures_t *figures, int64_t now_ms)
{
    //  A time that is over, or is within the ten seconds, is told with the next.
    uint64_t times = figures->is_aside? s_to_tell (&self->set_aside, figures->times_aside, now_ms): 0;
    if (times)
        log_event (self->log, LOG_LEVEL_WARNING, "block_cache_aside",
            LOG_FIELDS (LOG_NUMBER ("times", times)),
            "the cache on the local disk, %s, does not answer, or too late: what it holds is read from the "
            "store until it does, and no sample is lost; if this is said again, mend or replace the disk",
            figures->folder);
    if (self->is_set_aside && !figures->is_aside && figures->is_open)
        log_event (self->log, LOG_LEVEL_NOTICE, "block_cache_answers", NULL,
            "the cache on the local disk, %s, is used again", figures->folder);
    self->is_set_aside = figures->is_aside && (times || self->is_set_aside);
}

static void
s_look_at_block_cache (loop_t *self, int64_t now_ms)
{
    if (!self->block_cache)
        return;
    block_cache_figures_t figures = block_cache_figures (self->block_cache);
    s_look_whether_aside (self, &figures, now_ms);
    uint64_t times = s_to_tell (&self->damaged, figures.damaged, now_ms);
    if (times)
        log_event (self->log, LOG_LEVEL_WARNING, "block_cache_damage",
            LOG_FIELDS (LOG_NUMBER ("times", times)),
            "the cache on the local disk, %s, is damaged in %llu places: what they held is read from the "
            "store again, and no sample is lost; if this is said again, mend or replace the disk",
            figures.folder, (unsigned long long) times);
    if (self->block_cache_failed)
        return;
    self->block_cache_failed = figures.failure;
    if (figures.failure)
        log_event (self->log, LOG_LEVEL_WARNING, "block_cache",
            LOG_FIELDS (LOG_TEXT ("error", strerror (-figures.failure))),
            "the cache on the local disk, %s, cannot be %s, and no sample is lost; free or mend the disk, "
            "and start the server again (%s)", figures.folder, figures.is_open? "written: what is there is "
            "still used": "opened: nothing of it is used", strerror (-figures.failure));
}

//  A container's limit may change while the server runs: pins give way, and come back.
static void
s_look_at_memory (loop_t *self, int64_t now_ms)
{
    memory_parts_t *parts = self->sets->parts;
    if (!parts || (self->memory_ms && now_ms < self->memory_ms + MEMORY_MS))
        return;
    self->memory_ms = now_ms;
    uint64_t machine_bytes = machine_memory_bytes (""),
        pins = memory_parts_pins_now (parts, machine_bytes);
    if (pins == parts->pins_now)
        return;
    parts->pins_now = pins;
    served_divide (self->sets);
    log_event (self->log, LOG_LEVEL_NOTICE, "memory", LOG_FIELDS (LOG_NUMBER ("machine_bytes", machine_bytes),
        LOG_NUMBER ("pins_bytes", pins)),
        "this process may use %llu bytes of memory now: pins and decoded pictures have %llu of their %llu",
        (unsigned long long) machine_bytes, (unsigned long long) pins, (unsigned long long) parts->pins);
}

//  Which operations have failed, or changed, since it looked last.
static void
s_look_at_customs (loop_t *self, int64_t now_ms)
{
    const char *name;
    uint64_t times;
    char text [CUSTOMS_TEXT_BYTES];
    while (customs_next_news (self->customs, now_ms, &name, &times, text))
        if (times > 0)
            log_event (self->log, LOG_LEVEL_WARNING, "operation",
                LOG_FIELDS (LOG_TEXT ("operation", name), LOG_NUMBER ("times", times)),
                "operation '%s' failed %llu times, the last time: %s", name, (unsigned long long) times,
                text);
        else
            log_event (self->log, LOG_LEVEL_WARNING, "operation_changed",
                LOG_FIELDS (LOG_TEXT ("operation", name)),
                "operation '%s': %s; until then no process of it is started, and those that run serve on",
                name, text);
}

//  Logs trouble with the list of members, and its end.
static void
s_look_at_members (loop_t *self)
{
    if (!self->members)
        return;
    members_look_t look;
    members_look (self->members, &look);
    if (*look.trouble && !self->members_have_trouble)
        log_event (self->log, LOG_LEVEL_WARNING, "members", NULL,
            "the list of members may not be up to date, and "
            "holds all the same, so that no sample is lost: %s", look.trouble);
    if (!*look.trouble && self->members_have_trouble)
        log_event (self->log, LOG_LEVEL_NOTICE, "members", NULL, "the list of members is up to date again");
    self->members_have_trouble = *look.trouble;
}

//  What HTTP shows: to each viewer what its `tureen status` says.
static void
s_answer_viewers (loop_t *self, int64_t now_ms)
{
    size_t viewer;
    while (http_server_next (self->http_server, &viewer)) {
        caller_t caller = { .is_operator = viewer == 0, .tenant = tenant_named (self->broker,
            viewer? self->viewers [viewer - 1]: OPTIONS_OPERATOR) };
        http_server_answer (self->http_server, viewer, service_status (self->service, &caller, now_ms));
    }
}

int64_t
loop_run (loop_t *self)
{
    enum { ROUTER, QUESTIONS, RING_SERVER, SIGNALS, VIEWERS, ADDITIONS, TASKS,
        ITEMS = TASKS + TASKS_DESCRIPTORS };
    int tasks [TASKS_DESCRIPTORS];
    tasks_descriptors (self->tasks, tasks);
    zmq_pollitem_t items [ITEMS] = {
        [ROUTER] = { .socket = client_socket_router (self->client_socket), .events = ZMQ_POLLIN },
        [QUESTIONS] = { .socket = client_socket_questions (self->client_socket), .fd = -1,
            .events = ZMQ_POLLIN },
        [RING_SERVER] = { .fd = ring_server_descriptor (self->ring_server), .events = ZMQ_POLLIN },
        [SIGNALS] = { .fd = self->signals, .events = ZMQ_POLLIN },
        [VIEWERS] = { .fd = self->http_server? http_server_asked (self->http_server): -1,
            .events = self->http_server? ZMQ_POLLIN: 0 },
        [ADDITIONS] = { .fd = additions_descriptor (self->additions), .events = ZMQ_POLLIN }
    };
    for (size_t index = 0; index < TASKS_DESCRIPTORS; index++)
        items [TASKS + index] = (zmq_pollitem_t) { .fd = tasks [index], .events = ZMQ_POLLIN };
    int64_t beat_ms = 0;
    int wait_ms = 0;
    //  While this thread stands still it hears no client: where a machine sleeps, or a turn takes long on a
    //  busy one.  So that no client is held to be gone for that, no more than TURN_MS of it counts.
    watched_clock_t clock = watched_clock_new (clock_now_ns ());
    service_begin_idle (self->service, self->idle_limit_ms, watched_clock_ms (&clock));
    while (!(items [SIGNALS].revents & ZMQ_POLLIN)) {
        watched_clock_look (&clock, clock_now_ns (), UINT64_C (1000000) * (uint64_t) (wait_ms + TURN_MS));
        int64_t now_ms = watched_clock_ms (&clock);
        if (now_ms >= beat_ms) {
            ring_server_tick (self->ring_server, now_ms);
            s_look_at_keys (self, now_ms);
            service_beat (self->service, now_ms);
            s_look_at_block_cache (self, now_ms);
            s_look_at_customs (self, now_ms);
            s_look_at_memory (self, now_ms);
            s_look_at_members (self);
            growth_act (self->growth, now_ms);
            beat_ms = now_ms + BEAT_MS;
        }
        s_look_at_connection_limit (self, now_ms);
        s_look_at_receive_quota (self, now_ms);
        s_look_at_shortages (self, now_ms);
        client_socket_answer (self->client_socket, now_ms);
        service_receive (self->service, now_ms);
        service_attend (self->service, now_ms);
        service_act (self->service, now_ms);
        //  Behind it: nothing that is told of a data set is left when that goes.
        additions_act (self->additions, now_ms);
        if (items [VIEWERS].revents & ZMQ_POLLIN)
            s_answer_viewers (self, now_ms);
        if (service_is_idle (self->service, now_ms)) {
            log_event (self->log, LOG_LEVEL_NOTICE, "ending", LOG_FIELDS (LOG_TEXT ("reason", "idle")),
                "no job is left, and none has come: ending (--until-idle)");
            break;
        }
        if (service_ends_now (self->service))
            break;
        if (service_is_drained (self->service)) {
            log_event (self->log, LOG_LEVEL_NOTICE, "drained", NULL, "drained: no job is left: ending");
            break;
        }
        items [ROUTER].events = service_is_full (self->service)? 0: ZMQ_POLLIN;
        watched_clock_look (&clock, clock_now_ns (), UINT64_C (1000000) * TURN_MS);
        wait_ms = s_patience_ms (self, watched_clock_ms (&clock), beat_ms);
        zmq_poll (items, ITEMS, wait_ms);
    }
    return watched_clock_ms (&clock);
}
