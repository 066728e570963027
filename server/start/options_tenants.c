//  Tenants: their users, rights and limits; and the group that may reach the socket.

#include "options_state.h"
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "utf8.h"

enum { ACCOUNT_BYTES_MAX = 256 };

//  --- Users and groups of this machine ---------------------------------------------------------------------

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
s_user_name (uid_t uid, char shown [OPTIONS_SHOWN_BYTES])
{
    const struct passwd *account = getpwuid (uid);
    if (account)
        return options_shown (account->pw_name, shown);
    snprintf (shown, OPTIONS_SHOWN_BYTES, "user %u", (unsigned) uid);
    return shown;
}

bool
options_take_group (void *target, char *value, char error [OPTION_ERROR_BYTES])
{
    options_t *options = target;
    uint32_t number;
    bool is_number = s_is_number (value, &number);
    const struct group *group = is_number? NULL: getgrnam (value);
    if (!is_number && !group)
        return option_fail (error, "expected the name or number of a group of this machine (groupadd makes "
            "one)");
    free (options->group);
    options->group = options_copy (value, strlen (value));
    options->group_id = group? group->gr_gid: (gid_t) number;
    return true;
}

//  --- Declaring --------------------------------------------------------------------------------------------

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
    char shown [OPTIONS_SHOWN_BYTES];
    size_t at = 0;
    while (at < options->user_count && options->users [at].uid < uid)
        at++;
    if (at < options->user_count && options->users [at].uid == uid) {
        const options_tenant_t *other = &options->tenants [options->users [at].tenant];
        return options->users [at].tenant == tenant
            || options_fail (self, "tenant %s: %s (%u) is one of tenant '%s' already, and a user has one "
                "tenant: take one of the two out", options->tenants [tenant].name, s_user_name (uid, shown),
                (unsigned) uid, other->name);
    }
    if (options->user_count == OPTIONS_USERS_MAX)
        return options_fail (self, "tenant %s: there are more than %d users of tenants",
            options->tenants [tenant].name, OPTIONS_USERS_MAX);
    options_user_t *users = needed_memory (realloc (options->users,
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
    char name [ACCOUNT_BYTES_MAX + 1], shown [OPTIONS_SHOWN_BYTES];
    const char *of = self->options->tenants [tenant].name;
    uint32_t number;
    utf8_visible (text, size, shown, sizeof shown);
    if (size == 0)
        return options_fail (self, "tenant %s: a user is missing between commas; expected NAME=USER,USER",
            of);
    snprintf (name, sizeof name, "%.*s", (int) (size <= ACCOUNT_BYTES_MAX? size: 0), text);
    if (s_is_number (name, &number))
        return s_add_user (self, tenant, number);
    const struct passwd *account = *name? getpwnam (name): NULL;
    if (!account)
        return options_fail (self, "tenant %s: this machine has no user '%s': give the names or numbers of "
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
s_declare (settings_t *self, const char *name, size_t size)
{
    options_t *options = self->options;
    char shown [OPTIONS_SHOWN_BYTES];
    const options_tenant_t *known = s_tenant (options, name, size);
    utf8_visible (name, size, shown, sizeof shown);
    if (known)
        return (size_t) (known - options->tenants);
    if (!options_is_name (name, size))
        options_fail (self, "tenant: a name has 1 to %d letters, digits, '.', '_' or '-', got '%s'",
            OPTIONS_NAME_BYTES_MAX, shown);
    else
    if (strcmp (shown, OPTIONS_OPERATOR) == 0)
        options_fail (self, "tenant: '%s' is there without being named, for the server's own user and root: "
            "take another name", OPTIONS_OPERATOR);
    else
    if (options->tenant_count == OPTIONS_TENANTS_MAX)
        options_fail (self, "tenant %s: there are more than %d", shown, OPTIONS_TENANTS_MAX);
    else {
        options->tenants [options->tenant_count] = (options_tenant_t) { .name = options_copy (name, size),
            .weight = 1 };
        return options->tenant_count++;
    }
    return OPTIONS_TENANTS_MAX;
}

bool
options_add_tenant (settings_t *self, const char *name, size_t size, const char *users)
{
    if (!*users)
        return options_fail (self, "tenant: expected NAME=USER,USER, or NAME=- where there are only keys");
    size_t tenant = s_declare (self, name, size);
    bool good = tenant < OPTIONS_TENANTS_MAX;
    for (const char *rest = strcmp (users, "-") == 0? NULL: users; rest && good;) {
        size_t part_size;
        const char *part = s_part (&rest, &part_size);
        good = s_take_user (self, tenant, part, part_size);
    }
    return good;
}

//  --- What a note says -------------------------------------------------------------------------------------

static bool
s_set_datasets (settings_t *self, options_tenant_t *tenant, const char *name, const char *value)
{
    const options_t *options = self->options;
    char names [OPTIONS_LIST_BYTES], shown [OPTIONS_SHOWN_BYTES];
    tenant->datasets = strcmp (value, "*") == 0? UINT64_MAX: 0;
    for (const char *rest = tenant->datasets? NULL: value; rest;) {
        size_t size;
        const char *part = s_part (&rest, &size);
        const options_dataset_t *dataset = options_dataset (self->options, part, size);
        if (!dataset)
            return options_fail (self, "tenant-datasets %s: there is no data set '%s'; there is: %s, or * "
                "for all", name, utf8_visible (part, size, shown, sizeof shown),
                options_list (names, options->datasets, options->dataset_count, sizeof *options->datasets));
        tenant->datasets |= UINT64_C (1) << (dataset - options->datasets);
    }
    return true;
}

static bool
s_fail_without_tenant (settings_t *self, const note_t *note)
{
    const options_t *options = self->options;
    char names [OPTIONS_LIST_BYTES], shown [OPTIONS_SHOWN_BYTES];
    if (options->tenant_count == 0 && strcmp (note->key, OPTIONS_OPERATOR) == 0)
        return options_fail (self, "%s: %s has everything as long as there is no tenant beside it: declare "
            "one, as in tenant NAME=USER, or take this out", note->row->name, OPTIONS_OPERATOR);
    if (options->tenant_count == 0)
        return options_fail (self, "%s: there is no tenant '%s', and none at all: declare it with tenant "
            "%s=USER", note->row->name, options_shown (note->key, shown), shown);
    return options_fail (self, "%s: there is no tenant '%s'; there is: %s, %s", note->row->name,
        options_shown (note->key, shown),
        options_list (names, options->tenants, options->tenant_count, sizeof *options->tenants),
        OPTIONS_OPERATOR);
}

bool
options_apply_to_tenant (settings_t *self, const note_t *note)
{
    options_t *options = self->options;
    char shown [OPTIONS_SHOWN_BYTES];
    bool is_operator = strcmp (note->key, OPTIONS_OPERATOR) == 0 && options->tenant_count > 0;
    if (is_operator && note->row->role == ROLE_TENANT_DATASETS)
        return options_fail (self, "tenant-datasets: the operator may use all data sets: take this out");
    options_tenant_t *tenant = is_operator? &options->own: s_tenant (options, note->key, strlen (note->key));
    if (!tenant)
        return s_fail_without_tenant (self, note);
    const note_t *other = options_said_before (self, note);
    if (other && other->file)
        return options_fail (self, "%s %s: it is there twice, now as '%s'", note->row->name,
            note->key, options_shown (note->value, shown));
    options_tenant_t checked = { .name = NULL }, *kept = other? &checked: tenant;
    return note->row->role == ROLE_TENANT_DATASETS? s_set_datasets (self, kept, note->key, note->value):
        options_value (self, note->row, kept, note->value);
}

//  --- The whole --------------------------------------------------------------------------------------------

bool
options_check_tenants (settings_t *self)
{
    options_t *options = self->options;
    //  The place to name: the file, the command line, or both.
    self->file = NULL;
    if (!options->own.weight)
        options->own.weight = 1;
    if (options->open && options->keys)
        return options_fail (self, "open and keys: open admits every client, keys only those that were "
            "allowed: take one of them");
    if (options->open && options->tenant_count > 0)
        return options_fail (self, "open and tenant: with open all are one, the operator: take one of them");
    if (options->group && options->tenant_count == 0 && !options->open)
        return options_fail (self, "group: its members could reach the socket, and would not be served: "
            "declare tenants, as in tenant NAME=USER, or say open");
    return true;
}

void
options_clear_tenants (options_t *options)
{
    for (size_t index = 0; index < options->tenant_count; index++)
        free (options->tenants [index].name);
    free (options->users);
}
