#include "pack_options.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "complain.h"
#include "machine.h"
#include "option.h"
#include "pack_format.h"
#include "store.h"

#define MEMORY_BYTES_DEFAULT (UINT64_C (1) << 30)
enum { VOLUME_BYTES_MIN = 1 << 20, PATIENCE_SECONDS = 300, PATIENCE_SECONDS_MAX = 1000000 };
#define VOLUME_BYTES_MAX (UINT64_C (4) << 30)

static bool
s_chunk (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    pack_options_t *self = target;
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
pack_options_split_field (char *text, bool *is_mask_p, char **folder_p)
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

bool
pack_options_has_stores (const pack_options_t *self)
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
    pack_options_t *self = target;
    pack_source_options_t *source = &self->packing.source;
    bool is_mask;
    char *folder;
    if (source->field_count == CATALOGUE_FIELDS_MAX - 1)
        return option_fail (error, "at most %d beside the image", CATALOGUE_FIELDS_MAX - 1);
    if (!pack_options_split_field (text, &is_mask, &folder))
        return option_fail (error, "expected NAME=mask:FOLDER, NAME=image:FOLDER or NAME=file:FOLDER");
    self->fields [source->field_count++] = (catalogue_field_t) { text, is_mask, folder };
    return true;
}

static bool
s_classes (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    pack_options_t *self = target;
    FILE *file = fopen (text, "r");
    size_t size = 0;
    free (self->classes);
    self->classes = NULL;
    errno = 0;
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

#define AT(member) OPTION_AT (pack_options_t, member)
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
s_choose_target (pack_options_t *self)
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
s_finish (pack_options_t *self, size_t count, char **words)
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

int
pack_options_parse (pack_options_t *self, int argc, char **argv)
{
    *self = (pack_options_t) { .packing.memory_bytes = s_default_memory (), .patience = PATIENCE_SECONDS };
    option_result_t result;
    int status = option_parse (&s_table, self, argc, argv, &result);
    self->packing.has_seed = option_given (&s_table, &result, "seed");
    if (status >= 0)
        return status;
    if (!s_finish (self, result.word_count, result.words))
        return 2;
    if (option_given (&s_table, &result, "patience") && !self->packing.address
            && !pack_options_has_stores (self)) {
        complain ("pack", "--patience is for object stores and web servers, and all of this is here: leave "
            "it out");
        return 2;
    }
    return -1;
}
