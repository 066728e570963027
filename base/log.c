#include "log.h"
#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "utf8.h"

enum { SEQUENCE_BYTES_MAX = 4 };        //  of UTF-8

_Static_assert (2 * LOG_LINE_BYTES_MAX <= PIPE_BUF, "a pipe that is writable takes a line whole");

//  A line as it grows; what has no room any more is left out.
typedef struct {
    char *text;
    size_t size;
} line_t;

static void
s_put (line_t *self, const char *bytes, size_t size)
{
    size_t room = LOG_LINE_BYTES_MAX - 1 - self->size;
    size = size < room? size: room;
    memcpy (self->text + self->size, bytes, size);
    self->size += size;
}

static void
s_put_text (line_t *self, const char *text)
{
    s_put (self, text, strlen (text));
}

static void
s_put_quoted (line_t *self, const char *value)
{
    s_put_text (self, "\"");
    for (; *value; value++) {
        char escaped [8];
        if (*value == '"' || *value == '\\')
            snprintf (escaped, sizeof escaped, "\\%c", *value);
        else
        if (*value >= ' ' && *value <= '~')
            snprintf (escaped, sizeof escaped, "%c", *value);
        else
            snprintf (escaped, sizeof escaped, "\\x%02x", (unsigned char) *value);
        s_put_text (self, escaped);
    }
    s_put_text (self, "\"");
}

enum { VALUE_BYTES_MAX = 200 };         //  of a field: no value may push the others out of the line

static void
s_put_value (line_t *self, const char *value)
{
    static const char plain [] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_./@+-";
    char cut [VALUE_BYTES_MAX + 1];
    snprintf (cut, sizeof cut, "%s", value);
    if (*cut && !cut [strspn (cut, plain)])
        s_put_text (self, cut);
    else
        s_put_quoted (self, cut);
}

static void
s_put_field (line_t *self, const log_field_t *field)
{
    char number [24];
    if (field->is_text && !field->text)
        return;
    s_put_text (self, " ");
    s_put_text (self, field->key);
    s_put_text (self, "=");
    snprintf (number, sizeof number, "%" PRIu64, field->number);
    if (field->is_text)
        s_put_value (self, field->text);
    else
        s_put_text (self, number);
}

static void
s_put_people (line_t *self, const char *text)
{
    while (*text) {
        size_t size = utf8_safe_sequence (text, SEQUENCE_BYTES_MAX);        //  ends at the text's end
        if (size > LOG_LINE_BYTES_MAX - 1 - self->size)
            return;                     //  no character is cut in two
        s_put (self, size? text: "?", size? size: 1);
        text += size? size: 1;
    }
}

static const char *const s_levels [] = { "info", "notice", "warning", "error" };

static void
s_put_time (line_t *self, int64_t seconds, unsigned milliseconds)
{
    struct tm now;
    char text [64];
    time_t time = (time_t) seconds;
    gmtime_r (&time, &now);
    size_t size = strftime (text, sizeof text, "%Y-%m-%dT%H:%M:%S", &now);
    snprintf (text + size, sizeof text - size, ".%03uZ", milliseconds % 1000);
    s_put_text (self, text);
}

size_t
log_write (char line [LOG_LINE_BYTES_MAX], int64_t seconds, unsigned milliseconds, log_level_t level,
    const char *event, const log_field_t *fields, const char *text)
{
    assert (level <= LOG_LEVEL_ERROR);
    line_t self = { .text = line };
    s_put_time (&self, seconds, milliseconds);
    s_put_text (&self, " ");
    s_put_text (&self, s_levels [level]);
    s_put_text (&self, " ");
    s_put_text (&self, event);
    for (; fields && fields->key; fields++)
        s_put_field (&self, fields);
    s_put_text (&self, ": ");
    s_put_people (&self, text);
    line [self.size] = 0;
    return self.size;
}

//  ---- JSON

//  A string in quotes, of at most so many bytes with them; characters that are none become U+FFFD.
static void
s_put_string (line_t *self, const char *text, size_t most)
{
    size_t end = self->size + most - 1;
    s_put_text (self, "\"");
    while (*text) {
        char escaped [8];
        size_t size = utf8_sequence (text, SEQUENCE_BYTES_MAX);
        const char *shown = text;
        size_t shown_size = size;
        if (size == 0)
            shown = "\xef\xbf\xbd", shown_size = 3;
        else
        if (*text == '"' || *text == '\\' || (unsigned char) *text < ' ' || *text == 0x7f) {
            shown_size = (size_t) snprintf (escaped, sizeof escaped, *text == '"' || *text == '\\'? "\\%c":
                "\\u%04x", (unsigned char) *text);
            shown = escaped;
        }
        if (self->size + shown_size > end)
            break;
        s_put (self, shown, shown_size);
        text += size? size: 1;
    }
    s_put_text (self, "\"");
}

static void
s_put_member (line_t *self, const char *key, const char *text)
{
    s_put_text (self, ",");
    s_put_string (self, key, VALUE_BYTES_MAX);
    s_put_text (self, ":");
    s_put_string (self, text, VALUE_BYTES_MAX + 2);
}

size_t
log_write_json (char line [LOG_LINE_BYTES_MAX], int64_t seconds, unsigned milliseconds, log_level_t level,
    const char *event, const log_field_t *fields, const char *text)
{
    enum { REST_BYTES = sizeof ",\"message\":\"\"}" };      //  behind the fields, with an empty text
    assert (level <= LOG_LEVEL_ERROR);
    line_t self = { .text = line };
    s_put_text (&self, "{\"time\":\"");
    s_put_time (&self, seconds, milliseconds);
    s_put_text (&self, "\"");
    s_put_member (&self, "level", s_levels [level]);
    s_put_member (&self, "event", event);
    for (; fields && fields->key; fields++) {
        char number [24];
        size_t before = self.size;
        if (fields->is_text && fields->text)
            s_put_member (&self, fields->key, fields->text);
        if (!fields->is_text) {
            snprintf (number, sizeof number, ":%" PRIu64, fields->number);
            s_put_text (&self, ",");
            s_put_string (&self, fields->key, VALUE_BYTES_MAX);
            s_put_text (&self, number);
        }
        if (self.size + REST_BYTES > LOG_LINE_BYTES_MAX)
            self.size = before;         //  a field that has no room is left out
    }
    s_put_text (&self, ",\"message\":");
    s_put_string (&self, text, LOG_LINE_BYTES_MAX - 2 - self.size);
    s_put_text (&self, "}");
    line [self.size] = 0;
    return self.size;
}

//  ---- to the descriptor

//  As the log's lines are, of this moment.
static size_t
s_write (const log_t *self, char line [LOG_LINE_BYTES_MAX], const struct timespec *now, log_level_t level,
    const char *event, const log_field_t *fields, const char *text)
{
    unsigned milliseconds = (unsigned) (now->tv_nsec / 1000000);
    return self->is_json? log_write_json (line, now->tv_sec, milliseconds, level, event, fields, text):
        log_write (line, now->tv_sec, milliseconds, level, event, fields, text);
}

void
log_event (log_t *self, log_level_t level, const char *event, const log_field_t *fields, const char *format,
    ...)
{
    char lines [2 * LOG_LINE_BYTES_MAX], people [LOG_LINE_BYTES_MAX], lost [64];
    struct timespec now;
    clock_gettime (CLOCK_REALTIME, &now);
    size_t used = 0;
    if (self->lost) {
        snprintf (lost, sizeof lost, "(%" PRIu64 " lines lost: the log's reader fell behind)", self->lost);
        used = s_write (self, lines, &now, LOG_LEVEL_WARNING, "lost",
            LOG_FIELDS (LOG_NUMBER ("lines", self->lost)), lost);
        lines [used++] = '\n';
    }
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (people, sizeof people, format, arguments);
    va_end (arguments);
    used += s_write (self, lines + used, &now, level, event, fields, people);
    lines [used++] = '\n';
    struct pollfd item = { .fd = self->descriptor, .events = POLLOUT };
    bool is_written = poll (&item, 1, 0) == 1 && (item.revents & POLLOUT)
        && write (self->descriptor, lines, used) == (ssize_t) used;
    self->lost = is_written? 0: self->lost + 1;
}

//  ---- a stream

typedef struct {
    log_t *log;
    size_t size;
    char line [LOG_LINE_BYTES_MAX];     //  begun; what is longer is cut
} stream_t;

static ssize_t
s_take (void *cookie, const char *bytes, size_t size)
{
    static const char warning [] = "warning: ";
    stream_t *self = cookie;
    for (size_t index = 0; index < size; index++) {
        if (bytes [index] != '\n') {
            if (self->size < sizeof self->line - 1)
                self->line [self->size++] = bytes [index];
            continue;
        }
        self->line [self->size] = 0;
        self->size = 0;
        bool warns = strncmp (self->line, warning, strlen (warning)) == 0;
        log_event (self->log, warns? LOG_LEVEL_WARNING: LOG_LEVEL_INFO, "start", NULL, "%s",
            self->line + (warns? strlen (warning): 0));
    }
    return (ssize_t) size;
}

static int
s_close (void *cookie)
{
    free (cookie);
    return 0;
}

FILE *
log_stream (log_t *self)
{
    stream_t *cookie = calloc (1, sizeof *cookie);
    if (!cookie)
        return NULL;
    cookie->log = self;
    FILE *stream = fopencookie (cookie, "w", (cookie_io_functions_t) { .write = s_take, .close = s_close });
    if (stream)
        setvbuf (stream, NULL, _IOLBF, BUFSIZ);
    else
        free (cookie);
    return stream;
}
