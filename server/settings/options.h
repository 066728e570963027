/*  options -- the settings of `tureen serve`: from the command line and from a ZPL file, the same names.
 *
 *      dataset NAME=PATH (repeatable)   listen ENDPOINT   cache BYTES   raw BYTES   reads N   patience
 *      SECONDS   workers N   job-cost MS   policy NAME   until-idle SECONDS (on the command line they may be
 *      left out)   disk DIR=BYTES   http [ADDRESS:]PORT or unix:PATH   http-tokens FILE
 *      log-format text or json   members LIST   member HOST:PORT   member-keys DIR
 *  and of data sets, each repeatable:
 *      field NAME.FIELD=image:DIR, mask:DIR or file:DIR   extensions NAME=.wav,.flac
 *      on-bad NAME=drop or fail   jpeg-warnings NAME=N   tier NAME=stream, redox or direct   piece NAME=N
 *      listing NAME=kept or anew   keep NAME=far, yes or no   allow-empty NAME=no or yes
 *      classes-from NAME=DATASET
 *  and of operations of the operator's own (repeatable):
 *      operation NAME=COMMAND   operation-memory BYTES   operation-seconds N
 *  and of users and tenants, those with a NAME repeatable:
 *      open, supervise (0 or 1; on the command line it may be left out: 1)   group NAME   keys DIR
 *      tenant NAME=USER,USER (or -: none)   tenant-datasets NAME=DATASET,DATASET (or *: all)   tenant-weight
 *      NAME=N
 *      tenant-jobs NAME=N   tenant-batches NAME=BYTES   tenant-cache NAME=BYTES
 *
 *  A ZPL file has the same settings; the command line wins; data sets, fields and users add up:
 *      listen = "ipc:///run/tureen/server.sock"
 *      cache = 4G
 *      dataset
 *          train = /data/imagenet/train
 *          val = /data/imagenet/val
 *      field
 *          train.mask = mask:/data/imagenet/masks
 *      on-bad
 *          val = fail
 *      tenant
 *          vision = alice,bob
 *      tenant-datasets
 *          vision = train,val
 */
#ifndef OPTIONS_H
#define OPTIONS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "option.h"
#include "pipeline.h"
#include <sys/types.h>

enum {
    OPTIONS_DATASETS_MAX = 64, OPTIONS_WORKERS_MAX = 1024, OPTIONS_READS_MAX = 128, OPTIONS_PIECE_MAX = 64,
    OPTIONS_IDLE_MAX = 7 * 24 * 3600,
    OPTIONS_PATIENCE_MAX = 7 * 24 * 3600, OPTIONS_PATIENCE_SECONDS = 300,
    OPTIONS_JOB_COST_MAX = 24 * 3600 * 1000, OPTIONS_JOB_COST_MS = 1000,
    OPTIONS_OPERATION_SECONDS = 30, OPTIONS_OPERATION_SECONDS_MAX = 3600,
    OPTIONS_FIELDS_MAX = 7,                 //  of a data set, beside "image"
    OPTIONS_TENANTS_MAX = 63,               //  beside the operator
    OPTIONS_USERS_MAX = 4096,               //  of all tenants
    OPTIONS_WEIGHT_MAX = 1000, OPTIONS_JOBS_MAX = 256
};
#define OPTIONS_ROWS_BYTES (UINT64_C (64) << 20)
#define OPTIONS_OPERATION_BYTES (UINT64_C (4) << 30)
#define OPTIONS_OPERATOR "operator"         //  the tenant that always exists

//  A further file of every sample.
typedef struct {
    char *name;                 //  letters, digits, '_'; at most 63 bytes; not "image"; unique in its data
                                //  set
    bool is_mask;
    char *path;
} options_field_t;

typedef struct {
    char *name;                 //  letters, digits, '.', '_', '-'; at most 64 bytes; unique
    char *path;
    options_field_t fields [OPTIONS_FIELDS_MAX];
    size_t field_count;
    char *extensions;           //  ".wav,.flac"; NULL: the catalogue's default
    bool bad_is_fatal;
    bool allow_empty;           //  a class folder without a sample is a class
    char *classes_from;         //  the data set by the classes of which labels are numbered; NULL: its own
    bool list_anew;             //  objects of a store, though a list is kept
    const char *keep;           //  "far", "yes" or "no", static; NULL: not given, means far
    uint32_t jpeg_warnings_max; //  UINT32_MAX: no limit
    const char *tier;           //  "stream", "redox" or "direct", static; NULL: not given, means stream
    uint32_t piece;             //  0: as the cost model says
} options_dataset_t;

typedef struct {
    char *name;                 //  as that of a data set, not OPTIONS_OPERATOR; unique
    uint64_t datasets;          //  a bit for each data set that it may use, by its place in options_t
    uint32_t weight;            //  1 .. OPTIONS_WEIGHT_MAX
    uint32_t jobs_max;          //  this and the next two: 0: not given
    uint64_t batches_bytes_max, cache_bytes_max;
} options_tenant_t;

typedef struct {
    char *name;                 //  letters, digits, '.', '_', '-'; at most CUSTOM_NAME_BYTES_MAX; unique
    char *command;
} options_operation_t;

typedef struct {
    uid_t uid;
    size_t tenant;              //  its place in options_t
} options_user_t;

typedef struct {
    options_dataset_t datasets [OPTIONS_DATASETS_MAX];
    size_t dataset_count;
    options_operation_t operations [CUSTOM_MAX];
    size_t operation_count;
    uint64_t operation_bytes;   //  of the address space of each of their processes
    uint32_t operation_seconds; //  that a call of one may take
    char *listen;               //  one endpoint, or ipc and tcp with a comma between; NULL: the default
    uint64_t memory_bytes;      //  divided between cache_bytes, raw_bytes and pins (memory_parts.h); 0: not
                                //  set
    uint64_t cache_bytes;       //  default: a quarter of the memory that this process may use, cgroup limit
                                //  included; with memory_bytes 0 until they are divided, raw_bytes too
    uint64_t raw_bytes;         //  default: an eighth of it
    bool raw_is_given;          //  it is no default
    uint64_t rows_bytes;        //  of JPEGs in folders; 0: they are not learned
    char *rows_folder;          //  where they are kept between servers; NULL: nowhere
    char *blocks_folder;        //  disk: where what is read from afar is kept; NULL: nowhere
    uint64_t blocks_bytes;      //  of it, at most
    char *members;              //  servers that keep blocks for each other; NULL: none, as the next two
    char *member;               //  HOST:PORT, by which they reach this one
    char *member_keys;          //  folder; NULL: that of keys
    uint32_t reads;             //  0: as the cost model says
    uint32_t patience;          //  seconds; default: OPTIONS_PATIENCE_SECONDS
    uint32_t job_cost_ms;       //  default: OPTIONS_JOB_COST_MS
    uint32_t workers;           //  default: the processors that this process may run on
    char *policy;               //  "follow" or "dsa"
    uint32_t until_idle;        //  seconds; 0: not set
    options_tenant_t tenants [OPTIONS_TENANTS_MAX];
    size_t tenant_count;
    options_tenant_t own;       //  the operator's limits, beside tenants; name is NULL, datasets are ignored
    options_user_t *users;      //  ascending uids, none twice
    size_t user_count;
    char *group;                //  its members may reach the socket; NULL: only the server's own user may
    gid_t group_id;             //  of it
    char *keys;                 //  folder; NULL: no keys
    bool supervise;             //  a parent process starts the server, and restarts it when it dies
    bool open;                  //  every peer that can connect is served
    char *log_format;           //  "text" or "json"; NULL: text
    char *http;                 //  [ADDRESS:]PORT or unix:PATH; NULL: no HTTP
    char *http_tokens;          //  path of a file; NULL: none
} options_t;

//  Parses `tureen serve` arguments (argv[0] is "serve").  OPTION_WRONG: error says which argument or which
//  line of the file, and what was expected.  The caller calls options_clear in every case.
option_status_t options_parse (options_t *self, int argc, char **argv, char *error, size_t error_bytes);
void options_clear (options_t *self);

//  Words of `tureen serve`, without "serve", for data sets that a running server is to have too: those that
//  declare data sets and their fields, what is set of them, and tenant-datasets for tenants of the server.
//  Paths are absolute.  added->tenants are the server's, in their places, each with what it may use of the
//  added data sets; one that may use all of the server's may use these.  classes-from is not looked at.
//  False: error says why.  The caller calls options_clear in every case.
bool options_parse_added (options_t *added, const options_t *server, const char *const *words, size_t count,
    char *error, size_t error_bytes);
//  A bit for each tenant that may use the data set of this place.
static inline uint64_t
options_allowed (const options_t *self, size_t dataset)
{
    uint64_t tenants = 0;
    for (size_t index = 0; index < self->tenant_count; index++)
        tenants |= (self->tenants [index].datasets >> dataset & 1) << index;
    return tenants;
}

void options_dataset_clear (options_dataset_t *self);
//  The options of `tureen serve`: for its --help, and for commands that pass some of them on.
const option_table_t *options_table (void);

#endif
