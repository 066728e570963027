#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "claims.h"

#include <sys/socket.h>
#include <sys/un.h>

const endpoint_access_t claims_all_users = { .open = true }, claims_keys = { .keys = true },
    claims_group = { .users = true, .group = "others", .group_id = OTHERS };

int
claims_begin (void **state)
{
    claims_t *self = calloc (1, sizeof *self);
    *state = self;
    alarm (300);
    if (!self || !scratch_begin (&self->scratch))
        return -1;
    snprintf (self->socket, sizeof self->socket, "%s/s.sock", self->scratch.path);
    snprintf (self->text, sizeof self->text, "ipc://%s", self->socket);
    return setenv ("XDG_RUNTIME_DIR", self->scratch.path, 1);
}

int
claims_end (void **state)
{
    claims_t *self = *state;
    unsetenv ("XDG_RUNTIME_DIR");
    bool clean = scratch_end (&self->scratch);
    free (self);
    return clean? 0: -1;
}

const char *
claims_in (const claims_t *self, const char *name)
{
    static char path [120];
    snprintf (path, sizeof path, "%s/%s", self->scratch.path, name);
    return path;
}

void
claims_make_file (const char *path, const char *text)
{
    FILE *file = fopen (path, "w");
    assert_non_null (file);
    fputs (text, file);
    fclose (file);
}

int
claims_make_socket (const char *path, bool live)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strcpy (address.sun_path, path);
    int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal (bind (fd, (struct sockaddr *) &address, sizeof address), 0);
    if (live) {
        assert_int_equal (listen (fd, 1), 0);
        return fd;
    }
    close (fd);
    return -1;
}

void
claims_open_the_way (const claims_t *self)
{
    assert_int_equal (chmod (self->scratch.path, 0711), 0);
}

endpoint_t *
claims_claim_for (const char *text, const endpoint_access_t *access)
{
    endpoint_t *endpoint;
    char error [ERROR_BYTES];
    int rc = endpoint_claim (&endpoint, text, access, error, sizeof error);
    if (rc)
        fail_msg ("%s: %d, %s", text? text: "default", rc, error);
    assert_string_equal (error, "");
    return endpoint;
}

endpoint_t *
claims_claim (const char *text)
{
    return claims_claim_for (text, NULL);
}

void
claims_assert_refused_for (const char *text, const endpoint_access_t *access, int code, const char *what,
    const char *remedy)
{
    endpoint_t *endpoint = (endpoint_t *) 1;
    char error [ERROR_BYTES];
    int rc = endpoint_claim (&endpoint, text, access, error, sizeof error);
    assert_null (endpoint);
    if (rc != code || !strstr (error, what) || !strstr (error, remedy))
        fail_msg ("%s: %d, not %d: '%s', not '%s', '%s'", text, rc, code, error, what, remedy);
}

void
claims_assert_refused (const char *text, int code, const char *what, const char *remedy)
{
    claims_assert_refused_for (text, NULL, code, what, remedy);
}
