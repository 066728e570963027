#include "sources.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "complain.h"
#include "input.h"
#include "learned_rows_file.h"
#include "machine.h"
#include "plural.h"
#include "reader.h"
#include "stranger.h"
#include "unreadable.h"
#include "utf8.h"

enum {
    READ_BYTES_MAX = 4 * 1024 * 1024,   //  of one range of several samples
    CHUNK_ENDS = STREAM_ORDER_PIECE,    //  in one range, with padding behind each: with a job's pool, members
                                        //  of a piece are up to 64 places apart, and a chunk is 64 or more
    READS_TOGETHER = 16,                //  pieces read at once, assumed when the size of a piece is chosen
    REDOX_CHUNKS_FEW = 128,             //  with fewer epochs are not fresh (docs/tiers.md)
    PIECE_LEAST = 8,                    //  samples of a piece, if the pool has room for
    PIECES_OF_POOL = 64,                //  of them
    ERROR_BYTES = 1024,
    CLASSES_SHOWN = 3,
    CLASS_BYTES = 80,
    CLASSES_BYTES = CLASSES_SHOWN * (CLASS_BYTES + 4) + 32
};

const char *
sources_size (uint64_t bytes, char *text, size_t size)
{
    static const char *const units [] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
    double value = (double) bytes;
    size_t unit = 0;
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    snprintf (text, size, unit? "%.1f %s": "%.0f %s", value, units [unit]);
    return text;
}

size_t
sources_buffer_part (const options_t *options)
{
    return options->raw_bytes / BROKER_RAW_PARTS;
}

//  classes_of: as in the catalogue's options.
static int
s_open_catalogue (sources_t *self, catalogue_t **catalogue_p, const options_dataset_t *wanted,
    const catalogue_t *classes_of, char *error, size_t error_bytes)
{
    catalogue_field_t fields [OPTIONS_FIELDS_MAX];
    for (size_t field = 0; field < wanted->field_count; field++)
        fields [field] = (catalogue_field_t) { .name = wanted->fields [field].name,
            .is_mask = wanted->fields [field].is_mask, .path = wanted->fields [field].path };
    catalogue_options_t options = { .path = wanted->path, .extensions = wanted->extensions, .fields = fields,
        .field_count = wanted->field_count, .cache = self->blocks, .list_anew = wanted->list_anew,
        .allow_empty = wanted->allow_empty, .classes_of = classes_of, .progress = &self->progress };
    self->progress.subject = wanted->name;
    fflush (stdout);                    //  what was found before, in front of events of the log
    int rc = catalogue_open (catalogue_p, &options, error, error_bytes);
    progress_clear (&self->progress);
    return rc;
}

//  Writes one line of the log: what was found.
static void
s_describe (const options_dataset_t *wanted, const catalogue_t *catalogue)
{
    char size [32];
    printf ("data set '%s': %u sample%s", wanted->name, catalogue_samples (catalogue),
        plural (catalogue_samples (catalogue)));
    if (catalogue_classes (catalogue))
        printf (" in %u class%s", catalogue_classes (catalogue), plural_es (catalogue_classes (catalogue)));
    else
        for (size_t label = 0; label < catalogue_labels (catalogue); label++)
            printf ("%s%s", label? ", ": " with labels ", catalogue_label (catalogue, label)->name);
    for (size_t field = 1; field < catalogue_fields (catalogue); field++)
        printf (", %s %s", catalogue_field_is_mask (catalogue, field)? "mask": "field",
            catalogue_field_name (catalogue, field));
    printf (", %s, in %s\n", sources_size (catalogue_bytes (catalogue), size, sizeof size), wanted->path);
}

//  What a person should know of the data set: a line of the log each, and in status.
static void
s_warn (const source_t *source)
{
    const catalogue_t *catalogue = source->catalogue;
    char unreadable [ERROR_BYTES];
    for (size_t index = 0; catalogue_doubt (catalogue, index); index++)
        data_warnings_add (source->warnings, NULL, catalogue_doubt (catalogue, index));
    if (unreadable_describe (catalogue, unreadable, sizeof unreadable))
        data_warnings_add (source->warnings, NULL, unreadable);
    const char *text, *other;
    for (size_t index = 0; (text = data_warnings_text (source->warnings, index, &other)); index++)
        printf ("warning: data set '%s': %s\n", data_warnings_name (source->warnings), text);
}

//  ---- the cache on the local disk

//  Writes one line of the log: what is kept there, or why nothing is.
static void
s_describe_blocks (const sources_t *self, const char *name, const block_data_t *blocks, int rc)
{
    char size [32];
    if (blocks)
        printf ("data set '%s': kept in %s, which has %s of it\n", name, self->options->blocks_folder,
            sources_size (block_data_held_bytes (blocks), size, sizeof size));
    else
    if (rc)
        printf ("warning: data set '%s' is not kept in %s: %s\n", name, self->options->blocks_folder,
            rc == -ENODATA? "the store tells no versions (ETag) of its objects, without which they might "
            "have changed": rc == -ENOSPC? "it is full of data in use: give it more bytes":
            rc == -EFBIG? "a sparse file as large as the data is too large here: raise the limit "
            "(ulimit -f, LimitFSIZE=), or give a folder on another file system": strerror (-rc));
}

//  ---- devices

//  The device of this file system, or of this store if it is not NULL, made if it is new; NULL: no memory.
static device_t *
s_device (sources_t *self, dev_t number, const store_t *store)
{
    for (size_t index = 0; index < self->device_count; index++)
        if (device_is (self->devices [index], number, store))
            return self->devices [index];
    device_t **devices = realloc (self->devices, (self->device_count + 1) * sizeof *devices);
    if (!devices)
        return NULL;
    self->devices = devices;
    devices [self->device_count] = device_new (number, store, self->options->reads);
    return devices [self->device_count]? devices [self->device_count++]: NULL;
}

//  Writes a line of the log where the list of a store's objects is an old one.
static void
s_describe_list (const char *name, const catalogue_t *catalogue, size_t field)
{
    char when [32];
    time_t listed = (time_t) catalogue_listed_s (catalogue, field);
    struct tm moment;
    if (listed > 0 && gmtime_r (&listed, &moment) && strftime (when, sizeof when, "%FT%TZ", &moment) > 0)
        printf ("data set '%s': its objects were listed at %s; --listing %s=anew lists them again\n", name,
            when, name);
}

static void
s_find_object (const void *context, uint64_t object, uint64_t *begin, uint64_t *bytes)
{
    const source_field_t *field = context;
    *begin = catalogue_place (field->catalogue, (uint32_t) object, field->number);
    *bytes = catalogue_file_bytes (field->catalogue, (uint32_t) object, field->number);
}

//  Other members keep its objects too.  False: no memory.
static bool
s_share_field (const sources_t *self, source_t *source, size_t field)
{
    int rc;
    const block_data_t *blocks = catalogue_blocks (source->catalogue, field, &rc);
    if (!self->cluster || !blocks)
        return true;
    source->shared [field] = (source_field_t) { .catalogue = source->catalogue, .number = field };
    cluster_data_t data = { .blocks = blocks,
        .store = store_name (catalogue_store (source->catalogue, field)),
        .objects = catalogue_samples (source->catalogue), .find = s_find_object,
        .context = &source->shared [field], .catalogue = source->catalogue, .field = field };
    return cluster_add (self->cluster, &data);
}

static bool
s_place_folder (sources_t *self, source_t *source, const char *name)
{
    for (size_t field = 0; field < catalogue_fields (source->catalogue); field++) {
        const store_t *store = catalogue_store (source->catalogue, field);
        dev_t number = store? 0: catalogue_device (source->catalogue, field);
        source->fields [field] = s_device (self, number, store);
        if (!source->fields [field])
            return complain ("serve", "no memory for the list of devices");
        device_add_folder (source->fields [field]);
        int rc;
        const block_data_t *blocks = catalogue_blocks (source->catalogue, field, &rc);
        s_describe_list (name, source->catalogue, field);
        s_describe_blocks (self, name, blocks, rc);
        if (!s_share_field (self, source, field))
            return complain ("serve", "no memory for the cluster's data sets");
    }
    return true;
}

//  ---- packs

static size_t
s_sample_bytes (void *user, uint32_t id)
{
    const source_t *source = user;
    return pack_sample_bytes (source->pack, id);
}

static uint32_t
s_piece (void *user, uint64_t pool_samples)
{
    const source_t *source = user;
    uint64_t bytes = catalogue_bytes (source->catalogue);       //  0: all files are empty
    double sample_bytes = (double) (bytes? bytes: 1) / catalogue_samples (source->catalogue);
    //  Throttled disks look better than they are (docs/disk.md), and small pieces gain little if the pool is
    //  large.
    uint64_t least = pool_samples / PIECES_OF_POOL;
    least = least < 1? 1: least > PIECE_LEAST? PIECE_LEAST: least;
    if (source->piece_set)
        return source->piece_set < RAW_PIECE_MAX? source->piece_set: RAW_PIECE_MAX;
    return cost_piece (device_cost (source_device (source, 0)), sample_bytes, READS_TOGETHER, pool_samples,
        (uint32_t) least, RAW_PIECE_MAX);
}

static bool
s_prefers_singles (void *user, uint32_t samples, size_t sample_bytes, size_t range_bytes)
{
    const source_t *source = user;
    //  Reads take whole blocks, also for empty files.
    double single_bytes = (double) sample_bytes / samples + READER_ALIGN_BYTES;
    double together_bytes = (double) range_bytes + READER_ALIGN_BYTES;
    return cost_prefers_singles (device_cost (source_device (source, 0)), samples, single_bytes,
        together_bytes, READS_TOGETHER);
}

//  Adds the volume to the files of its device.  False: the device is unknown, and errno has the reason.
static bool
s_place_volume (sources_t *self, source_volume_t *volume, const char *path, size_t span)
{
    struct stat status;
    if (stat (path, &status))
        return false;
    errno = ENOMEM;
    volume->device = s_device (self, status.st_dev, NULL);
    return volume->device && device_add_volume (volume->device, path, "", span, &volume->file);
}

//  The same with a volume in a store.  False: no memory.
static bool
s_place_object (sources_t *self, source_t *source, uint32_t volume, size_t span)
{
    const pack_t *pack = source->pack;
    device_t *device = source->volumes [volume].device = s_device (self, 0, pack_store (pack));
    uint32_t *file_p = &source->volumes [volume].file;
    if (!device || !device_add_volume (device, pack_volume_url (pack, volume),
        pack_volume_version (pack, volume), span, file_p))
        return false;
    int rc;
    reader_blocks_t blocks = { .data = pack_blocks (pack, &rc), .begin = pack_volume_place (pack, volume),
        .bytes = pack_volume_bytes (pack, volume), .object = volume };
    device_keep_volume (device, *file_p, &blocks);
    return true;
}

static void
s_find_volume (const void *context, uint64_t object, uint64_t *begin, uint64_t *bytes)
{
    *begin = pack_volume_place (context, (uint32_t) object);
    *bytes = pack_volume_bytes (context, (uint32_t) object);
}

//  Other members keep its blocks too.  False: no memory.
static bool
s_share_pack (const sources_t *self, const source_t *source)
{
    int rc;
    const block_data_t *blocks = pack_blocks (source->pack, &rc);
    cluster_data_t data = { .blocks = blocks, .store = store_name (pack_store (source->pack)),
        .objects = pack_volumes (source->pack), .find = s_find_volume, .context = source->pack,
        .first_file = source->volumes [0].file };
    return !self->cluster || !blocks || cluster_add (self->cluster, &data);
}

//  A volume in a store, to be measured.
typedef struct {
    const pack_t *pack;
    uint32_t volume;
} measured_t;

static int
s_read_volume (void *context, uint8_t *memory, size_t bytes, uint64_t offset)
{
    const measured_t *measured = context;
    return pack_read_volume (measured->pack, measured->volume, memory, bytes, offset, false);
}

//  By the first volume that is not wholly on the local disk.  If all are, the store is not asked, and the
//  reads that do go there will tell.
static void
s_probe_store (device_t *device, const pack_t *pack)
{
    int rc;
    const block_data_t *blocks = pack_blocks (pack, &rc);
    measured_t measured = { .pack = pack };
    while (blocks && measured.volume < pack_volumes (pack) && block_data_has (blocks,
        pack_volume_place (pack, measured.volume), pack_volume_bytes (pack, measured.volume)))
        measured.volume++;
    if (measured.volume == pack_volumes (pack))
        return;
    cost_source_t source = { .read = s_read_volume, .context = &measured,
        .size_bytes = pack_volume_bytes (pack, measured.volume) };
    device_probe (device, &source);
}

//  Measures their devices, unless they were measured before.
static bool
s_place_volumes (sources_t *self, source_t *source, size_t span)
{
    uint32_t volumes = pack_volumes (source->pack);
    source->breaks = calloc (volumes + 1, sizeof *source->breaks);
    source->volumes = calloc (volumes + 1, sizeof *source->volumes);
    if (!source->breaks || !source->volumes)
        return complain ("serve", "no memory for the list of volumes");
    char path [PATH_MAX];
    bool is_in_store = pack_store (source->pack);
    for (uint32_t volume = 0; volume < volumes; volume++) {
        source->breaks [volume] = pack_volume_first (source->pack, volume);
        pack_volume_path (source->pack, volume, path, sizeof path);
        if (is_in_store? !s_place_object (self, source, volume, span):
            !s_place_volume (self, &source->volumes [volume], path, span))
            return complain ("serve", "%s: %s", path, is_in_store? "no memory": strerror (errno));
        if (!is_in_store)
            device_probe (source->volumes [volume].device, NULL);
    }
    if (!is_in_store)
        return true;
    s_probe_store (source->volumes [0].device, source->pack);   //  all volumes of a store have one device
    return s_share_pack (self, source) || complain ("serve", "no memory for the cluster's data sets");
}

//  options.c has refused other names.
static raw_policy_t
s_tier (const options_dataset_t *wanted)
{
    const char *name = wanted->tier? wanted->tier: "stream";
    return strcmp (name, "redox") == 0? RAW_REDOX: strcmp (name, "direct") == 0? RAW_DIRECT: RAW_STREAM;
}

//  Writes one line of the log: redox is not for training.
static void
s_describe_redox (const options_dataset_t *wanted, const pack_t *pack)
{
    uint32_t chunks = (pack_samples (pack) - 1) / pack_chunk_samples (pack) + 1;
    printf ("data set '%s': tier redox is for comparison with the paper; train with tier stream",
        wanted->name);
    if (chunks < REDOX_CHUNKS_FEW)
        printf (". With only %u chunks its epochs are not fresh: samples of one chunk come near each other, "
            "so that one epoch's order tells of the next one's", chunks);
    printf ("\n");
}

static bool
s_open_pack (sources_t *self, dataset_t *dataset, const options_dataset_t *wanted)
{
    source_t *source = source_of (dataset);
    uint32_t chunk = pack_chunk_samples (source->pack);
    int rc;
    const block_data_t *blocks = pack_blocks (source->pack, &rc);
    s_describe_blocks (self, wanted->name, blocks, rc);
    if (s_tier (wanted) == RAW_REDOX && chunk > RAW_PIECE_MAX)
        return complain ("serve", "data set '%s': tier redox takes chunks of at most %d samples, this pack "
            "has %u: pack it again with --chunk %d", wanted->name, RAW_PIECE_MAX, chunk, RAW_PIECE_MAX);
    source->piece_set = wanted->piece;
    size_t largest = 0, least, half = sources_buffer_part (self->options) / 2;
    for (uint32_t id = 0; id < pack_samples (source->pack); id++)
        if (pack_sample_bytes (source->pack, id) > largest)
            largest = pack_sample_bytes (source->pack, id);
    size_t read_bytes = half < READ_BYTES_MAX? half: READ_BYTES_MAX,
        together = largest > read_bytes? largest: read_bytes;
    size_t room = reader_span (READER_ALIGN_BYTES - 1, together + CHUNK_ENDS * READER_ALIGN_BYTES);
    if (!s_place_volumes (self, source, room))
        return false;
    broker_pack_t pack = { .order = pack_order (source->pack), .breaks = source->breaks,
        .break_count = pack_volumes (source->pack), .sample_bytes = s_sample_bytes, .piece = s_piece,
        .prefers_singles = s_prefers_singles, .user = source,
        .policy = s_tier (wanted), .chunk = chunk,
        .read_bytes_max = read_bytes };
    if (pack.policy == RAW_REDOX)
        s_describe_redox (wanted, source->pack);
    if (broker_set_pack (self->broker, dataset, &pack, &least))
        return true;
    return complain ("serve", "data set '%s': %llu bytes for compressed samples are too few for samples of "
        "this size: start with --raw %zu", wanted->name, (unsigned long long) self->options->raw_bytes,
        broker_raw_setting (least));
}

//  Writes one line of the log.  A file that is damaged costs what was known, and nothing else.
static void
s_load_rows (const options_t *options, const source_t *source, const char *name)
{
    char path [PATH_MAX];
    const char *fingerprint = catalogue_fingerprint (source->catalogue);
    int rc = learned_rows_path (options->rows_folder, fingerprint, path, sizeof path);
    if (rc == 0)
        rc = learned_rows_load (source->rows, path, fingerprint);
    if (rc == 0)
        printf ("data set '%s': rows of %u JPEG%s are known from %s\n", name,
            learned_rows_samples (source->rows), plural (learned_rows_samples (source->rows)), path);
    else
    if (rc != -ENOENT)
        printf ("data set '%s': the file of rows '%s' is not used (%s): they are found out anew\n", name,
            path, rc == -EBADMSG? "it is damaged, or of other data": rc == -EPERM? "it " STRANGER_WORDS
            : input_error (rc));
}

//  At the end of the server, when no task has an entry.
static void
s_save_rows (const options_t *options, const source_t *source)
{
    char path [PATH_MAX];
    const char *fingerprint = catalogue_fingerprint (source->catalogue);
    int rc = learned_rows_path (options->rows_folder, fingerprint, path, sizeof path);
    if (rc == 0)
        rc = learned_rows_save (source->rows, path, fingerprint);
    if (rc)
        complain ("serve", "'%s' cannot be written (%s): the rows of JPEGs will be found out anew", path,
            strerror (-rc));
}

//  Where libjpeg's warnings count, JPEGs are read from their begin (jpeg_entropy.h).
static bool
s_learn_rows (sources_t *self, source_t *source, const char *name)
{
    if (self->rows.bytes_max == 0 || source->jpeg_warnings_max != UINT32_MAX)
        return true;
    source->rows = learned_rows_new (catalogue_samples (source->catalogue), &self->rows);
    if (!source->rows)
        return complain ("serve", "no memory for a table of %u samples",
            catalogue_samples (source->catalogue));
    if (self->options->rows_folder)
        s_load_rows (self->options, source, name);
    return true;
}

//  Unless it is open: before others that go by its classes.
static bool
s_find_data (sources_t *self, size_t index)
{
    const options_dataset_t *wanted = &self->options->datasets [index];
    source_t *source = &self->all [index];
    char error [ERROR_BYTES];
    const catalogue_t *classes_of = NULL;
    for (size_t other = 0; wanted->classes_from && other < self->options->dataset_count; other++)
        if (strcmp (self->options->datasets [other].name, wanted->classes_from) == 0) {
            if (!s_find_data (self, other))
                return false;
            classes_of = self->all [other].catalogue;
        }
    return source->catalogue
        || s_open_catalogue (self, &source->catalogue, wanted, classes_of, error, sizeof error) == 0
        || complain ("serve", "data set '%s': %s", wanted->name, error);
}

static bool
s_open_dataset (sources_t *self, size_t index)
{
    const options_dataset_t *wanted = &self->options->datasets [index];
    source_t *source = &self->all [index];
    if (!s_find_data (self, index))
        return false;
    source->jpeg_warnings_max = wanted->jpeg_warnings_max;
    source->customs = self->customs;
    source->pack = catalogue_pack (source->catalogue);
    source->warnings = data_warnings_new (wanted->name, source->catalogue);
    if (!source->warnings)
        return complain ("serve", "no memory for the data sets");
    s_describe (wanted, source->catalogue);
    s_warn (source);
    dataset_t *dataset = broker_add_dataset (self->broker, wanted->name,
        catalogue_samples (source->catalogue),
        wanted->bad_is_fatal? BROKER_BAD_FAIL: BROKER_BAD_DROP, source);
    bool has_list = !source->pack && catalogue_store (source->catalogue, 0) && self->blocks;
    if (wanted->list_anew && !has_list)
        return complain ("serve", "data set '%s': listing is for single objects of a store, with "
            "block-cache: leave it out", wanted->name);
    if (source->pack)
        return s_open_pack (self, dataset, wanted);
    if (!wanted->tier && !wanted->piece)
        return s_place_folder (self, source, wanted->name) && s_learn_rows (self, source, wanted->name);
    return complain ("serve", "data set '%s': tier and piece are for packs, this is a folder of files: make "
        "a pack of it with `tureen pack %s DIR`", wanted->name, wanted->path);
}

bool
sources_open (sources_t *self, broker_t *broker, const options_t *options)
{
    self->broker = broker;
    self->options = options;
    self->rows.bytes_max = options->rows_bytes;
    if (options->rows_folder && access (options->rows_folder, W_OK | X_OK) != 0)
        return complain ("serve", "--jpeg-rows-dir '%s': %s: give a folder that this user may write to",
            options->rows_folder, strerror (errno));
    if (options->rows_folder && stranger_owns (options->rows_folder))
        return complain ("serve", "--jpeg-rows-dir: '%s' " STRANGER_WORDS, options->rows_folder);
    char error [ERROR_BYTES];
    if (options->blocks_folder && block_cache_open (&self->blocks, options->blocks_folder,
        options->blocks_bytes, error, sizeof error))
        return complain ("serve", "--block-cache: %s", error);
    if (self->blocks && block_cache_start_threads (self->blocks))
        return complain ("serve", "--block-cache: no thread can be started for it");
    for (size_t index = 0; index < options->dataset_count; index++)
        if (!s_open_dataset (self, index))
            return false;
    return true;
}

//  ---- classes of data sets that look like splits of one set: where they differ, one number may mean two
//  classes, which no job can see

//  A data set's classes in the order of their names' bytes.
typedef struct {
    const catalogue_t *catalogue;
    uint32_t *sorted;                   //  owned; NULL: it has no classes
    uint32_t count;
} classes_t;

//  What two have: which classes of each the other lacks, and a class that has two numbers.
typedef struct {
    uint32_t common;
    uint32_t lacked [2];
    char names [2] [CLASSES_BYTES];     //  of some of them
    const char *moved;                  //  NULL: each class that both have has one number
    uint32_t numbers [2];
} difference_t;

static int
s_compare_classes (const void *left, const void *right, void *catalogue)
{
    return strcmp (catalogue_class_name (catalogue, *(const uint32_t *) left),
        catalogue_class_name (catalogue, *(const uint32_t *) right));
}

//  Without memory it has no classes, and there is no warning.
static classes_t
s_sort_classes (const catalogue_t *catalogue)
{
    classes_t self = { .catalogue = catalogue, .count = catalogue_classes (catalogue) };
    self.sorted = self.count? malloc (self.count * sizeof *self.sorted): NULL;
    self.count = self.sorted? self.count: 0;
    for (uint32_t class = 0; class < self.count; class++)
        self.sorted [class] = class;
    if (self.count)
        qsort_r (self.sorted, self.count, sizeof *self.sorted, s_compare_classes, (void *) catalogue);
    return self;
}

static const char *
s_class_name (const classes_t *self, uint32_t place)
{
    return catalogue_class_name (self->catalogue, self->sorted [place]);
}

static void
s_note_lacked (difference_t *self, size_t side, const char *name)
{
    char shown [CLASS_BYTES], *list = self->names [side];
    size_t used = strlen (list);
    if (self->lacked [side]++ < CLASSES_SHOWN)
        snprintf (list + used, CLASSES_BYTES - used, "%s'%s'", used? ", ": "",
            utf8_visible (name, strlen (name), shown, sizeof shown));
}

static void
s_compare_splits (difference_t *self, const classes_t *left, const classes_t *right)
{
    uint32_t a = 0, b = 0;
    *self = (difference_t) { .common = 0 };
    while (a < left->count || b < right->count) {
        int order = a == left->count? 1: b == right->count? -1:
            strcmp (s_class_name (left, a), s_class_name (right, b));
        if (order == 0 && left->sorted [a] != right->sorted [b] && !self->moved) {
            self->moved = s_class_name (left, a);
            self->numbers [0] = left->sorted [a];
            self->numbers [1] = right->sorted [b];
        }
        self->common += order == 0;
        if (order < 0)
            s_note_lacked (self, 1, s_class_name (left, a));
        if (order > 0)
            s_note_lacked (self, 0, s_class_name (right, b));
        a += order <= 0;
        b += order >= 0;
    }
}

static void
s_print_lacked (FILE *text, const difference_t *self, size_t side, const char *name)
{
    if (self->lacked [side] > CLASSES_SHOWN)
        fprintf (text, "; '%s' has no %s and %u more", name, self->names [side],
            self->lacked [side] - CLASSES_SHOWN);
    else
    if (self->lacked [side])
        fprintf (text, "; '%s' has no %s", name, self->names [side]);
}

static void
s_print_difference (FILE *text, const difference_t *self, const char *left, const char *right)
{
    char shown [CLASS_BYTES];
    fprintf (text, "data sets '%s' and '%s' do not have the same classes", left, right);
    s_print_lacked (text, self, 0, left);
    s_print_lacked (text, self, 1, right);
    if (self->moved)
        fprintf (text, "; the label of '%s' is %u in '%s' and %u in '%s'",
            utf8_visible (self->moved, strlen (self->moved), shown, sizeof shown), self->numbers [0], left,
            self->numbers [1], right);
    const char *less = self->lacked [0]? left: right, *more = self->lacked [0]? right: left;
    fprintf (text, ": make an empty folder of each class that is missing (--allow-empty %s=yes)", less);
    if (self->lacked [0] == 0 || self->lacked [1] == 0)
        fprintf (text, ", or number by names (--classes-from %s=%s)", less, more);
}

//  Of two that are no splits of one set, few names are the same.
static bool
s_look_alike (const difference_t *self, const classes_t *left, const classes_t *right)
{
    uint32_t least = left->count < right->count? left->count: right->count;
    return least > 0 && 2 * (uint64_t) self->common >= least;
}

//  The warning, to the log and to both data sets in status.  Without memory for the text there is none.
static void
s_tell_classes (const sources_t *self, const difference_t *difference, size_t left, size_t right)
{
    const options_dataset_t *datasets = self->options->datasets;
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream (&text, &size);
    if (!stream)
        return;
    s_print_difference (stream, difference, datasets [left].name, datasets [right].name);
    if (fclose (stream) == 0) {
        printf ("warning: %s\n", text);
        data_warnings_add (self->all [left].warnings, datasets [right].name, text);
        data_warnings_add (self->all [right].warnings, datasets [left].name, text);
    }
    free (text);
}

//  Tells of each data set the classes of which differ from those of the first one before it that it shares at
//  least half of the classes of either with.
static void
s_warn_of_classes (const sources_t *self)
{
    size_t count = self->options->dataset_count;
    classes_t *all = calloc (count + 1, sizeof *all);
    for (size_t index = 0; all && index < count; index++) {
        all [index] = s_sort_classes (self->all [index].catalogue);
        difference_t difference;
        bool is_alike = false;
        for (size_t before = 0; before < index && !is_alike; before++) {
            s_compare_splits (&difference, &all [before], &all [index]);
            is_alike = s_look_alike (&difference, &all [before], &all [index]);
            if (is_alike && (difference.lacked [0] || difference.lacked [1] || difference.moved))
                s_tell_classes (self, &difference, before, index);
        }
    }
    for (size_t index = 0; all && index < count; index++)
        free (all [index].sorted);
    free (all);
}

//  ---- other warnings, and the end

//  The system kills a server that uses more than there is: late, when the cache fills.
static void
s_warn_of_memory (const options_t *options, bool has_packs)
{
    char wanted [32], there [32];
    uint64_t raw_bytes = has_packs? options->raw_bytes: 0, memory_bytes = machine_memory_bytes ("");
    uint64_t room_bytes = UINT64_MAX - raw_bytes, sum = options->cache_bytes < room_bytes?
        options->cache_bytes + raw_bytes: UINT64_MAX;
    if (sum > memory_bytes)
        printf ("warning: the cache%s may take %s, and this process may use %s of memory (container limits "
            "included): give less --cache%s\n", has_packs? " and compressed samples": "",
            sources_size (sum, wanted, sizeof wanted), sources_size (memory_bytes, there, sizeof there),
            has_packs? " or --raw": "");
}

//  A proxy in the environment that is meant for other programs sees all data, or slows them down.
static void
s_tell_of_proxies (const sources_t *self)
{
    char name [DEVICE_NAME_BYTES], proxy [HTTP_PROXY_SHOWN_BYTES];
    for (size_t index = 0; index < self->device_count; index++) {
        device_proxy (self->devices [index], proxy);
        if (*proxy)
            printf ("'%s' is read through the proxy %s\n", device_name (self->devices [index], name), proxy);
    }
}

void
sources_warn (const sources_t *self)
{
    const options_t *options = self->options;
    s_warn_of_classes (self);
    bool has_store = false, has_packs = broker_reads_max (self->broker) > 0;
    for (size_t index = 0; index < self->device_count; index++)
        has_store = has_store || device_is_store (self->devices [index]);
    s_tell_of_proxies (self);
    s_warn_of_memory (options, has_packs);
    if (options->blocks_folder && !has_store)
        printf ("warning: --block-cache does nothing: it is for object stores, and no data set is in one\n");
    if (options->raw_is_given && !has_packs)
        printf ("warning: --raw does nothing: it is for packs, and no data set is one\n");
    if (options->rows_folder && options->rows_bytes == 0)
        printf ("warning: --jpeg-rows-dir does nothing with --jpeg-rows 0\n");
    if (options->operation_bytes != OPTIONS_OPERATION_BYTES && options->operation_count == 0)
        printf ("warning: --operation-memory does nothing without --operation\n");
}

void
sources_close (sources_t *self)
{
    //  All of them first: what follows may wait for a disk that hangs, and the process ends meanwhile
    //  (ending.h).
    for (size_t index = 0; index < OPTIONS_DATASETS_MAX; index++)
        if (self->all [index].rows && self->options->rows_folder)
            s_save_rows (self->options, &self->all [index]);
    //  Before the catalogues, which have the stores that devices read.
    for (size_t index = 0; index < self->device_count; index++)
        device_destroy (&self->devices [index]);
    for (size_t index = 0; index < OPTIONS_DATASETS_MAX; index++) {
        learned_rows_destroy (&self->all [index].rows);
        data_warnings_destroy (&self->all [index].warnings);
        catalogue_destroy (&self->all [index].catalogue);
        free (self->all [index].breaks);
        free (self->all [index].volumes);
    }
    free (self->devices);
    block_cache_close (&self->blocks);
    *self = (sources_t) { .devices = NULL };
}
