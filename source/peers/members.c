#include "members_state.h"
#include "clock.h"
#include "option.h"
#include "plural.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct members_held {
    size_t references;                  //  under the lock
    member_list_t list;
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

static members_held_t *
s_new_list (size_t count)
{
    members_held_t *held = calloc (1, sizeof *held + count * sizeof (member_t));
    if (held)
        held->references = 1;
    return held;
}

static int
s_compare (const void *one, const void *other)
{
    return strcmp (((const member_t *) one)->name, ((const member_t *) other)->name);
}

//  A name that comes twice stays once: homes have no two members of one id.
static void
s_order (members_held_t *held, const char *own_name)
{
    member_list_t *list = &held->list;
    qsort (list->member, list->count, sizeof *list->member, s_compare);
    size_t kept = 0;
    for (size_t at = 0; at < list->count; at++)
        if (kept == 0 || s_compare (&list->member [kept - 1], &list->member [at]) != 0)
            list->member [kept++] = list->member [at];
    list->count = kept;
    list->own = SIZE_MAX;
    for (size_t at = 0; at < list->count; at++)
        if (strcmp (list->member [at].name, own_name) == 0)
            list->own = at;
}


//  -- names

bool
members_is_name (const char *text, size_t length)
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

void
members_set_member (member_t *member, const char *name, size_t length, uint64_t bytes)
{
    memcpy (member->name, name, length);
    member->name [length] = 0;
    member->id = XXH3_64bits (name, length);
    member->bytes = bytes;
    member->since_ms = clock_now_ms ();
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
        if (!members_is_name (item, length))
            return s_fail (-EINVAL, error, error_bytes, "'%.*s' is no member: give HOST:PORT, or "
                "HOST:PORT=BYTES with the size of its cache, as in node1:7600=200G", (int) (end - item),
                item);
        if (equals)
            snprintf (size, sizeof size, "%.*s", (int) (end - equals - 1), equals + 1);
        if (equals && (!option_size (size, &bytes) || bytes == 0))
            return s_fail (-EINVAL, error, error_bytes, "member '%.*s': '%s' is no size: give one as in "
                "node1:7600=200G", (int) length, item, size);
        members_set_member (&list->member [list->count], item, length, bytes);
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


//  -- lists that change

static const member_t *
s_find (const member_t *all, size_t count, const char *name)
{
    for (size_t at = 0; at < count; at++)
        if (strcmp (all [at].name, name) == 0)
            return &all [at];
    return NULL;
}

static bool
s_is_same (const member_list_t *one, const member_list_t *other)
{
    bool is_same = one->count == other->count;
    for (size_t at = 0; is_same && at < one->count; at++)
        is_same = strcmp (one->member [at].name, other->member [at].name) == 0
            && one->member [at].bytes == other->member [at].bytes;
    return is_same;
}

bool
members_set (members_t *self, const member_t *all, size_t count)
{
    members_held_t *next = s_new_list (count + 1);
    if (!next)
        return false;
    if (count > 0)
        memcpy (next->list.member, all, count * sizeof *all);
    next->list.count = count;
    if (!s_find (all, count, self->own_name))
        members_set_member (&next->list.member [next->list.count++], self->own_name,
            strlen (self->own_name), self->own_bytes);
    s_order (next, self->own_name);
    pthread_mutex_lock (&self->lock);
    const member_list_t *before = self->now? &self->now->list: NULL;
    for (size_t at = 0; before && at < next->list.count; at++) {
        const member_t *known = s_find (before->member, before->count, next->list.member [at].name);
        if (known)
            next->list.member [at].since_ms = known->since_ms;
    }
    members_held_t *old = next;
    if (!before || !s_is_same (before, &next->list)) {
        old = self->now;
        self->now = next;
        atomic_fetch_add (&self->number, 1);
    }
    bool is_last = old && --old->references == 0;
    pthread_mutex_unlock (&self->lock);
    if (is_last)
        free (old);
    return true;
}

void
members_set_trouble (members_t *self, const char *trouble, bool is_registered)
{
    pthread_mutex_lock (&self->lock);
    snprintf (self->look.trouble, sizeof self->look.trouble, "%s", trouble);
    self->look.is_registered = is_registered;
    pthread_mutex_unlock (&self->lock);
}


//  -- life

static int
s_open (members_t *self, const char *text, char *error, size_t error_bytes)
{
    bool is_secure = strncmp (text, "etcds://", 8) == 0;
    if (!is_secure && strncmp (text, "etcd://", 7) != 0) {
        int rc = s_take_given (self, text, error, error_bytes);
        if (rc == 0)
            snprintf (self->look.source, sizeof self->look.source, "%zu member%s given",
                self->now->list.count, plural (self->now->list.count));
        self->look.is_registered = true;
        return rc;
    }
    if (!members_set (self, NULL, 0))
        return s_fail (-ENOMEM, error, error_bytes, "not enough memory for the list of members: free some");
    return members_etcd_open (&self->etcd, self, text + (is_secure? 8: 7), is_secure, error, error_bytes);
}

int
members_open (members_t **self_p, const char *text, const char *own_name, uint64_t own_bytes, char *error,
    size_t error_bytes)
{
    assert (self_p); assert (text && own_name); assert (own_bytes > 0); assert (error_bytes > 0);
    *self_p = NULL;
    *error = 0;
    if (!members_is_name (own_name, strlen (own_name)))
        return s_fail (-EINVAL, error, error_bytes, "'%s' is not HOST:PORT, by which other members reach "
            "this server: give it as in node1:7600", own_name);
    members_t *self = calloc (1, sizeof *self);
    if (!self)
        return s_fail (-ENOMEM, error, error_bytes, "not enough memory for the list of members: free some");
    *self = (members_t) { .magic = MEMBERS_MAGIC, .own_bytes = own_bytes };
    snprintf (self->own_name, sizeof self->own_name, "%s", own_name);
    atomic_init (&self->number, 1);
    pthread_mutex_init (&self->lock, NULL);
    int rc = s_open (self, text, error, error_bytes);
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
    assert (self->magic == MEMBERS_MAGIC);
    members_etcd_close (&self->etcd);
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
    assert (self && self->magic == MEMBERS_MAGIC);
    return atomic_load (&self->number);
}

const member_list_t *
members_take (members_t *self)
{
    assert (self && self->magic == MEMBERS_MAGIC);
    pthread_mutex_lock (&self->lock);
    members_held_t *held = self->now;
    held->references++;
    pthread_mutex_unlock (&self->lock);
    return &held->list;
}

void
members_give_back (members_t *self, const member_list_t *list)
{
    assert (self && self->magic == MEMBERS_MAGIC);
    if (!list)
        return;
    members_held_t *held = (members_held_t *) ((uintptr_t) list - offsetof (members_held_t, list));
    pthread_mutex_lock (&self->lock);
    bool is_last = --held->references == 0;
    pthread_mutex_unlock (&self->lock);
    if (is_last)
        free (held);
}

void
members_look (members_t *self, members_look_t *look)
{
    assert (self && self->magic == MEMBERS_MAGIC);
    pthread_mutex_lock (&self->lock);
    *look = self->look;
    pthread_mutex_unlock (&self->lock);
}
