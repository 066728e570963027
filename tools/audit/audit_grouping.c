#include "audit_grouping.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "needed.h"

enum { CHUNK_NAME_BYTES = 32, LINE_BYTES = AUDIT_GROUP_BYTES + 64 };

//  A line of the file; member.group is an index of names.
typedef struct { audit_member_t member; uint64_t line; } entry_t;

typedef struct {
    audit_grouping_t *grouping;
    const char *name;
    char *error;
    size_t error_bytes;
    uint64_t line;
    entry_t *entries;
    size_t count, room, name_room;
    //  By a hash of its name: a group's number + 1; 0: none.  A power of two, at least twice as many as
    //  groups.
    uint32_t *table;
    size_t table_size;
} reader_t;

static bool __attribute__ ((format (printf, 2, 3)))
s_refuse (reader_t *self, const char *format, ...)
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
//  Names

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
s_find_name (const reader_t *self, const char *name)
{
    size_t at = s_hash (name) & (self->table_size - 1);
    while (self->table [at] && strcmp (self->grouping->names [self->table [at] - 1], name) != 0)
        at = (at + 1) & (self->table_size - 1);
    return at;
}

static bool
s_widen_table (reader_t *self)
{
    size_t size = self->table_size? self->table_size * 2: 64;
    if (self->grouping->group_count < self->table_size / 2)
        return true;
    uint32_t *table = calloc (size, sizeof *table);
    if (!table)
        return false;
    free (self->table);
    self->table = table;
    self->table_size = size;
    for (size_t group = 0; group < self->grouping->group_count; group++)
        self->table [s_find_name (self, self->grouping->names [group])] = (uint32_t) group + 1;
    return true;
}

//  The number of the group of that name, a new one if there is none yet.
static bool
s_number (reader_t *self, const char *name, uint32_t *group_p)
{
    audit_grouping_t *grouping = self->grouping;
    if (!s_widen_table (self))
        return s_refuse (self, "out of memory");
    size_t at = s_find_name (self, name);
    if (!self->table [at]) {
        char *copy = needed_try_grow (&grouping->names, grouping->group_count, &self->name_room,
            sizeof *grouping->names)?
            strdup (name): NULL;
        if (!copy)
            return s_refuse (self, "out of memory");
        grouping->names [grouping->group_count++] = copy;
        self->table [at] = (uint32_t) grouping->group_count;
    }
    *group_p = self->table [at] - 1;
    return true;
}

//  --------------------------------------------------------------------------
//  Lines

static bool
s_read_entry (reader_t *self, const char *id_text, const char *group_text)
{
    char *end = NULL;
    errno = 0;
    unsigned long long id = *id_text >= '0' && *id_text <= '9'? strtoull (id_text, &end, 10): 0;
    if (!end || *end || errno || id > AUDIT_ID_MAX)
        return s_refuse (self, "expected a sample's id, 0 to %" PRIu32 ", and the name of its group",
            AUDIT_ID_MAX);
    if (!group_text)
        return s_refuse (self, "sample %llu has no group; write `%llu NAME`, or leave its line out", id, id);
    if (strlen (group_text) > AUDIT_GROUP_BYTES)
        return s_refuse (self, "a group's name has at most %d bytes", AUDIT_GROUP_BYTES);
    if (self->count == UINT32_MAX
        || !needed_try_grow (&self->entries, self->count, &self->room, sizeof *self->entries))
        return s_refuse (self, "out of memory");
    entry_t entry = { .member.id = (uint32_t) id, .line = self->line };
    if (!s_number (self, group_text, &entry.member.group))
        return false;
    self->entries [self->count++] = entry;
    return true;
}

static bool
s_read_lines (reader_t *self, FILE *file)
{
    static const char blanks [] = " \t\r\n";
    char line [LINE_BYTES];
    for (self->line = 1; fgets (line, sizeof line, file); self->line++) {
        //  Longer than any that is fine, or with a zero in it.
        if (!strchr (line, '\n') && !feof (file))
            return s_refuse (self, "expected an id and one word, the name of its group, of at most %d bytes",
                AUDIT_GROUP_BYTES);
        char *rest = NULL, *id = strtok_r (line, blanks, &rest);
        char *group = id? strtok_r (NULL, blanks, &rest): NULL;
        if (group && strtok_r (NULL, blanks, &rest))
            return s_refuse (self, "expected an id and one word, the name of its group");
        if (id && !s_read_entry (self, id, group))
            return false;
    }
    if (ferror (file)) {
        snprintf (self->error, self->error_bytes, "%s: %s", self->name, strerror (errno? errno: EIO));
        return false;
    }
    if (self->count == 0)
        snprintf (self->error, self->error_bytes, "%s: no sample in it; write a line for each, `ID GROUP`",
            self->name);
    return self->count > 0;
}

//  --------------------------------------------------------------------------

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
s_sort (reader_t *self)
{
    audit_grouping_t *grouping = self->grouping;
    qsort (self->entries, self->count, sizeof *self->entries, s_compare_entries);
    for (size_t index = 1; index < self->count; index++)
        if (self->entries [index].member.id == self->entries [index - 1].member.id) {
            self->line = self->entries [index].line;
            return s_refuse (self, "sample %" PRIu32 " has a group already, in line %" PRIu64 ": leave one "
                "of them out", self->entries [index].member.id, self->entries [index - 1].line);
        }
    grouping->members = calloc (self->count, sizeof *grouping->members);
    if (!grouping->members)
        return s_refuse (self, "out of memory");
    for (; grouping->count < self->count; grouping->count++)
        grouping->members [grouping->count] = self->entries [grouping->count].member;
    return true;
}

bool
audit_grouping_read (audit_grouping_t *self, const char *name, FILE *file, char *error, size_t error_bytes)
{
    assert (name && file && error);
    *self = (audit_grouping_t) { .count = 0 };
    reader_t reader = { .grouping = self, .name = name, .error = error, .error_bytes = error_bytes };
    errno = 0;
    bool fine = s_read_lines (&reader, file) && s_sort (&reader);
    free (reader.entries);
    free (reader.table);
    if (!fine)
        audit_grouping_clear (self);
    return fine;
}

bool
audit_grouping_cut (audit_grouping_t *self, const uint32_t *order, size_t count, uint32_t chunk)
{
    assert (count > 0 && chunk > 0);
    size_t chunks = (count - 1) / chunk + 1;
    *self = (audit_grouping_t) { .members = calloc (count, sizeof *self->members),
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
        audit_grouping_clear (self);
    return fine;
}

void
audit_grouping_clear (audit_grouping_t *self)
{
    for (size_t group = 0; group < self->group_count; group++)
        free (self->names [group]);
    free (self->names);
    free (self->members);
    *self = (audit_grouping_t) { .count = 0 };
}
