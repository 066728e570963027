#include "account.h"
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>
#include <sodium.h>

//  What one of the two files says of the profile; begins as all zero.
typedef struct {
    char *key, *secret, *token, *region, *endpoint;
} profile_t;

static const char *
s_environment (const char *name)
{
    const char *value = getenv (name);
    return value && *value? value: NULL;
}

//  Both texts, one after the other, in memory that no core dump holds; NULL: no memory.
static char *
s_guarded (const char *begin, const char *text)
{
    size_t begin_bytes = strlen (begin), bytes = strlen (text) + 1;
    char *copy = sodium_init () >= 0? sodium_malloc (begin_bytes + bytes): NULL;
    if (copy) {
        memcpy (copy, begin, begin_bytes);
        memcpy (copy + begin_bytes, text, bytes);
    }
    return copy;
}

//  A core dump leaves out the pages that the text is in, as far as the kernel lets them be left out.
static void
s_keep_from_core (const char *text)
{
    size_t page = (size_t) sysconf (_SC_PAGESIZE);
    uintptr_t begin = (uintptr_t) text / page * page, end = (uintptr_t) text + strlen (text) + 1;
    (void) madvise ((void *) begin, end - begin, MADV_DONTDUMP);
}

static void
s_wipe (char **text_p)
{
    if (*text_p)
        sodium_memzero (*text_p, strlen (*text_p));
    free (*text_p);
    *text_p = NULL;
}

static void
s_profile_clear (profile_t *self)
{
    s_wipe (&self->secret);
    s_wipe (&self->token);
    free (self->key);
    free (self->region);
    free (self->endpoint);
    *self = (profile_t) { .key = NULL };
}


//  -- the two files

//  Without white space at its ends; changes the text.
static char *
s_trimmed (char *text)
{
    text += strspn (text, " \t\r\n");
    size_t length = strlen (text);
    while (length > 0 && isspace ((unsigned char) text [length - 1]))
        text [--length] = 0;
    return text;
}

//  "[name]", or "[profile name]" in the config file.
static bool
s_is_section (char *line, const char *profile, bool is_config)
{
    char *end = strchr (line, ']');
    if (!end)
        return false;
    *end = 0;
    char *name = s_trimmed (line + 1);
    if (is_config && strncmp (name, "profile", 7) == 0 && isspace ((unsigned char) name [7]))
        name = s_trimmed (name + 7);
    else
    if (is_config && strcmp (name, "default") != 0)
        return false;
    return strcmp (name, profile) == 0;
}

//  "name = value".  False: no memory.
static bool
s_take_line (profile_t *self, char *line)
{
    char *equals = strchr (line, '=');
    if (!equals)
        return true;
    *equals = 0;
    const char *name = s_trimmed (line), *value = s_trimmed (equals + 1);
    char **place = strcmp (name, "aws_access_key_id") == 0? &self->key:
        strcmp (name, "aws_secret_access_key") == 0? &self->secret:
        strcmp (name, "aws_session_token") == 0? &self->token: strcmp (name, "region") == 0? &self->region:
        strcmp (name, "endpoint_url") == 0? &self->endpoint: NULL;
    if (!place || !*value)
        return true;
    s_wipe (place);
    *place = strdup (value);
    return *place;
}

//  Where the file is, into path: the environment's, or below the home folder.  False: nowhere.
static bool
s_find_file (const char *variable, const char *below_home, char path [PATH_MAX])
{
    const char *given = s_environment (variable), *home = s_environment ("HOME");
    if (given && given [0] != '~')
        home = NULL;
    else
    if (!home)
        return false;
    int length = snprintf (path, PATH_MAX, "%s%s", home? home: "", given? given + (given [0] == '~'):
        below_home);
    return length < PATH_MAX;
}

//  A file that is not there says nothing.
static int
s_read_file (profile_t *self, const char *path, const char *profile, bool is_config, char *error,
    size_t error_bytes)
{
    FILE *file = fopen (path, "re");
    if (!file && (errno == ENOENT || errno == ENOTDIR))
        return 0;
    char *line = NULL;
    size_t room = 0;
    bool is_inside = false, has_memory = true;
    while (file && has_memory && getline (&line, &room, file) >= 0)
        if (line [0] == '[')
            is_inside = s_is_section (line, profile, is_config);
        else                            //  an indented line belongs to the setting before it
        if (is_inside && !isspace ((unsigned char) line [0]) && line [0] != '#' && line [0] != ';')
            has_memory = s_take_line (self, line);
    int rc = !file || ferror (file)? -errno: has_memory? 0: -ENOMEM;
    if (line)
        sodium_memzero (line, room);
    free (line);
    if (file)
        fclose (file);
    if (rc)
        snprintf (error, error_bytes, "cannot read '%s' (%s): let this user read it", path, strerror (-rc));
    return rc;
}


//  -- the account

static bool
s_is_endpoint (const char *text)
{
    size_t scheme = strncmp (text, "https://", 8) == 0? 8: strncmp (text, "http://", 7) == 0? 7: 0;
    return scheme && text [scheme] && !strpbrk (text + scheme, "@?# \t") && !strchr (text + scheme, '/');
}

static int
s_take_endpoint (account_t *self, const char *given, char *error, size_t error_bytes)
{
    if (!given)
        return 0;
    size_t length = strlen (given);
    self->endpoint = strndup (given, length - (given [length - 1] == '/'));
    if (!self->endpoint)
        return -ENOMEM;
    if (s_is_endpoint (self->endpoint))
        return 0;
    snprintf (error, error_bytes, "'%.200s' is no endpoint of an object store (AWS_ENDPOINT_URL_S3, "
        "AWS_ENDPOINT_URL, endpoint_url): write it as https://HOST:PORT", strchr (given, '@')? "...": given);
    return -EINVAL;
}

static int
s_take_keys (account_t *self, const char *key, const char *secret, const char *token)
{
    self->key = strdup (key);
    self->secret = s_guarded ("AWS4", secret);
    self->token = token? s_guarded ("", token): NULL;
    return self->key && self->secret && (self->token || !token)? 0: -ENOMEM;
}

//  From the environment, then from the files.
static int
s_choose_keys (account_t *self, const profile_t files [2], const char *const paths [2], const char *profile,
    char *error, size_t error_bytes)
{
    const char *key = s_environment ("AWS_ACCESS_KEY_ID"), *secret = s_environment ("AWS_SECRET_ACCESS_KEY");
    if (key && secret) {
        const char *token = s_environment ("AWS_SESSION_TOKEN");
        s_keep_from_core (secret);
        if (token)
            s_keep_from_core (token);
        return s_take_keys (self, key, secret, token);
    }
    if (key || secret) {
        snprintf (error, error_bytes, "%s is set, and %s is not: set both", key? "AWS_ACCESS_KEY_ID":
            "AWS_SECRET_ACCESS_KEY", key? "AWS_SECRET_ACCESS_KEY": "AWS_ACCESS_KEY_ID");
        return -EINVAL;
    }
    for (size_t index = 0; index < 2; index++) {
        const profile_t *file = &files [index];
        if (file->key && file->secret)
            return s_take_keys (self, file->key, file->secret, file->token);
        if (file->key || file->secret) {
            snprintf (error, error_bytes, "profile '%.80s' in '%s' has no %s: add it", profile, paths [index],
                file->key? "aws_secret_access_key": "aws_access_key_id");
            return -EINVAL;
        }
    }
    const char *unsigned_wish = s_environment ("AWS_NO_SIGN_REQUEST");
    if (unsigned_wish && strcasecmp (unsigned_wish, "yes") == 0)
        return 0;
    snprintf (error, error_bytes, "no keys for the object store: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY "
        "are not set, and there are none for profile '%.80s' in '%.200s' and '%.200s'. Set them, or "
        "AWS_NO_SIGN_REQUEST=YES for data that anyone may read", profile, paths [0], paths [1]);
    return -ENOKEY;
}

static int
s_choose (account_t *self, const profile_t files [2], const char *const paths [2], const char *profile,
    char *error, size_t error_bytes)
{
    const char *region = s_environment ("AWS_REGION"), *endpoint = s_environment ("AWS_ENDPOINT_URL_S3");
    if (!region)
        region = s_environment ("AWS_DEFAULT_REGION");
    for (size_t index = 0; index < 2 && !region; index++)
        region = files [index].region;
    if (!endpoint)
        endpoint = s_environment ("AWS_ENDPOINT_URL");
    for (size_t index = 0; index < 2 && !endpoint; index++)
        endpoint = files [index].endpoint;
    self->region = strdup (region? region: "us-east-1");
    int rc = self->region? s_take_endpoint (self, endpoint, error, error_bytes): -ENOMEM;
    return rc? rc: s_choose_keys (self, files, paths, profile, error, error_bytes);
}

int
account_find (account_t *self, char *error, size_t error_bytes)
{
    assert (self); assert (error && error_bytes > 0);
    *self = (account_t) { .key = NULL };
    error [0] = 0;
    static const struct { const char *variable, *below_home; } places [2] = {
        { "AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials" }, { "AWS_CONFIG_FILE", "/.aws/config" } };
    const char *profile = s_environment ("AWS_PROFILE");
    profile = profile? profile: "default";
    char rooms [2] [PATH_MAX];
    const char *paths [2];
    profile_t files [2] = { { .key = NULL } };
    int rc = 0;
    for (size_t index = 0; rc == 0 && index < 2; index++) {
        bool is_there = s_find_file (places [index].variable, places [index].below_home, rooms [index]);
        paths [index] = is_there? rooms [index]: places [index].variable;
        if (is_there)
            rc = s_read_file (&files [index], paths [index], profile, index == 1, error, error_bytes);
    }
    if (rc == 0)
        rc = s_choose (self, files, paths, profile, error, error_bytes);
    for (size_t index = 0; index < 2; index++)
        s_profile_clear (&files [index]);
    if (rc && !error [0])
        snprintf (error, error_bytes, "not enough memory: free memory");
    if (rc)
        account_clear (self);
    return rc;
}

void
account_clear (account_t *self)
{
    free (self->key);
    sodium_free (self->secret);
    sodium_free (self->token);
    free (self->region);
    free (self->endpoint);
    *self = (account_t) { .key = NULL };
}
