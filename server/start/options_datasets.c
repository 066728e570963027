//  Data sets, and the settings that belong to one of them; the notes of settings that name something.

#include "options_state.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "utf8.h"

enum { NAMES_SHOWN_BYTES = 200, EXTENSION_BYTES_MAX = 16 };

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

const char *
options_form (setting_t setting)
{
    static const char *const forms [SET_COUNT] = {
        [SET_DATASET] = "NAME=PATH", [SET_FIELD] = "NAME.FIELD=mask:DIR",
            [SET_EXTENSIONS] = "NAME=.wav,.flac",
        [SET_ON_BAD] = "NAME=drop|fail", [SET_JPEG_WARNINGS] = "NAME=N",
            [SET_TIER] = "NAME=stream|redox|direct",
        [SET_PIECE] = "NAME=N", [SET_TENANT] = "NAME=USER,USER",
            [SET_TENANT_DATASETS] = "NAME=DATASET,DATASET",
        [SET_TENANT_WEIGHT] = "NAME=N", [SET_TENANT_JOBS] = "NAME=N", [SET_TENANT_BATCHES] = "NAME=BYTES",
        [SET_TENANT_CACHE] = "NAME=BYTES"
    };
    assert (forms [setting]);
    return forms [setting];
}

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
}

//  --- Notes ------------------------------------------------------------------------------------------------

bool
options_set_named (settings_t *self, setting_t setting, const char *key, size_t size, const char *value)
{
    char shown [OPTIONS_SHOWN_BYTES];
    if (setting == SET_DATASET)
        return s_add_dataset (self, key, size, value);
    if (setting == SET_TENANT)
        return options_add_tenant (self, key, size, value);
    if (size == 0 || !*value)
        return options_fail (self, "%s: expected %s, got '%s%s'", options_names [setting],
            options_form (setting), utf8_visible (key, size, shown, sizeof shown), size? "=": "=...");
    if (self->note_count == OPTIONS_NOTES_MAX)
        return options_fail (self, "more than %d settings of data sets and tenants", OPTIONS_NOTES_MAX);
    self->notes [self->note_count++] = (note_t) { .setting = setting, .key = options_copy (key, size),
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

static bool
s_fail_without_dataset (settings_t *self, const note_t *note, size_t size)
{
    char names [NAMES_SHOWN_BYTES] = "", shown [OPTIONS_SHOWN_BYTES];
    size_t used = 0;
    for (size_t index = 0; index < self->options->dataset_count && used < sizeof names; index++)
        used += (size_t) snprintf (names + used, sizeof names - used, "%s%s", index? ", ": "",
            self->options->datasets [index].name);
    return options_fail (self, "%s: there is no data set '%s'; there is: %s%s", options_names [note->setting],
        utf8_visible (note->key, size, shown, sizeof shown), names, used < sizeof names? "": "...");
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
    if ((!is_mask && strncmp (value, "image:", 6) != 0) || !path [1])
        return options_fail (self, "field %s: expected image:DIR or mask:DIR, got '%s'", name,
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
static bool
s_set_extensions (settings_t *self, options_dataset_t *dataset, const char *value)
{
    char shown [OPTIONS_SHOWN_BYTES];
    for (const char *at = value; at;) {
        size_t size = strcspn (at, ",");
        if (size < 2 || size > EXTENSION_BYTES_MAX || *at != '.' || strcspn (at, "/ ") < size)
            return options_fail (self, "extensions: expected NAME=.wav,.flac, got '%s'",
                options_shown (value, shown));
        at = at [size]? at + size + 1: NULL;
    }
    free (dataset->extensions);
    dataset->extensions = options_copy (value, strlen (value));
    return true;
}

static bool
s_set_on_bad (settings_t *self, options_dataset_t *dataset, const char *value)
{
    char shown [OPTIONS_SHOWN_BYTES];
    dataset->bad_is_fatal = strcmp (value, "fail") == 0;
    return dataset->bad_is_fatal || strcmp (value, "drop") == 0
        || options_fail (self, "on-bad: there is no '%s'; there is: drop, fail",
        options_shown (value, shown));
}

static bool
s_set_tier (settings_t *self, options_dataset_t *dataset, const char *value)
{
    static const char *const names [] = { "stream", "redox", "direct" };
    char shown [OPTIONS_SHOWN_BYTES];
    for (size_t index = 0; index < sizeof names / sizeof *names; index++)
        if (strcmp (value, names [index]) == 0) {
            dataset->tier = names [index];
            return true;
        }
    return options_fail (self, "tier: there is no '%s'; there is: stream, redox, direct",
        options_shown (value, shown));
}

static bool
s_set_jpeg_warnings (settings_t *self, options_dataset_t *dataset, const char *value)
{
    char shown [OPTIONS_SHOWN_BYTES];
    size_t digits = strspn (value, "0123456789");
    if (digits == 0 || digits > 9 || value [digits])
        return options_fail (self, "jpeg-warnings: expected a number from 0 to 999999999, got '%s'",
            options_shown (value, shown));
    dataset->jpeg_warnings_max = (uint32_t) strtoul (value, NULL, 10);
    return true;
}

static bool
s_apply_value (settings_t *self, options_dataset_t *dataset, const note_t *note, size_t size)
{
    switch (note->setting) {
    case SET_FIELD:
        return s_add_field (self, dataset, note->key + size + 1, note->value);
    case SET_EXTENSIONS:
        return s_set_extensions (self, dataset, note->value);
    case SET_ON_BAD:
        return s_set_on_bad (self, dataset, note->value);
    case SET_TIER:
        return s_set_tier (self, dataset, note->value);
    case SET_PIECE:
        return options_number (self, note->setting, note->value, OPTIONS_PIECE_MAX, &dataset->piece);
    default:
        assert (note->setting == SET_JPEG_WARNINGS);
        return s_set_jpeg_warnings (self, dataset, note->value);
    }
}

//  --- Applying ---------------------------------------------------------------------------------------------

const note_t *
options_said_before (const settings_t *self, const note_t *note)
{
    for (const note_t *other = self->notes; note->file && note->setting != SET_FIELD && other < note; other++)
        if (other->setting == note->setting && strcmp (other->key, note->key) == 0)
            return other;
    return NULL;
}

static bool
s_apply (settings_t *self, const note_t *note)
{
    char shown [OPTIONS_SHOWN_BYTES];
    const char *dot = note->setting == SET_FIELD? strrchr (note->key, '.'): NULL;
    size_t size = dot? (size_t) (dot - note->key): strlen (note->key);
    if (note->setting == SET_FIELD && !dot)
        return options_fail (self, "field: expected %s, got '%s'", options_form (SET_FIELD),
            options_shown (note->key, shown));
    options_dataset_t *dataset = options_dataset (self->options, note->key, size);
    if (!dataset)
        return s_fail_without_dataset (self, note, size);
    const note_t *other = options_said_before (self, note);
    if (other && other->file)
        return options_fail (self, "%s %s: it is there twice, now as '%s'", options_names [note->setting],
            dataset->name, options_shown (note->value, shown));
    options_dataset_t checked = { .name = NULL };
    bool good = s_apply_value (self, other? &checked: dataset, note, size);
    options_clear_dataset (&checked);
    return good;
}

bool
options_apply (settings_t *self)
{
    bool good = true;
    for (size_t index = 0; index < self->note_count && good; index++) {
        self->file = self->notes [index].file;
        self->line = self->notes [index].line;
        const note_t *note = &self->notes [index];
        good = options_is_of_tenant (note->setting)? options_apply_to_tenant (self, note):
            s_apply (self, note);
    }
    return good;
}
