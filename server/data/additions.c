/*  An opening is one ADD: the data sets of its words that are not there yet.
 *
 *      WAITING -> FINDING (a thread has it) -> FOUND -> placed: the data sets answer for themselves
 *                                           -> FAILED -> told for some seconds, then forgotten
 *
 *  REMOVE gives up an opening: it is FAILED at once.  Of one that a thread has, only its words and names are;
 *  the rest of it is forgotten when the thread gives it back.
 *
 *  A further thread opens when the present ones have been at one opening each for seconds.  One that hangs in
 *  an opening that was given up is replaced, until there are too many threads.  Another one frees what was
 *  removed: files of a dead disk take long to close.
 */
#include "additions.h"
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>
#include "file.h"
#include "tenant.h"
#include "words.h"
#include "xalloc.h"

enum {
    FAILED_KEPT_MS = 5000,              //  clients ask again several times a second
    LONG_MS = 5000,                     //  a folder that hangs may take this long, and a large one too
    WANTED_MAX = 4,                     //  threads, those at what was given up not counted
    OPENERS_MAX = 16
};

typedef enum { WAITING, FINDING, FOUND, FAILED } phase_t;

typedef struct opening {
    struct opening *next;
    char *words;                        //  all, each with its zero
    size_t words_bytes;
    served_t *all [OPTIONS_DATASETS_MAX];       //  those that go by others' classes behind the others
    size_t count;
    //  the owner's
    char *names [OPTIONS_DATASETS_MAX];         //  of all, also when they are gone
    size_t name_count;
    int64_t since_ms;                   //  when it first saw the phase FINDING, or FAILED; 0: not yet
    bool is_logged;                     //  why it failed
    //  under the mutex
    phase_t phase;
    bool is_given_up;                   //  by REMOVE, while a thread had it; its words are gone
    char progress [PROGRESS_LINE_BYTES];
    //  the thread's while it finds, then the owner's
    char *lines;
    char *error;
} opening_t;

//  One that an earlier process of this server had added, and that is not placed yet.
typedef struct {
    json_t *words;                      //  as options_parse_added takes them
    char *name;
    char *classes_from;                 //  NULL: none
    uint64_t tenants;                   //  a bit for each one of the settings that may use it
    bool is_begun;                      //  it is being opened
    bool is_left_out;                   //  it cannot be opened
} kept_t;

typedef struct {
    const options_t *options;           //  lent, as the log
    log_t *log;
    kept_t *all;                  //  in the order in which they were placed
    size_t count;
} kept_list_t;

struct additions {
    additions_options_t options;
    int wake;                           //  an eventfd: the thread has done something
    opening_t *openings;                //  oldest first; the owner's, and the threads look at them
    kept_list_t kept;                   //  what an earlier process of this server had added
    char *text;                         //  lent by additions_add
    pthread_t openers [OPENERS_MAX], closer;
    size_t opener_count;
    bool has_closer;
    //  under the mutex
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_stopping;
    served_t **gone;                    //  to be freed by the closer
    size_t gone_count;
};

//  ---- what is kept for a process of this server that is started in its place

enum { KEPT_BYTES_MAX = 64 * 1024 * 1024 };      //  of a text

typedef struct {
    uint64_t bytes, sum;
} copy_t;

int
additions_kept_memory (void)
{
    int descriptor = memfd_create ("tureen-added", 0);
    return descriptor < 0? -errno: descriptor;
}

//  Reads the copy's head.  False: there is none.
static bool
s_find_copy (int descriptor, uint64_t *begin_p, copy_t *copy)
{
    return pread (descriptor, begin_p, sizeof *begin_p, 0) == sizeof *begin_p && *begin_p >= sizeof *begin_p
        && pread (descriptor, copy, sizeof *copy, (off_t) *begin_p) == sizeof *copy
        && copy->bytes <= KEPT_BYTES_MAX;
}

bool
additions_kept_write (int descriptor, const char *text, size_t bytes)
{
    copy_t old = { .bytes = 0 }, copy = { .bytes = bytes, .sum = XXH3_64bits (text, bytes) };
    uint64_t old_begin = 0, begin = sizeof begin;
    //  In front of the old copy, if there is room.
    if (s_find_copy (descriptor, &old_begin, &old) && begin + sizeof copy + bytes > old_begin)
        begin = old_begin + sizeof old + old.bytes;
    return file_write_at (descriptor, &copy, sizeof copy, begin) == 0
        && file_write_at (descriptor, text, bytes, begin + sizeof copy) == 0
        && file_write_at (descriptor, &begin, sizeof begin, 0) == 0;
}

char *
additions_kept_read (int descriptor)
{
    uint64_t begin;
    copy_t copy;
    char *text = s_find_copy (descriptor, &begin, &copy)? calloc (1, copy.bytes + 1): NULL;
    if (!text)
        return NULL;
    ssize_t bytes = pread (descriptor, text, copy.bytes, (off_t) (begin + sizeof copy));
    if (bytes >= 0 && (uint64_t) bytes == copy.bytes && XXH3_64bits (text, copy.bytes) == copy.sum)
        return text;
    free (text);
    return NULL;
}

//  ---- data sets that an earlier process had added

//  The one at that place: those behind it move up.
static void
s_kept_drop (kept_list_t *self, size_t at)
{
    kept_t *one = &self->all [at];
    json_decref (one->words);
    free (one->name);
    free (one->classes_from);
    memmove (one, one + 1, (--self->count - at) * sizeof *one);
}

//  NULL: none of this name.
static kept_t *
s_kept_named (const kept_list_t *self, const char *name)
{
    for (size_t index = 0; index < self->count; index++)
        if (strcmp (self->all [index].name, name) == 0)
            return &self->all [index];
    return NULL;
}

//  False: there is none of this name.
static bool
s_kept_forget (kept_list_t *self, const char *name)
{
    kept_t *one = s_kept_named (self, name);
    if (one)
        s_kept_drop (self, (size_t) (one - self->all));
    return one;
}

static void
s_kept_leave_out (const kept_list_t *self, kept_t *one, const char *why)
{
    one->is_left_out = true;
    log_event (self->log, LOG_LEVEL_WARNING, "not_added", LOG_FIELDS (LOG_TEXT ("dataset", one->name)),
        "what was added before is left out until the next restart: %s", why);
}

//  An array of its words, which lie in the JSON; the caller frees it.
static const char **
s_kept_words (const kept_t *one, size_t *count_p)
{
    size_t place;
    const json_t *word;
    const char **texts = xalloc_memory (calloc (json_array_size (one->words) + 1, sizeof *texts));
    *count_p = 0;
    json_array_foreach (one->words, place, word)
        if (json_is_string (word))
            texts [(*count_p)++] = json_string_value (word);
    return texts;
}

//  added: of the text that was read, the words of each; NULL: none.
static void
s_kept_begin (kept_list_t *self, const options_t *options, log_t *log, const json_t *added)
{
    *self = (kept_list_t) { .options = options, .log = log,
        .all = xalloc_memory (calloc (json_array_size (added) + 1, sizeof *self->all)) };
    size_t index, count;
    json_t *words;
    json_array_foreach (added, index, words) {
        kept_t one = { .words = words };
        const char **texts = s_kept_words (&one, &count);
        char error [sizeof ((refusal_t *) 0)->message];
        options_t *read = xalloc_memory (calloc (1, sizeof *read));
        bool good = options_parse_added (read, options, texts, count, error, sizeof error);
        //  "--dataset", "NAME=PATH": served_changes.
        size_t name_bytes = count > 1? strcspn (texts [1], "="): 0;
        if (name_bytes > 0) {
            json_incref (words);
            one.name = xalloc_text ("%.*s", (int) name_bytes, texts [1]);
            if (good && read->datasets [0].classes_from)
                one.classes_from = xalloc_text ("%s", read->datasets [0].classes_from);
            one.tenants = good? options_allowed (read, 0): 0;
            self->all [self->count++] = one;
            if (!good)
                s_kept_leave_out (self, &self->all [self->count - 1], error);
        }
        options_clear (read);
        free (read);
        free (texts);
    }
}

static void
s_kept_end (kept_list_t *self)
{
    while (self->count > 0)
        s_kept_drop (self, self->count - 1);
    free (self->all);
    self->all = NULL;
}

//  Writes changes (served_changes), taken, and what is to be opened still.
static void
s_kept_keep (const kept_list_t *self, int descriptor, json_t *changes)
{
    for (size_t index = 0; index < self->count; index++)
        json_array_append (json_object_get (changes, "added"), self->all [index].words);
    char *text = changes? json_dumps (changes, JSON_COMPACT): NULL;
    errno = ENOMEM;
    if (!text || !additions_kept_write (descriptor, text, strlen (text)))
        log_event (self->log, LOG_LEVEL_WARNING, "added_kept", NULL,
            "if the server dies and is started again, it will have other data sets: %s", strerror (errno));
    free (text);
    json_decref (changes);
}

//  ---- the threads

//  What a thread is at.
typedef struct {
    additions_t *additions;
    opening_t *opening;
} finding_t;

static void
s_show (void *context, const char *line)
{
    const finding_t *finding = context;
    pthread_mutex_lock (&finding->additions->mutex);
    snprintf (finding->opening->progress, sizeof finding->opening->progress, "%s", line);
    pthread_mutex_unlock (&finding->additions->mutex);
}

static bool
s_is_wanted (additions_t *self, const opening_t *opening)
{
    pthread_mutex_lock (&self->mutex);
    bool is_wanted = !self->is_stopping && !opening->is_given_up;
    pthread_mutex_unlock (&self->mutex);
    return is_wanted;
}

static bool
s_find_all (additions_t *self, opening_t *opening, FILE *out)
{
    finding_t finding = { self, opening };
    bool good = true;
    for (size_t index = 0; index < opening->count && good; index++) {
        served_t *served = opening->all [index];
        char line [PROGRESS_LINE_BYTES];
        snprintf (line, sizeof line, "data set '%s': opening", served->wanted.name);
        s_show (&finding, line);
        progress_t progress = progress_begin ("serve", false);
        progress.show = s_show;
        progress.context = &finding;
        const char *from = served->wanted.classes_from;
        for (size_t other = 0; from && !served->classes_of && other < index; other++)
            if (strcmp (opening->all [other]->wanted.name, from) == 0)
                served->classes_of = opening->all [other]->source.catalogue;
        good = s_is_wanted (self, opening)
            && served_find (self->options.sets, served, &progress, out, &opening->error);
    }
    return good;
}

static void
s_find (additions_t *self, opening_t *opening)
{
    size_t size;
    FILE *out = open_memstream (&opening->lines, &size);
    bool good = out && s_find_all (self, opening, out);
    if ((!out || fclose (out)) && !opening->error) {
        opening->error = xalloc_text ("no memory for what was found");
        good = false;
    }
    pthread_mutex_lock (&self->mutex);
    opening->phase = good? FOUND: FAILED;
    pthread_mutex_unlock (&self->mutex);
    uint64_t one = 1;
    ssize_t written = write (self->wake, &one, sizeof one);
    assert (written == sizeof one);
}

static opening_t *
s_first (const additions_t *self, phase_t phase)
{
    opening_t *opening = self->openings;
    while (opening && opening->phase != phase)
        opening = opening->next;
    return opening;
}

static void *
s_open (void *argument)
{
    additions_t *self = argument;
    pthread_setname_np (pthread_self (), "tureen-open");
    pthread_mutex_lock (&self->mutex);
    while (!self->is_stopping) {
        opening_t *opening = s_first (self, WAITING);
        if (!opening) {
            pthread_cond_wait (&self->changed, &self->mutex);
            continue;
        }
        opening->phase = FINDING;
        pthread_mutex_unlock (&self->mutex);
        s_find (self, opening);
        pthread_mutex_lock (&self->mutex);
    }
    pthread_mutex_unlock (&self->mutex);
    return NULL;
}

//  In their order: one may go by the classes of one behind it.
static void *
s_close (void *argument)
{
    additions_t *self = argument;
    pthread_setname_np (pthread_self (), "tureen-close");
    pthread_mutex_lock (&self->mutex);
    while (!self->is_stopping) {
        if (self->gone_count == 0) {
            pthread_cond_wait (&self->changed, &self->mutex);
            continue;
        }
        served_t *gone = self->gone [0];
        memmove (self->gone, self->gone + 1, --self->gone_count * sizeof *self->gone);
        pthread_mutex_unlock (&self->mutex);
        served_discard (&gone);
        pthread_mutex_lock (&self->mutex);
    }
    pthread_mutex_unlock (&self->mutex);
    return NULL;
}

//  ---- its life

additions_t *
additions_new (const additions_options_t *options)
{
    additions_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->options = *options;
    self->wake = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init (&self->mutex, NULL);
    pthread_cond_init (&self->changed, NULL);
    options->sets->tasks = options->tasks;
    if (self->wake < 0)
        additions_destroy (&self);
    else
        s_kept_begin (&self->kept, options->sets->options, options->log,
            json_object_get (options->sets->changes, "added"));
    return self;
}

//  One more.  False: errno has the reason.
static bool
s_start_opener (additions_t *self)
{
    errno = pthread_create (&self->openers [self->opener_count], NULL, s_open, self);
    self->opener_count += errno == 0;
    return errno == 0;
}

void
additions_stop (additions_t *self)
{
    pthread_mutex_lock (&self->mutex);
    self->is_stopping = true;
    pthread_cond_broadcast (&self->changed);
    pthread_mutex_unlock (&self->mutex);
}

static void
s_free_opening (opening_t *opening)
{
    //  The other way round: one may go by the classes of one before it.
    while (opening->count > 0)
        served_discard (&opening->all [--opening->count]);
    while (opening->name_count > 0)
        free (opening->names [--opening->name_count]);
    free (opening->words);
    free (opening->lines);
    free (opening->error);
    free (opening);
}

void
additions_destroy (additions_t **self_p)
{
    additions_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    additions_stop (self);
    while (self->opener_count > 0)
        pthread_join (self->openers [--self->opener_count], NULL);
    if (self->has_closer)
        pthread_join (self->closer, NULL);
    while (self->openings) {
        opening_t *first = self->openings;
        self->openings = first->next;
        s_free_opening (first);
    }
    for (size_t index = 0; index < self->gone_count; index++)
        served_discard (&self->gone [index]);
    s_kept_end (&self->kept);
    free (self->gone);
    free (self->text);
    if (self->wake >= 0)
        close (self->wake);
    pthread_cond_destroy (&self->changed);
    pthread_mutex_destroy (&self->mutex);
    free (self);
}

int
additions_descriptor (const additions_t *self)
{
    return self->wake;
}

//  ---- what is there already

static bool
s_same_text (const char *ours, const char *theirs)
{
    return ours == theirs || (ours && theirs && strcmp (ours, theirs) == 0);
}

//  Slashes at the end say nothing.
static bool
s_same_path (const char *ours, const char *theirs)
{
    size_t one = strlen (ours), other = strlen (theirs);
    while (one > 1 && ours [one - 1] == '/')
        one--;
    while (other > 1 && theirs [other - 1] == '/')
        other--;
    return one == other && memcmp (ours, theirs, one) == 0;
}

static bool
s_same_fields (const options_dataset_t *ours, const options_dataset_t *theirs)
{
    bool is_same = ours->field_count == theirs->field_count;
    for (size_t index = 0; index < ours->field_count && is_same; index++) {
        const options_field_t *field = &ours->fields [index], *other = &theirs->fields [index];
        is_same = strcmp (field->name, other->name) == 0 && field->is_mask == other->is_mask
            && s_same_path (field->path, other->path);
    }
    return is_same;
}

//  The setting in which they differ; NULL: none.  How objects are listed is over when they are.
static const char *
s_difference (const options_dataset_t *ours, const options_dataset_t *theirs)
{
    const char *tier = ours->tier? ours->tier: "stream", *keep = ours->keep? ours->keep: "far";
    return !s_same_fields (ours, theirs)? "field": !s_same_text (ours->extensions, theirs->extensions)?
        "extensions": ours->bad_is_fatal != theirs->bad_is_fatal? "on-bad":
        ours->allow_empty != theirs->allow_empty? "allow-empty":
        !s_same_text (ours->classes_from, theirs->classes_from)? "classes-from":
        ours->jpeg_warnings_max != theirs->jpeg_warnings_max? "jpeg-warnings":
        strcmp (tier, theirs->tier? theirs->tier: "stream")? "tier": ours->piece != theirs->piece? "piece":
            strcmp (keep, theirs->keep? theirs->keep: "far")? "keep": NULL;
}

//  Whether it is what is wanted.  real: the path without links; NULL: not known.  False: refusal says what
//  stands in the way.
static bool
s_is_the_same (const options_dataset_t *ours, const char *real, const options_dataset_t *wanted,
    refusal_t *refusal)
{
    bool is_there = s_same_path (ours->path, wanted->path) || (real && s_same_path (real, wanted->path));
    const char *other = is_there? s_difference (ours, wanted): NULL;
    return (is_there && !other) || refuse (refusal, "taken", "data set '%s' is there already, %s%s: take "
        "another name, or remove it first (tureen remove %s)", wanted->name,
        is_there? "with another setting of ": "in ", is_there? other: ours->path,
        wanted->name);
}

//  Rights that are there are not changed.
static bool
s_are_allowed (const additions_t *self, const served_t *served, uint64_t tenants, refusal_t *refusal)
{
    const options_t *options = self->options.sets->options;
    for (size_t index = 0; index < options->tenant_count; index++) {
        const tenant_t *tenant = tenant_named (self->options.broker, options->tenants [index].name);
        if (tenants >> index & 1 && tenant && !tenant_may_use (tenant, served->dataset))
            return refuse (refusal, "taken", "data set '%s' is there already, and tenant '%s' may not use "
                "it: remove it first (tureen remove %s)", served->wanted.name, options->tenants [index].name,
                served->wanted.name);
    }
    return true;
}

static phase_t
s_phase (additions_t *self, const opening_t *opening)
{
    pthread_mutex_lock (&self->mutex);
    phase_t phase = opening->phase;
    pthread_mutex_unlock (&self->mutex);
    return phase;
}

//  The opening that has a data set of this name, has not failed, and was not given up; NULL: none.
static const served_t *
s_in_openings (additions_t *self, const char *name, opening_t **opening_p)
{
    for (opening_t *opening = self->openings; opening; opening = opening->next)
        for (size_t index = 0; opening->words && index < opening->count && s_phase (self, opening) != FAILED;
            index++)
            if (strcmp (opening->all [index]->wanted.name, name) == 0) {
                *opening_p = opening;
                return opening->all [index];
            }
    return NULL;
}

//  ---- adding

//  NULL: none has these words.
static opening_t *
s_opening_of (const additions_t *self, const char *words, size_t bytes)
{
    opening_t *opening = self->openings;
    while (opening && (!opening->words || opening->words_bytes != bytes
        || memcmp (opening->words, words, bytes)))
        opening = opening->next;
    return opening;
}

static void
s_append (additions_t *self, opening_t *opening)
{
    opening_t **link_p = &self->openings;
    while (*link_p)
        link_p = &(*link_p)->next;
    pthread_mutex_lock (&self->mutex);
    *link_p = opening;
    pthread_cond_broadcast (&self->changed);
    pthread_mutex_unlock (&self->mutex);
}

//  Freed by the closer.
static void
s_discard (additions_t *self, served_t *served)
{
    self->has_closer = self->has_closer || pthread_create (&self->closer, NULL, s_close, self) == 0;
    if (!self->has_closer) {
        served_discard (&served);
        return;
    }
    pthread_mutex_lock (&self->mutex);
    self->gone = xalloc_memory (realloc (self->gone, (self->gone_count + 1) * sizeof *self->gone));
    self->gone [self->gone_count++] = served;
    pthread_cond_broadcast (&self->changed);
    pthread_mutex_unlock (&self->mutex);
}

//  The other way round: one may go by the classes of one before it.
static void
s_discard_all (additions_t *self, opening_t *opening)
{
    while (opening->count > 0)
        if (opening->all [--opening->count])
            s_discard (self, opening->all [opening->count]);
}

static void
s_forget (additions_t *self, opening_t *opening)
{
    opening_t **link_p = &self->openings;
    while (*link_p != opening)
        link_p = &(*link_p)->next;
    pthread_mutex_lock (&self->mutex);
    *link_p = opening->next;
    pthread_mutex_unlock (&self->mutex);
    s_free_opening (opening);
}

//  Its names are free at once.  No thread has it.
static void
s_fail (additions_t *self, opening_t *opening)
{
    pthread_mutex_lock (&self->mutex);
    opening->phase = FAILED;
    pthread_mutex_unlock (&self->mutex);
    opening->since_ms = 0;
    if (!opening->error)
        opening->error = xalloc_text ("no memory, or the server is ending");
    for (size_t index = 0; index < opening->name_count; index++) {
        kept_t *kept = s_kept_named (&self->kept, opening->names [index]);
        if (kept && kept->is_begun && !kept->is_left_out) {
            s_kept_leave_out (&self->kept, kept, opening->error);
            opening->is_logged = true;
        }
    }
    s_discard_all (self, opening);
}

//  Several clients may ask for it: all are told a failure.
static additions_state_t
s_tell_progress (additions_t *self, opening_t *opening, const char **text_p, refusal_t *refusal)
{
    pthread_mutex_lock (&self->mutex);
    phase_t phase = opening->phase;
    const opening_t *other = phase == WAITING? s_first (self, FINDING): NULL;
    free (self->text);
    self->text = xalloc_text ("%s%s", other? "waiting for another one; ": "", other? other->progress:
        *opening->progress? opening->progress: "opening");
    pthread_mutex_unlock (&self->mutex);
    *text_p = self->text;
    if (phase != FAILED)
        return ADDITIONS_OPENING;
    if (opening->count > 0)
        s_fail (self, opening);
    opening->is_logged = true;
    refuse (refusal, "cannot_open", "%s", opening->error);
    return ADDITIONS_REFUSED;
}

//  The lines of the data sets, which are all there.
static additions_state_t
s_tell_lines (additions_t *self, const options_t *added, const char **text_p, refusal_t *refusal)
{
    size_t size;
    free (self->text);
    self->text = NULL;
    FILE *out = open_memstream (&self->text, &size);
    for (size_t index = 0; out && index < added->dataset_count; index++)
        served_describe (served_named (self->options.sets, added->datasets [index].name), out);
    if (!out || fclose (out)) {
        refuse (refusal, "budget", "no memory for the answer");
        return ADDITIONS_REFUSED;
    }
    *text_p = self->text;
    return ADDITIONS_READY;
}

//  The data set of the server by which this one's classes are numbered, or NULL.  False: there is none, here
//  and in the message.
static bool
s_check_classes (const additions_t *self, const options_t *added, const options_dataset_t *wanted,
    const served_t **from_p, refusal_t *refusal)
{
    const char *name = wanted->classes_from;
    const options_dataset_t *other = NULL;
    *from_p = NULL;
    if (!name)
        return true;
    for (size_t index = 0; index < added->dataset_count; index++)
        if (strcmp (added->datasets [index].name, name) == 0)
            other = &added->datasets [index];
    *from_p = served_named (self->options.sets, name);
    other = *from_p? &(*from_p)->wanted: other;
    if (!other)
        return refuse (refusal, "bad_request", "classes-from %s: there is no data set '%s'", wanted->name,
            name);
    return (other != wanted && !other->classes_from) || refuse (refusal, "bad_request",
        "classes-from %s: '%s' "
        "numbers no classes of its own: name another one, or leave it out", wanted->name, name);
}

//  A new opening of those that are not there; takes their settings.
static opening_t *
s_new_opening (additions_t *self, options_t *added)
{
    served_sets_t *sets = self->options.sets;
    opening_t *opening = xalloc_memory (calloc (1, sizeof *opening));
    for (int goes_by_others = 0; goes_by_others < 2; goes_by_others++)
        for (size_t index = 0; index < added->dataset_count; index++) {
            options_dataset_t *wanted = &added->datasets [index];
            if (!wanted->name || served_named (sets, wanted->name)
                || (wanted->classes_from != NULL) != goes_by_others)
                continue;
            const served_t *from = wanted->classes_from? served_named (sets, wanted->classes_from): NULL;
            served_t *served = served_begin (wanted, from? from->source.catalogue: NULL);
            served->is_added = true;
            served->tenants = options_allowed (added, index);
            served->rows = sets->rows;
            opening->all [opening->count++] = served;
            opening->names [opening->name_count++] = xalloc_text ("%s", served->wanted.name);
        }
    return opening;
}

//  How many of the data sets are not there; -1: refusal has why they cannot be added.  *opening_p: one that
//  others have begun to add and that is wanted; NULL: none.
static int
s_judge (additions_t *self, const options_t *added, opening_t **opening_p, refusal_t *refusal)
{
    int missing = 0;
    *opening_p = NULL;
    for (size_t index = 0; index < added->dataset_count; index++) {
        const options_dataset_t *wanted = &added->datasets [index];
        const served_t *from, *served = served_named (self->options.sets, wanted->name);
        if (served && (!s_is_the_same (&served->wanted, served->real, wanted, refusal)
            || !s_are_allowed (self, served, options_allowed (added, index), refusal)))
            return -1;
        missing += !served;
        served = served? NULL: s_in_openings (self, wanted->name, opening_p);
        //  The thread may be writing `real`.
        if ((served && !s_is_the_same (&served->wanted, NULL, wanted, refusal))
            || !s_check_classes (self, added, wanted, &from, refusal))
            return -1;
    }
    size_t places = dataset_places (self->options.broker);
    for (opening_t *opening = self->openings; opening; opening = opening->next)
        places -= opening->count < places? opening->count: places;
    if (*opening_p || (size_t) missing <= places)
        return missing;
    refuse (refusal, "budget", "there may be %d data sets, those that are being added or removed included: "
        "remove some first", OPTIONS_DATASETS_MAX);
    return -1;
}

//  One that an earlier process of this server had added waits for another one, and has its name until then.
static additions_state_t
s_tell_waiting (additions_t *self, const kept_t *kept, const options_dataset_t *wanted,
    const char **text_p, refusal_t *refusal)
{
    size_t count;
    const char **texts = s_kept_words (kept, &count);
    char error [sizeof refusal->message];
    options_t *read = xalloc_memory (calloc (1, sizeof *read));
    bool good = options_parse_added (read, self->options.sets->options, texts, count, error, sizeof error)
        && s_is_the_same (&read->datasets [0], NULL, wanted, refusal);
    options_clear (read);
    free (read);
    free (texts);
    free (self->text);
    *text_p = self->text = xalloc_text ("data set '%s': waiting to be opened again", kept->name);
    return good? ADDITIONS_OPENING: ADDITIONS_REFUSED;
}

//  All threads hang in what was given up: nothing would ever be opened.
static bool
s_has_opener (additions_t *self, refusal_t *refusal)
{
    size_t lost = 0;
    const char *path = "";
    for (const opening_t *opening = self->openings; opening; opening = opening->next)
        if (!opening->words && s_phase (self, opening) == FINDING) {
            lost++;
            path = opening->all [0]->wanted.path;
        }
    return lost < OPENERS_MAX || refuse (refusal, "budget", "%d data sets that were removed while they were "
        "being added are still being opened, as '%s': if their folders hang, mend that, or start the server "
        "again", OPENERS_MAX, path);
}

static additions_state_t
s_add (additions_t *self, options_t *added, char **words_p, size_t bytes, const char **text_p,
    refusal_t *refusal)
{
    for (size_t index = 0; index < added->dataset_count; index++) {
        const kept_t *kept = s_kept_named (&self->kept, added->datasets [index].name);
        if (kept && !kept->is_begun && !kept->is_left_out)
            return s_tell_waiting (self, kept, &added->datasets [index], text_p, refusal);
    }
    opening_t *opening;
    int missing = s_judge (self, added, &opening, refusal);
    if (missing < 0)
        return ADDITIONS_REFUSED;
    if (missing == 0)
        return s_tell_lines (self, added, text_p, refusal);
    if (opening)
        return s_tell_progress (self, opening, text_p, refusal);
    if (self->opener_count == 0 && !s_start_opener (self)) {
        refuse (refusal, "budget", "no thread can be started for it: %s", strerror (errno));
        return ADDITIONS_REFUSED;
    }
    if (!s_has_opener (self, refusal))
        return ADDITIONS_REFUSED;
    opening = s_new_opening (self, added);
    opening->words = *words_p;
    opening->words_bytes = bytes;
    *words_p = NULL;
    s_append (self, opening);
    return s_tell_progress (self, opening, text_p, refusal);
}

static char *
s_join (const char *const *words, size_t count, size_t *bytes_p)
{
    size_t bytes = 0, used = 0;
    for (size_t index = 0; index < count; index++)
        bytes += strlen (words [index]) + 1;
    char *joined = xalloc_memory (malloc (bytes + 1));
    for (size_t index = 0; index < count; index++) {
        strcpy (joined + used, words [index]);
        used += strlen (words [index]) + 1;
    }
    *bytes_p = bytes;
    return joined;
}

additions_state_t
additions_add (additions_t *self, const char *const *words, size_t count, const char **text_p,
    refusal_t *refusal)
{
    size_t bytes;
    char *joined = s_join (words, count, &bytes), error [sizeof refusal->message];
    opening_t *opening = s_opening_of (self, joined, bytes);
    additions_state_t state = ADDITIONS_REFUSED;
    options_t *added = xalloc_memory (calloc (1, sizeof *added));
    *text_p = "";
    if (opening)
        state = s_tell_progress (self, opening, text_p, refusal);
    else
    if (options_parse_added (added, self->options.sets->options, words, count, error, sizeof error))
        state = s_add (self, added, &joined, bytes, text_p, refusal);
    else
        refuse (refusal, "bad_request", "%s", error);
    options_clear (added);
    free (added);
    free (joined);
    return state;
}

//  ---- placing

//  For a process of this server that is started in its place.
static void
s_keep (const additions_t *self)
{
    if (self->options.kept >= 0)
        s_kept_keep (&self->kept, self->options.kept, served_changes (self->options.sets));
}

static void
s_log_lines (const additions_t *self, char *lines)
{
    static const char warning [] = "warning: ";
    for (char *rest = NULL, *line = strtok_r (lines, "\n", &rest); line; line = strtok_r (NULL, "\n",
        &rest)) {
        bool is_warning = strncmp (line, warning, strlen (warning)) == 0;
        log_event (self->options.log, is_warning? LOG_LEVEL_WARNING: LOG_LEVEL_INFO, "added", NULL, "%s",
            is_warning? line + strlen (warning): line);
    }
}

//  All, or none.
static bool
s_place_all (additions_t *self, opening_t *opening, FILE *out)
{
    served_sets_t *sets = self->options.sets;
    served_t *placed [OPTIONS_DATASETS_MAX];
    size_t done = 0;
    for (; done < opening->count; done++) {
        placed [done] = opening->all [done];
        if (!served_place (sets, &opening->all [done], out, &opening->error))
            break;
    }
    if (done == opening->count) {
        opening->count = 0;
        for (size_t index = 0; index < done; index++)
            s_kept_forget (&self->kept, opening->names [index]);
        return true;
    }
    for (size_t index = 0; index < done; index++)
        served_remove (sets, placed [index]);
    return false;
}

static void
s_place (additions_t *self, opening_t *opening)
{
    char *warnings = NULL;
    size_t size;
    FILE *out = open_memstream (&warnings, &size);
    bool good = out && s_place_all (self, opening, out);
    if (out)
        fclose (out);
    if (good) {
        s_log_lines (self, opening->lines);
        s_log_lines (self, warnings);
        s_keep (self);
        s_forget (self, opening);
    }
    else
        s_fail (self, opening);
    free (warnings);
}

//  Begins what an earlier process had added.  One that goes by the classes of another one waits for that.
static void
s_begin_kept (additions_t *self)
{
    for (size_t index = 0; index < self->kept.count; index++) {
        kept_t *kept = &self->kept.all [index];
        const kept_t *from = kept->classes_from? s_kept_named (&self->kept, kept->classes_from): NULL;
        if (kept->is_begun || kept->is_left_out || (from && !from->is_left_out))
            continue;
        size_t count;
        const char *text, **texts = s_kept_words (kept, &count);
        refusal_t refusal;
        kept->is_begun = true;
        additions_state_t state = additions_add (self, texts, count, &text, &refusal);
        free (texts);
        if (state == ADDITIONS_REFUSED)
            s_kept_leave_out (&self->kept, kept, refusal.message);
        if (state == ADDITIONS_READY)
            s_kept_drop (&self->kept, index--);
    }
}

static void
s_act_on (additions_t *self, opening_t *opening, int64_t now_ms)
{
    phase_t phase = s_phase (self, opening);
    if ((phase == FINDING || (phase == FAILED && opening->count == 0)) && !opening->since_ms)
        opening->since_ms = now_ms;
    if (phase == WAITING || phase == FINDING)
        return;
    if (!opening->words) {
        s_discard_all (self, opening);
        s_forget (self, opening);
    }
    else
    if (phase == FOUND)
        s_place (self, opening);
    else
    if (opening->count > 0)
        s_fail (self, opening);
    else
    if (now_ms - opening->since_ms > FAILED_KEPT_MS) {
        if (!opening->is_logged)
            log_event (self->options.log, LOG_LEVEL_WARNING, "not_added", NULL, "nothing was added: %s",
                opening->error);
        s_forget (self, opening);
    }
}

//  One more thread if the present ones are at long openings, and others wait.
static void
s_hurry (additions_t *self, int64_t now_ms)
{
    size_t long_count = 0, wanted_count = 0;
    bool one_waits = false;
    for (const opening_t *opening = self->openings; opening; opening = opening->next) {
        phase_t phase = s_phase (self, opening);
        bool is_long = phase == FINDING && opening->since_ms && now_ms - opening->since_ms > LONG_MS;
        one_waits = one_waits || phase == WAITING;
        long_count += is_long;
        wanted_count += is_long && opening->words;
    }
    if (one_waits && long_count == self->opener_count && wanted_count < WANTED_MAX
        && self->opener_count < OPENERS_MAX)
        s_start_opener (self);          //  if not, they wait
}

void
additions_act (additions_t *self, int64_t now_ms)
{
    uint64_t count;
    while (read (self->wake, &count, sizeof count) > 0);
    s_begin_kept (self);
    for (opening_t *next, *opening = self->openings; opening; opening = next) {
        next = opening->next;
        s_act_on (self, opening, now_ms);
    }
    s_hurry (self, now_ms);
    served_t *served;
    while ((served = served_next_gone (self->options.sets)))
        s_discard (self, served);
}

//  ---- removing

static bool
s_refuse_base (const char *other, const char *name, refusal_t *refusal)
{
    return refuse (refusal, "in_use", "data set '%s' goes by the classes of '%s': remove that one first "
        "(tureen remove %s)", other, name, other);
}

//  False: a data set that is there, or is being added, is numbered by the classes of this one.  A thread may
//  be at one that was given up.
static bool
s_is_no_base (additions_t *self, const char *name, refusal_t *refusal)
{
    const served_sets_t *sets = self->options.sets;
    for (size_t index = 0; index < sets->count; index++) {
        const served_t *served = sets->all [index];
        if (!served->is_removed && s_same_text (served->wanted.classes_from, name))
            return s_refuse_base (served->wanted.name, name, refusal);
    }
    for (const opening_t *opening = self->openings; opening; opening = opening->next)
        for (size_t index = 0; index < opening->count && s_phase (self, opening) != FAILED; index++) {
            const options_dataset_t *wanted = &opening->all [index]->wanted;
            if (s_same_text (wanted->classes_from, name))
                return opening->words? s_refuse_base (wanted->name, name, refusal): refuse (refusal, "in_use",
                    "data set '%s', which was removed while it was being added, goes by the classes of '%s' "
                    "and is still being opened: try again when '%s' answers", wanted->name, name,
                    wanted->path);
        }
    for (size_t index = 0; index < self->kept.count; index++)
        if (s_same_text (self->kept.all [index].classes_from, name))
            return s_refuse_base (self->kept.all [index].name, name, refusal);
    return true;
}

//  Gives up the opening that has a data set of this name.  False: none has.
static bool
s_give_up (additions_t *self, const char *name)
{
    opening_t *opening, *told;
    if (!s_in_openings (self, name, &opening))
        return false;
    pthread_mutex_lock (&self->mutex);
    opening->is_given_up = opening->phase == FINDING;
    if (!opening->is_given_up)
        opening->phase = FAILED;
    pthread_mutex_unlock (&self->mutex);
    told = opening;
    if (opening->is_given_up) {
        told = xalloc_memory (calloc (1, sizeof *told));
        told->words = opening->words;
        told->words_bytes = opening->words_bytes;
        memcpy (told->names, opening->names, sizeof told->names);
        told->name_count = opening->name_count;
        told->phase = FAILED;
        opening->words = NULL;
        opening->name_count = 0;
        s_append (self, told);
    }
    free (told->error);
    told->error = xalloc_text ("data set '%s' was removed while it was being added: add it again in %d "
        "seconds if it is wanted", name, FAILED_KEPT_MS / 1000);
    s_fail (self, told);
    told->is_logged = true;
    return true;
}

//  One that is not there yet.
static bool
s_remove_early (additions_t *self, const char *name, refusal_t *refusal)
{
    if (!s_is_no_base (self, name, refusal))
        return false;
    bool was_kept = s_kept_forget (&self->kept, name), was_opening = s_give_up (self, name);
    if (!was_kept && !was_opening) {
        char *names = dataset_names (self->options.broker, NULL);
        refuse (refusal, "unknown_dataset", "no data set '%s'; this server has: %s", name, names);
        free (names);
        return false;
    }
    log_event (self->options.log, LOG_LEVEL_NOTICE, "removed", LOG_FIELDS (LOG_TEXT ("dataset", name),
        LOG_NUMBER ("jobs", 0)), "data set '%s', which was not open yet, is not added", name);
    s_keep (self);
    return true;
}

bool
additions_remove (additions_t *self, const char *name, bool now, size_t waiting, refusal_t *refusal)
{
    served_t *served = served_named (self->options.sets, name);
    if (!served)
        return s_remove_early (self, name, refusal);
    if (!s_is_no_base (self, name, refusal))
        return false;
    size_t users = dataset_jobs (served->dataset) + waiting;
    if (users > 0 && !now)
        return refuse (refusal, "in_use", "data set '%s' is used by %zu job%s: end %s first, or remove it "
            "and end %s (tureen remove %s --now)", name, users, plural (users), users == 1? "it": "them",
            users == 1? "it": "them", name);
    log_event (self->options.log, LOG_LEVEL_NOTICE, "removed", LOG_FIELDS (LOG_TEXT ("dataset", name),
        LOG_NUMBER ("jobs", users)), "data set '%s' was removed; %zu job%s end%s", name, users,
        plural (users),
        users == 1? "s": "");
    served_remove (self->options.sets, served);
    s_keep (self);
    return true;
}

//  ---- what is opened again

//  Whether it is still to be opened, and the tenant may use it.
static bool
s_is_awaited (const additions_t *self, const tenant_t *tenant, const char *name)
{
    const options_t *options = self->options.sets->options;
    const kept_t *one = s_kept_named (&self->kept, name);
    if (!one || one->is_left_out)
        return false;
    for (size_t index = 0; tenant && index < options->tenant_count; index++)
        if (strcmp (options->tenants [index].name, tenant_name (tenant)) == 0)
            return one->tenants >> index & 1;
    return true;
}

bool
additions_allows (const additions_t *self, const tenant_t *tenant, const char *name, refusal_t *refusal)
{
    return !self || !s_is_awaited (self, tenant, name)
        || refuse (refusal, "opening", "data set '%s' is being opened again: the server was started again "
            "a moment ago", name);
}

bool
additions_is_busy (const additions_t *self)
{
    for (size_t index = 0; index < self->kept.count; index++)
        if (!self->kept.all [index].is_left_out)
            return true;
    return false;
}
