#include "growth.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "pieces.h"

enum { PAUSE_MS = 500, PAUSE_MOST_MS = 60000 };

struct growth {
    served_sets_t *sets;
    log_t *log;
    pthread_t thread;
    served_t *looked_at;                //  by the thread, which runs then; held; NULL: none
    atomic_bool is_done;
    //  the thread's while it runs
    dataset_source_t found;
    device_list_t devices;
};

growth_t *
growth_new (served_sets_t *sets, log_t *log)
{
    growth_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->sets = sets;
    self->log = log;
    return self;
}

static void *
s_look (void *argument)
{
    growth_t *self = argument;
    if (pieces_find_copy (&self->found, &self->looked_at->wanted, NULL) == 0)
        pieces_add_copy (&self->found, &self->devices, self->sets->options);
    atomic_store (&self->is_done, true);
    return NULL;
}

//  What was found is not used.
static void
s_clear (growth_t *self)
{
    pieces_forget_copy (&self->found);
    device_list_clear (&self->devices);
}

static void
s_join (growth_t *self)
{
    pthread_join (self->thread, NULL);
    dataset_let_go (self->looked_at->dataset);
    self->looked_at = NULL;
}

void
growth_destroy (growth_t **self_p)
{
    growth_t *self = *self_p;
    if (!self)
        return;
    if (self->looked_at)
        s_join (self);
    s_clear (self);
    free (self);
    *self_p = NULL;
}

//  Whether more is kept than when it was looked at last, perhaps all; or as much was found in the cache since
//  as the folder has, so that another server may have filled it.
static bool
s_is_due (served_t *served, int64_t now_ms)
{
    enum { PARTS = 16 };
    const dataset_source_t *source = &served->source;
    served_growth_t *growth = &served->growth;
    uint64_t held, bytes = catalogue_bytes (source->catalogue), found = source->objects.cached_bytes;
    if (served->is_removed || source->space || growth->is_refused || now_ms < growth->due_ms
    ||  !pieces_may_come (source, &served->wanted))
        return false;
    dataset_source_is_kept (source, &held);
    bool has_grown = held != growth->held && held >= bytes / PARTS * (PARTS - 1);
    if (!has_grown && found - growth->found < bytes)
        return false;
    growth->held = held;
    growth->found = found;
    return true;
}

static void
s_begin (growth_t *self, int64_t now_ms)
{
    for (size_t index = 0; index < self->sets->count && !self->looked_at; index++) {
        served_t *served = self->sets->all [index];
        served_growth_t *growth = &served->growth;
        if (!s_is_due (served, now_ms))
            continue;
        growth->pause_ms = growth->pause_ms? 2 * growth->pause_ms: PAUSE_MS;
        growth->pause_ms = growth->pause_ms < PAUSE_MOST_MS? growth->pause_ms: PAUSE_MOST_MS;
        growth->due_ms = now_ms + growth->pause_ms;
        self->found = (dataset_source_t) { .catalogue = served->source.catalogue };
        atomic_store (&self->is_done, false);
        self->looked_at = served;
        if (pthread_create (&self->thread, NULL, s_look, self) == 0)
            dataset_hold (served->dataset);
        else
            self->looked_at = NULL;
    }
}

//  What was found is read in pieces, if there is memory for it.
static void
s_adopt (growth_t *self, served_t *served)
{
    static const char warning [] = "warning: ";
    char *line = NULL;
    size_t bytes;
    FILE *out = open_memstream (&line, &bytes);
    if (!out)
        return;
    bool good = served_adopt_copy (self->sets, served, &self->found, &self->devices, out);
    fclose (out);
    if (line && *line) {
        line [strcspn (line, "\n")] = 0;
        log_event (self->log, good? LOG_LEVEL_NOTICE: LOG_LEVEL_WARNING, "pieces", LOG_FIELDS (LOG_TEXT (
            "dataset", served->wanted.name)), "%s", line + (good? 0: sizeof warning - 1));
    }
    free (line);
}

//  That a data set cannot be kept may show when the local disk answers at last.
static void
s_tell_failures (const growth_t *self)
{
    for (size_t index = 0; index < self->sets->count; index++) {
        served_t *served = self->sets->all [index];
        int rc = served->is_removed? 0: dataset_source_kept_failure (&served->source);
        if (rc && rc != served->growth.failure)
            log_event (self->log, LOG_LEVEL_WARNING, "not_kept", LOG_FIELDS (LOG_TEXT ("dataset",
                served->wanted.name)), "data set '%s'%s is not kept in %s: %s", served->wanted.name,
                catalogue_fields (served->source.catalogue) > 1? ", or a field of it,": "",
                self->sets->options->blocks_folder, served_not_kept_reason (rc));
        served->growth.failure = rc;
    }
}

void
growth_act (growth_t *self, int64_t now_ms)
{
    s_tell_failures (self);
    if (!self->looked_at)
        s_begin (self, now_ms);
    if (!self->looked_at || !atomic_load (&self->is_done))
        return;
    served_t *served = self->looked_at;
    s_join (self);
    if (self->found.space && !served->is_removed)
        s_adopt (self, served);
    s_clear (self);
}
