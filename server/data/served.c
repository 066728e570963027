#include "served.h"
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "ahead_reads.h"
#include "budget.h"
#include "clock.h"
#include "complain.h"
#include "file.h"
#include "jpeg_row_index.h"
#include "machine.h"
#include "pieces.h"
#include "reader.h"
#include "tenant.h"
#include "words.h"
#include "xalloc.h"

enum {
    CHUNK_ENDS = STREAM_ORDER_PIECE,    //  in one range, with padding behind each: with a job's pool, members
                                        //  of a piece are up to 64 places apart, and a chunk is 64 or more
    REDOX_CHUNKS_FEW = 128,             //  with fewer epochs are not fresh (docs/tiers.md)
    ERROR_BYTES = 1024
};

const char *
served_size_text (uint64_t bytes, char *text, size_t size)
{
    static const char *const units [] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
    double value = (double) bytes;
    size_t unit = 0;
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    snprintf (text, size, unit? "%.1f %s": "%.0f %s", value, units [unit]);
    return text;
}

//  Makes the error.  Returns false.
static bool __attribute__ ((format (printf, 2, 3)))
s_fail (char **error_p, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    *error_p = xalloc_text_of (format, arguments);
    va_end (arguments);
    return false;
}

static int
s_open_catalogue (const served_sets_t *self, served_t *served, progress_t *progress, char *error,
    size_t error_bytes)
{
    const options_dataset_t *wanted = &served->wanted;
    const char *keep = wanted->keep? wanted->keep: "far";
    catalogue_field_t fields [OPTIONS_FIELDS_MAX];
    for (size_t field = 0; field < wanted->field_count; field++)
        fields [field] = (catalogue_field_t) { .name = wanted->fields [field].name,
            .is_mask = wanted->fields [field].is_mask, .path = wanted->fields [field].path };
    catalogue_options_t options = { .path = wanted->path, .extensions = wanted->extensions, .fields = fields,
        .field_count = wanted->field_count, .cache = self->blocks, .list_anew = wanted->list_anew,
        .keep = strcmp (keep, "yes") == 0? CATALOGUE_KEEP_ALL: strcmp (keep, "no") == 0? CATALOGUE_KEEP_NONE:
            CATALOGUE_KEEP_FAR, .allow_empty = wanted->allow_empty, .classes_of = served->classes_of,
        .progress = progress };
    progress->subject = wanted->name;
    int rc = catalogue_open (&served->source.catalogue, &options, error, error_bytes);
    progress_clear (progress);
    return rc;
}

//  Writes one line of the log: what was found.
static void
s_describe (const options_dataset_t *wanted, const catalogue_t *catalogue, FILE *out)
{
    char size [32];
    fprintf (out, "data set '%s': %u sample%s", wanted->name, catalogue_samples (catalogue),
        plural (catalogue_samples (catalogue)));
    if (catalogue_classes (catalogue))
        fprintf (out, " in %u class%s", catalogue_classes (catalogue),
            plural_es (catalogue_classes (catalogue)));
    else
        for (size_t label = 0; label < catalogue_labels (catalogue); label++)
            fprintf (out, "%s%s", label? ", ": " with labels ", catalogue_label (catalogue, label)->name);
    for (size_t field = 1; field < catalogue_fields (catalogue); field++)
        fprintf (out, ", %s %s", catalogue_field_is_mask (catalogue, field)? "mask": "field",
            catalogue_field_name (catalogue, field));
    fprintf (out, ", %s, in %s\n", served_size_text (catalogue_bytes (catalogue), size, sizeof size),
        wanted->path);
}

//  What a person should know of the data set: a line of the log each.
static void
s_tell_warnings (const data_warnings_t *warnings, FILE *out)
{
    const char *text, *other;
    for (size_t index = 0; (text = data_warnings_text (warnings, index, &other)); index++)
        if (other)
            fprintf (out, "warning: %s\n", text);
        else
            fprintf (out, "warning: data set '%s': %s\n", data_warnings_name (warnings), text);
}

static void
s_warn (const dataset_source_t *source, FILE *out)
{
    const catalogue_t *catalogue = source->catalogue;
    char unreadable [ERROR_BYTES];
    for (size_t index = 0; catalogue_warning (catalogue, index); index++)
        data_warnings_add (source->warnings, NULL, catalogue_warning (catalogue, index));
    if (data_warnings_unreadable (catalogue, unreadable, sizeof unreadable))
        data_warnings_add (source->warnings, NULL, unreadable);
    s_tell_warnings (source->warnings, out);
}

void
served_describe (const served_t *served, FILE *out)
{
    s_describe (&served->wanted, served->source.catalogue, out);
    s_tell_warnings (served->source.warnings, out);
}

//  ---- the cache on the local disk

const char *
served_not_kept_reason (int rc)
{
    return rc == -EAGAIN? "its disk does not answer; start the server again when it does":
        rc == -ENODATA? "the store tells no versions (ETag) of its objects, without which they might "
        "have changed": rc == -ENOSPC? "it is full of data in use: make it larger":
        rc == -EFBIG? "a sparse file as large as the data is too large here: raise the limit "
        "(ulimit -f, LimitFSIZE=), or give a folder on another file system": strerror (-rc);
}

//  Writes one line of the log: what is kept there, or why nothing is.
static void
s_describe_blocks (const served_sets_t *self, const served_t *served, const block_data_t *blocks, int rc,
    FILE *out)
{
    char size [32];
    const char *name = served->wanted.name, *folder = self->options->blocks_folder;
    if (blocks && !block_data_is_aside (blocks))
        fprintf (out, "data set '%s': kept in %s, which takes %s for it\n", name, folder,
            served_size_text (block_data_held_bytes (blocks), size, sizeof size));
    else
    if (rc == -CATALOGUE_NOT_KEPT && !served->wanted.keep)
        fprintf (out, "data set '%s' is not kept in %s, since it is on no network file system; with --keep "
            "%s=yes it is\n", name, folder, name);
    else
    if (rc && rc != -CATALOGUE_NOT_KEPT)
        fprintf (out, "warning: data set '%s' is not kept in %s: %s\n", name, folder,
            served_not_kept_reason (rc));
    if (blocks && served->is_added && self->cluster && catalogue_store (served->source.catalogue, 0))
        fprintf (out, "data set '%s' was added: it is not read through the other members, until the server "
            "starts with it\n", name);
}

//  ---- devices

//  Writes a line of the log where the list of a store's objects is an old one.
static void
s_describe_list (const char *name, const catalogue_t *catalogue, size_t field, FILE *out)
{
    char when [32];
    time_t listed = (time_t) catalogue_listed_s (catalogue, field);
    struct tm moment;
    if (listed > 0 && gmtime_r (&listed, &moment) && strftime (when, sizeof when, "%FT%TZ", &moment) > 0)
        fprintf (out, "data set '%s': its objects were listed at %s; --listing %s=anew lists them again\n",
            name, when, name);
}

static void
s_find_object (const void *context, uint64_t object, uint64_t *begin, uint64_t *bytes)
{
    const dataset_source_field_t *field = context;
    *begin = catalogue_place (field->catalogue, (uint32_t) object, field->number);
    *bytes = catalogue_file_bytes (field->catalogue, (uint32_t) object, field->number);
}

//  Other members keep its objects too.  False: no memory.
static bool
s_share_field (const served_sets_t *self, served_t *served, size_t field)
{
    dataset_source_t *source = &served->source;
    const block_data_t *blocks = dataset_source_blocks (source, field);
    if (!self->cluster || !blocks || !catalogue_store (source->catalogue, field))
        return true;
    source->shared [field] = (dataset_source_field_t) { .catalogue = source->catalogue, .number = field };
    cluster_data_t data = { .blocks = blocks,
        .store = store_name (catalogue_store (source->catalogue, field)),
        .objects = catalogue_samples (source->catalogue), .find = s_find_object,
        .context = &source->shared [field], .catalogue = source->catalogue, .field = field,
        .pins = source->pins, .first_pinned = dataset_source_pinned_file (source, 0, field).number };
    served->is_in_cluster = true;
    return cluster_add (self->cluster, &data);
}

static void
s_describe_folder (const served_sets_t *self, const served_t *served, FILE *out)
{
    const catalogue_t *catalogue = served->source.catalogue;
    for (size_t field = 0; field < catalogue_fields (catalogue); field++) {
        int rc;
        const block_data_t *blocks = catalogue_blocks (catalogue, field, &rc);
        s_describe_list (served->wanted.name, catalogue, field, out);
        s_describe_blocks (self, served, blocks, rc, out);
    }
}

static bool
s_place_folder (served_sets_t *self, served_t *served, char **error_p)
{
    dataset_source_t *source = &served->source;
    for (size_t field = 0; field < catalogue_fields (source->catalogue); field++) {
        const store_t *store = catalogue_store (source->catalogue, field);
        dev_t number = store? 0: catalogue_device (source->catalogue, field);
        source->fields [field] = device_list_get (store && served->is_added? &served->devices: &self->devices,
            number, store, self->options->reads);
        if (!source->fields [field])
            return s_fail (error_p, "no memory for the list of devices");
        device_add_folder (source->fields [field]);
        if (!served->is_added && !s_share_field (self, served, field))
            return s_fail (error_p, "no memory for the cluster's data sets");
    }
    return true;
}

//  ---- packs

//  On the local disk.
static void
s_keep_volume (const dataset_source_t *source, uint32_t volume)
{
    int rc;
    reader_blocks_t blocks = { .data = pack_blocks (source->pack, &rc),
        .begin = pack_volume_place (source->pack, volume), .bytes = pack_volume_bytes (source->pack, volume),
        .object = volume };
    device_keep_volume (source->volumes [volume].device, source->volumes [volume].file, &blocks);
}

static void
s_find_volume (const void *context, uint64_t object, uint64_t *begin, uint64_t *bytes)
{
    *begin = pack_volume_place (context, (uint32_t) object);
    *bytes = pack_volume_bytes (context, (uint32_t) object);
}

//  Other members keep its blocks too.  False: no memory.
static bool
s_share_pack (const served_sets_t *self, served_t *served)
{
    const dataset_source_t *source = &served->source;
    const block_data_t *blocks = dataset_source_blocks (source, 0);
    cluster_data_t data = { .blocks = blocks, .store = store_name (pack_store (source->pack)),
        .objects = pack_volumes (source->pack), .find = s_find_volume, .context = source->pack,
        .first_file = source->volumes [0].file, .pins = source->pins };
    served->is_in_cluster = self->cluster && blocks && pack_store (source->pack) && !served->is_added;
    return !served->is_in_cluster || cluster_add (self->cluster, &data);
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
s_find_volumes (const served_sets_t *self, served_t *served, device_list_t *devices, size_t span,
    char **error_p)
{
    dataset_source_t *source = &served->source;
    const pack_t *pack = source->pack;
    uint32_t volumes = pack_volumes (pack);
    source->breaks = calloc (volumes + 1, sizeof *source->breaks);
    source->volumes = calloc (volumes + 1, sizeof *source->volumes);
    if (!source->breaks || !source->volumes)
        return s_fail (error_p, "no memory for the list of volumes");
    char path [PATH_MAX];
    bool is_in_store = pack_store (pack);
    for (uint32_t volume = 0; volume < volumes; volume++) {
        source->breaks [volume] = pack_volume_first (pack, volume);
        pack_volume_path (pack, volume, path, sizeof path);
        dataset_source_volume_t *added = &source->volumes [volume];
        added->device = device_list_add_volume (devices, pack_store (pack),
            is_in_store? pack_volume_url (pack, volume): path,
            is_in_store? pack_volume_version (pack, volume): "", span, self->options->reads, &added->file);
        if (!added->device)
            return s_fail (error_p, "%s: %s", path, is_in_store? "no memory": strerror (errno));
        s_keep_volume (source, volume);
        if (!is_in_store)
            device_probe (added->device, NULL);
    }
    if (is_in_store)
        //  All volumes of a store have one device.
        s_probe_store (source->volumes [0].device, pack);
    return true;
}

//  Writes one line of the log: redox is not for training.
static void
s_describe_redox (const options_dataset_t *wanted, const pack_t *pack, FILE *out)
{
    uint32_t chunks = (pack_samples (pack) - 1) / pack_chunk_samples (pack) + 1;
    fprintf (out, "data set '%s': tier redox is for comparison with the paper; train with tier stream",
        wanted->name);
    if (chunks < REDOX_CHUNKS_FEW)
        fprintf (out, ". With only %u chunks its epochs are not fresh: samples of one chunk come near each "
            "other, so that one epoch's order tells of the next one's", chunks);
    fprintf (out, "\n");
}

//  devices: those to which its volumes are added.
static bool
s_find_pack (const served_sets_t *self, served_t *served, device_list_t *devices, FILE *out, char **error_p)
{
    const pack_t *pack = served->source.pack;
    const options_dataset_t *wanted = &served->wanted;
    uint32_t chunk = pack_chunk_samples (pack);
    int rc;
    const block_data_t *blocks = pack_blocks (pack, &rc);
    s_describe_blocks (self, served, blocks, rc, out);
    if (pieces_tier (wanted) == RAW_REDOX && chunk > RAW_PIECE_MAX)
        return s_fail (error_p, "data set '%s': tier redox takes chunks of at most %d samples, this pack "
            "has %u: pack it again with --chunk %d", wanted->name, RAW_PIECE_MAX, chunk, RAW_PIECE_MAX);
    served->source.piece_set = wanted->piece;
    size_t largest = 0, together = pieces_read_bytes (self->options);
    for (uint32_t id = 0; id < pack_samples (pack); id++)
        if (pack_sample_bytes (pack, id) > largest)
            largest = pack_sample_bytes (pack, id);
    together = largest > together? largest: together;
    size_t room = reader_span (READER_ALIGN_BYTES - 1, together + CHUNK_ENDS * READER_ALIGN_BYTES);
    if (!s_find_volumes (self, served, devices, room, error_p))
        return false;
    if (pieces_tier (wanted) == RAW_REDOX)
        s_describe_redox (wanted, pack, out);
    return true;
}

static bool
s_place_pack (served_sets_t *self, served_t *served, char **error_p)
{
    dataset_source_t *source = &served->source;
    size_t least;
    if (pack_store (source->pack) && !s_share_pack (self, served))
        return s_fail (error_p, "no memory for the cluster's data sets");
    broker_pack_t pack = pieces_describe (source, pieces_tier (&served->wanted), self->options);
    return dataset_set_pack (self->broker, served->dataset, &pack, &least)
        || s_fail (error_p, "data set '%s': %llu bytes for compressed samples are too few for samples of "
        "this size: start with --raw %zu", served->wanted.name,
        (unsigned long long) self->options->raw_bytes, budget_raw_setting (least));
}

//  Writes one line of the log.  A file that is damaged costs what was known, and nothing else.
static void
s_load_rows (const options_t *options, const dataset_source_t *source, const char *name, FILE *out)
{
    char path [PATH_MAX];
    const char *fingerprint = catalogue_fingerprint (source->catalogue);
    int rc = jpeg_row_index_path (options->rows_folder, fingerprint, path, sizeof path);
    if (rc == 0)
        rc = jpeg_row_index_load (source->rows, path, fingerprint);
    if (rc == 0)
        fprintf (out, "data set '%s': rows of %u JPEG%s are known from %s\n", name,
            jpeg_row_index_samples (source->rows), plural (jpeg_row_index_samples (source->rows)), path);
    else
    if (rc != -ENOENT)
        fprintf (out, "data set '%s': the file of rows '%s' is not used (%s): they are found out anew\n",
            name,
            path, rc == -EBADMSG? "it is damaged, or of other data": rc == -EPERM? "it " FILE_FOREIGN_WORDS
            : file_error (rc));
}

//  The broker's thread, also while tasks have entries.
static void
s_save_rows (const options_t *options, const dataset_source_t *source, bool tells)
{
    char path [PATH_MAX];
    const char *fingerprint = catalogue_fingerprint (source->catalogue);
    int rc = jpeg_row_index_path (options->rows_folder, fingerprint, path, sizeof path);
    if (rc == 0)
        rc = jpeg_row_index_save (source->rows, path, fingerprint);
    if (rc && tells)
        complain ("serve", "'%s' cannot be written (%s): the rows of JPEGs will be found out anew", path,
            strerror (-rc));
}

//  Where libjpeg's warnings count, JPEGs are read from their begin (jpeg_entropy.h).
static bool
s_find_rows (const served_sets_t *self, served_t *served, FILE *out, char **error_p)
{
    dataset_source_t *source = &served->source;
    if (served->rows.bytes_max == 0 || source->jpeg_warnings_max != UINT32_MAX)
        return true;
    source->rows = jpeg_row_index_new (catalogue_samples (source->catalogue), &served->rows);
    if (!source->rows)
        return s_fail (error_p, "no memory for a table of %u samples", catalogue_samples (source->catalogue));
    if (self->options->rows_folder)
        s_load_rows (self->options, source, served->wanted.name, out);
    return true;
}

static bool
s_find (const served_sets_t *self, served_t *served, device_list_t *devices, progress_t *progress, FILE *out,
    char **error_p)
{
    const options_dataset_t *wanted = &served->wanted;
    dataset_source_t *source = &served->source;
    char error [ERROR_BYTES];
    *error_p = NULL;
    //  At the start it may be here already, because another one goes by its classes.
    if (!source->catalogue && s_open_catalogue (self, served, progress, error, sizeof error))
        return s_fail (error_p, "data set '%s': %s", wanted->name, error);
    source->listed_ms = clock_now_ms ();
    served->real = strstr (wanted->path, "://")? NULL: realpath (wanted->path, NULL);
    source->jpeg_warnings_max = wanted->jpeg_warnings_max;
    source->customs = customs_list (self->customs, &source->custom_count);
    source->pack = catalogue_pack (source->catalogue);
    source->warnings = data_warnings_new (wanted->name, source->catalogue);
    if (!source->warnings)
        return s_fail (error_p, "no memory for the data sets");
    s_describe (wanted, source->catalogue, out);
    s_warn (source, out);
    bool has_list = !source->pack && catalogue_store (source->catalogue, 0) && self->blocks;
    if (wanted->list_anew && !has_list)
        return s_fail (error_p, "data set '%s': listing is for single objects of a store, with "
            "disk: leave it out", wanted->name);
    if (source->pack)
        return s_find_pack (self, served, devices, out, error_p);
    *error_p = pieces_refusal (source, wanted);
    if (*error_p)
        return false;
    s_describe_folder (self, served, out);
    if (pieces_find_copy (source, wanted, progress) == 0)
        pieces_add_copy (source, devices, self->options);
    return s_find_rows (self, served, out, error_p);
}

bool
served_find (const served_sets_t *self, served_t *served, progress_t *progress, FILE *out, char **error_p)
{
    return s_find (self, served, &served->devices, progress, out, error_p);
}

//  Its own devices become devices of all.  Those that are new begin to read, if the tasks run.
static bool
s_open_devices (served_sets_t *self, served_t *served, size_t before, char **error_p)
{
    device_list_t *own = &served->devices, *all = &self->devices;
    device_t **devices = realloc (all->all, (all->count + own->count + 1) * sizeof *devices);
    if (!devices)
        return s_fail (error_p, "no memory for the list of devices");
    all->all = devices;
    for (size_t index = 0; index < own->count; index++) {
        device_set_owner (own->all [index], served->wanted.name);
        //  They were measured beside jobs' reads, the others before those or by them.
        for (size_t other = 0; other < before; other++)
            device_measure_as (own->all [index], all->all [other]);
        devices [all->count++] = own->all [index];
    }
    own->count = 0;
    for (size_t index = before; self->tasks && index < all->count; index++) {
        const char *path = NULL;
        int rc = tasks_open_device (self->tasks, devices [index], &path);
        char text [MACHINE_SHORTAGE_BYTES];
        if (rc) {
            s_fail (error_p, "data set '%s': %s: %s", served->wanted.name,
                path? path: "cannot start the thread that reads", path? strerror (-rc):
                machine_shortage (-rc, text));
            //  They read nothing yet.
            for (size_t rest = index; rest < all->count; rest++)
                device_destroy (&devices [rest]);
            all->count = index;
            return false;
        }
    }
    return true;
}

static bool
s_uses_device (const dataset_source_t *source, const device_t *device)
{
    const device_t *part;
    for (size_t index = 0; (part = dataset_source_device (source, index)); index++)
        if (part == device)
            return true;
    return false;
}

//  A data set has it; or one that has gone and is in a cluster, to which the device's reader belongs: members
//  still have it fetch blocks, and status asks it about them.
static bool
s_is_used (const served_sets_t *self, const device_t *device)
{
    bool is_used = false;
    for (size_t index = 0; index < self->count && !is_used; index++)
        is_used = s_uses_device (&self->all [index]->source, device);
    for (size_t index = 0; index < self->gone_count && !is_used; index++)
        is_used = self->gone [index]->is_in_cluster && s_uses_device (&self->gone [index]->source, device);
    return is_used;
}

static void
s_close_devices (served_sets_t *self)
{
    device_list_t *devices = &self->devices;
    for (size_t at = 0; at < devices->count;) {
        if (s_is_used (self, devices->all [at])) {
            at++;
            continue;
        }
        if (self->tasks)
            tasks_close_device (self->tasks, devices->all [at]);
        device_destroy (&devices->all [at]);
        devices->all [at] = devices->all [--devices->count];
    }
}

void
served_allow_more (served_sets_t *self, served_t *served, uint64_t tenants)
{
    served->tenants |= tenants;
    for (size_t index = 0; index < self->options->tenant_count; index++) {
        tenant_t *tenant = tenant_named (self->broker, self->options->tenants [index].name);
        if (served->tenants >> index & 1 && tenant)
            tenant_allow (self->broker, tenant, served->dataset);
    }
}

//  What its files take.
static void
s_measure (served_t *served)
{
    const catalogue_t *catalogue = served->source.catalogue;
    const pack_t *pack = catalogue_pack (catalogue);
    for (uint32_t volume = 0; pack && volume < pack_volumes (pack); volume++) {
        served->bytes += pack_volume_bytes (pack, volume);
        served->pins_bytes += pins_cost (pack_volume_bytes (pack, volume));
    }
    if (served->source.space) {
        served->bytes = space_unit_bytes (served->source.space);
        served->pins_bytes = pins_cost (space_bytes (served->source.space));
        return;
    }
    for (size_t field = 0; !pack && field < catalogue_fields (catalogue); field++)
        for (uint32_t id = 0; id < catalogue_samples (catalogue); id++) {
            served->bytes += catalogue_file_bytes (catalogue, id, field);
            served->pins_bytes += pins_cost (catalogue_file_bytes (catalogue, id, field));
        }
}

//  Measures a data set, and adds it.
static void
s_add_size (served_t *served, served_sizes_t *sizes)
{
    const pack_t *pack = catalogue_pack (served->source.catalogue);
    //  Memory is divided once: also for what will be read in pieces later.
    bool has_pieces = pack || pieces_may_come (&served->source, &served->wanted);
    //  A folder is read file by file where that is too little (pieces_place_copy).
    size_t raw_least = pack? pieces_raw_least (pack, &served->wanted): 0;
    s_measure (served);
    sizes->bytes += served->bytes;
    sizes->pack_bytes += has_pieces? served->bytes: 0;
    sizes->pins += served->pins_bytes;
    sizes->raw_least = raw_least > sizes->raw_least? raw_least: sizes->raw_least;
}

static bool
s_give_to_broker (served_sets_t *self, served_t *served, FILE *out, char **error_p)
{
    dataset_source_t *source = &served->source;
    served->dataset = dataset_add (self->broker, served->wanted.name,
        catalogue_samples (served->source.catalogue),
        served->wanted.bad_is_fatal? BROKER_BAD_FAIL: BROKER_BAD_DROP, source);
    if (source->pack)
        return s_place_pack (self, served, error_p);
    served->growth.is_refused = source->space
        && !pieces_place_copy (source, self->broker, served->dataset, self->options, out);
    jpeg_row_index_move (source->rows, &self->rows);
    if (!source->space && dataset_source_is_kept (source, &(uint64_t) { 0 }))
        ahead_reads_allow (self->broker, served->dataset);
    return true;
}

void
served_divide (served_sets_t *self)
{
    uint64_t pins_most = 0;
    for (size_t index = 0; index < self->count; index++)
        pins_most += self->all [index]->pins_bytes;
    self->parts->pictures = memory_parts_pictures (self->parts, pins_most);
    pictures_set_limit (self->pictures, self->parts->pictures);
    pins_set_limit (self->pins, self->parts->pins_now);
}

static void
s_pin (const served_sets_t *self, served_t *served)
{
    if (self->pins && served->bytes == 0)
        s_measure (served);             //  it was added
    //  Without memory for the tables nothing is kept.
    if (served->bytes > 0)
        served->source.pins = pins_data_new (self->pins, served->bytes, served->pins_bytes);
    if (self->pictures && !served->source.pictures)
        served->source.pictures = pictures_data_new (self->pictures,
            catalogue_samples (served->source.catalogue), DATASET_SOURCE_PICTURE_KINDS);
}

static bool
s_place (served_sets_t *self, served_t **served_p, FILE *out, char **error_p)
{
    served_t *served = *served_p;
    size_t before = self->devices.count;
    assert (self->count < OPTIONS_DATASETS_MAX);
    *error_p = NULL;
    s_pin (self, served);               //  before the cluster knows of it
    bool good = served->source.pack || s_place_folder (self, served, error_p);
    self->all [self->count++] = served;
    if (self->pins)
        served_divide (self);
    good = good && s_open_devices (self, served, before, error_p)
        && s_give_to_broker (self, served, out, error_p);
    if (good || served->dataset)
        *served_p = NULL;
    if (!good && served->dataset)
        served_remove (self, served);          //  the broker gives it back
    else
    if (!good) {
        self->count--;
        if (self->pins)
            served_divide (self);
        s_close_devices (self);
    }
    return good;
}

//  Pins are of the copy then; those of files may be in use.
static void
s_pin_copy (served_sets_t *self, served_t *served)
{
    served->bytes = served->pins_bytes = 0;
    served->source.old_pins = served->source.pins;
    served->source.pins = NULL;
    if (served->source.old_pins)
        pins_data_retire (served->source.old_pins);
    s_pin (self, served);
    if (self->pins)
        served_divide (self);
}

bool
served_adopt_copy (served_sets_t *self, served_t *served, dataset_source_t *found,
    device_list_t *devices, FILE *out)
{
    dataset_source_t *source = &served->source;
    size_t before = self->devices.count;
    char *error = NULL;
    free (served->devices.all);
    served->devices = *devices;
    *devices = (device_list_t) { .count = 0 };
    source->space = found->space;
    source->volumes = found->volumes;
    source->breaks = found->breaks;
    source->piece_set = found->piece_set;
    found->space = NULL;
    if (!s_open_devices (self, served, before, &error)) {
        fprintf (out, "warning: %s; its files are read one by one\n", error? error: "no memory");
        device_list_clear (&served->devices);
        pieces_forget_copy (source);
    }
    else
        served->growth.is_refused = !pieces_place_copy (source, self->broker, served->dataset, self->options,
            out);
    free (error);
    if (!source->space) {
        s_close_devices (self);
        return false;
    }
    source->space_since_ms = clock_now_ms ();
    s_pin_copy (self, served);
    return true;
}

static void s_warn_of_classes (const served_sets_t *self, size_t first, FILE *out);

bool
served_place (served_sets_t *self, served_t **served_p, FILE *out, char **error_p)
{
    served_t *served = *served_p;
    if (!s_place (self, served_p, out, error_p))
        return false;
    served_allow_more (self, served, 0);
    s_warn_of_classes (self, self->count - 1, out);
    return true;
}

//  ---- going

//  The catalogue's stores are read by devices, or its classes number those of another data set.
static bool
s_is_needed (const served_sets_t *self, const served_t *served)
{
    const catalogue_t *catalogue = served->source.catalogue;
    bool is_needed = served->is_in_cluster;
    for (size_t index = 0; index < self->count; index++)
        is_needed = is_needed || self->all [index]->classes_of == catalogue;
    for (size_t index = 0; index < self->devices.count; index++) {
        const store_t *store = device_store (self->devices.all [index]);
        bool is_pack = served->source.pack;
        for (size_t field = 0; store && field < (is_pack? 1: catalogue_fields (catalogue)); field++)
            is_needed = is_needed || store == (is_pack? pack_store (served->source.pack):
                catalogue_store (catalogue, field));
    }
    return is_needed;
}

void
served_remove (served_sets_t *self, served_t *served)
{
    assert (served->dataset && !served->is_removed);
    if (served->source.rows && self->options->rows_folder)
        s_save_rows (self->options, &served->source, true);
    for (size_t index = 0; index < self->count; index++)
        data_warnings_forget (self->all [index]->source.warnings, served->wanted.name);
    served->is_removed = true;
    dataset_remove (self->broker, served->dataset);
}

served_t *
served_next_gone (served_sets_t *self)
{
    void *user;
    while (dataset_next_removed (self->broker, &user)) {
        served_t *served = user;
        size_t at = 0;
        while (self->all [at] != served)
            at++;
        memmove (&self->all [at], &self->all [at + 1], (--self->count - at) * sizeof *self->all);
        served->dataset = NULL;
        jpeg_row_index_destroy (&served->source.rows);
        pictures_data_destroy (&served->source.pictures);
        if (self->pins)
            served_divide (self);
        if (served->is_in_cluster && served->source.pins)
            pins_data_retire (served->source.pins);
        else
            pins_data_destroy (&served->source.pins);
        self->gone = xalloc_memory (realloc (self->gone, (self->gone_count + 1) * sizeof *self->gone));
        self->gone [self->gone_count++] = served;
        s_close_devices (self);
    }
    for (size_t at = 0; at < self->gone_count; at++)
        if (!s_is_needed (self, self->gone [at])) {
            served_t *served = self->gone [at];
            self->gone [at] = self->gone [--self->gone_count];
            return served;
        }
    return NULL;
}

served_t *
served_named (const served_sets_t *self, const char *name)
{
    for (size_t index = 0; index < self->count; index++)
        if (!self->all [index]->is_removed && strcmp (self->all [index]->wanted.name, name) == 0)
            return self->all [index];
    return NULL;
}

static bool
s_open_blocks (served_sets_t *self)
{
    char error [ERROR_BYTES];
    const options_t *options = self->options;
    block_cache_threads_t *threads = block_cache_threads_new ();
    if (!threads)
        return complain ("serve", "--disk: no thread can be started for it");
    if (block_cache_open_by (&self->blocks, &threads, options->blocks_folder, options->blocks_bytes, error,
        sizeof error))
        return complain ("serve", "--disk: %s", error);
    if (block_cache_figures (self->blocks).is_aside)
        printf ("warning: the cache on the local disk, %s, does not answer: samples are read from the store "
            "until it does\n", options->blocks_folder);
    return true;
}

//  ---- at the start

//  The place of the data set that this one goes by; the count: none.
static size_t
s_classes_from (const options_t *options, const options_dataset_t *wanted)
{
    size_t index = 0;
    while (wanted->classes_from && index < options->dataset_count
        && strcmp (options->datasets [index].name, wanted->classes_from))
        index++;
    return wanted->classes_from? index: options->dataset_count;
}

//  By an earlier process of this server.
static bool
s_was_removed (const served_sets_t *self, size_t index)
{
    size_t place;
    json_t *name;
    json_array_foreach (json_object_get (self->changes, "removed"), place, name)
        if (json_is_string (name)
            && strcmp (json_string_value (name), self->options->datasets [index].name) == 0)
            return true;
    return false;
}

static bool
s_open_one (served_sets_t *self, served_t *served, char **error_p)
{
    served->rows = self->rows;
    fflush (stdout);                    //  what was found before, in front of events of the log
    return s_find (self, served, &self->devices, &self->progress, stdout, error_p)
        && s_place (self, &served, stdout, error_p);
}

//  Of the settings.  all: by their places.
static bool
s_open_all (served_sets_t *self, served_t **all, char **error_p)
{
    char error [ERROR_BYTES];
    for (size_t index = 0; index < self->options->dataset_count; index++) {
        size_t from = s_classes_from (self->options, &self->options->datasets [index]);
        if (!all [index])
            continue;
        fflush (stdout);
        if (from < self->options->dataset_count) {
            assert (all [from]);        //  not removed before this one (additions_remove)
            //  Before its turn.
            if (!all [from]->source.catalogue
                && s_open_catalogue (self, all [from], &self->progress, error, sizeof error))
                return s_fail (error_p, "data set '%s': %s", all [from]->wanted.name, error);
            all [index]->classes_of = all [from]->source.catalogue;
        }
        if (!s_open_one (self, all [index], error_p))
            return false;
    }
    return true;
}

static char *
s_copy (const char *text)
{
    return text? xalloc_memory (strdup (text)): NULL;
}

static options_dataset_t
s_copy_settings (const options_dataset_t *wanted)
{
    options_dataset_t copy = *wanted;
    for (size_t index = 0; index < wanted->field_count; index++) {
        copy.fields [index].name = s_copy (wanted->fields [index].name);
        copy.fields [index].path = s_copy (wanted->fields [index].path);
    }
    copy.name = s_copy (wanted->name);
    copy.path = s_copy (wanted->path);
    copy.extensions = s_copy (wanted->extensions);
    copy.classes_from = s_copy (wanted->classes_from);
    return copy;
}

static bool
s_open_settings (served_sets_t *self)
{
    served_t **all = self->begun;
    char *error = NULL;
    bool good = s_open_all (self, all, &error);
    if (!good)
        complain ("serve", "%s", error);
    free (error);
    for (size_t index = 0; index < OPTIONS_DATASETS_MAX; index++) {
        bool is_placed = false;
        for (size_t place = 0; place < self->count; place++)
            is_placed = is_placed || self->all [place] == all [index];
        if (!is_placed)
            served_discard (&all [index]);
        all [index] = NULL;
    }
    return good;
}

static bool
s_begin (served_sets_t *self, const options_t *options)
{
    self->options = options;
    self->rows.bytes_max = options->rows_bytes;
    if (options->rows_folder && access (options->rows_folder, W_OK | X_OK) != 0)
        return complain ("serve", "--jpeg-rows-dir '%s': %s: give a folder that this user may write to",
            options->rows_folder, strerror (errno));
    if (options->rows_folder && file_is_foreign (options->rows_folder))
        return complain ("serve", "--jpeg-rows-dir: '%s' " FILE_FOREIGN_WORDS, options->rows_folder);
    if (options->blocks_folder && !s_open_blocks (self))
        return false;
    for (size_t index = 0; index < options->dataset_count; index++)
        if (!s_was_removed (self, index)) {
            options_dataset_t wanted = s_copy_settings (&options->datasets [index]);
            self->begun [index] = served_begin (&wanted, NULL);
        }
    self->is_begun = true;
    return true;
}

bool
served_measure (served_sets_t *self, const options_t *options, served_sizes_t *sizes)
{
    char error [ERROR_BYTES];
    *sizes = (served_sizes_t) { .bytes = 0 };
    if (!s_begin (self, options))
        return false;
    for (size_t turn = 0; turn < 2; turn++)
        for (size_t index = 0; index < options->dataset_count; index++) {
            served_t *served = self->begun [index];
            size_t from = s_classes_from (options, &options->datasets [index]);
            bool is_first = from == options->dataset_count;     //  those that others go by are among these
            if (!served || is_first != (turn == 0))
                continue;
            served->classes_of = is_first? NULL: self->begun [from]->source.catalogue;
            if (s_open_catalogue (self, served, &self->progress, error, sizeof error))
                return complain ("serve", "data set '%s': %s", served->wanted.name, error);
            pieces_find_copy (&served->source, &served->wanted, &self->progress);
            s_add_size (served, sizes);
        }
    return true;
}

bool
served_open (served_sets_t *self, broker_t *broker, const options_t *options)
{
    self->broker = broker;
    return (self->is_begun || s_begin (self, options)) && s_open_settings (self);
}

//  ---- warnings, and the end

//  Tells of each data set from `first` on the classes of which differ from those of the first one before it
//  that looks like a split of one set with it: to the log, and to both in status.
static void
s_warn_of_classes (const served_sets_t *self, size_t first, FILE *out)
{
    data_warnings_classes_t *all = calloc (self->count + 1, sizeof *all);
    for (size_t index = 0; all && index < self->count; index++) {
        served_t *right = self->all [index];
        if (right->is_removed)
            continue;
        all [index] = data_warnings_classes_of (right->source.catalogue, right->wanted.name,
            right->classes_of);
        bool is_alike = index < first;
        for (size_t before = 0; before < index && !is_alike; before++) {
            served_t *left = self->all [before];
            char *text = NULL;
            is_alike = all [before].catalogue && data_warnings_classes_compare (&all [before], &all [index],
                &text);
            if (text) {
                fprintf (out, "warning: %s\n", text);
                data_warnings_add (left->source.warnings, right->wanted.name, text);
                data_warnings_add (right->source.warnings, left->wanted.name, text);
            }
            free (text);
        }
    }
    for (size_t index = 0; all && index < self->count; index++)
        data_warnings_classes_clear (&all [index]);
    free (all);
}

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
            served_size_text (sum, wanted, sizeof wanted),
            served_size_text (memory_bytes, there, sizeof there), has_packs? " or --raw": "");
}

//  A proxy in the environment that is meant for other programs sees all data, or slows them down.
static void
s_tell_of_proxies (const served_sets_t *self)
{
    char name [DEVICE_NAME_BYTES], proxy [HTTP_PROXY_SHOWN_BYTES];
    for (size_t index = 0; index < self->devices.count; index++) {
        device_proxy (self->devices.all [index], proxy);
        if (*proxy)
            printf ("'%s' is read through the proxy %s\n", device_name (self->devices.all [index], name),
                proxy);
    }
}

void
served_warn (const served_sets_t *self)
{
    const options_t *options = self->options;
    s_warn_of_classes (self, 0, stdout);
    bool has_packs = budget_reads_max (self->broker) > 0;
    for (size_t index = 0; index < self->count; index++)
        has_packs = has_packs || pieces_may_come (&self->all [index]->source, &self->all [index]->wanted);
    s_tell_of_proxies (self);
    s_warn_of_memory (options, has_packs);
    if (options->raw_is_given && !has_packs)
        printf ("warning: --raw does nothing: it is for packs, and no data set is one\n");
    if (options->rows_folder && options->rows_bytes == 0)
        printf ("warning: --jpeg-rows-dir does nothing with --jpeg-rows 0\n");
    if (options->operation_bytes != OPTIONS_OPERATION_BYTES && options->operation_count == 0)
        printf ("warning: --operation-memory does nothing without --operation\n");
}

static void
s_save (const served_sets_t *self, bool tells)
{
    for (size_t index = 0; index < self->count; index++)
        if (self->all [index]->source.rows && self->options->rows_folder)
            s_save_rows (self->options, &self->all [index]->source, tells);
}

void
served_save (const served_sets_t *self)
{
    s_save (self, true);
}

void
served_allow (served_sets_t *self)
{
    for (size_t index = 0; index < self->count; index++)
        if (self->all [index]->is_added)
            served_allow_more (self, self->all [index], 0);
}

void
served_close (served_sets_t *self)
{
    //  First: what follows may wait for a disk that hangs.
    s_save (self, false);
    //  Before the catalogues, which have the stores that devices read.
    device_list_clear (&self->devices);
    //  The other way round: one may go by the classes of one before it.
    while (self->count > 0)
        served_discard (&self->all [--self->count]);
    for (size_t index = 0; index < OPTIONS_DATASETS_MAX; index++)
        served_discard (&self->begun [index]);
    while (self->gone_count > 0)
        served_discard (&self->gone [--self->gone_count]);
    free (self->gone);
    json_decref (self->changes);
    pins_destroy (&self->pins);
    pictures_destroy (&self->pictures);
    block_cache_close (&self->blocks);
    *self = (served_sets_t) { .count = 0 };
}

//  ---- one data set

served_t *
served_begin (options_dataset_t *wanted, const catalogue_t *classes_of)
{
    served_t *self = xalloc_memory (calloc (1, sizeof *self));
    self->wanted = *wanted;
    self->classes_of = classes_of;
    *wanted = (options_dataset_t) { .name = NULL };
    return self;
}

void
served_discard (served_t **self_p)
{
    served_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    dataset_source_t *source = &self->source;
    device_list_clear (&self->devices);
    jpeg_row_index_destroy (&source->rows);
    pins_data_destroy (&source->pins);
    pins_data_destroy (&source->old_pins);
    pictures_data_destroy (&source->pictures);
    data_warnings_destroy (&source->warnings);
    pieces_forget_copy (source);
    catalogue_destroy (&source->catalogue);
    free (source->breaks);
    free (source->volumes);
    free (self->real);
    options_dataset_clear (&self->wanted);
    free (self);
}

//  ---- what another process of this server is to know

static void
s_add_word (json_t *words, const char *setting, char *value)
{
    json_array_append_new (words, json_sprintf ("--%s", setting));
    //  A path is bytes, and may be no UTF-8: then there is no such word, and the data set is not added again.
    json_array_append_new (words, json_string (value));
    free (value);
}

//  As options_parse_added takes them.
static json_t *
s_words (const served_sets_t *self, const served_t *served)
{
    const options_dataset_t *wanted = &served->wanted;
    const char *name = wanted->name;
    json_t *words = json_array ();
    s_add_word (words, "dataset", xalloc_text ("%s=%s", name, wanted->path));
    for (size_t index = 0; index < wanted->field_count; index++)
        s_add_word (words, "field", xalloc_text ("%s.%s=%s:%s", name, wanted->fields [index].name,
            wanted->fields [index].is_mask? "mask": "file", wanted->fields [index].path));
    if (wanted->extensions)
        s_add_word (words, "extensions", xalloc_text ("%s=%s", name, wanted->extensions));
    if (wanted->bad_is_fatal)
        s_add_word (words, "on-bad", xalloc_text ("%s=fail", name));
    if (wanted->allow_empty)
        s_add_word (words, "allow-empty", xalloc_text ("%s=yes", name));
    if (wanted->classes_from)
        s_add_word (words, "classes-from", xalloc_text ("%s=%s", name, wanted->classes_from));
    if (wanted->jpeg_warnings_max != UINT32_MAX)
        s_add_word (words, "jpeg-warnings", xalloc_text ("%s=%u", name, wanted->jpeg_warnings_max));
    if (wanted->tier)
        s_add_word (words, "tier", xalloc_text ("%s=%s", name, wanted->tier));
    if (wanted->piece)
        s_add_word (words, "piece", xalloc_text ("%s=%u", name, wanted->piece));
    for (size_t index = 0; index < self->options->tenant_count; index++)
        if (served->tenants >> index & 1)
            s_add_word (words, "tenant-datasets", xalloc_text ("%s=%s", self->options->tenants [index].name,
                name));
    return words;
}

json_t *
served_changes (const served_sets_t *self)
{
    json_t *added = json_array (), *removed = json_array ();
    for (size_t index = 0; index < self->count; index++)
        if (self->all [index]->is_added && !self->all [index]->is_removed)
            json_array_append_new (added, s_words (self, self->all [index]));
    for (size_t index = 0; index < self->options->dataset_count; index++) {
        const served_t *served = served_named (self, self->options->datasets [index].name);
        if (!served || served->is_added)
            json_array_append_new (removed, json_string (self->options->datasets [index].name));
    }
    return json_pack ("{s:o, s:o}", "added", added, "removed", removed);
}
