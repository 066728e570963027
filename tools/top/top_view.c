#include "top_view.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "answer.h"
#include "plural.h"
#include "utf8.h"

static const char *const s_sorts [TOP_SORTS] = { "job", "name", "rate", "wait", "shared" };

static const json_t *
s_job (const json_t *status, uint64_t number)
{
    size_t index;
    const json_t *job;
    json_array_foreach (json_object_get (status, "jobs"), index, job)
        if ((uint64_t) answer_real (job, "job") == number)
            return job;
    return NULL;
}

//  Where nothing has passed since the answer before, of the time since the job's start.
static void
s_fill_waits (top_row_t *row, const json_t *job, const json_t *before)
{
    const json_t *waits = json_object_get (job, "waits"), *old = json_object_get (before, "waits");
    double spent [ANSWER_WAITS], sum = 0, all = 0;
    for (size_t cause = 0; cause < ANSWER_WAITS; cause++) {
        spent [cause] = answer_real (waits, answer_waits [cause]) - answer_real (old, answer_waits [cause]);
        sum += spent [cause];
        all += answer_real (waits, answer_waits [cause]);
    }
    for (size_t cause = 0; cause < ANSWER_WAITS; cause++)
        row->waits [cause] = sum > 0? spent [cause] / sum:
            all > 0? answer_real (waits, answer_waits [cause]) / all: 0;
}

static void
s_fill (top_row_t *row, const json_t *job, const json_t *before)
{
    const json_t *sharing = json_object_get (job, "sharing");
    const char *name = answer_text (job, "name");
    char number [32];
    *row = (top_row_t) { .job = (uint64_t) answer_real (job, "job"), .epoch = (uint64_t) answer_real (job,
        "consumed_epoch"), .rate = answer_real (job, "rate"), .waiting_on = answer_text (job, "waiting_on") };
    snprintf (number, sizeof number, "job %llu", (unsigned long long) row->job);
    name = *name? name: *answer_text (job, "job_name")? answer_text (job, "job_name"): number;
    utf8_visible (name, strlen (name), row->name, sizeof row->name);
    utf8_visible (answer_text (job, "dataset"), strlen (answer_text (job, "dataset")), row->dataset,
        sizeof row->dataset);
    double samples = answer_real (job, "epoch_samples"), drawn = answer_real (sharing, "alone")
        + answer_real (sharing, "shared");
    row->progress = samples > 0? answer_real (job, "epoch_consumed") / samples: 0;
    row->shared = drawn > 0? answer_real (sharing, "shared") / drawn: -1;
    s_fill_waits (row, job, before);
}

//  What it waited for beside its own loop.
static double
s_waited (const top_row_t *row)
{
    double waited = 0;
    for (size_t cause = 0; cause + 1 < ANSWER_WAITS; cause++)
        waited += row->waits [cause];
    return waited;
}

static int
s_compare (const void *one, const void *other, void *context)
{
    const top_row_t *a = one, *b = other;
    double by = 0;
    switch (*(const top_sort_t *) context) {
    case TOP_BY_NAME:
        by = strcmp (a->name, b->name);
        break;
    case TOP_BY_RATE:
        by = b->rate - a->rate;
        break;
    case TOP_BY_WAIT:
        by = s_waited (b) - s_waited (a);
        break;
    case TOP_BY_SHARED:
        by = a->shared - b->shared;     //  those first that could share more
        break;
    default:
        break;
    }
    if (by != 0)
        return by < 0? -1: 1;
    return a->job < b->job? -1: a->job > b->job;
}

//  To a tenant's viewer what was sent to its jobs.
static double
s_delivered (const json_t *status)
{
    const json_t *all = json_object_get (status, "delivered");
    return all? json_number_value (all): answer_real (json_object_get (status, "tenant"), "delivered");
}

bool
top_view_make (top_view_t *self, const json_t *now, const json_t *before, top_sort_t sort)
{
    const json_t *jobs = json_object_get (now, "jobs");
    bool is_same = before && answer_real (before, "uptime_seconds") <= answer_real (now, "uptime_seconds");
    *self = (top_view_t) { .now = now, .before = is_same? before: NULL, .delivered = -1, .prepared = -1,
        .rows = calloc (json_array_size (jobs) + 1, sizeof *self->rows) };
    if (!self->rows)
        return false;
    if (self->before)
        self->seconds = answer_real (now, "uptime_seconds") - answer_real (before, "uptime_seconds");
    if (self->seconds > 0)
        self->delivered = (s_delivered (now) - s_delivered (before)) / self->seconds;
    if (self->seconds > 0 && json_object_get (now, "prepared"))
        self->prepared = (answer_real (now, "prepared") - answer_real (before, "prepared")) / self->seconds;
    for (; self->count < json_array_size (jobs); self->count++) {
        const json_t *job = json_array_get (jobs, self->count);
        s_fill (&self->rows [self->count], job, s_job (self->before, (uint64_t) answer_real (job, "job")));
    }
    qsort_r (self->rows, self->count, sizeof *self->rows, s_compare, &sort);
    return true;
}

void
top_view_clear (top_view_t *self)
{
    free (self->rows);
    *self = (top_view_t) { .count = 0 };
}

const char *
top_sort_name (top_sort_t sort)
{
    return s_sorts [sort];
}

//  "3 min"
static const char *
s_time (double seconds, char text [32])
{
    static const struct { double seconds; const char *name; } units [] = { { 86400, "d" }, { 3600, "h" },
        { 60, "min" }, { 1, "s" } };
    size_t unit = 0;
    while (unit < 3 && seconds < units [unit].seconds)
        unit++;
    snprintf (text, 32, "%llu %s", (unsigned long long) (seconds / units [unit].seconds), units [unit].name);
    return text;
}

static void __attribute__ ((format (printf, 2, 3)))
s_add (char text [TOP_TEXT_BYTES], const char *format, ...)
{
    size_t used = strlen (text);
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (text + used, TOP_TEXT_BYTES - used, format, arguments);
    va_end (arguments);
}

void
top_view_head (const top_view_t *self, char text [TOP_TEXT_BYTES])
{
    char up [32], version [32];
    const char *given = answer_text (self->now, "version");
    text [0] = 0;
    s_add (text, "tureen %s, up for %s, %zu job%s", utf8_visible (given, strlen (given), version,
        sizeof version), s_time (answer_real (self->now, "uptime_seconds"), up), self->count,
        plural (self->count));
    if (self->delivered >= 0)
        s_add (text, ", delivered %.0f/s", self->delivered);
    if (self->prepared >= 0)
        s_add (text, ", prepared %.0f/s", self->prepared);
    if (answer_real (self->now, "prepared") > 0)
        s_add (text, ", %.2f deliveries of each since the start",
            answer_real (self->now, "delivered") / answer_real (self->now, "prepared"));
}

void
top_view_words (const top_view_t *self, const top_row_t *row, char *text, size_t text_bytes)
{
    const json_t *job = s_job (self->now, row->job);
    const char *little = answer_text (job, "little_shared");
    if (*little)
        utf8_visible (little, strlen (little), text, text_bytes);
    else
    if (row->shared < 0)
        snprintf (text, text_bytes, "it has drawn nothing yet");
    else
        snprintf (text, text_bytes, "%.0f %% of its samples served other jobs too, order %s, %.0f samples "
            "taken", 100 * row->shared, answer_text (job, "order"), answer_real (job, "consumed_samples"));
}
