/*  options_file -- settings from a ZPL file.  Its syntax is checked line by line here before czmq parses it:
 *  zconfig prints its errors on standard output instead of returning them, keeps no line numbers, and in some
 *  versions overruns its buffer after a line of more than 1024 bytes.
 */
#include "options_state.h"
#include "input.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <czmq.h>
#include "nearest.h"
#include "utf8.h"

enum {
    FILE_BYTES_MAX = 64 * 1024,
    LINE_BYTES_MAX = 1000,          //  every zconfig takes 1024
    NAMES_BYTES = 32 * OPTION_ROWS_MAX      //  of all settings
};

//  The whole file, zero-terminated; the caller's.  NULL and the reason.
static char *
s_read_file (settings_t *self)
{
    char *text;
    size_t size;
    int rc = input_whole (self->file, FILE_BYTES_MAX, &text, &size);
    if (rc == -EFBIG)
        options_fail (self, "has more than %d bytes", FILE_BYTES_MAX);
    else if (rc)
        options_fail (self, rc == -EINVAL? "%s": "cannot be read: %s", input_error (rc));
    else if (strlen (text) != size)
        options_fail (self, "holds a zero byte");
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
    char shown [OPTIONS_SHOWN_BYTES];
    const char *comment = memchr (value, '#', size);
    return !comment || comment [-1] == ' ' || comment [-1] == '\t'
        || options_fail (self, "'#' begins a comment, and the value would be '%s': write it in quotation "
            "marks, or a blank before the comment",
            utf8_visible (value, (size_t) (comment - value), shown, sizeof shown));
}

//  The rest of a line after its name: nothing, a comment, or "= value".
static bool
s_check_rest (settings_t *self, const char *at, size_t size)
{
    char shown [OPTIONS_SHOWN_BYTES];
    const char *end = at + size;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    if (at == end || *at == '#')
        return true;
    if (*at != '=')
        return options_fail (self, "expected '=' and a value, got '%s'",
            utf8_visible (at, (size_t) (end - at), shown, sizeof shown));
    for (at++; at < end && (*at == ' ' || *at == '\t');)
        at++;
    if (at == end || *at == '#')
        return options_fail (self, "the value after '=' is missing");
    if (*at != '"' && *at != '\'')
        return s_check_bare (self, at, (size_t) (end - at));
    const char *quote = memchr (at + 1, *at, (size_t) (end - at - 1));
    if (!quote)
        return options_fail (self, "the quotation mark %c is not closed", *at);
    at = quote + 1;
    at += strspn (at, " \t");
    return at >= end || *at == '#'
        || options_fail (self, "'%s' after the quotation",
            utf8_visible (at, (size_t) (end - at), shown, sizeof shown));
}

//  Checks one line (without its end) as ZPL; *level is the previous line's, and becomes this line's.
static bool
s_check_line (settings_t *self, const char *line, size_t size, size_t *level)
{
    static const char in_names [] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789$-_@.&+/";
    char shown [OPTIONS_SHOWN_BYTES];
    if (size > LINE_BYTES_MAX)
        return options_fail (self, "the line has more than %d bytes", LINE_BYTES_MAX);
    while (size && strchr (" \t\r", line [size - 1]))
        size--;
    for (size_t index = 0; index < size; index++)
        if ((uint8_t) line [index] < ' ' && line [index] != '\t')
            return options_fail (self, "a control character, %d", line [index]);
    size_t indent = 0;
    while (indent < size && line [indent] == ' ')
        indent++;
    if (indent == size || line [indent] == '#')
        return indent % 4 == 0 || indent == size
            || options_fail (self, "indent a comment by 4 blanks or not at all");
    if (indent % 4 != 0 || indent / 4 > *level + 1 || indent / 4 > 1)
        return options_fail (self, "indent by 4 blanks, below the setting that it belongs to, or not at all");
    *level = indent / 4;
    size_t name = 0;
    while (indent + name < size && strchr (in_names, line [indent + name]))
        name++;
    if (name == 0 || name > OPTIONS_KEY_BYTES_MAX || line [indent] == '/' || line [indent + name - 1] == '/')
        return options_fail (self, "expected a name, got '%s'",
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
        return options_fail (self, "%s: expected no value here, but lines '    %.*s = %s' below it", name,
            key, form, form + key + 1);
    if (!zconfig_child (item))
        return options_fail (self, "%s: expected lines '    %.*s = %s' below it", name, key, form,
            form + key + 1);
    for (zconfig_t *child = zconfig_child (item); child; child = zconfig_next (child)) {
        s_next_setting (self, text);
        const char *of = zconfig_name (child);
        if (!options_set_named (self, row, of, strlen (of), zconfig_value (child)))
            return false;
    }
    return true;
}

static bool
s_fail_unknown (settings_t *self, const char *name)
{
    const char *names [OPTION_ROWS_MAX];
    char shown [OPTIONS_SHOWN_BYTES], list [NAMES_BYTES];
    size_t count = 0, used = 0;
    for (size_t index = 0; index < options_table.count; index++)
        if (options_table.rows [index].role != ROLE_COMMAND_LINE) {
            names [count] = options_table.rows [index].name;
            used += (size_t) snprintf (list + used, sizeof list - used, "%s%s", count? ", ": "",
                names [count]);
            count++;
        }
    const char *nearest = nearest_name (name, names, count);
    return options_fail (self, "unknown setting '%s'; %s%s%s", options_shown (name, shown),
        nearest? "did you mean '": "there are ", nearest? nearest: list, nearest? "'?": "");
}

static bool
s_take_item (settings_t *self, zconfig_t *item, const char **text)
{
    s_next_setting (self, text);
    const char *name = zconfig_name (item);
    const option_row_t *row = option_row (&options_table, name);
    if (!row || row->role == ROLE_COMMAND_LINE)
        return s_fail_unknown (self, name);
    if (options_is_named (row))
        return s_take_lines (self, row, item, text);
    if (zconfig_child (item))
        return options_fail (self, "%s: nothing belongs below it", name);
    return options_set (self, row, zconfig_value (item));
}

bool
options_read_config (settings_t *self)
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
    bool good = root || options_fail (self, "is no ZPL");
    const char *at = text;
    for (zconfig_t *item = root? zconfig_child (root): NULL; item && good; item = zconfig_next (item))
        good = s_take_item (self, item, &at);
    zconfig_destroy (&root);
    free (text);
    self->file = NULL;
    return good;
}
