#include "profile.h"
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sodium.h>
#include "wiped.h"

enum {
    LINE_BYTES = 16 * 1024              //  no token is longer, so that getline moves no line
};

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

static void
s_take_other (profile_t *self, const char *name)
{
    if (strcmp (name, "source_profile") == 0 || strcmp (name, "credential_source") == 0)
        self->has_source = true;
    else
    if (strcmp (name, "sso_session") == 0 || strcmp (name, "sso_start_url") == 0)
        self->has_sso = true;
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
    const struct { const char *name; char **place; } settings [] = {
        { "aws_access_key_id", &self->key }, { "aws_secret_access_key", &self->secret },
        { "aws_session_token", &self->token }, { "region", &self->region },
        { "endpoint_url", &self->endpoint }, { "role_arn", &self->role },
        { "role_session_name", &self->session }, { "web_identity_token_file", &self->token_file },
        { "credential_process", &self->program } };
    if (!*value)
        return true;
    s_take_other (self, name);
    for (size_t index = 0; index < sizeof settings / sizeof *settings; index++)
        if (strcmp (name, settings [index].name) == 0) {
            wiped_free (*settings [index].place);
            *settings [index].place = wiped_strdup (value);
            return *settings [index].place;
        }
    return true;
}

//  False: no memory.
static bool
s_take_file (profile_t *self, FILE *file, const char *name, bool is_config)
{
    size_t room = LINE_BYTES;
    char *line = malloc (room);
    bool is_inside = false, has_memory = line;
    while (has_memory && getline (&line, &room, file) >= 0)
        if (line [0] == '[') {
            is_inside = s_is_section (line, name, is_config);
            self->is_there = self->is_there || is_inside;
        }
        else                            //  an indented line belongs to the setting before it
        if (is_inside && !isspace ((unsigned char) line [0]) && line [0] != '#' && line [0] != ';')
            has_memory = s_take_line (self, line);
    wiped_free (line);
    return has_memory;
}

int
profile_read (profile_t *self, const char *path, const char *name, bool is_config, char *error,
    size_t error_bytes)
{
    assert (self); assert (path); assert (name);
    FILE *file = fopen (path, "re");
    if (!file && (errno == ENOENT || errno == ENOTDIR))
        return 0;
    int rc = file? 0: -errno;
    if (file) {
        char buffer [4096];             //  in place of one that is freed without being wiped
        setvbuf (file, buffer, _IOFBF, sizeof buffer);
        errno = 0;
        bool has_memory = s_take_file (self, file, name, is_config);
        rc = !has_memory? -ENOMEM: ferror (file)? (errno? -errno: -EIO): 0;
        fclose (file);
        sodium_memzero (buffer, sizeof buffer);
    }
    if (rc && rc != -ENOMEM)
        snprintf (error, error_bytes, "cannot read '%.400s' (%s): let this user read it", path,
            strerror (-rc));
    return rc;
}

void
profile_clear (profile_t *self)
{
    char *all [] = { self->key, self->secret, self->token, self->region, self->endpoint, self->role,
        self->session, self->token_file, self->program };
    for (size_t index = 0; index < sizeof all / sizeof *all; index++)
        wiped_free (all [index]);
    *self = (profile_t) { .key = NULL };
}
