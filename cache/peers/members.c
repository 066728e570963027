#include "members.h"
#include "clock.h"
#include "option.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { MAGIC = 0x00e6be25 };

typedef struct {
    size_t references;                  //  under the lock
    member_list_t list;
} held_list_t;

struct members {
    uint32_t magic;
    char own_name [MEMBERS_NAME_BYTES];
    uint64_t own_bytes;
    atomic_uint_fast64_t number;
    pthread_mutex_t lock;
    held_list_t *now;
};

__attribute__ ((format (printf, 4, 5)))
static int
s_fail (int rc, char *error, size_t error_bytes, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (error, error_bytes, format, arguments);
    va_end (arguments);
    return rc;
}


//  -- lists

static held_list_t *
s_new_list (size_t count)
{
    held_list_t *held = calloc (1, sizeof *held + count * sizeof (member_t));
    if (held)
        held->references = 1;
    return held;
}

static int
s_compare (const void *one, const void *other)
{
    return strcmp (((const member_t *) one)->name, ((const member_t *) other)->name);
}

static void
s_order (held_list_t *held, const char *own_name)
{
    member_list_t *list = &held->list;
    qsort (list->member, list->count, sizeof *list->member, s_compare);
    list->own = SIZE_MAX;
    for (size_t at = 0; at < list->count; at++)
        if (strcmp (list->member [at].name, own_name) == 0)
            list->own = at;
}


//  -- names

//  HOST:PORT.
static bool
s_is_name (const char *text, size_t length)
{
    const char *colon = memrchr (text, ':', length);
    if (!colon || colon == text || length >= MEMBERS_NAME_BYTES)
        return false;
    size_t host = (size_t) (colon - text), digits = length - host - 1;
    if (digits < 1 || digits > 5 || strspn (colon + 1, "0123456789") < digits)
        return false;
    long port = strtol (colon + 1, NULL, 10);
    if (port < 1 || port > 65535)
        return false;
    bool is_six = text [0] == '[' && text [host - 1] == ']';
    for (size_t at = 0; at < host; at++) {
        char letter = text [at];
        bool is_plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z')
            || (letter >= '0' && letter <= '9') || letter == '.' || letter == '-' || letter == '_';
        if (!is_plain && !(is_six && (letter == ':' || letter == '[' || letter == ']')))
            return false;
    }
    return true;
}

static bool
s_set_member (member_t *member, const char *name, size_t length, uint64_t bytes)
{
    memcpy (member->name, name, length);
    member->name [length] = 0;
    member->id = XXH3_64bits (name, length);
    member->bytes = bytes;
    member->since_ms = clock_now_ms ();
    return true;
}

//  "HOST:PORT[=BYTES],.."
static int
s_parse (const char *text, uint64_t own_bytes, member_list_t *list, char *error, size_t error_bytes)
{
    for (const char *item = text, *end; ; item = end + 1) {
        end = strchrnul (item, ',');
        const char *equals = memchr (item, '=', (size_t) (end - item));
        size_t length = (size_t) ((equals? equals: end) - item);
        uint64_t bytes = own_bytes;
        char size [32] = "";
        if (!s_is_name (item, length))
            return s_fail (-EINVAL, error, error_bytes, "'%.*s' is no member: give HOST:PORT, or "
                "HOST:PORT=BYTES with the size of its cache, as in node1:7600=200G", (int) (end - item),
                item);
        if (equals)
            snprintf (size, sizeof size, "%.*s", (int) (end - equals - 1), equals + 1);
        if (equals && (!option_size (size, &bytes) || bytes == 0))
            return s_fail (-EINVAL, error, error_bytes, "member '%.*s': '%s' is no size: give one as in "
                "node1:7600=200G", (int) length, item, size);
        s_set_member (&list->member [list->count], item, length, bytes);
        for (size_t at = 0; at < list->count; at++)
            if (strcmp (list->member [at].name, list->member [list->count].name) == 0)
                return s_fail (-EEXIST, error, error_bytes, "member '%s' is given twice: name it once",
                    list->member [at].name);
        list->count++;
        if (!*end)
            return 0;
    }
}

static int
s_take_given (members_t *self, const char *text, char *error, size_t error_bytes)
{
    size_t commas = 0;
    for (const char *at = text; (at = strchr (at, ',')); at++)
        commas++;
    if (commas >= MEMBERS_MAX)
        return s_fail (-E2BIG, error, error_bytes, "%zu members are too many: at most %d", commas + 1,
            MEMBERS_MAX);
    self->now = s_new_list (commas + 1);
    if (!self->now)
        return s_fail (-ENOMEM, error, error_bytes, "not enough memory for the list of members: free some");
    int rc = s_parse (text, self->own_bytes, &self->now->list, error, error_bytes);
    if (rc)
        return rc;
    s_order (self->now, self->own_name);
    if (self->now->list.own == SIZE_MAX)
        return s_fail (-ENOENT, error, error_bytes, "this server, '%s', is not among the members: add it to "
            "the list, or name it as the list does", self->own_name);
    return 0;
}


//  -- life

int
members_open (members_t **self_p, const char *text, const char *own_name, uint64_t own_bytes, char *error,
    size_t error_bytes)
{
    assert (self_p); assert (text && own_name); assert (own_bytes > 0); assert (error_bytes > 0);
    *self_p = NULL;
    *error = 0;
    if (!s_is_name (own_name, strlen (own_name)))
        return s_fail (-EINVAL, error, error_bytes, "'%s' is not HOST:PORT, by which other members reach "
            "this server: give it as in node1:7600", own_name);
    members_t *self = calloc (1, sizeof *self);
    if (!self)
        return s_fail (-ENOMEM, error, error_bytes, "not enough memory for the list of members: free some");
    *self = (members_t) { .magic = MAGIC, .own_bytes = own_bytes };
    snprintf (self->own_name, sizeof self->own_name, "%s", own_name);
    atomic_init (&self->number, 1);
    pthread_mutex_init (&self->lock, NULL);
    int rc = s_take_given (self, text, error, error_bytes);
    if (rc)
        members_close (&self);
    *self_p = self;
    return rc;
}

void
members_close (members_t **self_p)
{
    assert (self_p);
    members_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == MAGIC);
    assert (!self->now || self->now->references == 1);
    free (self->now);
    pthread_mutex_destroy (&self->lock);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}


//  -- looking

uint64_t
members_number (const members_t *self)
{
    assert (self && self->magic == MAGIC);
    return atomic_load (&self->number);
}

const member_list_t *
members_take (members_t *self)
{
    assert (self && self->magic == MAGIC);
    pthread_mutex_lock (&self->lock);
    held_list_t *held = self->now;
    held->references++;
    pthread_mutex_unlock (&self->lock);
    return &held->list;
}

void
members_give_back (members_t *self, const member_list_t *list)
{
    assert (self && self->magic == MAGIC);
    if (!list)
        return;
    held_list_t *held = (held_list_t *) (void *) ((char *) (uintptr_t) list - offsetof (held_list_t, list));
    pthread_mutex_lock (&self->lock);
    bool is_last = --held->references == 0;
    pthread_mutex_unlock (&self->lock);
    if (is_last)
        free (held);
}

void
members_look (members_t *self, members_look_t *look)
{
    assert (self && self->magic == MAGIC);
    *look = (members_look_t) { .is_registered = true };
    snprintf (look->source, sizeof look->source, "%zu members given", self->now->list.count);
}
