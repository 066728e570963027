//  `tureen pack`: a folder, a list or tar files become a pack.

#include "command.h"
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <jansson.h>
#include "clock.h"
#include "complain.h"
#include "data_warnings.h"
#include "image_reader.h"
#include "machine.h"
#include "option.h"
#include "pack.h"
#include "pack_format.h"
#include "pack_report.h"
#include "packing.h"
#include "progress.h"
#include "store.h"
#include "utf8.h"
#include "words.h"

enum { EXIT_FAILED = 1, EXIT_UNUSABLE = 2, EXIT_SIGNAL = 128, MAPPED_BYTES = 4 << 20 };
#define MEMORY_BYTES_DEFAULT (UINT64_C (1) << 30)
enum { VOLUME_BYTES_MIN = 1 << 20, PATIENCE_SECONDS = 300, PATIENCE_SECONDS_MAX = 1000000 };
#define VOLUME_BYTES_MAX (UINT64_C (4) << 30)

//  ---- arguments

typedef struct {
    packing_options_t packing;              //  without functions and context; texts are lent from argv
    catalogue_field_t fields [CATALOGUE_FIELDS_MAX];
    const char *work;                       //  NULL: not given
    const char *from_disk;                  //  the same
    pack_source_disk_t disk;
    char *classes;                          //  what the file of --classes has; NULL: not given
    uint32_t patience;                      //  seconds
    bool quiet;
    bool json;
    bool no_rows;
} arguments_t;

static bool
s_chunk (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    arguments_t *self = target;
    uint64_t number;
    const char *end;
    if (!option_digits (text, "", &number, &end) || *end || number == 0 || number % PACK_CHUNK_SAMPLES
        || number > PACK_CHUNK_SAMPLES_MAX)
        return option_fail (error, "expected a multiple of %d, at most %d", PACK_CHUNK_SAMPLES,
            PACK_CHUNK_SAMPLES_MAX);
    self->packing.chunk_samples = (uint32_t) number;
    return true;
}

bool
command_pack_split_field (char *text, bool *is_mask_p, char **folder_p)
{
    char *kind = strchr (text, '='), *folder = kind? strchr (kind, ':'): NULL;
    if (!folder || kind == text || !folder [1])
        return false;
    *is_mask_p = strncmp (kind, "=mask:", 6) == 0;
    if (!*is_mask_p && strncmp (kind, "=image:", 7) != 0 && strncmp (kind, "=file:", 6) != 0)
        return false;
    *folder_p = folder + 1;
    *kind = 0;
    return true;
}

//  Whether a source or a field of it is in an object store or on a web server.
static bool
s_has_stores (const arguments_t *self)
{
    for (size_t index = 0; index < self->packing.source.path_count; index++)
        if (store_is_meant (self->packing.source.paths [index]))
            return true;
    for (size_t index = 0; index < self->packing.source.field_count; index++)
        if (store_is_meant (self->fields [index].path))
            return true;
    return false;
}

//  The catalogue judges the name.
static bool
s_field (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    arguments_t *self = target;
    pack_source_options_t *source = &self->packing.source;
    bool is_mask;
    char *folder;
    if (source->field_count == CATALOGUE_FIELDS_MAX - 1)
        return option_fail (error, "at most %d beside the image", CATALOGUE_FIELDS_MAX - 1);
    if (!command_pack_split_field (text, &is_mask, &folder))
        return option_fail (error, "expected NAME=mask:FOLDER, NAME=image:FOLDER or NAME=file:FOLDER");
    self->fields [source->field_count++] = (catalogue_field_t) { text, is_mask, folder };
    return true;
}

static bool
s_classes (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    arguments_t *self = target;
    errno = 0;
    FILE *file = fopen (text, "r");
    size_t size = 0;
    free (self->classes);
    self->classes = NULL;
    ssize_t length = file? getdelim (&self->classes, &size, 0, file): -1;
    int reason = errno;
    if (file)
        fclose (file);
    if (length <= 0)
        return option_fail (error, "expected a file with a name of a class a line (%s)",
            reason? strerror (reason): "it is empty");
    if (strlen (self->classes) < (size_t) length)
        return option_fail (error, "it has a zero byte, so it is no text");
    bool has_mark = strncmp (self->classes, "\xef\xbb\xbf", 3) == 0;        //  of UTF-8
    self->packing.source.classes = self->classes + (has_mark? 3: 0);
    return true;
}

#define AT(member) OPTION_AT (arguments_t, member)
static const option_row_t s_rows [] = {
    { "chunk", "N", OPTION_CALL (s_chunk), "samples of a chunk: a multiple of 64 (64)" },
    { "seed", "S", AT (packing.seed),
        "of the shuffle; a random one when left out, which is told at the end. The same data,\n"
        "seed and chunk make the same pack, byte for byte" },
    { "volume", "SIZE", AT (packing.volume_bytes),
        "where a volume ends, but for its last chunk (1G)", VOLUME_BYTES_MIN, VOLUME_BYTES_MAX,
        .unit = OPTION_BYTES, .expected = "a size from 1M to 4G, as in 256M" },
    { "memory", "SIZE", AT (packing.memory_bytes),
        "for buffers, at least twice the largest sample (a quarter of what there is, at most 1G)",
        PACKING_MEMORY_BYTES_MIN, .unit = OPTION_BYTES,
        .expected = "a size of at least 1M, as in 512M or 4G" },
    { "extensions", "LIST", AT (packing.source.extensions),
        "which files of class folders count, as .wav,.flac; in tar files: which member is the\n"
        "sample's own" },
    { "allow-empty", NULL, AT (packing.source.allow_empty),
        "a class folder without a sample stays a class, so that labels are those of other splits" },
    { "field", "NAME=mask:FOLDER, NAME=image:FOLDER, NAME=file:FOLDER", OPTION_CALL (s_field),
        "a further file of each sample of a folder or list: the one in FOLDER with the same\n"
        "path but for the extension; repeatable" },
    { "mask", "LIST", AT (packing.source.masks),
        "which members of tar files are masks, as seg.png,mask.png" },
    { "classes", "FILE", OPTION_CALL (s_classes),
        "the names of the classes that the numbers in the members .cls mean, one a line, from 0 on;\n"
        "-1 is a sample without a class" },
    { "no-jpeg-rows", NULL, AT (no_rows),
        "do not write where the rows of each JPEG begin in its coded data (0.7 % of its bytes), by\n"
        "which a crop is decoded faster" },
    { "resume", NULL, AT (packing.resume),
        "go on with what was stopped or killed, from where it was; begins where nothing was\n"
        "begun, so that the same command can be repeated until it succeeds; a finished pack\n"
        "is left as it is, without a look at the source" },
    { "signature", "TEXT", AT (packing.source.signature),
        "of standard input: the same for the same bytes, so that --resume can go on: the writer sends\n"
        "all of it again" },
    { "work", "FOLDER", AT (work),
        "for a pack that goes to s3://: a folder for what is under way, as FOLDER otherwise is. It\n"
        "is removed at the end; with --resume it is the one that was given before" },
    { "from-disk", "DIR", AT (from_disk),
        "of files of a folder, and of single objects of a store: what servers have kept in DIR\n"
        "(`tureen serve --disk DIR=BYTES`) is read there, and only the rest from SOURCE. A folder\n"
        "is still walked through, and the pack is the same" },
    { "only-kept", NULL, AT (disk.is_only),
        "with --from-disk: nothing is read from SOURCE; where DIR lacks something, nothing is begun" },
    { "listing", "kept|anew", AT (disk.list_anew),
        "with --from-disk: the objects of a store are those of the list in DIR, if there is one\n"
        "(kept, the default), or they are listed anew", .choices = OPTION_CHOICES ("kept", "anew") },
    { "patience", "SECONDS", AT (patience),
        "how long a store that fails is asked again, before it ends and can be resumed (300)", 1,
        PATIENCE_SECONDS_MAX },
    { "quiet", NULL, AT (quiet), "no progress on standard error" },
    { "json", NULL, AT (json), "the result as JSON on standard output" }
};

static const option_table_t s_table = { "tureen pack", s_rows, OPTION_ROWS (s_rows), SIZE_MAX, .before =
    "Usage: tureen pack [OPTION...] SOURCE... FOLDER\n"
    "       tureen pack --work FOLDER [OPTION...] SOURCE... s3://BUCKET/PREFIX\n"
    "Packs a data set into FOLDER, or into an object store, shuffled as a whole, to be served and read in\n"
    "large pieces.\n"
    "\n"
    "  tureen pack /data/train /packs/train\n"
    "  tureen pack --field mask=mask:/data/masks /data/train /packs/train\n"
    "  tureen pack --mask seg.png shards/train-*.tar /packs/train\n"
    "  tureen serve --dataset train=/packs/train\n"
    "  tureen pack --work /scratch/train /data/train s3://bucket/train\n"
    "  tar c -C /data train | tureen pack - /packs/train\n"
    "\n"
    "SOURCE is a folder (class folders, or one with labels.tsv or labels.jsonl), a list (.tsv, .jsonl: a\n"
    "labels file lying anywhere; .txt: a path a line), or tar files, compressed or not, in the order\n"
    "given: members with one stem are one sample, as in WebDataset. Tar files may lie in an object store or\n"
    "on a web server: 's3://bucket/train-{000..099}.tar', https://HOST/PATH.tar. A tar file by standard\n"
    "input is '-'; `python3 -m tureen.pack` makes one of Parquet, Arrow, MDS and LMDB.\n"
    "FOLDER is not there yet, or empty. Ids, names, labels and fields stay those of the source; only the\n"
    "order on the disk is shuffled.\n"
    "\n", .after =
    "\n"
    "The source is read once, in its order. On the way FOLDER takes the size of the data and that of one\n"
    "bucket (about half of --memory); when that is not free, nothing is begun. Beside --memory it takes\n"
    "about 120 bytes of memory a sample, and for each processor as much as the largest JPEG. A file that\n"
    "cannot be read ends it: left out, it would give all later samples other ids.\n"
    "\n"
    "For s3:// the folder of --work takes that room. Each volume is sent when it is finished, up to four at\n"
    "once, and deleted here; the index is sent last, so that the bucket holds a whole pack or none. The\n"
    "keys must allow s3:PutObject, s3:GetObject and s3:ListBucket.\n"
    "\n"
    "Exit status: 0 packed, 1 it failed, 2 unusable arguments, 130, 143 and 152 after SIGINT, SIGTERM and\n"
    "SIGXCPU (ulimit -t), which leave what --resume goes on with (so does a kill).\n" };

//  A store's address and a folder for what is under way, or the folder alone.
static bool
s_choose_target (arguments_t *self)
{
    packing_options_t *packing = &self->packing;
    if (!store_is_meant (packing->target))
        return !self->work || complain ("pack", "--work is for packs that go to s3://BUCKET/PREFIX, and '%s' "
            "is a folder: leave it out", packing->target);
    packing->address = packing->target;
    packing->target = self->work;
    return self->work || complain ("pack", "a pack that goes to an object store is made in a folder first, "
        "volume after volume: give --work FOLDER, with about as much room as the data take");
}

static bool
s_finish (arguments_t *self, size_t count, char **words)
{
    if (count < 2)
        return complain ("pack", "expected a source and a folder for the pack; try: tureen pack --help");
    self->packing.source.paths = (const char *const *) words;
    self->packing.source.path_count = count - 1;
    self->packing.source.fields = self->fields;
    self->packing.target = words [count - 1];
    self->packing.patience_ms = self->patience * 1000;
    for (size_t index = 0; index < count; index++)
        if (!*words [index])
            return complain ("pack", "an argument is empty; expected a path");
    const packing_options_t *packing = &self->packing;
    bool is_input = pack_source_is_input (words [0]);
    if (packing->source.signature && !is_input)
        return complain ("pack", "--signature is for standard input ('-'): leave it out");
    if (is_input && packing->resume && !packing->source.signature)
        return complain ("pack", "nothing tells whether standard input is the same as before: to go on with "
            "it, give --signature TEXT, from the begin");
    if (self->from_disk && !*self->from_disk)
        return complain ("pack", "--from-disk is empty: give the DIR of `tureen serve --disk DIR=BYTES`");
    if (!self->from_disk && (self->disk.is_only || self->disk.list_anew))
        return complain ("pack", "--only-kept and --listing are for --from-disk DIR: leave them out, or give "
            "it");
    return s_choose_target (self);
}

//  A quarter of what this process may use, at most MEMORY_BYTES_DEFAULT.
static uint64_t
s_default_memory (void)
{
    uint64_t bytes = machine_memory_bytes ("") / 4;
    if (bytes < PACKING_MEMORY_BYTES_MIN)
        return PACKING_MEMORY_BYTES_MIN;
    return bytes < MEMORY_BYTES_DEFAULT? bytes: MEMORY_BYTES_DEFAULT;
}

//  -1: go on; else the exit status: help was printed, or standard error says what is wrong.
static int
s_parse (arguments_t *self, int argc, char **argv)
{
    *self = (arguments_t) { .packing.memory_bytes = s_default_memory (), .patience = PATIENCE_SECONDS };
    option_result_t result;
    int status = option_parse (&s_table, self, argc, argv, &result);
    self->packing.has_seed = option_given (&s_table, &result, "seed");
    if (status >= 0)
        return status;
    if (!s_finish (self, result.word_count, result.words))
        return 2;
    if (option_given (&s_table, &result, "patience") && !self->packing.address && !s_has_stores (self)) {
        complain ("pack", "--patience is for object stores and web servers, and all of this is here: leave "
            "it out");
        return 2;
    }
    return -1;
}

//  ---- signals

static volatile sig_atomic_t s_signal;

static void
s_note_signal (int number)
{
    s_signal = number;
}

//  The second one has its usual effect, which does no harm either.
static void
s_catch_signals (void)
{
    struct sigaction action = { .sa_handler = s_note_signal, .sa_flags = SA_RESTART | (int) SA_RESETHAND };
    sigemptyset (&action.sa_mask);
    sigaction (SIGINT, &action, NULL);
    sigaction (SIGTERM, &action, NULL);
    sigaction (SIGXCPU, &action, NULL);
}

static bool
s_is_stopped (void *context)
{
    (void) context;
    return s_signal != 0;
}

//  What packing calls us back with.
typedef struct {
    progress_t progress;
    int pass;                           //  the one that is shown; 0: none yet
    const catalogue_t *catalogue;       //  lent; NULL: names are not known yet
    pack_report_clipped_t clipped;
} run_t;

//  Rows are found by image readers.
static void *
s_finder_new (void)
{
    return image_reader_new ();
}

static void
s_finder_destroy (void *finder)
{
    image_reader_t *reader = finder;
    image_reader_destroy (&reader);
}

static int
s_find (void *finder, const uint8_t *bytes, size_t size, const uint8_t **rows_p, size_t *rows_bytes_p)
{
    return image_reader_rows (finder, bytes, size, rows_p, rows_bytes_p);
}

static void
s_tell (void *context, const packing_progress_t *progress)
{
    static const char *const passes [2][3] = { { "reading (1 of 2)", "writing (2 of 2)" },
        { "reading (1 of 3)", "writing (2 of 3)", "uploading (3 of 3)" } };
    run_t *self = context;
    //  What an earlier run has done is in the first figures of a pass.
    if (self->pass != progress->pass)
        progress_step (&self->progress, &(progress_step_t) {
            .what = passes [progress->passes > 2][progress->pass - 1], .beside = "samples",
            .total = progress->bytes_total, .after = progress->pass == 1? progress->bytes_total: 0 },
            progress->bytes);
    self->pass = progress->pass;
    progress_tell (&self->progress, progress->bytes, progress->samples);
}

static void
s_note (void *context, uint64_t id, const pack_item_t *item)
{
    run_t *self = context;
    pack_report_note_clipped (&self->clipped, self->catalogue, (uint32_t) id, item->files [0],
        item->bytes [0]);
}

static void
s_warn (void *context, const catalogue_t *catalogue)
{
    run_t *self = context;
    char text [PACK_SOURCE_ERROR_BYTES];
    self->catalogue = catalogue;
    pack_report_name_clipped (&self->clipped, catalogue);
    progress_clear (&self->progress);
    for (size_t index = 0; catalogue_warning (catalogue, index); index++)
        fprintf (stderr, "tureen pack: warning: %s\n", catalogue_warning (catalogue, index));
    if (data_warnings_unreadable (catalogue, text, sizeof text))
        fprintf (stderr, "tureen pack: warning: %s\n", text);
}

//  Buckets are open all at once.
static void
s_raise_descriptors (void)
{
    struct rlimit limit;
    if (getrlimit (RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit (RLIMIT_NOFILE, &limit);
    }
}


//  ---- the result

static bool
s_print_json (const arguments_t *options, const char *target, const packing_result_t *result,
    uint64_t clipped, double seconds)
{
    char seed [24];
    snprintf (seed, sizeof seed, "%" PRIu64, result->seed);
    json_t *object = json_pack ("{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:f, s:b, s:b}", "folder",
        utf8_json (target), "samples", (json_int_t) result->samples, "bytes", (json_int_t) result->bytes,
        "with_rows", (json_int_t) result->with_rows, "rows_bytes", (json_int_t) result->rows_bytes,
        "clipped_samples", (json_int_t) clipped, "volumes", (json_int_t) result->volumes, "chunks",
        (json_int_t) result->chunks, "seed", seed,
        "seconds", seconds, "resumed", result->resumed, "was_finished", result->was_finished);
    if (object && result->was_finished) {       //  not known
        json_object_del (object, "with_rows");
        json_object_del (object, "rows_bytes");
        json_object_del (object, "clipped_samples");
    }
    if (object && options->from_disk && !result->was_finished)
        json_object_set_new (object, "from_disk_bytes", json_integer ((json_int_t) options->disk.bytes));
    bool good = object && json_dumpf (object, stdout, JSON_INDENT (2)) == 0 && putchar ('\n') != EOF;
    json_decref (object);
    return good || complain ("pack",
        "the result cannot be printed as JSON: standard output fails, or there is no "
        "memory");
}

static void
s_tell_disk (const arguments_t *options)
{
    char when [32] = "";
    time_t listed = (time_t) options->disk.listed_s;
    struct tm utc;
    if (listed > 0 && gmtime_r (&listed, &utc))
        strftime (when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    printf ("%.1f MB came from '%s'%s%s%s\n", (double) options->disk.bytes / 1e6, options->from_disk,
        *when? ", with the list of objects of ": "", when,
        *when? "; --listing anew lists them again": options->disk.bytes? "": ": none of it is kept there, or "
        "as other data (give the path, --extensions and --field as for the server)");
}

static bool
s_print (const arguments_t *options, const packing_result_t *result,
    const pack_report_clipped_t *clipped, double seconds)
{
    char text [PACK_REPORT_CLIPPED_BYTES];
    if (pack_report_clipped_text (clipped, text))
        fprintf (stderr, "tureen pack: warning: %s\n", text);
    const char *target = options->packing.address? options->packing.address: options->packing.target;
    if (options->json)
        return s_print_json (options, target, result, clipped->count, seconds);
    if (result->was_finished)
        printf ("'%s' was finished already: ", target);
    printf ("%" PRIu64 " sample%s, %.1f MB, in %" PRIu64 " chunk%s and %" PRIu64 " volume%s, seed %" PRIu64,
        result->samples, plural (result->samples), (double) result->bytes / 1e6, result->chunks,
        plural (result->chunks), result->volumes, plural (result->volumes), result->seed);
    if (!result->was_finished)
        printf ("; %s%.1f s, %.0f MB/s", result->resumed? "this time ": "", seconds,
            (double) result->bytes / 1e6 / (seconds > 0? seconds: 1));
    putchar ('\n');
    if (options->from_disk && !result->was_finished)
        s_tell_disk (options);
    if (result->with_rows)
        printf ("with the places of rows in %" PRIu64 " JPEG%s: %.1f MB\n", result->with_rows,
            plural (result->with_rows), (double) result->rows_bytes / 1e6);
    return true;
}

//  -1: go on; else the exit status.
static int
s_open_disk (arguments_t *self)
{
    char error [PACK_SOURCE_ERROR_BYTES];
    if (!self->from_disk)
        return -1;
    if (block_cache_open_guest (&self->disk.cache, self->from_disk, error, sizeof error)) {
        complain ("pack", "--from-disk: %s", error);
        return EXIT_FAILED;
    }
    self->disk.folder = self->from_disk;
    self->packing.source.disk = &self->disk;
    return -1;
}

static int
s_run (arguments_t *options)
{
    run_t run = { .progress = progress_begin ("pack", options->quiet) };
    const packing_rows_t rows = { .threads = machine_processors (""), .finder_new = s_finder_new,
        .finder_destroy = s_finder_destroy, .find = s_find };
    packing_options_t *packing = &options->packing;
    packing->progress = options->quiet? NULL: s_tell;
    packing->source.progress = &run.progress;
    packing->found = s_warn;
    packing->read = s_note;
    packing->stopped = s_is_stopped;
    packing->context = &run;
    packing->source.store = (store_persistence_t) { .patience_ms = packing->patience_ms,
        .stopped = s_is_stopped };
    packing->rows = options->no_rows? NULL: &rows;
    //  Large pictures that one thread has done with are memory for another: the C library would keep them,
    //  thread by thread.  Small ones it may keep: to give them back each time takes a sixth of the time.
    mallopt (M_MMAP_THRESHOLD, MAPPED_BYTES);
    mallopt (M_TRIM_THRESHOLD, 2 * MAPPED_BYTES);
    s_catch_signals ();
    if (packing->address || s_has_stores (options))
        signal (SIGPIPE, SIG_IGN);      //  libcurl writes to connections that the store has closed
    s_raise_descriptors ();
    packing_result_t result;
    char error [PACK_SOURCE_ERROR_BYTES];
    double began = clock_seconds (CLOCK_MONOTONIC);
    int rc = packing_run (packing, &result, error);
    progress_clear (&run.progress);
    if (rc)
        complain ("pack", "%s", error);
    if (rc == -ECANCELED && s_signal == SIGXCPU)
        complain ("pack", "the limit of processor time is reached (ulimit -t, LimitCPU=): raise it, then go "
            "on with --resume");
    if (rc == -ECANCELED)
        return EXIT_SIGNAL + s_signal;
    bool good = rc == 0 && s_print (options, &result, &run.clipped, clock_seconds (CLOCK_MONOTONIC) - began);
    return good? 0: EXIT_FAILED;
}

int
command_pack (int argc, char **argv)
{
    complain_begin ();
    arguments_t options;
    int status = s_parse (&options, argc, argv);
    if (status < 0)
        status = s_open_disk (&options);
    if (status < 0)
        status = s_run (&options);
    block_cache_close (&options.disk.cache);
    free (options.classes);
    return complain_of_output ("pack", status);
}
