#include "last_hour.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONSUMED, DRAW, READ, MEMORY, DECODE, COPY, CLIENT, FIGURES, NAME_BYTES = 128 };

static const char *const s_names [FIGURES] = { "consumed", "draw", "read", "memory", "decode", "copy",
    "client" };
static const char *const s_waits [FIGURES] = { NULL, "draw", "read", "memory", "decode", "copy", "client" };

typedef struct {
    uint64_t job;                       //  0: the place is free
    char name [NAME_BYTES], dataset [NAME_BYTES], tenant [NAME_BYTES];
    bool is_gone;
    uint64_t seen;                      //  the last point that it has
    double totals [FIGURES];            //  at that point
    float (*points) [FIGURES];          //  LAST_HOUR_POINTS, by number of the point; NAN: it was not there
} series_t;

struct last_hour {
    uint64_t count;                     //  points so far; number n in the place n % LAST_HOUR_POINTS
    int64_t times_ms [LAST_HOUR_POINTS];
    int64_t now_ms;                     //  of the last point
    double delivered_total, prepared_total;
    float delivered [LAST_HOUR_POINTS], prepared [LAST_HOUR_POINTS];
    series_t jobs [LAST_HOUR_JOBS];
};

last_hour_t *
last_hour_new (void)
{
    return calloc (1, sizeof (last_hour_t));
}

void
last_hour_destroy (last_hour_t **self_p)
{
    last_hour_t *self = *self_p;
    for (size_t index = 0; self && index < LAST_HOUR_JOBS; index++)
        free (self->jobs [index].points);
    free (self);
    *self_p = NULL;
}

//  ---- adding

//  That of the job; else a free one; else that of the job which has gone for longest.  NULL: all are there.
static series_t *
s_place (last_hour_t *self, uint64_t job)
{
    series_t *found = NULL;
    for (size_t index = 0; index < LAST_HOUR_JOBS; index++) {
        series_t *series = &self->jobs [index];
        if (series->job == job)
            return series;
        bool is_better = !found || (found->job && (!series->job || series->seen < found->seen));
        if ((!series->job || series->is_gone) && is_better)
            found = series;
    }
    return found;
}

static void
s_copy (char target [NAME_BYTES], const json_t *job, const char *key)
{
    const char *text = json_string_value (json_object_get (job, key));
    size_t used = 0, room = NAME_BYTES - 1;
    //  Not in the middle of a letter of several bytes.
    while (text && text [used] && used < room)
        used++;
    while (text && used > 0 && ((unsigned char) text [used] & 0xc0) == 0x80)
        used--;
    memcpy (target, text? text: "", used);
    target [used] = 0;
}

static series_t *
s_begin (last_hour_t *self, const json_t *job, uint64_t number)
{
    series_t *series = s_place (self, number);
    if (!series || series->job == number)
        return series;
    float (*points) [FIGURES] = series->points;
    if (!points)
        points = malloc (LAST_HOUR_POINTS * sizeof *points);
    if (!points)
        return NULL;
    *series = (series_t) { .job = number, .points = points };
    for (size_t point = 0; point < LAST_HOUR_POINTS; point++)
        for (size_t figure = 0; figure < FIGURES; figure++)
            points [point][figure] = NAN;
    s_copy (series->name, job, "name");
    s_copy (series->dataset, job, "dataset");
    s_copy (series->tenant, job, "tenant");
    return series;
}

static void
s_add_job (last_hour_t *self, const json_t *job, double seconds)
{
    uint64_t number = (uint64_t) json_integer_value (json_object_get (job, "job"));
    series_t *series = number? s_begin (self, job, number): NULL;
    if (!series)
        return;
    float *point = series->points [self->count % LAST_HOUR_POINTS];
    const json_t *waits = json_object_get (job, "waits");
    for (size_t figure = 0; figure < FIGURES; figure++) {
        double total = json_number_value (s_waits [figure]? json_object_get (waits, s_waits [figure]):
            json_object_get (job, "consumed_samples"));
        bool is_next = self->count > 0 && series->seen + 1 == self->count;
        point [figure] = is_next && seconds > 0? (float) ((total - series->totals [figure]) / seconds): NAN;
        series->totals [figure] = total;
    }
    series->seen = self->count;
}

void
last_hour_add (last_hour_t *self, const json_t *status, int64_t now_ms, int64_t day_ms)
{
    size_t place = self->count % LAST_HOUR_POINTS, index;
    int64_t last_ms = self->count > 0? self->times_ms [(self->count - 1) % LAST_HOUR_POINTS]: 0;
    double seconds = self->count > 0? (double) (now_ms - self->now_ms) / 1000: 0;
    //  Charts want rising times, also where the day's clock was set back.
    int64_t time_ms = day_ms > last_ms? day_ms: last_ms + 1;
    self->now_ms = now_ms;
    double delivered = json_number_value (json_object_get (status, "delivered")),
        prepared = json_number_value (json_object_get (status, "prepared"));
    self->times_ms [place] = time_ms;
    self->delivered [place] = seconds > 0? (float) ((delivered - self->delivered_total) / seconds): NAN;
    self->prepared [place] = seconds > 0? (float) ((prepared - self->prepared_total) / seconds): NAN;
    self->delivered_total = delivered;
    self->prepared_total = prepared;
    for (index = 0; index < LAST_HOUR_JOBS; index++)
        if (self->jobs [index].job)
            for (size_t figure = 0; figure < FIGURES; figure++)
                self->jobs [index].points [place][figure] = NAN;
    json_t *job;
    json_array_foreach (json_object_get (status, "jobs"), index, job)
        s_add_job (self, job, seconds);
    for (index = 0; index < LAST_HOUR_JOBS; index++)
        self->jobs [index].is_gone = self->jobs [index].job && self->jobs [index].seen != self->count;
    self->count++;
}

//  ---- showing

//  A figure is worth three digits on a chart.
static json_t *
s_figure (double value)
{
    if (isnan (value))
        return json_null ();
    return fabs (value) >= 1000? json_integer ((json_int_t) llround (value)):
        json_real (round (value * 1000) / 1000);
}

static uint64_t
s_first (const last_hour_t *self)
{
    return self->count > LAST_HOUR_POINTS? self->count - LAST_HOUR_POINTS: 0;
}

static bool
s_may_see (const series_t *series, const char *tenant)
{
    return series->job && (!tenant || strcmp (series->tenant, tenant) == 0);
}

static json_t *
s_times (const last_hour_t *self)
{
    json_t *times = json_array ();
    for (uint64_t point = s_first (self); point < self->count; point++)
        json_array_append_new (times, json_real ((double) self->times_ms [point % LAST_HOUR_POINTS] / 1000));
    return times;
}

//  Of a tenant what its jobs' loops took: what was sent to all is not its own to know.
static double
s_tenant_rate (const last_hour_t *self, size_t place, const char *tenant)
{
    double sum = 0;
    for (size_t index = 0; index < LAST_HOUR_JOBS; index++)
        if (s_may_see (&self->jobs [index], tenant) && !isnan (self->jobs [index].points [place][CONSUMED]))
            sum += self->jobs [index].points [place][CONSUMED];
    return sum;
}

json_t *
last_hour_of_all (const last_hour_t *self, const char *tenant)
{
    json_t *object = json_object (), *delivered = json_array (), *prepared = json_array (),
        *jobs = json_array ();
    for (uint64_t point = s_first (self); point < self->count; point++) {
        size_t place = point % LAST_HOUR_POINTS;
        json_array_append_new (delivered, s_figure (tenant? s_tenant_rate (self, place, tenant):
            (double) self->delivered [place]));
        json_array_append_new (prepared, s_figure ((double) self->prepared [place]));
    }
    for (size_t index = 0; index < LAST_HOUR_JOBS; index++) {
        const series_t *series = &self->jobs [index];
        if (s_may_see (series, tenant))
            json_array_append_new (jobs, json_pack ("{s:I, s:s, s:s, s:s, s:b}", "job",
                (json_int_t) series->job, "name", series->name, "dataset", series->dataset, "tenant",
                series->tenant, "gone", series->is_gone));
    }
    json_object_set_new (object, "times", s_times (self));
    json_object_set_new (object, "delivered", delivered);
    if (tenant)
        json_decref (prepared);
    else
        json_object_set_new (object, "prepared", prepared);
    json_object_set_new (object, "jobs", jobs);
    return object;
}

json_t *
last_hour_of_job (const last_hour_t *self, const char *tenant, uint64_t job)
{
    const series_t *series = NULL;
    for (size_t index = 0; index < LAST_HOUR_JOBS; index++)
        if (self->jobs [index].job == job && s_may_see (&self->jobs [index], tenant))
            series = &self->jobs [index];
    if (!series)
        return NULL;
    json_t *object = json_object ();
    json_object_set_new (object, "times", s_times (self));
    for (size_t figure = 0; figure < FIGURES; figure++) {
        json_t *values = json_array ();
        for (uint64_t point = s_first (self); point < self->count; point++)
            json_array_append_new (values,
                s_figure ((double) series->points [point % LAST_HOUR_POINTS][figure]));
        json_object_set_new (object, s_names [figure], values);
    }
    return object;
}
