//  `tureen cache`: what the folder of a cache on the local disk (`tureen serve --disk`) has, whether it is
//  whole, and how it is dropped.

#include "command.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <jansson.h>
#include "block_data.h"
#include "catalogue_places.h"
#include "complain.h"
#include "option.h"
#include "progress.h"
#include "utf8.h"
#include "words.h"

enum { EXIT_FAILED = 1, EXIT_UNUSABLE = 2, ERROR_BYTES = 700, SHOWN_BYTES = 300, WHEN_BYTES = 32,
    WHAT_BYTES = 48, KEY_SHOWN = 12, KEY_LEAST = 6, WORDS_MAX = 3 };

typedef struct {
    char **words;                       //  what is to be done, with which folder, and what of it
    size_t word_count;
    bool all, json, quiet;
    //  once it is open
    block_cache_t *cache;
    block_folder_entry_t *entries;
    size_t count;
} cache_t;

//  ---- arguments

#define AT(member) OPTION_AT (cache_t, member)
static const option_row_t s_rows [] = {
    { "all", NULL, AT (all), "of drop: all that no server has open" },
    { "json", NULL, AT (json), "one JSON object; docs/operations.md explains its keys" },
    { "quiet", NULL, AT (quiet), "of verify: no progress on standard error" }
};

static const option_table_t s_table = { "tureen cache", s_rows, OPTION_ROWS (s_rows), WORDS_MAX, .before =
    "Usage: tureen cache list DIR [--json]\n"
    "       tureen cache verify DIR [--json] [--quiet]\n"
    "       tureen cache drop DIR NAME|KEY|--all [--json]\n"
    "The folder DIR of the local disk in which servers keep what they read of object stores and network\n"
    "file systems (`tureen serve --disk DIR=BYTES`). Servers may use it meanwhile.\n"
    "\n"
    "  tureen cache list /var/cache/tureen\n"
    "  tureen cache drop /var/cache/tureen /nfs/imagenet/train\n"
    "\n"
    "  list    what it has: files, objects or volumes, how much of them is kept, when a server opened or\n"
    "          closed it last, and whether one has it open; its key, and the path or address that it\n"
    "          comes from. Of a cache of an earlier Tureen that is unknown until a server opens the data\n"
    "          again.\n"
    "  verify  reads all that is kept, and throws away what is not as it was written: servers read that\n"
    "          from its source again. It is no repair that servers wait for: they check all they read.\n"
    "  drop    removes a data set, by the path or address or by its key (or six and more digits that\n"
    "          begin it), or all. What a server, verify or `tureen pack --from-disk` has open stays, and\n"
    "          is told.\n"
    "\n", .after =
    "\n"
    "Exit status: 0 done; 1 something was damaged, or could not be checked, dropped or read; 2 unusable\n"
    "arguments.\n" };

//  -1: go on; else the exit status.
static int
s_parse (cache_t *self, int argc, char **argv)
{
    option_result_t result;
    int status = option_parse (&s_table, self, argc, argv, &result);
    if (status >= 0)
        return status;
    self->words = result.words;
    self->word_count = result.word_count;
    const char *verb = self->word_count? self->words [0]: "";
    bool is_list = strcmp (verb, "list") == 0, is_verify = strcmp (verb, "verify") == 0,
        is_drop = strcmp (verb, "drop") == 0, is_good = is_list || is_verify || is_drop;
    if (!is_good)
        complain ("cache", "expected list, verify or drop%s; try: tureen cache --help", *verb? ", not this":
            "");
    else
    if (self->word_count < 2 || !*self->words [1])
        is_good = complain ("cache", "no folder: give the DIR of `tureen serve --disk DIR=BYTES`");
    else
    if (!is_drop && (self->all || self->word_count > 2))
        is_good = complain ("cache", "%s is of the whole folder: leave out what is behind it", verb);
    else
    if (is_drop && (self->all? self->word_count > 2: self->word_count < 3))
        is_good = complain ("cache", "give what is to be dropped: a path or address, a key, or --all");
    else
    if (self->quiet && !is_verify)
        is_good = complain ("cache", "--quiet is for `tureen cache verify`: leave it out");
    return is_good? -1: EXIT_UNUSABLE;
}

//  ---- what is shown of a data set

static const char *
s_when (int64_t seconds, char text [WHEN_BYTES])
{
    struct tm utc;
    time_t time = (time_t) seconds;
    bool is_known = seconds > 0 && gmtime_r (&time, &utc)
        && strftime (text, WHEN_BYTES, "%Y-%m-%dT%H:%M:%SZ", &utc) > 0;
    if (!is_known)
        *text = 0;
    return text;
}

static const char *
s_what (const block_folder_entry_t *entry, char text [WHAT_BYTES])
{
    static const char *const kinds [] = { [BLOCK_NOTE_UNKNOWN] = "unknown", [BLOCK_NOTE_OBJECTS] = "object",
        [BLOCK_NOTE_FILES] = "file", [BLOCK_NOTE_VOLUMES] = "volume", [BLOCK_NOTE_INDEX] = "index of a pack",
        [BLOCK_NOTE_OBJECT_LIST] = "list of objects", [BLOCK_NOTE_FILE_LIST] = "list of files" };
    const char *kind = entry->is_newer? "of a later Tureen": kinds [entry->note.kind];
    if (entry->note.count > 0)
        snprintf (text, WHAT_BYTES, "%" PRIu64 " %s%s", entry->note.count, kind, plural (entry->note.count));
    else
        snprintf (text, WHAT_BYTES, "%s", kind);
    return text;
}

static const char *
s_name (const block_folder_entry_t *entry, char shown [SHOWN_BYTES])
{
    return *entry->note.name? utf8_visible (entry->note.name, strlen (entry->note.name), shown, SHOWN_BYTES):
        "(unknown)";
}

static json_t *
s_text_or_null (const char *text)
{
    return *text? utf8_json (text): json_null ();
}

static json_t *
s_json (const block_folder_entry_t *entry)
{
    static const char *const kinds [] = { [BLOCK_NOTE_UNKNOWN] = "unknown", [BLOCK_NOTE_OBJECTS] = "objects",
        [BLOCK_NOTE_FILES] = "files", [BLOCK_NOTE_VOLUMES] = "volumes", [BLOCK_NOTE_INDEX] = "index",
        [BLOCK_NOTE_OBJECT_LIST] = "object_list", [BLOCK_NOTE_FILE_LIST] = "file_list" };
    char first [WHEN_BYTES], last [WHEN_BYTES];
    return json_pack ("{s:s, s:o, s:s, s:I, s:I, s:o, s:I, s:o, s:o, s:b, s:b}", "key", entry->key,
        "name", s_text_or_null (entry->note.name), "kind", kinds [entry->note.kind],
        "count", (json_int_t) entry->note.count, "held_bytes", (json_int_t) entry->held_bytes,
        "bytes", entry->bytes? json_integer ((json_int_t) entry->bytes): json_null (), "disk_bytes",
        (json_int_t) entry->taken_bytes,
        "first_used", s_text_or_null (s_when (entry->note.made_s, first)),
        "last_used", s_text_or_null (s_when (entry->used_s, last)), "open", entry->is_open,
        "newer", entry->is_newer);
}

//  Prints the object, which is the function's.
static int
s_print_json (json_t *object, int status)
{
    bool good = object && json_dumpf (object, stdout, JSON_INDENT (2)) == 0 && putchar ('\n') != EOF;
    json_decref (object);
    return good || complain ("cache", "the result cannot be printed as JSON: standard output fails, or there "
        "is no memory")? status: EXIT_FAILED;
}

//  ---- list

static int
s_list (const cache_t *self)
{
    uint64_t taken = block_cache_figures (self->cache).bytes;
    if (self->json) {
        json_t *list = json_array ();
        for (size_t index = 0; index < self->count; index++)
            json_array_append_new (list, s_json (&self->entries [index]));
        return s_print_json (json_pack ("{s:o, s:I, s:o}", "folder", utf8_json (self->words [1]),
            "disk_bytes", (json_int_t) taken, "datasets", list), 0);
    }
    if (self->count > 0)
        printf ("%-*s  %-20s  %12s  %12s  %-20s  %-4s  %s\n", KEY_SHOWN, "key", "what", "kept", "of",
            "last used", "open", "name");
    for (size_t index = 0; index < self->count; index++) {
        const block_folder_entry_t *entry = &self->entries [index];
        char what [WHAT_BYTES], when [WHEN_BYTES], shown [SHOWN_BYTES], of [WHAT_BYTES] = "";
        if (entry->bytes > 0)
            snprintf (of, sizeof of, "%.1f MB", (double) entry->bytes / 1e6);
        printf ("%.*s  %-20s  %9.1f MB  %12s  %-20s  %-4s  %s\n", KEY_SHOWN, entry->key, s_what (entry, what),
            (double) entry->held_bytes / 1e6, of, s_when (entry->used_s, when), entry->is_open? "yes": "no",
            s_name (entry, shown));
    }
    printf ("%zu data set%s, lists and indexes counted; %.1f MB of the disk\n", self->count,
        plural (self->count), (double) taken / 1e6);
    return 0;
}

//  ---- verify

typedef struct {
    uint64_t held, damaged, unowned;    //  units
    size_t unchecked, failed;           //  data sets
    progress_t progress;
    uint64_t bytes;
    json_t *datasets;                   //  --json only
} verified_t;

static void
s_tell (void *context, uint64_t bytes)
{
    verified_t *self = context;
    self->bytes += bytes;
    progress_tell (&self->progress, self->bytes, 0);
}

//  is_left: its files have got another space.
static void
s_say (const block_folder_entry_t *entry, const block_folder_check_t *check, bool is_left, int rc)
{
    char shown [SHOWN_BYTES];
    const char *name = s_name (entry, shown);
    if (rc)
        printf ("%.*s  %s: cannot be checked: %s\n", KEY_SHOWN, entry->key, name, rc == -ENOTSUP?
            "a later Tureen has written it": rc == -ENOENT? "it has gone meanwhile": strerror (-rc));
    else
    if (!check->is_checked)
        printf ("%.*s  %s: not checked: %s\n", KEY_SHOWN, entry->key, name, is_left? "most of the files had "
            "changed, and later servers keep them elsewhere in the cache; this goes when its room is needed":
            entry->note.kind == BLOCK_NOTE_FILES? "its list of files is not there, or damaged; the next "
            "server that opens the data begins it again": "an earlier Tureen has made it, and not noted what "
            "it is; it can be checked once a server has opened the data again");
    if (check->damaged > 0)
        printf ("%.*s  %s: %.3f of %.3f MB were damaged, and are dropped\n", KEY_SHOWN, entry->key, name,
            (double) check->damaged * BLOCK_DATA_UNIT_BYTES / 1e6,
            (double) check->held * BLOCK_DATA_UNIT_BYTES / 1e6);
    if (check->unowned > 0)
        printf ("%.*s  %s: %.3f MB were of files that are not there any more\n", KEY_SHOWN, entry->key, name,
            (double) check->unowned * BLOCK_DATA_UNIT_BYTES / 1e6);
}

//  is_left_p: as for s_say.
static int
s_check (const cache_t *self, const block_folder_entry_t *entry, verified_t *verified,
    block_folder_check_t *check, bool *is_left_p)
{
    block_folder_file_t *files = NULL;
    size_t count = 0;
    int rc = 0;
    const block_data_key_t key = { { entry->note.list [0], entry->note.list [1] } };
    const block_data_list_t list = { .key = &key, .generation = entry->note.generation };
    if (entry->note.kind == BLOCK_NOTE_FILES)
        rc = catalogue_places_load (&files, &count, self->cache, &list);
    *is_left_p = rc == -ESTALE;
    //  Without its list it cannot be checked, which block_folder_check says.
    if (rc == 0 || rc == -ENOENT || rc == -ENODATA || rc == -ESTALE)
        rc = block_folder_check (self->cache, entry, files, count, s_tell, verified, check);
    free (files);
    return rc;
}

static void
s_verify_one (const cache_t *self, const block_folder_entry_t *entry, verified_t *verified)
{
    block_folder_check_t check = { .held = 0 };
    bool is_left = false;
    int rc = s_check (self, entry, verified, &check, &is_left);
    verified->held += check.held;
    verified->damaged += check.damaged;
    verified->unowned += check.unowned;
    verified->failed += rc != 0;
    verified->unchecked += rc == 0 && !check.is_checked && !is_left;
    if (!self->json) {
        progress_clear (&verified->progress);
        s_say (entry, &check, is_left, rc);
        return;
    }
    json_array_append_new (verified->datasets, json_pack ("{s:s, s:o, s:I, s:I, s:I, s:b, s:s?}", "key",
        entry->key, "name", s_text_or_null (entry->note.name),
        "checked_bytes", (json_int_t) (check.held * BLOCK_DATA_UNIT_BYTES),
        "damaged_bytes", (json_int_t) (check.damaged * BLOCK_DATA_UNIT_BYTES),
        "unowned_bytes", (json_int_t) (check.unowned * BLOCK_DATA_UNIT_BYTES),
        "checked", rc == 0 && check.is_checked, "error", rc? strerror (-rc): NULL));
}

static int
s_verify (const cache_t *self)
{
    verified_t verified = { .progress = progress_begin ("cache", self->quiet) };
    verified.datasets = self->json? json_array (): NULL;
    uint64_t all = 0;
    for (size_t index = 0; index < self->count; index++)
        all += self->entries [index].held_bytes;
    progress_step (&verified.progress, &(progress_step_t) { .what = "verifying", .total = all }, 0);
    //  A damaged list is found as such before it is used.
    for (int files = 0; files <= 1; files++)
        for (size_t index = 0; index < self->count; index++)
            if ((self->entries [index].note.kind == BLOCK_NOTE_FILES) == files)
                s_verify_one (self, &self->entries [index], &verified);
    progress_clear (&verified.progress);
    int status = verified.damaged || verified.unchecked || verified.failed? EXIT_FAILED: 0;
    uint64_t held = verified.held * BLOCK_DATA_UNIT_BYTES,
        damaged = verified.damaged * BLOCK_DATA_UNIT_BYTES;
    if (self->json)
        return s_print_json (json_pack ("{s:o, s:I, s:I, s:I, s:I, s:o}", "folder",
            utf8_json (self->words [1]), "checked_bytes", (json_int_t) held, "damaged_bytes",
            (json_int_t) damaged, "unowned_bytes", (json_int_t) (verified.unowned * BLOCK_DATA_UNIT_BYTES),
            "unchecked", (json_int_t) (verified.unchecked + verified.failed), "datasets",
            verified.datasets), status);
    printf ("%.1f MB read: ", (double) held / 1e6);
    if (damaged)
        printf ("%.3f MB were damaged, and are dropped: servers read them from their source again\n",
            (double) damaged / 1e6);
    else
        puts (verified.failed? "not all could be checked": "all as it was written");
    return status;
}

//  ---- drop

//  All of these hold a data set by the same lock.
#define HAS_OPEN "a server, `tureen cache verify` or `tureen pack --from-disk` has '%s' open"

//  Moves those that are meant to the front, and gives how many: by path or address, or by what begins the
//  key.
static size_t
s_choose (cache_t *self, bool by_key)
{
    const char *word = self->all? NULL: self->words [2];
    char path [PATH_MAX];
    if (word && !realpath (word, path))
        *path = 0;
    size_t chosen = 0;
    for (size_t index = 0; index < self->count; index++) {
        block_folder_entry_t *entry = &self->entries [index], other = *entry;
        const char *name = entry->note.name;
        bool is_meant = !word? !entry->is_open:
            by_key? strlen (word) >= KEY_LEAST && strncmp (entry->key, word, strlen (word)) == 0:
            *name && (strcmp (name, word) == 0 || strcmp (name, path) == 0);
        if (!is_meant)
            continue;
        *entry = self->entries [chosen];
        self->entries [chosen++] = other;
    }
    return chosen;
}

static int
s_fail_drop (const cache_t *self, size_t chosen, int rc)
{
    char shown [SHOWN_BYTES];
    size_t index = 0;
    while (index < chosen && !self->entries [index].is_open)
        index++;
    if (rc == -EBUSY && index < chosen)
        complain ("cache", HAS_OPEN " (%.*s), and nothing is dropped: take the data from the server (`tureen "
            "remove NAME`), or end it, or let the command end, and try again",
            s_name (&self->entries [index], shown), KEY_SHOWN, self->entries [index].key);
    else
        complain ("cache", "'%s' cannot be changed: %s", self->words [1], strerror (-rc));
    return EXIT_FAILED;
}

static int
s_drop (cache_t *self)
{
    char shown [SHOWN_BYTES];
    uint64_t freed;
    size_t chosen = s_choose (self, false), left = self->all? self->count - chosen: 0;
    chosen = chosen || self->all? chosen: s_choose (self, true);
    if (chosen == 0 && !self->all) {
        complain ("cache", "there is nothing of '%s' in '%s': `tureen cache list` says what there is",
            utf8_visible (self->words [2], strlen (self->words [2]), shown, sizeof shown), self->words [1]);
        return EXIT_FAILED;
    }
    int rc = chosen? block_folder_drop (self->cache, self->entries, chosen, &freed): 0;
    if (rc)
        return s_fail_drop (self, chosen, rc);
    freed = chosen? freed: 0;
    for (size_t index = chosen; index < chosen + left; index++)
        complain ("cache", HAS_OPEN " (%.*s): it stays", s_name (&self->entries [index], shown),
            KEY_SHOWN, self->entries [index].key);
    int status = left > 0? EXIT_FAILED: 0;
    if (!self->json) {
        printf ("%zu data set%s dropped, lists and indexes counted: %.1f MB are free\n", chosen,
            plural (chosen), (double) freed / 1e6);
        return status;
    }
    json_t *keys = json_array ();
    for (size_t index = 0; index < chosen; index++)
        json_array_append_new (keys, json_string (self->entries [index].key));
    return s_print_json (json_pack ("{s:o, s:o, s:I, s:I}", "folder", utf8_json (self->words [1]), "dropped",
        keys, "freed_bytes", (json_int_t) freed, "open", (json_int_t) left), status);
}

int
command_cache (int argc, char **argv)
{
    complain_begin ();
    cache_t self = { .cache = NULL };
    char error [ERROR_BYTES];
    int status = s_parse (&self, argc, argv);
    if (status >= 0)
        return complain_of_output ("cache", status);
    int rc = block_cache_open_guest (&self.cache, self.words [1], error, sizeof error);
    if (rc)
        complain ("cache", "%s", error);
    else
    if ((rc = block_folder_list (self.cache, &self.entries, &self.count)))
        complain ("cache", "'%s' cannot be read: %s", self.words [1], strerror (-rc));
    status = rc? EXIT_FAILED: *self.words [0] == 'l'? s_list (&self):
        *self.words [0] == 'v'? s_verify (&self): s_drop (&self);
    free (self.entries);
    block_cache_close (&self.cache);
    return complain_of_output ("cache", status);
}
