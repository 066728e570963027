/*  data_folder -- what the catalogue's tests share: a folder to fill, system calls that fail when told to,
 *  and opening.
 *
 *  A test program includes cmocka, then this; catalogue_test in CMakeLists.txt wraps the calls.
 */
#ifndef DATA_FOLDER_H
#define DATA_FOLDER_H
#include "catalogue.h"
#include "scratch.h"

#include <limits.h>
#include <locale.h>

enum { ERROR_BYTES = 1024 };

//  -- calls that fail when told to

FAULT_CALL (void *, NULL, calloc, (size_t count, size_t size), (count, size))
FAULT_CALL (void *, NULL, reallocarray, (void *items, size_t count, size_t size), (items, count, size))
FAULT_CALL (void *, NULL, malloc, (size_t size), (size))
FAULT_CALL (char *, NULL, strdup, (const char *text), (text))
FAULT_CALL (locale_t, NULL, newlocale, (int mask, const char *name, locale_t base), (mask, name, base))
FAULT_CALL (int, -1, fstat, (int fd, struct stat *status), (fd, status))
FAULT_CALL (int, -1, fstatat, (int fd, const char *path, struct stat *status, int flags), (fd, path, status,
flags))
FAULT_CALL (struct dirent *, NULL, readdir, (DIR *directory), (directory))
FAULT_CALL (DIR *, NULL, fdopendir, (int fd), (fd))

int __real_openat (int fd, const char *path, int flags, ...);
int __wrap_openat (int fd, const char *path, int flags, ...);
int
__wrap_openat (int fd, const char *path, int flags, ...)
{
    va_list arguments;
    va_start (arguments, flags);
    unsigned int mode = flags & O_CREAT? va_arg (arguments, unsigned int): 0;
    va_end (arguments);
    return fault_strikes ()? -1: __real_openat (fd, path, flags, mode);
}

//  read gives at most read_chunk bytes at a time and is interrupted before each of them; or finds the file
//  cut to read_cuts bytes.
static size_t read_chunk;
static off_t read_cuts;
static bool read_interrupted;

ssize_t __real_read (int fd, void *bytes, size_t size);
ssize_t __wrap_read (int fd, void *bytes, size_t size);
ssize_t
__wrap_read (int fd, void *bytes, size_t size)
{
    if (fault_strikes ())
        return -1;
    if (read_chunk && (read_interrupted = !read_interrupted)) {
        errno = EINTR;
        return -1;
    }
    if (read_cuts) {
        char link [40], path [PATH_MAX] = "";
        snprintf (link, sizeof link, "/proc/self/fd/%d", fd);
        if (readlink (link, path, sizeof path - 1) < 0 || truncate (path, read_cuts) != 0)
            return -1;
    }
    return __real_read (fd, bytes, read_chunk && size > read_chunk? read_chunk: size);
}


//  -- a folder to build in

static inline int
begin (void **state)
{
    scratch_folder_t *scratch = calloc (1, sizeof *scratch);
    *state = scratch;
    read_chunk = 0;
    read_cuts = 0;
    alarm (300);                        //  what blocks fails
    return scratch && scratch_begin (scratch)? 0: -1;
}

static inline int
end (void **state)
{
    fault_disarm ();
    bool clean = scratch_end (*state);
    free (*state);
    return clean? 0: -1;
}

//  The path of a name in the folder; good until 64 more have been asked for.
static inline const char *
in (void *state, const char *name)
{
    static char paths [64] [PATH_MAX];
    static unsigned int turn;
    char *path = paths [turn++ % 64];
    snprintf (path, PATH_MAX, "%s/%s", ((scratch_folder_t *) state)->path, name);
    return path;
}

//  Makes a file and the directories above it.
static inline void
make_file_of (void *state, const char *name, const void *bytes, size_t size)
{
    char path [PATH_MAX];
    strcpy (path, in (state, name));
    for (char *slash = strchr (path + strlen (((scratch_folder_t *) state)->path) + 1, '/'); slash;
            slash = strchr (slash + 1, '/')) {
        *slash = 0;
        assert_true (mkdir (path, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    int fd = open (path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true (fd >= 0);
    assert_int_equal (write (fd, bytes, size), size);
    close (fd);
}

//  The byte at i is i.
static inline void
make_file (void *state, const char *name, size_t size)
{
    uint8_t bytes [2048];
    assert_true (size <= sizeof bytes);
    for (size_t index = 0; index < size; index++)
        bytes [index] = (uint8_t) index;
    make_file_of (state, name, bytes, size);
}

static inline void
make_text (void *state, const char *name, const char *text)
{
    make_file_of (state, name, text, strlen (text));
}


//  -- opening

static inline catalogue_t *
open_with (const catalogue_options_t *options)
{
    catalogue_t *catalogue;
    char error [ERROR_BYTES];
    int rc = catalogue_open (&catalogue, options, error, sizeof error);
    if (rc)
        fail_msg ("%d: %s", rc, error);
    assert_string_equal (error, "");
    return catalogue;
}

//  Refused with this code, in words that contain each of the two.
static inline void
assert_refused_with (const catalogue_options_t *options, int code, const char *what, const char *remedy)
{
    catalogue_t *catalogue;
    char error [ERROR_BYTES];
    int rc = catalogue_open (&catalogue, options, error, sizeof error);
    assert_null (catalogue);
    if (rc != code || !strstr (error, what) || !strstr (error, remedy))
        fail_msg ("%d, not %d: '%s', not '%s', '%s'", rc, code, error, what, remedy);
}

static inline void
assert_path_of (const catalogue_t *catalogue, uint32_t id, size_t field, const char *expected)
{
    char path [PATH_MAX];
    assert_int_equal (catalogue_path (catalogue, id, field, path, sizeof path), strlen (expected));
    assert_string_equal (path, expected);
}

//  The n-th call fails, once or for ever: a status and a sentence, or no harm; nothing leaks (the teardown
//  counts descriptors, the address sanitizer memory).
static inline void
sweep_open_once (const catalogue_options_t *options, uint32_t samples, int error, bool forever)
{
    for (unsigned int nth = 1; ; nth++) {
        catalogue_t *catalogue;
        char text [ERROR_BYTES];
        fault_arm (nth, error, forever);
        int rc = catalogue_open (&catalogue, options, text, sizeof text);
        bool struck = fault_disarm ();
        if ((rc == 0) != (catalogue != NULL) || (rc == 0) != (text [0] == 0)
            || !fault_has_words (text))
            fail_msg ("call %u, error %d: rc %d, '%s'", nth, error, rc, text);
        //  A class folder that looks like a file to a failing call is passed over, as torchvision would.
        if (rc == 0 && error != EACCES)
            assert_int_equal (catalogue_samples (catalogue), samples);
        catalogue_destroy (&catalogue);
        if (!struck)
            break;
        assert_true (nth < 2000);
    }
}

static inline void
sweep_open (const catalogue_options_t *options, uint32_t samples)
{
    static const int errors [] = { ENOMEM, EIO, EACCES, EMFILE };
    for (size_t index = 0; index < sizeof errors / sizeof errors [0]; index++) {
        sweep_open_once (options, samples, errors [index], false);
        sweep_open_once (options, samples, errors [index], true);
    }
    //  Interrupted: as if nothing had been, where the call may be interrupted (openat).
    sweep_open_once (options, samples, EINTR, false);
}

#endif
