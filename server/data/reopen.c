#include "reopen.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>
#include "reply.h"
#include "xalloc.h"

enum { BYTES_MAX = 64 * 1024 * 1024 };      //  of a text

typedef struct {
    uint64_t bytes, sum;
} copy_t;

//  ---- the memory

int
reopen_memory (void)
{
    int descriptor = memfd_create ("tureen-added", 0);
    return descriptor < 0? -errno: descriptor;
}

//  Reads the copy's head.  False: there is none.
static bool
s_find (int descriptor, uint64_t *begin_p, copy_t *copy)
{
    return pread (descriptor, begin_p, sizeof *begin_p, 0) == sizeof *begin_p && *begin_p >= sizeof *begin_p
        && pread (descriptor, copy, sizeof *copy, (off_t) *begin_p) == sizeof *copy
        && copy->bytes <= BYTES_MAX;
}

static bool
s_put (int descriptor, const void *bytes, size_t size, uint64_t at)
{
    for (size_t done = 0; done < size;) {
        ssize_t written = pwrite (descriptor, (const char *) bytes + done, size - done, (off_t) (at + done));
        if (written < 0 && errno != EINTR)
            return false;
        done += written > 0? (size_t) written: 0;
    }
    return true;
}

bool
reopen_write (int descriptor, const char *text, size_t bytes)
{
    copy_t old = { .bytes = 0 }, copy = { .bytes = bytes, .sum = XXH3_64bits (text, bytes) };
    uint64_t old_begin = 0, begin = sizeof begin;
    //  In front of the old copy, if there is room.
    if (s_find (descriptor, &old_begin, &old) && begin + sizeof copy + bytes > old_begin)
        begin = old_begin + sizeof old + old.bytes;
    return s_put (descriptor, &copy, sizeof copy, begin)
        && s_put (descriptor, text, bytes, begin + sizeof copy)
        && s_put (descriptor, &begin, sizeof begin, 0);
}

char *
reopen_read (int descriptor)
{
    uint64_t begin;
    copy_t copy;
    char *text = s_find (descriptor, &begin, &copy)? calloc (1, copy.bytes + 1): NULL;
    if (!text)
        return NULL;
    ssize_t bytes = pread (descriptor, text, copy.bytes, (off_t) (begin + sizeof copy));
    if (bytes >= 0 && (uint64_t) bytes == copy.bytes && XXH3_64bits (text, copy.bytes) == copy.sum)
        return text;
    free (text);
    return NULL;
}

//  ---- the data sets

void
reopen_drop (reopen_t *self, size_t at)
{
    reopen_one_t *one = &self->all [at];
    json_decref (one->words);
    free (one->name);
    free (one->classes_from);
    memmove (one, one + 1, (--self->count - at) * sizeof *one);
}

reopen_one_t *
reopen_named (const reopen_t *self, const char *name)
{
    for (size_t index = 0; index < self->count; index++)
        if (strcmp (self->all [index].name, name) == 0)
            return &self->all [index];
    return NULL;
}

bool
reopen_forget (reopen_t *self, const char *name)
{
    reopen_one_t *one = reopen_named (self, name);
    if (one)
        reopen_drop (self, (size_t) (one - self->all));
    return one;
}

void
reopen_leave_out (const reopen_t *self, reopen_one_t *one, const char *why)
{
    one->is_left_out = true;
    log_event (self->log, LOG_LEVEL_WARNING, "not_added", LOG_FIELDS (LOG_TEXT ("dataset", one->name)),
        "what was added before is left out until the next restart: %s", why);
}

const char **
reopen_words (const reopen_one_t *one, size_t *count_p)
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

void
reopen_begin (reopen_t *self, const options_t *options, log_t *log, const json_t *added)
{
    *self = (reopen_t) { .options = options, .log = log,
        .all = xalloc_memory (calloc (json_array_size (added) + 1, sizeof *self->all)) };
    size_t index, count;
    json_t *words;
    json_array_foreach (added, index, words) {
        reopen_one_t one = { .words = words };
        const char **texts = reopen_words (&one, &count);
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
                reopen_leave_out (self, &self->all [self->count - 1], error);
        }
        options_clear (read);
        free (read);
        free (texts);
    }
}

void
reopen_end (reopen_t *self)
{
    while (self->count > 0)
        reopen_drop (self, self->count - 1);
    free (self->all);
    self->all = NULL;
}

bool
reopen_awaits (const reopen_t *self, const tenant_t *tenant, const char *name)
{
    const options_t *options = self->options;
    const reopen_one_t *one = reopen_named (self, name);
    if (!one || one->is_left_out)
        return false;
    for (size_t index = 0; tenant && index < options->tenant_count; index++)
        if (strcmp (options->tenants [index].name, tenant_name (tenant)) == 0)
            return one->tenants >> index & 1;
    return true;
}

bool
reopen_is_busy (const reopen_t *self)
{
    for (size_t index = 0; index < self->count; index++)
        if (!self->all [index].is_left_out)
            return true;
    return false;
}

void
reopen_keep (const reopen_t *self, int descriptor, json_t *changes)
{
    for (size_t index = 0; index < self->count; index++)
        json_array_append (json_object_get (changes, "added"), self->all [index].words);
    char *text = changes? json_dumps (changes, JSON_COMPACT): NULL;
    errno = ENOMEM;
    if (!text || !reopen_write (descriptor, text, strlen (text)))
        log_event (self->log, LOG_LEVEL_WARNING, "added_kept", NULL,
            "if the server dies and is started again, it will have other data sets: %s", strerror (errno));
    free (text);
    json_decref (changes);
}
