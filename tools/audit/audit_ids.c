#include "audit_ids.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define AUDIT_IDS_FORMAT "expected `NUMBER: id id id`, as `tureen read --ids FILE` writes it"

typedef struct {
    audit_t *audit;
    const char *name;
    FILE *file;
    uint64_t line;
    int next;                           //  the byte to be looked at; EOF
    char *error;
    size_t error_bytes;
    size_t epochs;
    uint64_t last_number;
    //  The epoch being read.
    uint32_t *ids;
    size_t count, room;
    bool finished;
} reader_t;

static bool __attribute__ ((format (printf, 2, 3)))
s_refuse (reader_t *self, const char *format, ...)
{
    int used = snprintf (self->error, self->error_bytes, "%s:%" PRIu64 ": ", self->name, self->line);
    if (used < 0 || (size_t) used >= self->error_bytes)
        return false;
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (self->error + used, self->error_bytes - (size_t) used, format, arguments);
    va_end (arguments);
    return false;
}

//  What stands where something else was expected.
static bool
s_refuse_byte (reader_t *self)
{
    if (self->next == '\n')
        return s_refuse (self, "the line ends too early: " AUDIT_IDS_FORMAT);
    if (self->next > ' ' && self->next < 0x7f)
        return s_refuse (self, "unexpected '%c': " AUDIT_IDS_FORMAT, self->next);
    return s_refuse (self, "unexpected byte 0x%02x: " AUDIT_IDS_FORMAT, (unsigned) self->next);
}

static void
s_step (reader_t *self)
{
    self->next = getc_unlocked (self->file);
}

static void
s_skip_blanks (reader_t *self)
{
    while (self->next == ' ' || self->next == '\t' || self->next == '\r')
        s_step (self);
}

//  Digits, of which there is one at least.
static bool
s_read_number (reader_t *self, uint64_t most, const char *what, uint64_t *number_p)
{
    uint64_t number = 0;
    if (self->next < '0' || self->next > '9')
        return s_refuse_byte (self);
    for (; self->next >= '0' && self->next <= '9'; s_step (self)) {
        uint64_t digit = (uint64_t) (self->next - '0');
        if (number > (most - digit) / 10)
            return s_refuse (self, "%s above %" PRIu64 ": no file of Tureen's has one; is this another's?",
                what, most);
        number = number * 10 + digit;
    }
    *number_p = number;
    return true;
}

static bool
s_append (reader_t *self, uint32_t id)
{
    if (self->count == self->room) {
        size_t room = self->room? self->room * 2: 64;
        //  Places in an epoch have 32 bits too.
        uint32_t *ids = self->count < UINT32_MAX / 2? reallocarray (self->ids, room, sizeof *ids): NULL;
        if (!ids)
            return s_refuse (self, "out of memory for an epoch of %zu samples", self->count);
        self->ids = ids;
        self->room = room;
    }
    self->ids [self->count++] = id;
    return true;
}

//  "...", of which the end of the file may cut some; nothing may follow in the line.
static bool
s_read_dots (reader_t *self)
{
    for (int dots = 0; dots < 3 && self->next != EOF; dots++, s_step (self))
        if (self->next != '.')
            return s_refuse_byte (self);
    s_skip_blanks (self);
    self->finished = false;
    return self->next == '\n' || self->next == EOF || s_refuse_byte (self);
}

//  The ids, up to the end of the line.
static bool
s_read_ids (reader_t *self)
{
    self->count = 0;
    self->finished = true;
    for (;;) {
        bool apart = self->next == ' ' || self->next == '\t' || self->next == '\r' || self->count == 0;
        s_skip_blanks (self);
        if (self->next == '\n')
            return true;
        if (self->next == EOF) {
            self->finished = false;
            return true;
        }
        if (self->next == '.' && apart)
            return s_read_dots (self);
        uint64_t id = 0;
        if (!apart)
            return s_refuse_byte (self);
        if (!s_read_number (self, AUDIT_ID_MAX, "an id", &id))
            return false;
        if (self->next != EOF && !s_append (self, (uint32_t) id))
            return false;
    }
}

//  Hands the epoch over, in memory of its size.
static bool
s_add_epoch (reader_t *self, uint64_t number)
{
    if (self->epochs && number <= self->last_number)
        return s_refuse (self, "epoch %" PRIu64 " after epoch %" PRIu64 ": a file holds one job, its epochs"
            " rising; audit each run's file by itself", number, self->last_number);
    uint32_t *ids = self->count? reallocarray (NULL, self->count, sizeof *ids): NULL;
    if (self->count && !ids)
        return s_refuse (self, "out of memory for an epoch of %zu samples", self->count);
    if (ids)
        memcpy (ids, self->ids, self->count * sizeof *ids);
    self->last_number = number;
    self->epochs++;
    if (audit_add_epoch (self->audit, number, &ids, self->count, self->finished))
        return s_refuse (self, "out of memory");
    return true;
}

static bool
s_read_line (reader_t *self)
{
    uint64_t number = 0;
    s_skip_blanks (self);
    if (self->next == '\n' || self->next == EOF)
        return true;
    if (!s_read_number (self, INT64_MAX, "an epoch's number", &number))
        return false;
    s_skip_blanks (self);
    if (self->next == EOF)
        return true;                    //  cut short before its colon
    if (self->next != ':')
        return s_refuse_byte (self);
    s_step (self);
    return s_read_ids (self) && s_add_epoch (self, number);
}

static bool
s_read (reader_t *self)
{
    errno = 0;
    if (audit_add_job (self->audit, self->name))
        return s_refuse (self, "out of memory");
    for (s_step (self); self->next != EOF; s_step (self)) {
        self->line++;
        if (!s_read_line (self))
            return false;
        if (self->next == EOF)
            break;
        assert (self->next == '\n');
    }
    if (ferror (self->file)) {
        snprintf (self->error, self->error_bytes, "%s: %s", self->name,
            errno == EISDIR? "a folder, not a file of ids":
            strerror (errno? errno: EIO));
        return false;
    }
    if (self->epochs)
        return true;
    snprintf (self->error, self->error_bytes, "%s: no epoch in it; record a job with `tureen read --ids "
        "FILE`, or write each epoch as a line `NUMBER: id id id`", self->name);
    return false;
}

bool
audit_ids_read (audit_t *audit, const char *name, FILE *file, char *error, size_t error_bytes)
{
    assert (audit && name && file && error);
    reader_t reader = { .audit = audit, .name = name, .file = file, .error = error,
        .error_bytes = error_bytes };
    bool fine = s_read (&reader);
    free (reader.ids);
    return fine;
}
