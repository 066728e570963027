#include "access_key.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sodium.h>
#include "wiped.h"

//  Characters that can stand in a header's value, and no blank.
static bool
s_is_good (const char *text, size_t length_max)
{
    size_t length = strlen (text);
    for (size_t index = 0; index < length; index++)
        if (text [index] <= ' ' || text [index] > '~')
            return false;
    return length > 0 && length <= length_max;
}

int
access_key_new (access_key_t **self_p, const char *name, const char *secret, const char *token,
    int64_t ends_s)
{
    assert (self_p); assert (name); assert (secret);
    *self_p = NULL;
    if (token && !*token)
        token = NULL;
    //  "Credential=NAME/DAY/.."
    if (!s_is_good (name, ACCESS_KEY_NAME_MAX) || strchr (name, '/')
    ||  !s_is_good (secret, ACCESS_KEY_SECRET_MAX) || (token && !s_is_good (token, ACCESS_KEY_TOKEN_MAX)))
        return -EBADMSG;
    access_key_t *self = calloc (1, sizeof *self);
    if (!self)
        return -ENOMEM;
    atomic_init (&self->holders, 1);
    self->name = strdup (name);
    self->secret = wiped_guarded_text ("AWS4", secret);
    self->token = token? wiped_guarded_text ("", token): NULL;
    self->ends_s = ends_s;
    if (!self->name || !self->secret || (token && !self->token))
        access_key_release (&self);
    *self_p = self;
    return self? 0: -ENOMEM;
}

access_key_t *
access_key_hold (access_key_t *self)
{
    assert (self && self->holders > 0);
    self->holders++;
    return self;
}

void
access_key_release (access_key_t **self_p)
{
    assert (self_p);
    access_key_t *self = *self_p;
    *self_p = NULL;
    if (!self || --self->holders > 0)
        return;
    free (self->name);
    wiped_guarded_free (self->secret);
    wiped_guarded_free (self->token);
    free (self);
}

static bool
s_is_same (const char *left, const char *right)
{
    size_t length = left && right? strlen (left): 0;
    return left && right? length == strlen (right) && sodium_memcmp (left, right, length) == 0: left == right;
}

bool
access_key_equals (const access_key_t *self, const access_key_t *other)
{
    return s_is_same (self->name, other->name) && s_is_same (self->secret, other->secret)
        && s_is_same (self->token, other->token) && self->ends_s == other->ends_s;
}
