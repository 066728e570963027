//  What `tureen status` shows beyond what the broker knows: to each caller what is its own to know.

#include "service_state.h"
#include <string.h>
#include <sys/resource.h>
#include "build_version.h"

static void
s_put (json_t *object, const char *key, uint64_t number)
{
    json_object_set_new (object, key, json_integer ((json_int_t) number));
}

static double
s_cpu_seconds (void)
{
    struct rusage usage;
    getrusage (RUSAGE_SELF, &usage);
    return (double) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
         + (double) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

//  The tenant's refusals, and its waiting requests.
static void
s_describe_tenant (const service_t *self, json_t *object, uint32_t number)
{
    json_object_set_new (object, "refusals", rejection_log_status (self->rejection_log, number));
    s_put (object, "unanswered", self->dropped [number]);
    s_put (object, "waiting_requests", request_queue_line_count (self->request_queue, number));
}

static void
s_describe_tenants (const service_t *self, json_t *status)
{
    size_t index;
    json_t *object, *own = json_object_get (status, "tenant");
    const tenant_t *tenant = own?
        broker_tenant (self->options.broker, json_string_value (json_object_get (own, "name"))): NULL;
    if (tenant)
        s_describe_tenant (self, own, tenant_number (tenant));
    json_array_foreach (json_object_get (status, "tenants"), index, object) {
        tenant = broker_tenant (self->options.broker, json_string_value (json_object_get (object, "name")));
        if (tenant)
            s_describe_tenant (self, object, tenant_number (tenant));
    }
}

//  As of the connection limit's last look, half a second ago at most.
static json_t *
s_descriptors (const connection_limit_t *connection_limit)
{
    json_t *object = json_object ();
    s_put (object, "open", connection_limit_descriptors (connection_limit));
    s_put (object, "max", connection_limit_descriptors_max (connection_limit));
    return object;
}

static json_t *
s_block_cache (const block_cache_t *block_cache)
{
    if (!block_cache)
        return json_null ();
    block_cache_figures_t figures = block_cache_figures (block_cache);
    json_t *object = json_object (), *folder = json_string (figures.folder);
    json_object_set_new (object, "folder", folder? folder: json_string ("(not UTF-8)"));
    s_put (object, "bytes", figures.bytes);
    s_put (object, "bytes_max", figures.bytes_max);
    s_put (object, "damaged", figures.damaged);
    json_object_set_new (object, "aside", json_boolean (figures.is_aside));
    json_object_set_new (object, "failure", figures.failure? json_string (strerror (-figures.failure)):
        json_null ());
    return object;
}

//  Figures of the whole server: other tenants change them.
static void
s_describe_server (service_t *self, json_t *status, int64_t now_ms)
{
    json_object_set_new (status, "devices", tasks_devices_status (self->options.tasks));
    uint64_t lost;
    json_object_set_new (status, "remote_workers",
        remote_workers_status (tasks_remote_workers (self->options.tasks), &lost));
    s_put (status, "remote_workers_lost", lost);
    json_object_set_new (status, "operations", customs_status (self->options.customs));
    s_put (status, "reads_max", tasks_depth (self->options.tasks));
    json_object_set_new (status, "block_cache", s_block_cache (self->options.block_cache));
    json_object_set_new (status, "cluster", self->options.cluster? cluster_status (self->options.cluster):
        json_null ());
    uint64_t unanswered = 0;
    for (size_t number = 0; number < REJECTION_LOG_LINES_MAX; number++)
        unanswered += self->dropped [number];
    json_object_set_new (status, "cpu_seconds", json_real (s_cpu_seconds ()));
    json_object_set_new (status, "until_idle", idle_status (self->options.idle, service_jobs (self), now_ms));
    s_put (status, "restarts", self->options.restarts);
    json_object_set_new (status, "refusals",
        rejection_log_status (self->rejection_log, REJECTION_LOG_LINES_MAX));
    s_put (status, "unanswered", unanswered);
    s_put (status, "ignored", self->ignored);
    s_put (status, "strangers", self->strangers);
    s_put (status, "waiting_requests", request_queue_count (self->request_queue));
    s_put (status, "waiting_request_bytes", request_queue_bytes (self->request_queue));
    s_put (status, "unread_bytes", send_backlog_bytes (self->send_backlog));
    s_put (status, "shortages", tasks_shortages (self->options.tasks));
    s_put (status, "log_lines_lost", self->options.log->lost);
    json_object_set_new (status, "descriptors", s_descriptors (self->options.connection_limit));
    if (self->options.gate)
        json_object_set_new (status, "handshakes", gate_status (self->options.gate));
}

json_t *
service_status (service_t *self, const caller_t *caller, int64_t now_ms)
{
    //  Operators see everything; with one tenant every caller does.
    bool sees_all = caller->is_operator || broker_tenants (self->options.broker) == 1;
    service_count_outside (self);
    json_t *status = broker_status (self->options.broker, sees_all? NULL: caller->tenant, now_ms);
    connection_describe_datasets (self->options.broker, status, sees_all);
    const char *of_files = tasks_reading_mode (self->options.tasks, false);
    json_object_set_new (status, "reading",
        json_string (of_files? of_files: tasks_reading_mode (self->options.tasks, true)));
    json_object_set_new (status, "draining", json_boolean (broker_is_draining (self->options.broker)));
    json_object_set_new (status, "gathering",
        arrivals_status (self->arrivals, sees_all? NULL: caller->tenant, now_ms));
    json_object_set_new (status, "long_tasks",
        tasks_long_status (self->options.tasks, sees_all? NULL: caller->tenant, now_ms));
    json_object_set_new (status, "version", json_string (build_version ()));
    if (sees_all)
        s_describe_server (self, status, now_ms);
    s_describe_tenants (self, status);
    return status;
}
