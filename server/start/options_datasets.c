//  Data sets, and the settings that belong to one of them; the notes of settings that name something.

#include "options_state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "utf8.h"

enum { EXTENSION_BYTES_MAX = 16 };

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

//  --- Data sets --------------------------------------------------------------------------------------------

static bool
s_is_name (const char *name, size_t size, const char *letters)
{
    return size > 0 && size <= OPTIONS_NAME_BYTES_MAX && strspn (name, letters) >= size;
}

bool
options_is_name (const char *name, size_t size)
{
    return s_is_name (name, size, LETTERS "._-");
}

options_dataset_t *
options_dataset (options_t *options, const char *name, size_t size)
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
    char shown [OPTIONS_SHOWN_BYTES];
    utf8_visible (name, size, shown, sizeof shown);
    if (!options_is_name (name, size))
        return options_fail (self, "dataset: a name has 1 to %d letters, digits, '.', '_' or '-', got '%s'",
            OPTIONS_NAME_BYTES_MAX, shown);
    if (!*path)
        return options_fail (self, "dataset %s: the path is missing, as in %s=/data/%s", shown, shown, shown);
    const options_dataset_t *other = options_dataset (options, name, size);
    if (other)
        return options_fail (self, "dataset %s: there are two of that name: %s and %s", shown, other->path,
            path);
    if (options->dataset_count == OPTIONS_DATASETS_MAX)
        return options_fail (self, "dataset %s: there are more than %d", shown, OPTIONS_DATASETS_MAX);
    options->datasets [options->dataset_count++] = (options_dataset_t) {
        .name = options_copy (name, size), .path = options_copy (path, strlen (path)),
        .jpeg_warnings_max = UINT32_MAX };
    return true;
}

//  An operation of the file may be given anew on the command line, which is read first.
static bool
s_add_operation (settings_t *self, const char *name, size_t size, const char *command)
{
    options_t *options = self->options;
    char shown [OPTIONS_SHOWN_BYTES];
    if (!options_is_name (name, size) || size > CUSTOM_NAME_BYTES_MAX || !*command)
        return options_fail (self, "operation: expected NAME=COMMAND, a name of 1 to %d letters, digits, "
            "'.', '_' or '-', got '%s'", CUSTOM_NAME_BYTES_MAX,
            utf8_visible (name, size, shown, sizeof shown));
    for (size_t index = 0; index < options->operation_count; index++)
        if (strlen (options->operations [index].name) == size
            && memcmp (options->operations [index].name, name, size) == 0)
            return options_fail (self, "operation %s: it is there twice, now as '%s'",
                options->operations [index].name, options_shown (command, shown));
    if (options->operation_count == CUSTOM_MAX)
        return options_fail (self, "operation: more than %d", CUSTOM_MAX);
    options->operations [options->operation_count++] = (options_operation_t) {
        .name = options_copy (name, size), .command = options_copy (command, strlen (command)) };
    return true;
}

void
options_clear_dataset (options_dataset_t *dataset)
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

//  --- Notes ------------------------------------------------------------------------------------------------

bool
options_set_named (settings_t *self, const option_row_t *row, const char *key, size_t size, const char *value)
{
    char shown [OPTIONS_SHOWN_BYTES], form [OPTION_FORM_BYTES];
    if (row->role == ROLE_DATASET)
        return s_add_dataset (self, key, size, value);
    if (row->role == ROLE_OPERATION)
        return s_add_operation (self, key, size, value);
    if (row->role == ROLE_TENANT)
        return options_add_tenant (self, key, size, value);
    if (size == 0 || !*value)
        return options_fail (self, "%s: expected %s, got '%s%s'", row->name,
            option_form (row, form), utf8_visible (key, size, shown, sizeof shown), size? "=": "=...");
    if (self->note_count == OPTIONS_NOTES_MAX)
        return options_fail (self, "more than %d settings of data sets and tenants", OPTIONS_NOTES_MAX);
    self->notes [self->note_count++] = (note_t) { .row = row, .key = options_copy (key, size),
        .value = options_copy (value, strlen (value)), .file = self->file, .line = self->line };
    return true;
}

void
options_forget (settings_t *self)
{
    for (size_t index = 0; index < self->note_count; index++) {
        free (self->notes [index].key);
        free (self->notes [index].value);
    }
    self->note_count = 0;
}

const char *
options_list (char text [OPTIONS_LIST_BYTES], const void *entries, size_t count, size_t stride)
{
    size_t used = 0;
    *text = 0;
    for (size_t index = 0; index < count && used < OPTIONS_LIST_BYTES - 4; index++) {
        const char *name = *(char *const *) ((const char *) entries + index * stride);
        int size = snprintf (text + used, OPTIONS_LIST_BYTES - 4 - used, "%s%s", index? ", ": "", name);
        used += (size_t) size;
    }
    if (used >= OPTIONS_LIST_BYTES - 4)
        strcpy (text + OPTIONS_LIST_BYTES - 5, "...");
    return text;
}

//  --- What a note says -------------------------------------------------------------------------------------

static bool
s_add_field (settings_t *self, options_dataset_t *dataset, const char *name, const char *value)
{
    char shown [OPTIONS_SHOWN_BYTES];
    size_t size = strlen (name);
    if (!s_is_name (name, size, LETTERS "_") || size > OPTIONS_FIELD_BYTES_MAX || strcmp (name, "image") == 0)
        return options_fail (self, "field: a name has 1 to %d letters, digits or '_' and is not 'image', got "
            "'%s'", OPTIONS_FIELD_BYTES_MAX, options_shown (name, shown));
    bool is_mask = strncmp (value, "mask:", 5) == 0;
    const char *path = strchr (value, ':');
    if ((!is_mask && strncmp (value, "image:", 6) != 0 && strncmp (value, "file:", 5) != 0) || !path [1])
        return options_fail (self, "field %s: expected image:DIR, mask:DIR or file:DIR, got '%s'", name,
            options_shown (value, shown));
    for (size_t index = 0; index < dataset->field_count; index++)
        if (strcmp (dataset->fields [index].name, name) == 0)
            return options_fail (self, "field %s: data set '%s' has two of that name: %s and %s", name,
                dataset->name, dataset->fields [index].path, path + 1);
    if (dataset->field_count == OPTIONS_FIELDS_MAX)
        return options_fail (self, "field %s: data set '%s' has more than %d", name, dataset->name,
            OPTIONS_FIELDS_MAX);
    dataset->fields [dataset->field_count++] = (options_field_t) { .name = options_copy (name, size),
        .is_mask = is_mask, .path = options_copy (path + 1, strlen (path + 1)) };
    return true;
}

//  Each of the list: a dot, and more.
bool
options_take_extensions (void *target, char *value, char error [OPTION_ERROR_BYTES])
{
    options_dataset_t *dataset = target;
    for (const char *at = value; at;) {
        size_t size = strcspn (at, ",");
        if (size < 2 || size > EXTENSION_BYTES_MAX || *at != '.' || strcspn (at, "/ ") < size)
            return option_fail (error, "expected NAME=.wav,.flac");
        at = at [size]? at + size + 1: NULL;
    }
    free (dataset->extensions);
    dataset->extensions = options_copy (value, strlen (value));
    return true;
}

//  --- Applying ---------------------------------------------------------------------------------------------

const note_t *
options_said_before (const settings_t *self, const note_t *note)
{
    bool may_repeat = !note->file || note->row->role == ROLE_FIELD;
    for (const note_t *other = self->notes; !may_repeat && other < note; other++)
        if (other->row == note->row && strcmp (other->key, note->key) == 0)
            return other;
    return NULL;
}

static bool
s_apply (settings_t *self, const note_t *note)
{
    char shown [OPTIONS_SHOWN_BYTES], form [OPTION_FORM_BYTES], names [OPTIONS_LIST_BYTES];
    options_t *options = self->options;
    bool is_field = note->row->role == ROLE_FIELD;
    const char *dot = is_field? strrchr (note->key, '.'): NULL;
    size_t size = dot? (size_t) (dot - note->key): strlen (note->key);
    if (is_field && !dot)
        return options_fail (self, "field: expected %s, got '%s'", option_form (note->row, form),
            options_shown (note->key, shown));
    options_dataset_t *dataset = options_dataset (options, note->key, size);
    if (!dataset)
        return options_fail (self, "%s: there is no data set '%s'; there is: %s", note->row->name,
            utf8_visible (note->key, size, shown, sizeof shown),
            options_list (names, options->datasets, options->dataset_count, sizeof *options->datasets));
    if (is_field)
        return s_add_field (self, dataset, dot + 1, note->value);
    const note_t *other = options_said_before (self, note);
    if (other && other->file)
        return options_fail (self, "%s %s: it is there twice, now as '%s'", note->row->name, dataset->name,
            options_shown (note->value, shown));
    options_dataset_t checked = { .name = NULL };
    bool good = options_value (self, note->row, other? &checked: dataset, note->value);
    options_clear_dataset (&checked);
    return good;
}

//  Once all data sets are known: that of classes-from must number its own classes.
static bool
s_check_classes (settings_t *self)
{
    options_t *options = self->options;
    char shown [OPTIONS_SHOWN_BYTES], names [OPTIONS_LIST_BYTES];
    self->file = NULL;
    for (size_t index = 0; index < options->dataset_count; index++) {
        const options_dataset_t *dataset = &options->datasets [index];
        const char *from = dataset->classes_from;
        if (!from)
            continue;
        const options_dataset_t *other = options_dataset (options, from, strlen (from));
        if (!other)
            return options_fail (self, "classes-from %s: there is no data set '%s'; there is: %s",
                dataset->name, options_shown (from, shown),
                options_list (names, options->datasets, options->dataset_count, sizeof *options->datasets));
        if (other == dataset)
            return options_fail (self, "classes-from %s: it names itself: leave it out", dataset->name);
        if (other->classes_from)
            return options_fail (self, "classes-from %s: '%s' goes by the classes of '%s' itself: name "
                "that one", dataset->name, from, options_shown (other->classes_from, shown));
    }
    return true;
}

bool
options_apply (settings_t *self)
{
    bool good = true;
    for (size_t index = 0; index < self->note_count && good; index++) {
        const note_t *note = &self->notes [index];
        self->file = note->file;
        self->line = note->line;
        good = note->row->role >= ROLE_TENANT? options_apply_to_tenant (self, note): s_apply (self, note);
    }
    return good && s_check_classes (self);
}
