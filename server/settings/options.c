//  The command line is read first and notes what it set; the file then fills in the rest.
//
//  Settings of data sets and tenants are noted first and applied when all is read, because they may come
//  before the data set or tenant that they name.

#include "options.h"
#include <assert.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <czmq.h>
#include "block_cache.h"
#include "file.h"
#include "machine.h"
#include "option.h"
#include "utf8.h"
#include "xalloc.h"

enum {
    NAME_BYTES_MAX = 64,
    FIELD_BYTES_MAX = 63,           //  of a field's name
    KEY_BYTES_MAX = NAME_BYTES_MAX + 1 + FIELD_BYTES_MAX,   //  NAME.FIELD
    EXTENSION_BYTES_MAX = 16,
    ACCOUNT_BYTES_MAX = 256,
    SHOWN_BYTES = 80,               //  of a value in a message
    LIST_BYTES = 200,               //  of names in a message
    NOTES_MAX = 1024,
    FILE_BYTES_MAX = 64 * 1024,
    LINE_BYTES_MAX = 1000,          //  every zconfig takes 1024
    ROW_NAMES_BYTES = 32 * OPTION_ROWS_MAX      //  of all settings
};

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

//  The subject of a row of the table.  From ROLE_DATASET on a setting is about a data set, and from
//  ROLE_TENANT on about a tenant: "NAME...=VALUE" on the command line, lines below the setting in the file.
typedef enum {
    ROLE_SERVER,                    //  into options_t
    ROLE_COMMAND_LINE,              //  is in no file
    ROLE_DATASET, ROLE_FIELD,       //  declare a data set, and a field of one
    ROLE_OPERATION,                 //  declares an operation of the operator's own
    ROLE_OF_DATASET,                //  into options_dataset_t
    ROLE_TENANT, ROLE_TENANT_DATASETS,
    ROLE_OF_TENANT                  //  into options_tenant_t
} role_t;

//  A setting of a data set or a tenant that is still to be applied.
typedef struct {
    const option_row_t *row;
    char *key, *value;
    const char *file;               //  its file, as in settings_t
    size_t line;
} note_t;

typedef struct {
    options_t *options;
    const char *file;               //  of the settings being read; NULL: the command line
    size_t line;                    //  in it, from 1
    option_result_t result;         //  of the command line
    bool given_in_file [OPTION_ROWS_MAX];
    const char *config;             //  --config
    bool is_added;                  //  options_parse_added
    note_t notes [NOTES_MAX];
    size_t note_count;
    char *error;
    size_t error_bytes;
} settings_t;

//  --- Messages ---------------------------------------------------------------------------------------------

//  Writes the place and the reason.  Returns false.
static bool __attribute__ ((format (printf, 2, 3)))
s_fail (settings_t *self, const char *format, ...)
{
    int used = 0;
    if (self->file && self->line)
        used = snprintf (self->error, self->error_bytes, "%s:%zu: ", self->file, self->line);
    else if (self->file)
        used = snprintf (self->error, self->error_bytes, "%s: ", self->file);
    if (used < 0 || (size_t) used >= self->error_bytes)
        return false;
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (self->error + used, self->error_bytes - (size_t) used, format, arguments);
    va_end (arguments);
    return false;
}

static const char *
s_shown (const char *text, char shown [SHOWN_BYTES])
{
    return utf8_visible (text, strlen (text), shown, SHOWN_BYTES);
}

//  "train, val": count names, each at the beginning of an entry of stride bytes.
static const char *
s_list (char text [LIST_BYTES], const void *entries, size_t count, size_t stride)
{
    size_t used = 0;
    *text = 0;
    for (size_t index = 0; index < count && used < LIST_BYTES - 4; index++) {
        const char *name = *(char *const *) ((const char *) entries + index * stride);
        int size = snprintf (text + used, LIST_BYTES - 4 - used, "%s%s", index? ", ": "", name);
        used += (size_t) size;
    }
    if (used >= LIST_BYTES - 4)
        strcpy (text + LIST_BYTES - 5, "...");
    return text;
}

//  strndup that cannot fail.
static char *
s_copy (const char *text, size_t size)
{
    return xalloc_memory (strndup (text, size));
}

//  Stores the value at the row's place in target, or says what is wrong with it.
static bool
s_store (settings_t *self, const option_row_t *row, void *target, char *value)
{
    char expected [OPTION_ERROR_BYTES], shown [SHOWN_BYTES];
    return option_value (row, target, value, expected)
        || s_fail (self, "%s: %s, got '%s'", row->name, expected, s_shown (value, shown));
}

//  --- Data sets --------------------------------------------------------------------------------------------

static bool
s_has_letters (const char *name, size_t size, const char *letters)
{
    return size > 0 && size <= NAME_BYTES_MAX && strspn (name, letters) >= size;
}

//  1 to NAME_BYTES_MAX letters, digits, '.', '_' or '-'.
static bool
s_is_name (const char *name, size_t size)
{
    return s_has_letters (name, size, LETTERS "._-");
}

//  NULL: no data set has that name, size bytes.
static options_dataset_t *
s_dataset (options_t *options, const char *name, size_t size)
{
    for (size_t index = 0; index < options->dataset_count; index++) {
        options_dataset_t *dataset = &options->datasets [index];
        if (strlen (dataset->name) == size && memcmp (dataset->name, name, size) == 0)
            return dataset;
    }
    return NULL;
}

static bool
s_add_dataset (settings_t *self, const char *name, size_t size, const char *path)
{
    options_t *options = self->options;
    char shown [SHOWN_BYTES];
    utf8_visible (name, size, shown, sizeof shown);
    if (!s_is_name (name, size))
        return s_fail (self, "dataset: a name has 1 to %d letters, digits, '.', '_' or '-', got '%s'",
            NAME_BYTES_MAX, shown);
    if (!*path)
        return s_fail (self, "dataset %s: the path is missing, as in %s=/data/%s", shown, shown, shown);
    const options_dataset_t *other = s_dataset (options, name, size);
    if (other)
        return s_fail (self, "dataset %s: there are two of that name: %s and %s", shown, other->path, path);
    if (options->dataset_count == OPTIONS_DATASETS_MAX)
        return s_fail (self, "dataset %s: there are more than %d", shown, OPTIONS_DATASETS_MAX);
    options->datasets [options->dataset_count++] = (options_dataset_t) {
        .name = s_copy (name, size), .path = s_copy (path, strlen (path)),
        .jpeg_warnings_max = UINT32_MAX };
    return true;
}

void
options_dataset_clear (options_dataset_t *dataset)
{
    for (size_t index = 0; index < dataset->field_count; index++) {
        free (dataset->fields [index].name);
        free (dataset->fields [index].path);
    }
    free (dataset->name);
    free (dataset->path);
    free (dataset->extensions);
    free (dataset->classes_from);
}

static bool
s_add_field (settings_t *self, options_dataset_t *dataset, const char *name, const char *value)
{
    char shown [SHOWN_BYTES];
    size_t size = strlen (name);
    if (!s_has_letters (name, size, LETTERS "_") || size > FIELD_BYTES_MAX || strcmp (name, "image") == 0)
        return s_fail (self, "field: a name has 1 to %d letters, digits or '_' and is not 'image', got "
            "'%s'", FIELD_BYTES_MAX, s_shown (name, shown));
    bool is_mask = strncmp (value, "mask:", 5) == 0;
    const char *path = strchr (value, ':');
    if ((!is_mask && strncmp (value, "image:", 6) != 0 && strncmp (value, "file:", 5) != 0) || !path [1])
        return s_fail (self, "field %s: expected image:DIR, mask:DIR or file:DIR, got '%s'", name,
            s_shown (value, shown));
    for (size_t index = 0; index < dataset->field_count; index++)
        if (strcmp (dataset->fields [index].name, name) == 0)
            return s_fail (self, "field %s: data set '%s' has two of that name: %s and %s", name,
                dataset->name, dataset->fields [index].path, path + 1);
    if (dataset->field_count == OPTIONS_FIELDS_MAX)
        return s_fail (self, "field %s: data set '%s' has more than %d", name, dataset->name,
            OPTIONS_FIELDS_MAX);
    dataset->fields [dataset->field_count++] = (options_field_t) { .name = s_copy (name, size),
        .is_mask = is_mask, .path = s_copy (path + 1, strlen (path + 1)) };
    return true;
}

//  An operation of the file may be given anew on the command line, which is read first.
static bool
s_add_operation (settings_t *self, const char *name, size_t size, const char *command)
{
    options_t *options = self->options;
    char shown [SHOWN_BYTES];
    if (!s_is_name (name, size) || size > CUSTOM_NAME_BYTES_MAX || !*command)
        return s_fail (self, "operation: expected NAME=COMMAND, a name of 1 to %d letters, digits, "
            "'.', '_' or '-', got '%s'", CUSTOM_NAME_BYTES_MAX,
            utf8_visible (name, size, shown, sizeof shown));
    for (size_t index = 0; index < options->operation_count; index++)
        if (strlen (options->operations [index].name) == size
            && memcmp (options->operations [index].name, name, size) == 0)
            return s_fail (self, "operation %s: it is there twice, now as '%s'",
                options->operations [index].name, s_shown (command, shown));
    if (options->operation_count == CUSTOM_MAX)
        return s_fail (self, "operation: more than %d", CUSTOM_MAX);
    options->operations [options->operation_count++] = (options_operation_t) {
        .name = s_copy (name, size), .command = s_copy (command, strlen (command)) };
    return true;
}

//  --- Users and tenants ------------------------------------------------------------------------------------

//  A uid or gid in plain digits; the highest number is invalid.
static bool
s_is_number (const char *text, uint32_t *number_p)
{
    size_t digits = strspn (text, "0123456789");
    unsigned long long number = digits && digits <= 10
        && !text [digits]? strtoull (text, NULL, 10): UINT32_MAX;
    *number_p = (uint32_t) number;
    return number < UINT32_MAX;
}

//  "alice", or "user 1000" if the machine knows no name, for messages.
static const char *
s_user_name (uid_t uid, char shown [SHOWN_BYTES])
{
    const struct passwd *account = getpwuid (uid);
    if (account)
        return s_shown (account->pw_name, shown);
    snprintf (shown, SHOWN_BYTES, "user %u", (unsigned) uid);
    return shown;
}

//  NULL: no tenant has that name.
static options_tenant_t *
s_tenant (options_t *options, const char *name, size_t size)
{
    for (size_t index = 0; index < options->tenant_count; index++) {
        options_tenant_t *tenant = &options->tenants [index];
        if (strlen (tenant->name) == size && memcmp (tenant->name, name, size) == 0)
            return tenant;
    }
    return NULL;
}

//  Keeps the users in order.
static bool
s_add_user (settings_t *self, size_t tenant, uid_t uid)
{
    options_t *options = self->options;
    char shown [SHOWN_BYTES];
    size_t at = 0;
    while (at < options->user_count && options->users [at].uid < uid)
        at++;
    if (at < options->user_count && options->users [at].uid == uid) {
        const options_tenant_t *other = &options->tenants [options->users [at].tenant];
        return options->users [at].tenant == tenant
            || s_fail (self, "tenant %s: %s (%u) is one of tenant '%s' already, and a user has one "
                "tenant: take one of the two out", options->tenants [tenant].name, s_user_name (uid, shown),
                (unsigned) uid, other->name);
    }
    if (options->user_count == OPTIONS_USERS_MAX)
        return s_fail (self, "tenant %s: there are more than %d users of tenants",
            options->tenants [tenant].name, OPTIONS_USERS_MAX);
    options_user_t *users = xalloc_memory (realloc (options->users,
        (options->user_count + 1) * sizeof *users));
    memmove (&users [at + 1], &users [at], (options->user_count - at) * sizeof *users);
    users [at] = (options_user_t) { .uid = uid, .tenant = tenant };
    options->users = users;
    options->user_count++;
    return true;
}

//  Adds one user, size bytes of a list.
static bool
s_take_user (settings_t *self, size_t tenant, const char *text, size_t size)
{
    char name [ACCOUNT_BYTES_MAX + 1], shown [SHOWN_BYTES];
    const char *of = self->options->tenants [tenant].name;
    uint32_t number;
    utf8_visible (text, size, shown, sizeof shown);
    if (size == 0)
        return s_fail (self, "tenant %s: a user is missing between commas; expected NAME=USER,USER", of);
    snprintf (name, sizeof name, "%.*s", (int) (size <= ACCOUNT_BYTES_MAX? size: 0), text);
    if (s_is_number (name, &number))
        return s_add_user (self, tenant, number);
    const struct passwd *account = *name? getpwnam (name): NULL;
    if (!account)
        return s_fail (self, "tenant %s: this machine has no user '%s': give the names or numbers of "
            "users that there are, or - for none", of, shown);
    return s_add_user (self, tenant, account->pw_uid);
}

//  The next part of a list with commas, without blanks around it: moves *list_p behind it, after the last
//  part to NULL.
static const char *
s_part (const char **list_p, size_t *size_p)
{
    const char *list = *list_p + strspn (*list_p, " \t");
    size_t size = strcspn (list, ",");
    *list_p = list [size]? list + size + 1: NULL;
    while (size && strchr (" \t", list [size - 1]))
        size--;
    *size_p = size;
    return list;
}

//  The index of a tenant, made if it is new; OPTIONS_TENANTS_MAX: it cannot be made.
static size_t
s_declare_tenant (settings_t *self, const char *name, size_t size)
{
    options_t *options = self->options;
    char shown [SHOWN_BYTES];
    const options_tenant_t *known = s_tenant (options, name, size);
    utf8_visible (name, size, shown, sizeof shown);
    if (known)
        return (size_t) (known - options->tenants);
    if (!s_is_name (name, size))
        s_fail (self, "tenant: a name has 1 to %d letters, digits, '.', '_' or '-', got '%s'",
            NAME_BYTES_MAX, shown);
    else
    if (strcmp (shown, OPTIONS_OPERATOR) == 0)
        s_fail (self, "tenant: '%s' is there without being named, for the server's own user and root: "
            "take another name", OPTIONS_OPERATOR);
    else
    if (options->tenant_count == OPTIONS_TENANTS_MAX)
        s_fail (self, "tenant %s: there are more than %d", shown, OPTIONS_TENANTS_MAX);
    else {
        options->tenants [options->tenant_count] = (options_tenant_t) { .name = s_copy (name, size),
            .weight = 1 };
        return options->tenant_count++;
    }
    return OPTIONS_TENANTS_MAX;
}

//  A tenant, new or known, and its users: "alice,1001" or "-".
static bool
s_add_tenant (settings_t *self, const char *name, size_t size, const char *users)
{
    if (!*users)
        return s_fail (self, "tenant: expected NAME=USER,USER, or NAME=- where there are only keys");
    size_t tenant = s_declare_tenant (self, name, size);
    bool good = tenant < OPTIONS_TENANTS_MAX;
    for (const char *rest = strcmp (users, "-") == 0? NULL: users; rest && good;) {
        size_t part_size;
        const char *part = s_part (&rest, &part_size);
        good = s_take_user (self, tenant, part, part_size);
    }
    return good;
}

static bool
s_set_datasets (settings_t *self, options_tenant_t *tenant, const char *name, const char *value)
{
    const options_t *options = self->options;
    char names [LIST_BYTES], shown [SHOWN_BYTES];
    tenant->datasets = strcmp (value, "*") == 0? UINT64_MAX: 0;
    for (const char *rest = tenant->datasets? NULL: value; rest;) {
        size_t size;
        const char *part = s_part (&rest, &size);
        const options_dataset_t *dataset = s_dataset (self->options, part, size);
        if (!dataset)
            return s_fail (self, "tenant-datasets %s: there is no data set '%s'; there is: %s, or * "
                "for all", name, utf8_visible (part, size, shown, sizeof shown),
                s_list (names, options->datasets, options->dataset_count, sizeof *options->datasets));
        tenant->datasets |= UINT64_C (1) << (dataset - options->datasets);
    }
    return true;
}

//  --- Notes ------------------------------------------------------------------------------------------------

//  Notes a setting of a data set or a tenant, or makes what it declares.  key: NAME or NAME.FIELD, size
//  bytes.
static bool
s_set_named (settings_t *self, const option_row_t *row, const char *key, size_t size, const char *value)
{
    char shown [SHOWN_BYTES], form [OPTION_FORM_BYTES];
    if (row->role == ROLE_DATASET)
        return s_add_dataset (self, key, size, value);
    if (row->role == ROLE_OPERATION)
        return s_add_operation (self, key, size, value);
    if (row->role == ROLE_TENANT)
        return s_add_tenant (self, key, size, value);
    if (size == 0 || !*value)
        return s_fail (self, "%s: expected %s, got '%s%s'", row->name,
            option_form (row, form), utf8_visible (key, size, shown, sizeof shown), size? "=": "=...");
    if (self->note_count == NOTES_MAX)
        return s_fail (self, "more than %d settings of data sets and tenants", NOTES_MAX);
    self->notes [self->note_count++] = (note_t) { .row = row, .key = s_copy (key, size),
        .value = s_copy (value, strlen (value)), .file = self->file, .line = self->line };
    return true;
}

//  An earlier note of a setting in the file: from the command line, which wins, or from the file, which is an
//  error; NULL: none.
static const note_t *
s_said_before (const settings_t *self, const note_t *note)
{
    bool may_repeat = !note->file || note->row->role == ROLE_FIELD;
    for (const note_t *other = self->notes; !may_repeat && other < note; other++)
        if (other->row == note->row && strcmp (other->key, note->key) == 0)
            return other;
    return NULL;
}

static bool
s_apply_to_dataset (settings_t *self, const note_t *note)
{
    char shown [SHOWN_BYTES], form [OPTION_FORM_BYTES], names [LIST_BYTES];
    options_t *options = self->options;
    bool is_field = note->row->role == ROLE_FIELD;
    const char *dot = is_field? strrchr (note->key, '.'): NULL;
    size_t size = dot? (size_t) (dot - note->key): strlen (note->key);
    if (is_field && !dot)
        return s_fail (self, "field: expected %s, got '%s'", option_form (note->row, form),
            s_shown (note->key, shown));
    options_dataset_t *dataset = s_dataset (options, note->key, size);
    if (!dataset)
        return s_fail (self, "%s: there is no data set '%s'; there is: %s", note->row->name,
            utf8_visible (note->key, size, shown, sizeof shown),
            s_list (names, options->datasets, options->dataset_count, sizeof *options->datasets));
    if (is_field)
        return s_add_field (self, dataset, dot + 1, note->value);
    const note_t *other = s_said_before (self, note);
    if (other && other->file)
        return s_fail (self, "%s %s: it is there twice, now as '%s'", note->row->name, dataset->name,
            s_shown (note->value, shown));
    options_dataset_t checked = { .name = NULL };
    bool good = s_store (self, note->row, other? &checked: dataset, note->value);
    options_dataset_clear (&checked);
    return good;
}

static bool
s_fail_without_tenant (settings_t *self, const note_t *note)
{
    const options_t *options = self->options;
    char names [LIST_BYTES], shown [SHOWN_BYTES];
    if (self->is_added && options->tenant_count == 0)
        return s_fail (self, "%s: there is no tenant '%s', and none at all: tenants are declared when the "
            "server starts", note->row->name, s_shown (note->key, shown));
    if (options->tenant_count == 0 && strcmp (note->key, OPTIONS_OPERATOR) == 0)
        return s_fail (self, "%s: %s has everything as long as there is no tenant beside it: declare "
            "one, as in tenant NAME=USER, or take this out", note->row->name, OPTIONS_OPERATOR);
    if (options->tenant_count == 0)
        return s_fail (self, "%s: there is no tenant '%s', and none at all: declare it with tenant "
            "%s=USER", note->row->name, s_shown (note->key, shown), shown);
    return s_fail (self, "%s: there is no tenant '%s'; there is: %s, %s", note->row->name,
        s_shown (note->key, shown),
        s_list (names, options->tenants, options->tenant_count, sizeof *options->tenants),
        OPTIONS_OPERATOR);
}

static bool
s_apply_to_tenant (settings_t *self, const note_t *note)
{
    options_t *options = self->options;
    char shown [SHOWN_BYTES];
    bool is_operator = strcmp (note->key, OPTIONS_OPERATOR) == 0 && options->tenant_count > 0;
    if (is_operator && note->row->role == ROLE_TENANT_DATASETS)
        return s_fail (self, "tenant-datasets: the operator may use all data sets: take this out");
    options_tenant_t *tenant = is_operator? &options->own: s_tenant (options, note->key, strlen (note->key));
    if (!tenant)
        return s_fail_without_tenant (self, note);
    const note_t *other = s_said_before (self, note);
    if (other && other->file)
        return s_fail (self, "%s %s: it is there twice, now as '%s'", note->row->name,
            note->key, s_shown (note->value, shown));
    options_tenant_t checked = { .name = NULL }, *kept = other? &checked: tenant;
    return note->row->role == ROLE_TENANT_DATASETS? s_set_datasets (self, kept, note->key, note->value):
        s_store (self, note->row, kept, note->value);
}

//  Once all data sets are known: that of classes-from must number its own classes.
static bool
s_check_classes (settings_t *self)
{
    options_t *options = self->options;
    char shown [SHOWN_BYTES], names [LIST_BYTES];
    self->file = NULL;
    for (size_t index = 0; index < options->dataset_count && !self->is_added; index++) {
        const options_dataset_t *dataset = &options->datasets [index];
        const char *from = dataset->classes_from;
        if (!from)
            continue;
        const options_dataset_t *other = s_dataset (options, from, strlen (from));
        if (!other)
            return s_fail (self, "classes-from %s: there is no data set '%s'; there is: %s",
                dataset->name, s_shown (from, shown),
                s_list (names, options->datasets, options->dataset_count, sizeof *options->datasets));
        if (other == dataset)
            return s_fail (self, "classes-from %s: it names itself: leave it out", dataset->name);
        if (other->classes_from)
            return s_fail (self, "classes-from %s: '%s' goes by the classes of '%s' itself: name "
                "that one", dataset->name, from, s_shown (other->classes_from, shown));
    }
    return true;
}

//  When all is read: applies every note to its data set or tenant.
static bool
s_apply_notes (settings_t *self)
{
    bool good = true;
    for (size_t index = 0; index < self->note_count && good; index++) {
        const note_t *note = &self->notes [index];
        self->file = note->file;
        self->line = note->line;
        bool is_tenant = note->row->role >= ROLE_TENANT;
        good = is_tenant? s_apply_to_tenant (self, note): s_apply_to_dataset (self, note);
    }
    return good && s_check_classes (self);
}

static void
s_forget (settings_t *self)
{
    for (size_t index = 0; index < self->note_count; index++) {
        free (self->notes [index].key);
        free (self->notes [index].value);
    }
    self->note_count = 0;
}

//  --- The table --------------------------------------------------------------------------------------------

#define OF_SERVER(member) OPTION_AT (options_t, member)
#define OF_DATASET(member) .role = ROLE_OF_DATASET, OPTION_AT (options_dataset_t, member)
#define OF_TENANT(member) .role = ROLE_OF_TENANT, OPTION_AT (options_tenant_t, member)
#define NAMED(its_role) .role = its_role, OPTION_CALL (NULL)

//  "/var/cache/tureen=200G": the size is behind the last '='.
static bool
s_take_disk (void *target, char *value, char error [OPTION_ERROR_BYTES])
{
    options_t *self = target;
    const char *equals = strrchr (value, '=');
    if (!equals || equals == value)
        return option_fail (error, "expected DIR=BYTES, as in /var/cache/tureen=200G");
    uint64_t bytes;
    if (!option_size (equals + 1, &bytes) || bytes < BLOCK_CACHE_LEAST_BYTES)
        return option_fail (error, "expected a size of 1M or more behind the '=', as in /cache=200G");
    free (self->blocks_folder);
    self->blocks_folder = s_copy (value, (size_t) (equals - value));
    self->blocks_bytes = bytes;
    return true;
}

//  ".wav,.flac": each a dot, and more.
static bool
s_take_extensions (void *target, char *value, char error [OPTION_ERROR_BYTES])
{
    options_dataset_t *dataset = target;
    for (const char *at = value; at;) {
        size_t size = strcspn (at, ",");
        if (size < 2 || size > EXTENSION_BYTES_MAX || *at != '.' || strcspn (at, "/ ") < size)
            return option_fail (error, "expected NAME=.wav,.flac");
        at = at [size]? at + size + 1: NULL;
    }
    free (dataset->extensions);
    dataset->extensions = s_copy (value, strlen (value));
    return true;
}

//  The group of this name or number.
static bool
s_take_group (void *target, char *value, char error [OPTION_ERROR_BYTES])
{
    options_t *options = target;
    uint32_t number;
    bool is_number = s_is_number (value, &number);
    const struct group *group = is_number? NULL: getgrnam (value);
    if (!is_number && !group)
        return option_fail (error, "expected the name or number of a group of this machine (groupadd makes "
            "one)");
    free (options->group);
    options->group = s_copy (value, strlen (value));
    options->group_id = group? group->gr_gid: (gid_t) number;
    return true;
}

static const option_row_t s_rows [] = {
    { "dataset", "NAME=PATH", NAMED (ROLE_DATASET),
        "serve the folder PATH (a folder of files for each class, files and a\n"
        "labels.tsv or labels.jsonl, or what `tureen pack` made) as NAME; PATH may\n"
        "also be s3://BUCKET/PREFIX, and of a pack http(s)://HOST/PATH; a name\n"
        "has 1 to 64 letters, digits, '.', '_' or '-'; at least one, at most 64" },
    { "listen", "ENDPOINT", OF_SERVER (listen),
        "ipc://PATH, tcp://HOST:PORT, or one of each: ipc://PATH,tcp://HOST:PORT\n"
        "(default: ipc://$XDG_RUNTIME_DIR/tureen/server.sock, or where there is\n"
        "no such directory ipc:///tmp/tureen-UID/server.sock)" },
    { "memory", "BYTES", OF_SERVER (memory_bytes),
        "memory for all three: what mixing needs (--raw), what sharing needs (--cache), and\n"
        "for encoded bytes that stay in memory the rest, so that an epoch reads only what\n"
        "is not there; what --raw and --cache give holds (default: nothing stays)",
        1, .unit = OPTION_BYTES },
    { "cache", "BYTES", OF_SERVER (cache_bytes),
        "memory for prepared samples; K, M, G and T are powers of 1024: 512M, 4G\n"
        "(default: a quarter of the memory that this process may use, container\n"
        "limits included)", 1, .unit = OPTION_BYTES },
    { "raw", "BYTES", OF_SERVER (raw_bytes),
        "memory for compressed samples of packs (default: an eighth of the memory)",
        1, .unit = OPTION_BYTES },
    { "jpeg-rows", "BYTES", OF_SERVER (rows_bytes),
        "memory for where the rows of JPEGs of folders begin, by which crops are decoded\n"
        "faster; it is found out while they are decoded, and takes about 1 % of a file's\n"
        "bytes; 0: none (default: 64M)", 0, .unit = OPTION_BYTES },
    { "jpeg-rows-dir", "DIR", OF_SERVER (rows_folder),
        "a folder that keeps where rows begin from one server to the next, in a file for\n"
        "each data set (default: it is found out anew)" },
    { "disk", "DIR=BYTES", OPTION_CALL (s_take_disk), .older = "block-cache", .help =
        "a folder of the local disk that keeps what is read of stores and network file systems,\n"
        "also for later servers; it never takes more than BYTES (default: nothing is kept)" },
    { "members", "HOST:PORT[=BYTES],.. | etcd://HOST:PORT/PREFIX", OF_SERVER (members),
        "servers that keep blocks of object stores for each other, this one among them:\n"
        "one of them fetches a block, and keeps it while its --disk has room, BYTES of it\n"
        "(default: as much as this server's; docs/cluster_cache.md)" },
    { "member", "HOST:PORT", OF_SERVER (member),
        "by which the other members reach this server" },
    { "member-keys", "DIR", OF_SERVER (member_keys),
        "the folder with the key pair (server, server_secret) that all members have\n"
        "(default: that of --keys)" },
    { "reads", "N", OF_SERVER (reads),
        "reads under way at once on each device, 1 to 128 (default: as\n"
        "measured; status shows them)", 1, OPTIONS_READS_MAX },
    { "patience", "SECONDS", OF_SERVER (patience),
        "how long reads that fail, and may not fail for good (EIO, ESTALE, a network), are\n"
        "tried again before a sample is bad, or the jobs of a disk that is away end\n"
        "(default: 300)", 1, OPTIONS_PATIENCE_MAX },
    { "workers", "N", OF_SERVER (workers),
        "threads that prepare samples, 1 to 1024\n"
        "(default: the processors that this process may use)", 1, OPTIONS_WORKERS_MAX },
    { "job-cost", "MS", OF_SERVER (job_cost_ms),
        "milliseconds of one processor that a job's pipeline may take for a sample, as foreseen\n"
        "from its operations and sizes; a job beyond that is refused (default: 1000)",
        1, OPTIONS_JOB_COST_MAX },
    { "policy", "NAME", OF_SERVER (policy),
        "how jobs of order \"shared\" come to common samples: follow or dsa (default: follow)",
        .choices = OPTION_CHOICES ("follow", "dsa") },
    { "until-idle", "[SECONDS]", OF_SERVER (until_idle),
        "end when the last job has gone and none has come for so long (10 seconds without\n"
        "a number); before the first job has come at least 60 seconds", 1, OPTIONS_IDLE_MAX, .absent = "10" },
    { "supervise", NULL, OF_SERVER (supervise),
        "start the server again when it has died (of a signal, an abort), however often" },
    { "open", NULL, OF_SERVER (open),
        "serve every client that can connect: without it a tcp address needs --keys, and\n"
        "only an address of this machine itself may be open; on ipc users are not told apart" },
    { "http", "[ADDRESS:]PORT|unix:PATH", OF_SERVER (http),
        "show what the server does: a page, /metrics for Prometheus, /status.json\n"
        "(docs/monitoring.md; default: nothing; PORT alone: of 127.0.0.1)" },
    { "http-tokens", "FILE", OF_SERVER (http_tokens),
        "only to those who have a token of this file, a line each: TENANT TOKEN, or\n"
        "* TOKEN for all that operators see" },
    { "log-format", "text|json", OF_SERVER (log_format),
        "of the lines that the server writes: for people (default), or a JSON object each",
        .choices = OPTION_CHOICES ("text", "json") },
    { "config", "FILE", .role = ROLE_COMMAND_LINE, OPTION_CALL (NULL),
        "settings from a ZPL file, by these names; what the command line says wins,\n"
        "data sets, fields and users add up" },
    { "field", "NAME.FIELD=mask:DIR, NAME.FIELD=image:DIR, NAME.FIELD=file:DIR", NAMED (ROLE_FIELD),
        "each sample has a second file, in DIR under the same name but for the extension: the\n"
        "field FIELD (letters, digits, '_'); masks keep their values; at most 7",
        .heading = "Of a data set NAME, each as often as needed:" },
    { "extensions", "NAME=.wav,.flac", .role = ROLE_OF_DATASET, OPTION_CALL (s_take_extensions),
        "which files are samples (default: torchvision's image extensions)" },
    { "on-bad", "NAME=drop|fail", OF_DATASET (bad_is_fatal),
        "samples that cannot be read leave the data (drop, the default), or end the jobs that\n"
        "have such a sample in their data (fail)", .choices = OPTION_CHOICES ("drop", "fail") },
    { "jpeg-warnings", "NAME=N", OF_DATASET (jpeg_warnings_max),
        "a JPEG that libjpeg warns of more than N times is bad (default: all are read)", 0, 999999999 },
    { "tier", "NAME=stream|redox|direct", OF_DATASET (tier),
        "how a pack is read, or a folder that --disk has: stream: whole pieces in random order,\n"
        "shared by jobs in step (default); direct: by sample; redox: a pack, as its paper has it",
        .choices = OPTION_CHOICES ("stream", "redox", "direct") },
    { "piece", "NAME=N", OF_DATASET (piece),
        "samples of a piece, 1 to 64 (default: as measured; status shows it)", 1, OPTIONS_PIECE_MAX },
    { "listing", "NAME=kept|anew", OF_DATASET (list_anew),
        "objects of a store: as the list in the folder of --disk says, if there is one (kept,\n"
        "the default), or listed anew", .choices = OPTION_CHOICES ("kept", "anew") },
    { "keep", "NAME=far|yes|no", OF_DATASET (keep),
        "files are kept in the folder of --disk: if their file system is a network's (far, the\n"
        "default), in any case (yes), or not (no)", .choices = OPTION_CHOICES ("far", "yes", "no") },
    { "allow-empty", "NAME=no|yes", OF_DATASET (allow_empty),
        "yes: a class folder without a sample is a class, as in ImageFolder (allow_empty=True),\n"
        "so labels are those of other splits (default: an error)", .choices = OPTION_CHOICES ("no", "yes") },
    { "classes-from", "NAME=DATASET", OF_DATASET (classes_from),
        "labels are the numbers that the data set DATASET gives to classes of these names\n"
        "(default: NAME's own classes are numbered)" },
    { "operation", "NAME=COMMAND", NAMED (ROLE_OPERATION),
        "a program that is an operation of pipelines, {\"op\": \"custom\", \"name\": \"NAME\"}; it runs\n"
        "in processes of its own (docs/operation.md); at most 8, each as often as needed",
        .heading = "Of operations of your own:" },
    { "operation-memory", "BYTES", OF_SERVER (operation_bytes),
        "address space of each of their processes (default: 4G)", 64 << 20, .unit = OPTION_BYTES },
    { "operation-seconds", "N", OF_SERVER (operation_seconds),
        "the longest that one may take for a sample, 1 to 3600 (default: 30)",
        1, OPTIONS_OPERATION_SECONDS_MAX },
    { "tenant", "NAME=USER,USER", NAMED (ROLE_TENANT),
        "users of this machine, by name or number, that share the tenant's limits; '-':\n"
        "none, but keys",
        .heading = "Of users beside the server's own, served as tenants (docs/operations.md):" },
    { "tenant-datasets", "NAME=DATASET,DATASET", NAMED (ROLE_TENANT_DATASETS),
        "what it may use; '*': all data sets (default: none)" },
    { "tenant-weight", "NAME=N", OF_TENANT (weight),
        "its part of the workers and the cache when they are short, 1 to 1000 (default: 1)",
        1, OPTIONS_WEIGHT_MAX },
    { "tenant-jobs", "NAME=N", OF_TENANT (jobs_max), NULL, 1, OPTIONS_JOBS_MAX },
    { "tenant-batches", "NAME=BYTES", OF_TENANT (batches_bytes_max),
        "the most jobs it may have at once, and memory for their batches\n"
        "(default: its share by weight of all there may be)", 1, .unit = OPTION_BYTES },
    { "tenant-cache", "NAME=BYTES", OF_TENANT (cache_bytes_max),
        "the most prepared samples it may keep (default: what others leave)", 1, .unit = OPTION_BYTES },
    { "group", "NAME", OPTION_CALL (s_take_group),
        "the group that may reach the ipc socket; its folder becomes the group's (0750)" },
    { "keys", "DIR", OF_SERVER (keys), "encrypt tcp, and serve those keys that `tureen key allow` let in" }
};

static bool s_set_option (void *target, const option_row_t *row, char *value,
    char error [OPTION_ERROR_BYTES]);

static const option_table_t s_table = { "tureen serve", s_rows, OPTION_ROWS (s_rows), .is_strict = true,
    .set = s_set_option, .word_hint = "data sets are given as --dataset NAME=PATH", .before =
    "usage: tureen serve --dataset NAME=PATH [--dataset NAME=PATH ...] [options]\n"
    "\n"
    "Prepares samples of the data sets once for several training jobs, and gives each job its batches.\n"
    "\n", .after =
    "\n"
    "Options may be written --name VALUE or --name=VALUE.\n"
    "\n"
    "Example:\n"
    "  tureen serve --dataset train=/data/imagenet/train --dataset val=/data/imagenet/val --cache 4G \\\n"
    "      --on-bad val=fail\n"
    "\n"
    "The same as a file:\n"
    "  cache = 4G\n"
    "  dataset\n"
    "      train = /data/imagenet/train\n"
    "      val = /data/imagenet/val\n"
    "  on-bad\n"
    "      val = fail\n" };

//  --- One setting ------------------------------------------------------------------------------------------

static bool
s_is_named (const option_row_t *row)
{
    return row->role >= ROLE_DATASET;
}

//  "KEY=VALUE", as the command line has it.
static bool
s_split_named (settings_t *self, const option_row_t *row, const char *value)
{
    char shown [SHOWN_BYTES], form [OPTION_FORM_BYTES];
    const char *equals = strchr (value, '=');
    if (equals)
        return s_set_named (self, row, value, (size_t) (equals - value), equals + 1);
    return s_fail (self, "%s: expected %s, got '%s'", row->name, option_form (row, form),
        s_shown (value, shown));
}

//  Checks a value and stores it, unless the command line has already set it.
static bool
s_set (settings_t *self, const option_row_t *row, char *value)
{
    char shown [SHOWN_BYTES];
    size_t index = (size_t) (row - s_rows);
    if (s_is_named (row))
        return s_split_named (self, row, value);
    if (!*value)
        return s_fail (self, "%s: the value is missing", row->name);
    if (self->file && self->given_in_file [index])
        return s_fail (self, "%s: it is there twice, now as '%s'", row->name, s_shown (value, shown));
    self->given_in_file [index] = self->file;
    options_t checked = { 0 };
    bool good = s_store (self, row, self->file && self->result.given [index]? &checked: self->options, value);
    options_clear (&checked);
    return good;
}

static bool
s_set_option (void *target, const option_row_t *row, char *value, char error [OPTION_ERROR_BYTES])
{
    settings_t *self = target;
    *error = 0;                         //  s_fail writes its own text
    bool is_of_data = row->role >= ROLE_DATASET && row->role != ROLE_OPERATION && row->role != ROLE_TENANT
        && row->role != ROLE_OF_TENANT;
    if (self->is_added && !is_of_data)
        return s_fail (self, "%s: this is set when a server starts; with a data set there may be field, "
            "extensions, on-bad, jpeg-warnings, tier, piece, listing, keep, allow-empty, classes-from and "
            "tenant-datasets", row->name);
    if (row->role != ROLE_COMMAND_LINE)
        return s_set (self, row, value);
    if (self->config)
        return s_fail (self, "--config is given twice: %s and %s", self->config, value);
    self->config = value;
    return true;
}

//  --- The file ---------------------------------------------------------------------------------------------
//  ZPL is checked line by line here before czmq parses it: zconfig prints its errors on standard output
//  instead of returning them, keeps no line numbers, and in some versions overruns its buffer after a line
//  of more than 1024 bytes.

//  The whole file, zero-terminated; the caller's.  NULL and the reason.
static char *
s_read_file (settings_t *self)
{
    char *text;
    size_t size;
    int rc = file_whole (self->file, FILE_BYTES_MAX, &text, &size);
    if (rc == -EFBIG)
        s_fail (self, "has more than %d bytes", FILE_BYTES_MAX);
    else if (rc)
        s_fail (self, rc == -EINVAL? "%s": "cannot be read: %s", file_error (rc));
    else if (strlen (text) != size)
        s_fail (self, "holds a zero byte");
    else
        return text;
    free (text);
    return NULL;
}

//  A value without quotation marks ends at '#', which begins a comment.  Without a blank before it, '#' is
//  more likely a part of the value, "/data/a#b", of which "/data/a" would be taken.
static bool
s_check_bare (settings_t *self, const char *value, size_t size)
{
    char shown [SHOWN_BYTES];
    const char *comment = memchr (value, '#', size);
    return !comment || comment [-1] == ' ' || comment [-1] == '\t'
        || s_fail (self, "'#' begins a comment, and the value would be '%s': write it in quotation "
            "marks, or a blank before the comment",
            utf8_visible (value, (size_t) (comment - value), shown, sizeof shown));
}

//  The rest of a line after its name: nothing, a comment, or "= value".
static bool
s_check_rest (settings_t *self, const char *at, size_t size)
{
    char shown [SHOWN_BYTES];
    const char *end = at + size;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    if (at == end || *at == '#')
        return true;
    if (*at != '=')
        return s_fail (self, "expected '=' and a value, got '%s'",
            utf8_visible (at, (size_t) (end - at), shown, sizeof shown));
    for (at++; at < end && (*at == ' ' || *at == '\t');)
        at++;
    if (at == end || *at == '#')
        return s_fail (self, "the value after '=' is missing");
    if (*at != '"' && *at != '\'')
        return s_check_bare (self, at, (size_t) (end - at));
    const char *quote = memchr (at + 1, *at, (size_t) (end - at - 1));
    if (!quote)
        return s_fail (self, "the quotation mark %c is not closed", *at);
    at = quote + 1;
    at += strspn (at, " \t");
    return at >= end || *at == '#'
        || s_fail (self, "'%s' after the quotation",
            utf8_visible (at, (size_t) (end - at), shown, sizeof shown));
}

//  Checks one line (without its end) as ZPL; *level is the previous line's, and becomes this line's.
static bool
s_check_line (settings_t *self, const char *line, size_t size, size_t *level)
{
    static const char in_names [] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789$-_@.&+/";
    char shown [SHOWN_BYTES];
    if (size > LINE_BYTES_MAX)
        return s_fail (self, "the line has more than %d bytes", LINE_BYTES_MAX);
    while (size && strchr (" \t\r", line [size - 1]))
        size--;
    for (size_t index = 0; index < size; index++)
        if ((uint8_t) line [index] < ' ' && line [index] != '\t')
            return s_fail (self, "a control character, %d", line [index]);
    size_t indent = 0;
    while (indent < size && line [indent] == ' ')
        indent++;
    if (indent == size || line [indent] == '#')
        return indent % 4 == 0 || indent == size
            || s_fail (self, "indent a comment by 4 blanks or not at all");
    if (indent % 4 != 0 || indent / 4 > *level + 1 || indent / 4 > 1)
        return s_fail (self, "indent by 4 blanks, below the setting that it belongs to, or not at all");
    *level = indent / 4;
    size_t name = 0;
    while (indent + name < size && strchr (in_names, line [indent + name]))
        name++;
    if (name == 0 || name > KEY_BYTES_MAX || line [indent] == '/' || line [indent + name - 1] == '/')
        return s_fail (self, "expected a name, got '%s'",
            utf8_visible (line + indent, size - indent, shown, sizeof shown));
    return s_check_rest (self, line + indent + name, size - indent - name);
}

static bool
s_check_text (settings_t *self, const char *text)
{
    size_t level = SIZE_MAX;        //  of the previous line: none yet, so the first line may have 0 at most
    self->line = 0;
    while (*text) {
        size_t size = strcspn (text, "\n");
        self->line++;
        if (!s_check_line (self, text, size, &level))
            return false;
        text += size + (text [size] == '\n');
    }
    return true;
}

//  Moves self->line to the next line that holds a setting: zconfig's items come in the order of those lines.
static void
s_next_setting (settings_t *self, const char **text)
{
    bool found = false;
    while (**text && !found) {
        size_t indent = strspn (*text, " \t\r");
        found = (*text) [indent] && (*text) [indent] != '#' && (*text) [indent] != '\n';
        *text += strcspn (*text, "\n");
        *text += **text == '\n';
        self->line++;
    }
}

//  The lines below a setting of data sets or tenants.
static bool
s_take_lines (settings_t *self, const option_row_t *row, zconfig_t *item, const char **text)
{
    char form [OPTION_FORM_BYTES];
    const char *name = row->name;
    int key = (int) strcspn (option_form (row, form), "=");
    if (*zconfig_value (item))
        return s_fail (self, "%s: expected no value here, but lines '    %.*s = %s' below it", name,
            key, form, form + key + 1);
    if (!zconfig_child (item))
        return s_fail (self, "%s: expected lines '    %.*s = %s' below it", name, key, form, form + key + 1);
    for (zconfig_t *child = zconfig_child (item); child; child = zconfig_next (child)) {
        s_next_setting (self, text);
        const char *of = zconfig_name (child);
        if (!s_set_named (self, row, of, strlen (of), zconfig_value (child)))
            return false;
    }
    return true;
}

static bool
s_fail_unknown (settings_t *self, const char *name)
{
    const char *names [OPTION_ROWS_MAX];
    char shown [SHOWN_BYTES], list [ROW_NAMES_BYTES];
    size_t count = 0, used = 0;
    for (size_t index = 0; index < s_table.count; index++)
        if (s_table.rows [index].role != ROLE_COMMAND_LINE) {
            names [count] = s_table.rows [index].name;
            used += (size_t) snprintf (list + used, sizeof list - used, "%s%s", count? ", ": "",
                names [count]);
            count++;
        }
    const char *nearest = option_nearest (name, names, count);
    return s_fail (self, "unknown setting '%s'; %s%s%s", s_shown (name, shown),
        nearest? "did you mean '": "there are ", nearest? nearest: list, nearest? "'?": "");
}

static bool
s_take_item (settings_t *self, zconfig_t *item, const char **text)
{
    s_next_setting (self, text);
    const char *name = zconfig_name (item);
    const option_row_t *row = option_row (&s_table, name);
    if (!row || row->role == ROLE_COMMAND_LINE)
        return s_fail_unknown (self, name);
    if (s_is_named (row))
        return s_take_lines (self, row, item, text);
    if (zconfig_child (item))
        return s_fail (self, "%s: nothing belongs below it", name);
    return s_set (self, row, zconfig_value (item));
}

static bool
s_read_config (settings_t *self)
{
    self->file = self->config;
    self->line = 0;
    char *text = s_read_file (self);
    if (!text || !s_check_text (self, text)) {
        free (text);
        return false;
    }
    self->line = 0;
    zconfig_t *root = zconfig_str_load (text);
    bool good = root || s_fail (self, "is no ZPL");
    const char *at = text;
    for (zconfig_t *item = root? zconfig_child (root): NULL; item && good; item = zconfig_next (item))
        good = s_take_item (self, item, &at);
    zconfig_destroy (&root);
    free (text);
    self->file = NULL;
    return good;
}

//  --- The whole --------------------------------------------------------------------------------------------

static void
s_fill_defaults (options_t *self)
{
    if (!self->cache_bytes && !self->memory_bytes)
        self->cache_bytes = (machine_memory_bytes ("") + 3) / 4;
    self->raw_is_given = self->raw_bytes > 0;
    if (!self->raw_is_given && !self->memory_bytes)
        self->raw_bytes = (machine_memory_bytes ("") + 7) / 8;
    if (!self->workers) {
        uint32_t processors = machine_processors ("");
        self->workers = processors < OPTIONS_WORKERS_MAX? processors: OPTIONS_WORKERS_MAX;
    }
    if (!self->patience)
        self->patience = OPTIONS_PATIENCE_SECONDS;
    if (!self->job_cost_ms)
        self->job_cost_ms = OPTIONS_JOB_COST_MS;
    if (!self->policy)
        self->policy = s_copy ("follow", strlen ("follow"));
}

//  Refuses settings that exclude each other, once all is applied.
static bool
s_check_tenants (settings_t *self)
{
    options_t *options = self->options;
    //  The place to name: the file, the command line, or both.
    self->file = NULL;
    if (!options->own.weight)
        options->own.weight = 1;
    if (options->open && options->keys)
        return s_fail (self, "open and keys: open admits every client, keys only those that were "
            "allowed: take one of them");
    if (options->open && options->tenant_count > 0)
        return s_fail (self, "open and tenant: with open all are one, the operator: take one of them");
    if (options->group && options->tenant_count == 0 && !options->open)
        return s_fail (self, "group: its members could reach the socket, and would not be served: "
            "declare tenants, as in tenant NAME=USER, or say open");
    return true;
}

//  The defaults for settings that the arguments leave out.
static bool
s_complete (settings_t *self)
{
    if (self->config && !s_read_config (self))
        return false;
    if (self->options->dataset_count == 0)
        return s_fail (self, "no data set: name one, as in tureen serve --dataset train=/data/train");
    if (!s_apply_notes (self) || !s_check_tenants (self))
        return false;
    s_fill_defaults (self->options);
    return true;
}

option_status_t
options_parse (options_t *self, int argc, char **argv, char *error, size_t error_bytes)
{
    assert (error_bytes > 0);
    *self = (options_t) { .rows_bytes = OPTIONS_ROWS_BYTES, .operation_bytes = OPTIONS_OPERATION_BYTES,
        .operation_seconds = OPTIONS_OPERATION_SECONDS };
    *error = 0;
    char reason [OPTION_ERROR_BYTES] = "";
    settings_t reading = { .options = self, .error = error, .error_bytes = error_bytes };
    option_status_t status = option_read (&s_table, &reading, argc, argv, &reading.result, reason);
    if (*reason)
        s_fail (&reading, "%s", reason);
    if (status == OPTION_RUN && !s_complete (&reading))
        status = OPTION_WRONG;
    s_forget (&reading);
    return status;
}

//  The client says from which folder its paths are.
static bool
s_check_paths (settings_t *self)
{
    char shown [SHOWN_BYTES];
    self->file = NULL;
    for (size_t index = 0; index < self->options->dataset_count; index++) {
        const options_dataset_t *dataset = &self->options->datasets [index];
        for (size_t field = 0; field <= dataset->field_count; field++) {
            const char *path = field? dataset->fields [field - 1].path: dataset->path;
            if (*path != '/' && !strstr (path, "://"))
                return s_fail (self, "dataset %s: a running server takes absolute paths, got '%s'",
                    dataset->name, s_shown (path, shown));
        }
    }
    return true;
}

//  For option_read: "serve", copies of the words in one block, NULL; the caller frees both.
static char **
s_arguments (const char *const *words, size_t count, char **block_p)
{
    size_t bytes = 1, used = 0;
    for (size_t index = 0; index < count; index++)
        bytes += strlen (words [index]) + 1;
    char **argv = xalloc_memory (calloc (count + 2, sizeof *argv)), *block = xalloc_memory (malloc (bytes));
    argv [0] = (char *) "serve";
    for (size_t index = 0; index < count; index++) {
        argv [index + 1] = strcpy (block + used, words [index]);
        used += strlen (words [index]) + 1;
    }
    *block_p = block;
    return argv;
}

bool
options_parse_added (options_t *added, const options_t *server, const char *const *words, size_t count,
    char *error, size_t error_bytes)
{
    *added = (options_t) { .tenant_count = server->tenant_count };
    *error = 0;
    settings_t reading = { .options = added, .error = error, .error_bytes = error_bytes, .is_added = true };
    for (size_t index = 0; index < server->tenant_count; index++)
        added->tenants [index].name = s_copy (server->tenants [index].name, NAME_BYTES_MAX);
    char reason [OPTION_ERROR_BYTES] = "", *block, **argv = s_arguments (words, count, &block);
    option_status_t status = option_read (&s_table, &reading, (int) count + 1, argv, &reading.result, reason);
    bool good = status == OPTION_RUN;
    if (!good && !*error)
        s_fail (&reading, "%s", *reason? reason: "--help is for a command line");
    if (good && added->dataset_count == 0)
        good = s_fail (&reading, "no data set: name one, as in --dataset val=/data/val");
    good = good && s_apply_notes (&reading) && s_check_paths (&reading);
    for (size_t index = 0; index < server->tenant_count; index++)
        if (server->tenants [index].datasets == UINT64_MAX)
            added->tenants [index].datasets = UINT64_MAX;
    s_forget (&reading);
    free (block);
    free (argv);
    return good;
}

void
options_clear (options_t *self)
{
    for (size_t index = 0; index < self->dataset_count; index++)
        options_dataset_clear (&self->datasets [index]);
    for (size_t index = 0; index < self->operation_count; index++) {
        free (self->operations [index].name);
        free (self->operations [index].command);
    }
    for (size_t index = 0; index < self->tenant_count; index++)
        free (self->tenants [index].name);
    free (self->users);
    free (self->listen);
    free (self->rows_folder);
    free (self->blocks_folder);
    free (self->members);
    free (self->member);
    free (self->member_keys);
    free (self->policy);
    free (self->group);
    free (self->keys);
    free (self->log_format);
    free (self->http);
    free (self->http_tokens);
    *self = (options_t) { 0 };
}

const option_table_t *
options_table (void)
{
    return &s_table;
}
