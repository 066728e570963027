/*  options_state -- what is known while settings are read, for the files that read them: options.c (the
 *  command line, and all settings of the server), options_file.c (the ZPL file), options_datasets.c (data
 *  sets and what belongs to them).
 *  No other file includes this.
 *
 *  Settings of data sets and tenants are noted first and applied when all is read, because they may come
 *  before the data set or tenant that they name.
 */
#ifndef OPTIONS_STATE_H
#define OPTIONS_STATE_H
#include "options.h"
#include "needed.h"

enum {
    OPTIONS_NAME_BYTES_MAX = 64,
    OPTIONS_FIELD_BYTES_MAX = 63,   //  of a field's name
    OPTIONS_KEY_BYTES_MAX = OPTIONS_NAME_BYTES_MAX + 1 + OPTIONS_FIELD_BYTES_MAX,   //  NAME.FIELD
    OPTIONS_SHOWN_BYTES = 80,       //  of a value in a message
    OPTIONS_LIST_BYTES = 200,       //  of names in a message
    OPTIONS_NOTES_MAX = 1024
};

//  The subject of a row of options_table.  From ROLE_DATASET on a setting is about a data set, and from
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
    note_t notes [OPTIONS_NOTES_MAX];
    size_t note_count;
    char *error;
    size_t error_bytes;
} settings_t;

//  ---- options.c
extern const option_table_t options_table;
//  Writes the place and the reason.  Returns false.
bool options_fail (settings_t *self, const char *format, ...) __attribute__ ((format (printf, 2, 3)));
const char *options_shown (const char *text, char shown [OPTIONS_SHOWN_BYTES]);
//  strndup that cannot fail.
char *options_copy (const char *text, size_t size);
//  Stores the value at the row's place in target, or says what is wrong with it.
bool options_value (settings_t *self, const option_row_t *row, void *target, char *value);
//  Checks a value and stores it, unless the command line has already set it.
bool options_set (settings_t *self, const option_row_t *row, char *value);

//  ---- options_file.c
//  The settings of the file self->config.
bool options_read_config (settings_t *self);

//  ---- options_datasets.c
static inline bool
options_is_named (const option_row_t *row)
{
    return row->role >= ROLE_DATASET;
}

//  1 to OPTIONS_NAME_BYTES_MAX letters, digits, '.', '_' or '-'.
bool options_is_name (const char *name, size_t size);
//  ".wav,.flac"; target is an options_dataset_t.
bool options_take_extensions (void *target, char *value, char error [OPTION_ERROR_BYTES]);
//  Finds a data set by its name, size bytes; NULL: none.
options_dataset_t *options_dataset (options_t *options, const char *name, size_t size);
//  Finds or makes the note of a data set or a tenant: key is NAME or NAME.FIELD, size bytes.
bool options_set_named (settings_t *self, const option_row_t *row, const char *key, size_t size,
    const char *value);
//  An earlier note of a setting in the file: from the command line, which wins, or from the file, which is an
//  error; NULL: none.
const note_t *options_said_before (const settings_t *self, const note_t *note);
//  When all is read: applies every note to its data set or tenant.
bool options_apply (settings_t *self);
void options_forget (settings_t *self);
void options_clear_dataset (options_dataset_t *dataset);

//  "train, val": count names, each at the beginning of an entry of stride bytes.
const char *options_list (char text [OPTIONS_LIST_BYTES], const void *entries, size_t count, size_t stride);

//  ---- options_tenants.c
//  A tenant, new or known, and its users: "alice,1001" or "-".
bool options_add_tenant (settings_t *self, const char *name, size_t size, const char *users);
bool options_apply_to_tenant (settings_t *self, const note_t *note);
//  The group of this name or number; target is an options_t.
bool options_take_group (void *target, char *value, char error [OPTION_ERROR_BYTES]);
//  Refuses settings that exclude each other, once all is applied.
bool options_check_tenants (settings_t *self);
void options_clear_tenants (options_t *options);

#endif
