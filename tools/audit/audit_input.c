//  What an audit is given, from files: recorded ids, and groups of samples.
//
//  Ids, as `tureen read --ids FILE` writes them: a line an epoch, numbers rising.
//
//      0: 5 17 3
//      1: 3 5 ...
//
//  " ..." or a last line without an end: the epoch is unfinished.  What the end of the file touches may be
//  cut short (a client was killed while it wrote), so a number there is left out, and so is a line without
//  its colon.  It is read forward only, so that a pipe will do; memory follows what was read.
//
//  Groups: a line a sample, its id and its group.
//
//      0 cats
//      1 dogs
//
//  A group is a word of up to AUDIT_INPUT_GROUP_BYTES bytes.  Ids may come in any order, each once; a sample
//  without a line is of no group.
//
//  In both, blank lines, tabs and carriage returns do no harm; everything else is refused.  Any thread.

#include "audit.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "xalloc.h"

#define FORMAT "expected `NUMBER: id id id`, as `tureen read --ids FILE` writes it"

enum { CHUNK_NAME_BYTES = 32, LINE_BYTES = AUDIT_INPUT_GROUP_BYTES + 64 };

//  A file, the line in it, and where is said what is wrong there.
typedef struct {
    const char *name;
    FILE *file;
    uint64_t line;
    char *error;
    size_t error_bytes;
} source_t;

static bool __attribute__ ((format (printf, 2, 3)))
s_refuse (const source_t *self, const char *format, ...)
{
    int used = snprintf (self->error, self->error_bytes, "%s:%" PRIu64 ": ", self->name, self->line);
    va_list arguments;
    va_start (arguments, format);
    if (used > 0 && (size_t) used < self->error_bytes)
        vsnprintf (self->error + used, self->error_bytes - (size_t) used, format, arguments);
    va_end (arguments);
    return false;
}

//  --------------------------------------------------------------------------
//  Ids

typedef struct {
    source_t source;
    audit_t *audit;
    int next;                           //  the byte to be looked at; EOF
    size_t epochs;
    uint64_t last_number;
    //  The epoch being read.
    uint32_t *ids;
    size_t count, room;
    bool finished;
} ids_t;

//  What stands where something else was expected.
static bool
s_refuse_byte (ids_t *self)
{
    if (self->next == '\n')
        return s_refuse (&self->source, "the line ends too early: " FORMAT);
    if (self->next > ' ' && self->next < 0x7f)
        return s_refuse (&self->source, "unexpected '%c': " FORMAT, self->next);
    return s_refuse (&self->source, "unexpected byte 0x%02x: " FORMAT, (unsigned) self->next);
}

static void
s_step (ids_t *self)
{
    self->next = getc_unlocked (self->source.file);
}

static void
s_skip_blanks (ids_t *self)
{
    while (self->next == ' ' || self->next == '\t' || self->next == '\r')
        s_step (self);
}

//  Digits, of which there is one at least.
static bool
s_read_number (ids_t *self, uint64_t most, const char *what, uint64_t *number_p)
{
    uint64_t number = 0;
    if (self->next < '0' || self->next > '9')
        return s_refuse_byte (self);
    for (; self->next >= '0' && self->next <= '9'; s_step (self)) {
        uint64_t digit = (uint64_t) (self->next - '0');
        if (number > (most - digit) / 10)
            return s_refuse (&self->source, "%s above %" PRIu64 ": no file of Tureen's has one; is this "
                "another's?", what, most);
        number = number * 10 + digit;
    }
    *number_p = number;
    return true;
}

static bool
s_append (ids_t *self, uint32_t id)
{
    //  Places in an epoch have 32 bits too.
    if (self->count > UINT32_MAX / 2
    ||  !xalloc_try_grow (&self->ids, self->count, &self->room, sizeof *self->ids))
        return s_refuse (&self->source, "out of memory for an epoch of %zu samples", self->count);
    self->ids [self->count++] = id;
    return true;
}

//  "...", of which the end of the file may cut some; nothing may follow in the line.
static bool
s_read_dots (ids_t *self)
{
    for (int dots = 0; dots < 3 && self->next != EOF; dots++, s_step (self))
        if (self->next != '.')
            return s_refuse_byte (self);
    s_skip_blanks (self);
    self->finished = false;
    return self->next == '\n' || self->next == EOF || s_refuse_byte (self);
}

//  The ids, up to the end of the line.
static bool
s_read_ids (ids_t *self)
{
    self->count = 0;
    self->finished = true;
    for (;;) {
        bool apart = self->next == ' ' || self->next == '\t' || self->next == '\r' || self->count == 0;
        s_skip_blanks (self);
        if (self->next == '\n')
            return true;
        if (self->next == EOF) {
            self->finished = false;
            return true;
        }
        if (self->next == '.' && apart)
            return s_read_dots (self);
        uint64_t id = 0;
        if (!apart)
            return s_refuse_byte (self);
        if (!s_read_number (self, AUDIT_ID_MAX, "an id", &id))
            return false;
        if (self->next != EOF && !s_append (self, (uint32_t) id))
            return false;
    }
}

//  Hands the epoch over, in memory of its size.
static bool
s_add_epoch (ids_t *self, uint64_t number)
{
    if (self->epochs && number <= self->last_number)
        return s_refuse (&self->source, "epoch %" PRIu64 " after epoch %" PRIu64 ": a file holds one job, its"
            " epochs rising; audit each run's file by itself", number, self->last_number);
    uint32_t *ids = self->count? reallocarray (NULL, self->count, sizeof *ids): NULL;
    if (self->count && !ids)
        return s_refuse (&self->source, "out of memory for an epoch of %zu samples", self->count);
    if (ids)
        memcpy (ids, self->ids, self->count * sizeof *ids);
    self->last_number = number;
    self->epochs++;
    if (audit_add_epoch (self->audit, number, &ids, self->count, self->finished))
        return s_refuse (&self->source, "out of memory");
    return true;
}

static bool
s_read_line (ids_t *self)
{
    uint64_t number = 0;
    s_skip_blanks (self);
    if (self->next == '\n' || self->next == EOF)
        return true;
    if (!s_read_number (self, INT64_MAX, "an epoch's number", &number))
        return false;
    s_skip_blanks (self);
    if (self->next == EOF)
        return true;                    //  cut short before its colon
    if (self->next != ':')
        return s_refuse_byte (self);
    s_step (self);
    return s_read_ids (self) && s_add_epoch (self, number);
}

static bool
s_read_epochs (ids_t *self)
{
    source_t *source = &self->source;
    errno = 0;
    if (audit_add_job (self->audit, source->name))
        return s_refuse (source, "out of memory");
    for (s_step (self); self->next != EOF; s_step (self)) {
        source->line++;
        if (!s_read_line (self))
            return false;
        if (self->next == EOF)
            break;
        assert (self->next == '\n');
    }
    if (ferror (source->file)) {
        snprintf (source->error, source->error_bytes, "%s: %s", source->name,
            errno == EISDIR? "a folder, not a file of ids":
            strerror (errno? errno: EIO));
        return false;
    }
    if (self->epochs)
        return true;
    snprintf (source->error, source->error_bytes, "%s: no epoch in it; record a job with `tureen read --ids "
        "FILE`, or write each epoch as a line `NUMBER: id id id`", source->name);
    return false;
}

bool
audit_input_ids (audit_t *audit, const char *name, FILE *file, char *error, size_t error_bytes)
{
    assert (audit && name && file && error);
    ids_t ids = { .source = { .name = name, .file = file, .error = error, .error_bytes = error_bytes },
        .audit = audit };
    bool fine = s_read_epochs (&ids);
    free (ids.ids);
    return fine;
}

//  --------------------------------------------------------------------------
//  Groups

//  A line of the file; member.group is an index of names.
typedef struct { audit_member_t member; uint64_t line; } entry_t;

typedef struct {
    source_t source;
    audit_input_groups_t *made;
    entry_t *entries;
    size_t count, room, name_room;
    //  By a hash of its name: a group's number + 1; 0: none.  A power of two, at least twice as many as
    //  groups.
    uint32_t *table;
    size_t table_size;
} groups_t;

static uint64_t
s_hash (const char *name)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char) *name) * 0x100000001b3u;
    return hash;
}

//  Where the name is in the table, or would be.
static size_t
s_find_name (const groups_t *self, const char *name)
{
    size_t at = s_hash (name) & (self->table_size - 1);
    while (self->table [at] && strcmp (self->made->names [self->table [at] - 1], name) != 0)
        at = (at + 1) & (self->table_size - 1);
    return at;
}

static bool
s_widen_table (groups_t *self)
{
    size_t size = self->table_size? self->table_size * 2: 64;
    if (self->made->group_count < self->table_size / 2)
        return true;
    uint32_t *table = calloc (size, sizeof *table);
    if (!table)
        return false;
    free (self->table);
    self->table = table;
    self->table_size = size;
    for (size_t group = 0; group < self->made->group_count; group++)
        self->table [s_find_name (self, self->made->names [group])] = (uint32_t) group + 1;
    return true;
}

//  The number of the group of that name, a new one if there is none yet.
static bool
s_number (groups_t *self, const char *name, uint32_t *group_p)
{
    audit_input_groups_t *made = self->made;
    if (!s_widen_table (self))
        return s_refuse (&self->source, "out of memory");
    size_t at = s_find_name (self, name);
    if (!self->table [at]) {
        char *copy = xalloc_try_grow (&made->names, made->group_count, &self->name_room, sizeof *made->names)?
            strdup (name): NULL;
        if (!copy)
            return s_refuse (&self->source, "out of memory");
        made->names [made->group_count++] = copy;
        self->table [at] = (uint32_t) made->group_count;
    }
    *group_p = self->table [at] - 1;
    return true;
}

static bool
s_read_entry (groups_t *self, const char *id_text, const char *group_text)
{
    char *end = NULL;
    errno = 0;
    unsigned long long id = *id_text >= '0' && *id_text <= '9'? strtoull (id_text, &end, 10): 0;
    if (!end || *end || errno || id > AUDIT_ID_MAX)
        return s_refuse (&self->source, "expected a sample's id, 0 to %" PRIu32 ", and the name of its group",
            AUDIT_ID_MAX);
    if (!group_text)
        return s_refuse (&self->source, "sample %llu has no group; write `%llu NAME`, or leave its line out",
            id, id);
    if (strlen (group_text) > AUDIT_INPUT_GROUP_BYTES)
        return s_refuse (&self->source, "a group's name has at most %d bytes", AUDIT_INPUT_GROUP_BYTES);
    if (self->count == UINT32_MAX
        || !xalloc_try_grow (&self->entries, self->count, &self->room, sizeof *self->entries))
        return s_refuse (&self->source, "out of memory");
    entry_t entry = { .member.id = (uint32_t) id, .line = self->source.line };
    if (!s_number (self, group_text, &entry.member.group))
        return false;
    self->entries [self->count++] = entry;
    return true;
}

static bool
s_read_lines (groups_t *self)
{
    source_t *source = &self->source;
    static const char blanks [] = " \t\r\n";
    char line [LINE_BYTES];
    for (source->line = 1; fgets (line, sizeof line, source->file); source->line++) {
        //  Longer than any that is fine, or with a zero in it.
        if (!strchr (line, '\n') && !feof (source->file))
            return s_refuse (source, "expected an id and one word, the name of its group, of at most %d "
                "bytes", AUDIT_INPUT_GROUP_BYTES);
        char *rest = NULL, *id = strtok_r (line, blanks, &rest);
        char *group = id? strtok_r (NULL, blanks, &rest): NULL;
        if (group && strtok_r (NULL, blanks, &rest))
            return s_refuse (source, "expected an id and one word, the name of its group");
        if (id && !s_read_entry (self, id, group))
            return false;
    }
    if (ferror (source->file)) {
        snprintf (source->error, source->error_bytes, "%s: %s", source->name, strerror (errno? errno: EIO));
        return false;
    }
    if (self->count == 0)
        snprintf (source->error, source->error_bytes, "%s: no sample in it; write a line for each, "
            "`ID GROUP`", source->name);
    return self->count > 0;
}

static int
s_compare_members (const void *one, const void *two)
{
    const audit_member_t *first = one, *second = two;
    return first->id < second->id? -1: first->id > second->id;
}

static int
s_compare_entries (const void *one, const void *two)
{
    const entry_t *first = one, *second = two;
    if (first->member.id != second->member.id)
        return first->member.id < second->member.id? -1: 1;
    return first->line < second->line? -1: first->line > second->line;
}

static bool
s_sort (groups_t *self)
{
    audit_input_groups_t *made = self->made;
    qsort (self->entries, self->count, sizeof *self->entries, s_compare_entries);
    for (size_t index = 1; index < self->count; index++)
        if (self->entries [index].member.id == self->entries [index - 1].member.id) {
            self->source.line = self->entries [index].line;
            return s_refuse (&self->source, "sample %" PRIu32 " has a group already, in line %" PRIu64
                ": leave one of them out", self->entries [index].member.id, self->entries [index - 1].line);
        }
    made->members = calloc (self->count, sizeof *made->members);
    if (!made->members)
        return s_refuse (&self->source, "out of memory");
    for (; made->count < self->count; made->count++)
        made->members [made->count] = self->entries [made->count].member;
    return true;
}

bool
audit_input_groups (audit_input_groups_t *self, const char *name, FILE *file, char *error,
    size_t error_bytes)
{
    assert (name && file && error);
    *self = (audit_input_groups_t) { .count = 0 };
    groups_t groups = { .source = { .name = name, .file = file, .error = error, .error_bytes = error_bytes },
        .made = self };
    errno = 0;
    bool fine = s_read_lines (&groups) && s_sort (&groups);
    free (groups.entries);
    free (groups.table);
    if (!fine)
        audit_input_clear (self);
    return fine;
}

bool
audit_input_chunks (audit_input_groups_t *self, const uint32_t *order, size_t count, uint32_t chunk)
{
    assert (count > 0 && chunk > 0);
    size_t chunks = (count - 1) / chunk + 1;
    *self = (audit_input_groups_t) { .members = calloc (count, sizeof *self->members),
        .names = calloc (chunks, sizeof *self->names) };
    bool fine = self->members && self->names;
    for (size_t number = 0; fine && number < chunks; number++) {
        char name [CHUNK_NAME_BYTES];
        snprintf (name, sizeof name, "chunk %zu", number);
        self->names [self->group_count] = strdup (name);
        fine = self->names [self->group_count];
        self->group_count += fine;
    }
    for (; fine && self->count < count; self->count++)
        self->members [self->count] = (audit_member_t) { order [self->count],
            (uint32_t) (self->count / chunk) };
    if (fine)
        qsort (self->members, count, sizeof *self->members, s_compare_members);
    else
        audit_input_clear (self);
    return fine;
}

void
audit_input_clear (audit_input_groups_t *self)
{
    for (size_t group = 0; group < self->group_count; group++)
        free (self->names [group]);
    free (self->names);
    free (self->members);
    *self = (audit_input_groups_t) { .count = 0 };
}
