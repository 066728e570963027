//  `tureen key`: makes keys, and lists the clients that a server admits (client_keys.h).

#include "command.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <jansson.h>
#include "certificate.h"
#include "client_keys.h"
#include "complain.h"
#include "file.h"
#include "option.h"
#include "utf8.h"

enum { STATUS_FAILED = 1, STATUS_UNUSABLE = 2, ERROR_BYTES = 1024, SHOWN_BYTES = 200, WORDS_MAX = 3 };

//  A tenant that every server has, for servers that look for one; a worker's key has no use for it.
#define WORKER_TENANT "operator"

typedef struct {
    char **words;                       //  what is to be done, and with what
    size_t word_count;
    const char *tenant, *label;
    bool is_operator, is_worker, json;
} arguments_t;

//  A file in allowed/.
typedef struct {
    char name [NAME_MAX + 1];
    const char *reason;                 //  why it admits no key; NULL: it admits one
    certificate_t certificate;
} entry_t;

typedef struct {
    client_keys_folder_t folder;
    entry_t *entries;                   //  by name
    size_t count;
    bool is_full;                       //  of memory
} entries_t;

static const char *
s_shown (const char *text, char shown [SHOWN_BYTES])
{
    return utf8_visible (text, strlen (text), shown, SHOWN_BYTES);
}

//  ---- arguments

#define AT(member) OPTION_AT (arguments_t, member)
static const option_row_t s_rows [] = {
    { "tenant", "NAME", AT (tenant),
        "the tenant that jobs with this key belong to, of the server's settings, or `operator`" },
    { "operator", NULL, AT (is_operator), "it may see all jobs, and drain the server" },
    { "worker", NULL, AT (is_worker), "it may lend processors (`tureen work`), and do nothing else" },
    { "name", "LABEL", AT (label), "what the key is called; without it the name of FILE" },
    { "json", NULL, AT (json), "one JSON object; docs/operations.md explains its keys" }
};

//  One public key in 85 begins with a dash, some with two; no option has one dash, or is so long without '='.
static bool
s_is_key (const char *text)
{
    return strlen (text) == CERTIFICATE_KEY_CHARS && (text [1] != '-' || !strchr (text, '='));
}

static const option_table_t s_table = { "tureen key", s_rows, OPTION_ROWS (s_rows), WORDS_MAX,
    .is_word = s_is_key, .before =
    "Usage: tureen key new FILE\n"
    "       tureen key allow DIR FILE --tenant NAME [--operator] [--name LABEL]\n"
    "       tureen key allow DIR FILE --worker [--name LABEL]\n"
    "       tureen key list DIR [--json]\n"
    "       tureen key revoke DIR LABEL\n"
    "Keys of clients and workers, for servers on tcp that were started with --keys DIR.\n"
    "\n"
    "  tureen key new ~/.tureen.key                              on the client's machine\n"
    "  tureen key allow /etc/tureen/keys tureen.key --tenant vision --name alice\n"
    "  tureen read --connect tcp://server:5555 --key ~/.tureen.key --server-key 'KEY' ...\n"
    "\n"
    "  new     makes a pair of keys: FILE, for the server's administrator, and FILE_secret, which stays\n"
    "          where it is and which only its owner may read.\n"
    "  allow   admits clients with a public key, as of the tenant. FILE is what `tureen key new` made, or\n"
    "          the 40 characters of a key (in single quotes: & | < > ( ) $ * may be among them). DIR is\n"
    "          made if it is not there.\n"
    "  list    the clients that are admitted, and the server's own public key.\n"
    "  revoke  admits a key no more: by its label, or by its 40 characters.\n"
    "\n", .after =
    "\n"
    "A running server sees within a second what is allowed and revoked; jobs of a revoked key end at once.\n"
    "Where DIR is another user's, run this as that user or as root.\n"
    "\n"
    "Exit status: 0 done, 1 it could not be done, 2 unusable arguments.\n" };

//  Whether there are as many words as it takes, and no option that means nothing here.
static bool
s_expect (const arguments_t *self, size_t words, const char *usage, bool may_allow, bool may_list)
{
    if (self->word_count != words)
        return complain ("key", "usage: tureen key %s", usage);
    if (!may_allow && (self->tenant || self->label || self->is_operator || self->is_worker))
        return complain ("key", "--tenant, --name, --operator and --worker are for `tureen key allow`");
    return may_list || !self->json || complain ("key", "--json is for `tureen key list`");
}

//  ---- new

//  The folder of a path, opened, and the name in it; -1: it was complained of.
static int
s_open_folder (const char *path, const char **name_p)
{
    const char *slash = strrchr (path, '/');
    *name_p = slash? slash + 1: path;
    size_t size = strlen (*name_p);
    if (size == 0 || size + strlen ("_secret") > NAME_MAX || strcmp (*name_p, ".") == 0
        || strcmp (*name_p, "..") == 0) {
        complain ("key", "'%s' is no name for a new file", path);
        return -1;
    }
    //  With the slash, so that "/" stays what it is.
    char *folder = slash? strndup (path, (size_t) (slash - path) + 1): strdup (".");
    int fd = folder? open (folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC): -1;
    if (fd < 0)
        complain ("key", "the folder of '%s': %s", path, strerror (errno));
    free (folder);
    return fd;
}

static bool
s_complain_write (const char *path, const char *suffix, int rc)
{
    if (rc == -EEXIST)
        return complain ("key", "'%s%s' is there already: name another, or remove it (clients with that key "
            "are then admitted nowhere)", path, suffix);
    return complain ("key", "cannot write '%s%s': %s", path, suffix, strerror (-rc));
}

static bool
s_write_pair (const certificate_t *certificate, int folder, const char *path, const char *name)
{
    char secret_name [NAME_MAX + 1];
    snprintf (secret_name, sizeof secret_name, "%s_secret", name);
    //  Looked at first, so that a pair is not begun that cannot be ended.
    if (faccessat (folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return s_complain_write (path, "", -EEXIST);
    int rc = certificate_write (certificate, folder, secret_name, true, geteuid ());
    if (rc)
        return s_complain_write (path, "_secret", rc);
    rc = certificate_write (certificate, folder, name, false, geteuid ());
    if (rc == 0)
        return true;
    unlinkat (folder, secret_name, 0);
    return s_complain_write (path, "", rc);
}

static int
s_new (const arguments_t *arguments)
{
    if (!s_expect (arguments, 2, "new FILE", false, false))
        return STATUS_UNUSABLE;
    const char *path = arguments->words [1], *name;
    int folder = s_open_folder (path, &name);
    if (folder < 0)
        return STATUS_FAILED;
    certificate_t certificate;
    certificate_make (&certificate);
    bool done = s_write_pair (&certificate, folder, path, name);
    close (folder);
    if (done)
        printf ("%s: the public key %s, for the server's administrator:\n"
            "    tureen key allow DIR %s --tenant NAME\n"
            "%s_secret: the secret one. It stays here; only you may read it.\n", path,
            certificate.public_text, name, path);
    certificate_wipe (&certificate);
    return done? 0: STATUS_FAILED;
}

//  ---- what is in the folder

static int
s_compare (const void *left, const void *right)
{
    return strcmp (((const entry_t *) left)->name, ((const entry_t *) right)->name);
}

static bool
s_add (void *context, const char *name)
{
    entries_t *self = context;
    entry_t *entries = reallocarray (self->entries, self->count + 1, sizeof *entries);
    self->is_full = !entries;
    if (!entries)
        return false;
    self->entries = entries;
    entry_t *entry = &entries [self->count];
    snprintf (entry->name, sizeof entry->name, "%s", name);
    int rc = client_keys_folder_read (&self->folder, name, &entry->certificate, &entry->reason);
    if (rc == -ENOENT)
        return true;                    //  just revoked
    if (rc && rc != -EBADMSG)
        entry->reason = "cannot be read";
    self->count++;
    return true;
}

static void
s_close (entries_t *self)
{
    client_keys_folder_close (&self->folder);
    free (self->entries);
    self->entries = NULL;
}

static bool
s_open (entries_t *self, const char *path, bool make)
{
    char error [ERROR_BYTES];
    *self = (entries_t) { .entries = NULL };
    if (client_keys_folder_open (&self->folder, path, make, error, sizeof error))
        return complain ("key", "%s", error);
    int rc = client_keys_folder_each (self->folder.allowed, s_add, self);
    if (rc || self->is_full) {
        s_close (self);
        return complain ("key", "cannot look at the files in '%s/allowed': %s", path,
            strerror (rc? -rc: ENOMEM));
    }
    if (self->count)
        qsort (self->entries, self->count, sizeof *self->entries, s_compare);
    return true;
}

//  ---- allow

//  The key that FILE means.
static bool
s_read_key (certificate_t *certificate, const char *path)
{
    const char *reason;
    if (certificate_is_key (path) && access (path, F_OK)) {
        *certificate = (certificate_t) { .public_text = "" };
        memcpy (certificate->public_text, path, CERTIFICATE_KEY_CHARS);
        return true;
    }
    int rc = certificate_read (certificate, AT_FDCWD, path, CERTIFICATE_ANY, 0, &reason);
    if (rc == -EBADMSG)
        return complain ("key", "'%s' %s: give the public file that `tureen key new` made", path, reason);
    if (rc)
        return complain ("key", "'%s': %s", path, strerror (-rc));
    if (!certificate->secret_text [0])
        return true;
    certificate_wipe (certificate);
    return complain ("key", "'%s' holds a secret key, which must not leave its user's machine: give the file "
        "beside it, without _secret", path);
}

//  What it is to be called; NULL: complained of.
static const char *
s_label (const arguments_t *arguments)
{
    const char *path = arguments->words [2], *slash = strrchr (path, '/');
    const char *label = arguments->label? arguments->label: slash? slash + 1: path;
    if (!arguments->label && certificate_is_key (path)) {
        complain ("key", "a key needs a name to be known by: --name LABEL");
        return NULL;
    }
    if (certificate_is_name (label))
        return label;
    complain ("key", "'%s' is no label (letters, digits, '.', '_', '-', at most %d, no '.' at the "
        "beginning): choose one with --name", label, CERTIFICATE_NAME_MAX);
    return NULL;
}

//  Whether it may be added to what is there.
static bool
s_may_add (const entries_t *entries, const certificate_t *certificate, const char *label)
{
    for (size_t index = 0; index < entries->count; index++) {
        const entry_t *entry = &entries->entries [index];
        if (strcmp (entry->name, label) == 0)
            return complain ("key", "there is a key '%s' already: choose another label with --name, or "
                "revoke it first", label);
        if (!entry->reason && strcmp (entry->certificate.public_text, certificate->public_text) == 0)
            return complain ("key", "this key is let in already, as '%s' of tenant '%s': revoke that first",
                entry->name, entry->certificate.tenant);
    }
    return entries->count < CLIENT_KEYS_MAX
        || complain ("key", "there are %d keys, which is the most: revoke some", CLIENT_KEYS_MAX);
}

static void
s_stamp (certificate_t *certificate)
{
    time_t now = time (NULL);
    struct tm utc;
    gmtime_r (&now, &utc);
    strftime (certificate->since, sizeof certificate->since, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

static bool
s_allow_in (const entries_t *entries, const arguments_t *arguments, certificate_t *certificate,
    const char *label)
{
    if (!s_may_add (entries, certificate, label))
        return false;
    snprintf (certificate->tenant, sizeof certificate->tenant, "%s",
        arguments->is_worker? WORKER_TENANT: arguments->tenant);
    certificate->is_operator = arguments->is_operator;
    certificate->is_worker = arguments->is_worker;
    s_stamp (certificate);
    int rc = certificate_write (certificate, entries->folder.allowed, label, false, entries->folder.owner);
    if (rc)
        return complain ("key", "cannot write '%s/allowed/%s': %s", arguments->words [1], label,
            strerror (-rc));
    if (certificate->is_worker)
        printf ("the key '%s' is let in: worker\n", label);
    else
        printf ("the key '%s' is let in: tenant '%s'%s\n", label, certificate->tenant,
            certificate->is_operator? ", operator": "");
    return true;
}

//  Whether it is clear what the key is for.
static bool
s_has_role (const arguments_t *arguments)
{
    if (arguments->is_worker)
        return (!arguments->tenant && !arguments->is_operator)
            || complain ("key", "a worker's key belongs to no tenant, and may do nothing else: leave "
                "--tenant and --operator out, or --worker");
    if (!arguments->tenant || !certificate_is_name (arguments->tenant)) {
        complain ("key", arguments->tenant? "'%s' is no tenant's name (letters, digits, '.', '_', '-')":
            "which tenant is the key for? "
            "--tenant NAME, one of the server's tenants, or `operator` if it has no others",
            arguments->tenant);
        return false;
    }
    return true;
}

static int
s_allow (const arguments_t *arguments)
{
    if (!s_expect (arguments, 3, "allow DIR FILE --tenant NAME [--operator] [--name LABEL]", true, false)
    ||  !s_has_role (arguments))
        return STATUS_UNUSABLE;
    certificate_t certificate;
    entries_t entries;
    const char *label = s_label (arguments);
    if (!label)
        return STATUS_UNUSABLE;
    if (!s_read_key (&certificate, arguments->words [2]) || !s_open (&entries, arguments->words [1], true))
        return STATUS_FAILED;
    bool done = s_allow_in (&entries, arguments, &certificate, label);
    s_close (&entries);
    return done? 0: STATUS_FAILED;
}

//  ---- list

//  If files say different things of a key, none of them holds; so it is for the server too.
static void
s_judge_contradictions (entries_t *self)
{
    for (size_t index = 0; index < self->count; index++)
        for (size_t other = 0; other < self->count; other++) {
            const certificate_t *one = &self->entries [index].certificate,
                *two = &self->entries [other].certificate;
            if (one->public_text [0] && strcmp (one->public_text, two->public_text) == 0
            &&  (one->is_operator != two->is_operator || one->is_worker != two->is_worker
                || strcmp (one->tenant, two->tenant)))
                self->entries [index].reason = "has a key of which another file says something else";
        }
}

//  The server's public key; "": it has not been started yet.
static const char *
s_server_key (const entries_t *entries, certificate_t *certificate)
{
    const char *reason;
    int rc = certificate_read (certificate, entries->folder.folder, "server", CERTIFICATE_GUARDED,
        entries->folder.owner, &reason);
    return rc? "": certificate->public_text;
}

static void
s_print_json (const entries_t *entries, const char *server)
{
    json_t *keys = json_array (), *bad = json_array ();
    for (size_t index = 0; index < entries->count; index++) {
        const entry_t *entry = &entries->entries [index];
        json_t *name = utf8_json (entry->name);
        json_t *object = entry->reason? json_pack ("{s:o, s:s}", "file", name, "reason", entry->reason):
            json_pack ("{s:o, s:s, s:b, s:b, s:s, s:s}", "label", name, "tenant", entry->certificate.tenant,
                "operator", entry->certificate.is_operator, "worker", entry->certificate.is_worker,
                "key", entry->certificate.public_text, "since", entry->certificate.since);
        json_array_append_new (entry->reason? bad: keys, object);
    }
    json_t *list = json_pack ("{s:s?, s:o, s:o}", "server", *server? server: NULL, "keys", keys, "bad", bad);
    char *text = json_dumps (list, JSON_INDENT (1));
    assert (text);
    puts (text);
    free (text);
    json_decref (list);
}

static void
s_print_table (const entries_t *entries, const char *server)
{
    char shown [SHOWN_BYTES];
    int wide = (int) strlen ("label"), tenant = (int) strlen ("tenant");
    for (size_t index = 0; index < entries->count; index++) {
        const entry_t *entry = &entries->entries [index];
        wide = !entry->reason && (int) strlen (entry->name) > wide? (int) strlen (entry->name): wide;
        tenant = !entry->reason && (int) strlen (entry->certificate.tenant) > tenant?
            (int) strlen (entry->certificate.tenant):
            tenant;
    }
    printf ("%-*s  %-*s  operator  %-20s  key\n", wide, "label", tenant, "tenant", "since");
    for (size_t index = 0; index < entries->count; index++) {
        const entry_t *entry = &entries->entries [index];
        if (!entry->reason)
            printf ("%-*s  %-*s  %-8s  %-20s  %s\n", wide, entry->name, tenant, entry->certificate.tenant,
                entry->certificate.is_operator? "yes": entry->certificate.is_worker? "worker": "no",
                entry->certificate.since, entry->certificate.public_text);
    }
    for (size_t index = 0; index < entries->count; index++)
        if (entries->entries [index].reason)
            printf ("%s admits no client: it %s\n", s_shown (entries->entries [index].name, shown),
                entries->entries [index].reason);
    if (*server)
        printf ("the server's key: %s\n", server);
    else
        puts ("the server has no key yet: it makes one when it is started with --keys");
}

static int
s_list (const arguments_t *arguments)
{
    entries_t entries;
    certificate_t server;
    if (!s_expect (arguments, 2, "list DIR [--json]", false, true))
        return STATUS_UNUSABLE;
    if (!s_open (&entries, arguments->words [1], false))
        return STATUS_FAILED;
    s_judge_contradictions (&entries);
    (arguments->json? s_print_json: s_print_table) (&entries, s_server_key (&entries, &server));
    s_close (&entries);
    return 0;
}

//  ---- revoke

//  Whether the entry is what was named: by its label, or where there is no such label by its key.
static bool
s_is_meant (const entry_t *entry, const char *word, bool by_label)
{
    return by_label? strcmp (entry->name, word) == 0: !entry->reason
        && strcmp (entry->certificate.public_text, word) == 0;
}

static size_t
s_count_meant (const entries_t *entries, const char *word, bool by_label)
{
    size_t count = 0;
    for (size_t index = 0; index < entries->count; index++)
        count += s_is_meant (&entries->entries [index], word, by_label);
    return count;
}

static bool
s_revoke_in (const entries_t *entries, const char *directory, const char *word)
{
    char shown [SHOWN_BYTES];
    bool by_label = s_count_meant (entries, word, true) > 0;
    if (!by_label && s_count_meant (entries, word, false) == 0)
        return complain ("key", "no key '%s' is let in; `tureen key list %s` shows those that are",
            word, directory);
    for (size_t index = 0; index < entries->count; index++) {
        const entry_t *entry = &entries->entries [index];
        if (!s_is_meant (entry, word, by_label))
            continue;
        if (unlinkat (entries->folder.allowed, entry->name, 0) && errno != ENOENT)
            return complain ("key", "cannot remove '%s/allowed/%s': %s", directory, entry->name,
                strerror (errno));
        printf ("the key '%s' is revoked\n", s_shown (entry->name, shown));
    }
    //  UNTESTED: takes a disk that fails between two calls.
    if (file_sync (entries->folder.allowed))
        return complain ("key", "'%s/allowed' cannot be written to the disk (%s): the key is revoked, but a "
            "crash of the machine may bring it back; revoke it again then", directory, strerror (errno));
    return true;
}

static int
s_revoke (const arguments_t *arguments)
{
    entries_t entries;
    if (!s_expect (arguments, 3, "revoke DIR LABEL", false, false))
        return STATUS_UNUSABLE;
    if (!s_open (&entries, arguments->words [1], false))
        return STATUS_FAILED;
    bool done = s_revoke_in (&entries, arguments->words [1], arguments->words [2]);
    s_close (&entries);
    return done? 0: STATUS_FAILED;
}

//  ---- the command

static int
s_run (const arguments_t *arguments)
{
    static const struct {
        const char *name;
        int (*run) (const arguments_t *arguments);
    } actions [] = { { "new", s_new }, { "allow", s_allow }, { "list", s_list }, { "revoke", s_revoke } };
    enum { ACTIONS = sizeof actions / sizeof actions [0] };
    const char *name = arguments->word_count? arguments->words [0]: "", *names [ACTIONS];
    for (size_t index = 0; index < ACTIONS; index++) {
        names [index] = actions [index].name;
        if (strcmp (actions [index].name, name) == 0)
            return actions [index].run (arguments);
    }
    const char *nearest = *name? option_nearest (name, names, ACTIONS): NULL;
    if (nearest)
        complain ("key", "'%s' is none of new, allow, list and revoke; did you mean '%s'?", name, nearest);
    else
        complain ("key", *name? "'%s' is none of new, allow, list and revoke; see `tureen key --help`":
            "what is to be done? new, allow, list or revoke; see `tureen key --help`", name);
    return STATUS_UNUSABLE;
}

int
command_key (int argc, char **argv)
{
    complain_begin ();
    arguments_t arguments = { .word_count = 0 };
    option_result_t result;
    int status = option_parse (&s_table, &arguments, argc, argv, &result);
    arguments.words = result.words;
    arguments.word_count = result.word_count;
    if (status < 0)
        status = s_run (&arguments);
    return complain_of_output ("key", status);
}
