/*  options_state -- what is known while settings are read, for the files that read them: options.c (the
 *  command line, and all settings of the server), options_file.c (the ZPL file), options_datasets.c (data
 *  sets and what belongs to them).
 *  Nobody else includes this.
 *
 *  Settings of data sets and tenants are noted as they come and applied when all is read, because what they
 *  name may come later.
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
    OPTIONS_NOTES_MAX = 1024
};

//  From SET_DATASET on: settings of a data set, and from SET_TENANT on those of a tenant: "NAME...=VALUE" on
//  the command line, lines below the setting in the file.
typedef enum {
    SET_LISTEN, SET_CACHE, SET_RAW, SET_READS, SET_PATIENCE, SET_WORKERS, SET_POLICY, SET_UNTIL_IDLE,
        SET_GROUP, SET_KEYS, SET_OPEN, SET_SUPERVISE,
    SET_DATASET, SET_FIELD, SET_EXTENSIONS, SET_ON_BAD, SET_JPEG_WARNINGS, SET_TIER, SET_PIECE,
    SET_TENANT, SET_TENANT_DATASETS, SET_TENANT_WEIGHT, SET_TENANT_JOBS, SET_TENANT_BATCHES, SET_TENANT_CACHE,
    SET_COUNT
} setting_t;

//  A setting of a data set or a tenant that is still to be applied.
typedef struct {
    setting_t setting;
    char *key, *value;
    const char *file;               //  where it stands, as in settings_t
    size_t line;
} note_t;

typedef struct {
    options_t *options;
    const char *file;               //  of the settings that are read now; NULL: the command line
    size_t line;                    //  in it, from 1
    bool given [SET_COUNT];         //  by the command line
    bool given_in_file [SET_COUNT];
    const char *config;             //  --config
    note_t notes [OPTIONS_NOTES_MAX];
    size_t note_count;
    char *error;
    size_t error_bytes;
} settings_t;

//  ---- options.c
extern const char *const options_names [SET_COUNT];
//  Writes the place and the reason.  Returns false.
bool options_fail (settings_t *self, const char *format, ...) __attribute__ ((format (printf, 2, 3)));
const char *options_shown (const char *text, char shown [OPTIONS_SHOWN_BYTES]);
//  strndup that cannot fail.
char *options_copy (const char *text, size_t size);
bool options_find (const char *name, setting_t *setting);
//  A number from 1 to most.
bool options_number (settings_t *self, setting_t setting, const char *value, uint32_t most,
    uint32_t *number_p);
//  A size of at least one byte.
bool options_bytes (settings_t *self, setting_t setting, const char *value, uint64_t *bytes_p);
//  Checks a value and keeps it, unless the command line has already said something else.
bool options_set (settings_t *self, setting_t setting, const char *value);

//  ---- options_file.c
//  The settings of the file self->config.
bool options_read_config (settings_t *self);

//  ---- options_datasets.c
static inline bool
options_is_named (setting_t setting)
{
    return setting >= SET_DATASET;
}

static inline bool
options_is_of_tenant (setting_t setting)
{
    return setting >= SET_TENANT;
}

//  "NAME=PATH", "NAME.FIELD=mask:DIR": what the setting's value looks like.
const char *options_form (setting_t setting);
//  1 to OPTIONS_NAME_BYTES_MAX letters, digits, '.', '_' or '-'.
bool options_is_name (const char *name, size_t size);
//  By its name, size bytes of it; NULL: there is none.
options_dataset_t *options_dataset (options_t *options, const char *name, size_t size);
//  Of a data set or a tenant, or a new one: key is NAME or NAME.FIELD, size bytes of it.
bool options_set_named (settings_t *self, setting_t setting, const char *key, size_t size, const char *value);
//  What stands in the file and has been said before, by the command line, which wins, or in the file, which
//  is an error; NULL: nothing.
const note_t *options_said_before (const settings_t *self, const note_t *note);
//  When all is read: every note becomes part of its data set or tenant.
bool options_apply (settings_t *self);
void options_forget (settings_t *self);
void options_clear_dataset (options_dataset_t *dataset);

//  ---- options_tenants.c
//  A tenant, new or known, and its users: "alice,1001" or "-".
bool options_add_tenant (settings_t *self, const char *name, size_t size, const char *users);
bool options_apply_to_tenant (settings_t *self, const note_t *note);
//  The group of this name or number.
bool options_set_group (settings_t *self, const char *value, char **name_p, gid_t *group_p);
//  What cannot be together, once all is applied.
bool options_check_tenants (settings_t *self);
void options_clear_tenants (options_t *options);

#endif
