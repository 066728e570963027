/*  fuzz_tar -- any bytes as a tar file that is to be packed: refused with a sentence, or samples and a
 *  catalogue that say the same of them, with names that stay in their folder.  What can be packed once can be
 *  passed over, too.
 *
 *  The first byte chooses options, and whether the checksums of headers are made right, so that what is
 *  behind them is reached; the others are the archive, in a file without a name.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "pack_source.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

enum { SAMPLES_MAX = 1024, BLOCK_BYTES = 512, SIZE_AT = 124, SIZE_BYTES = 12, SUM_AT = 148, SUM_BYTES = 8,
    KEEP_SUMS = 128 };

typedef struct {
    uint64_t samples, bytes;
    unsigned sum;
    size_t field_count;
    size_t sizes [SAMPLES_MAX] [CATALOGUE_FIELDS_MAX];
} seen_t;

static void
s_require (int condition)
{
    if (!condition)
        abort ();
}

//  As libarchive adds them up: the sum's own bytes are spaces.
static void
s_seal (uint8_t *bytes, size_t size)
{
    for (size_t at = 0; at + BLOCK_BYTES <= size; at += BLOCK_BYTES) {
        uint8_t *header = bytes + at;
        unsigned sum = 0;
        for (size_t index = 0; index < BLOCK_BYTES; index++)
            sum += index - SUM_AT < SUM_BYTES? ' ': header [index];
        if (sum == SUM_BYTES * ' ')
            continue;                           //  zeros: an end mark
        char text [SIZE_BYTES + 1] = "";
        snprintf (text, SUM_BYTES, "%06o", sum);
        memcpy (header + SUM_AT, text, SUM_BYTES);
        memcpy (text, header + SIZE_AT, SIZE_BYTES);
        size_t blocks = strtoul (text, NULL, 8) / BLOCK_BYTES + (strtoul (text, NULL, 8) % BLOCK_BYTES > 0);
        if (blocks <= size / BLOCK_BYTES)
            at += blocks * BLOCK_BYTES;
    }
}

//  Every error is a sentence without anything that a terminal obeys.
static void
s_check_error (int rc, const char *error)
{
    size_t length = strnlen (error, PACK_SOURCE_ERROR_BYTES);
    s_require (length < PACK_SOURCE_ERROR_BYTES && (rc < 0) == (length > 0));
    for (size_t at = 0; at < length; at++)
        s_require ((unsigned char) error [at] >= 0x20 && error [at] != 0x7f);
}

static pack_source_t *
s_open (const char *path, unsigned choice)
{
    static const char *const masks [] = { NULL, "seg.png", "png,seg.png" };
    static const char *const extensions [] = { NULL, ".jpg", ".left.jpg,.txt" };
    pack_source_options_t options = { .paths = &path, .path_count = 1, .masks = masks [choice % 3],
        .extensions = extensions [choice / 3 % 3] };
    char error [PACK_SOURCE_ERROR_BYTES] = "";
    pack_source_t *source = NULL;
    int rc = pack_source_open (&source, &options, error);
    s_require (rc <= 0 && (rc == 0) == (source != NULL));
    s_check_error (rc, error);
    return source;
}

//  1: to the end; 0: an error on the way.
static int
s_read_all (pack_source_t *source, seen_t *seen)
{
    for (;;) {
        pack_item_t item;
        char error [PACK_SOURCE_ERROR_BYTES] = "";
        int rc = pack_source_next (source, &item, error);
        s_check_error (rc, error);
        if (rc <= 0)
            return rc == 0;
        s_require (item.field_count > 0 && item.field_count <= CATALOGUE_FIELDS_MAX);
        s_require (seen->samples == 0 || item.field_count == seen->field_count);
        seen->field_count = item.field_count;
        for (size_t field = 0; field < item.field_count; field++) {
            for (size_t at = 0; at < item.bytes [field]; at++)
                seen->sum += item.files [field] [at];           //  every byte is there
            if (seen->samples < SAMPLES_MAX)
                seen->sizes [seen->samples] [field] = item.bytes [field];
            seen->bytes += item.bytes [field];
        }
        seen->samples++;
    }
}

static void
s_check_path (const catalogue_t *catalogue, uint32_t id, size_t field)
{
    char path [5000];
    size_t length = catalogue_path (catalogue, id, field, path, sizeof path);
    s_require (length > 0 && length < 4096 && *path != '/' && path [length - 1] != '/');
    s_require (!strstr (path, "//") && !strstr (path, "/../") && strncmp (path, "../", 3)
        && strcmp (path, ".."));
    s_require (length < 3 || strcmp (path + length - 3, "/.."));
}

static void
s_check_labels (const catalogue_t *catalogue)
{
    uint8_t *value = malloc (CATALOGUE_LABEL_BYTES_MAX + 1);
    s_require (value != NULL);
    for (size_t index = 0; index < catalogue_labels (catalogue); index++) {
        const catalogue_label_t *label = catalogue_label (catalogue, index);
        s_require (label->bytes > 0 && label->bytes <= CATALOGUE_LABEL_BYTES_MAX);
        for (uint32_t id = 0; id < catalogue_samples (catalogue); id++) {
            value [label->bytes] = 0x5a;
            catalogue_label_value (catalogue, index, id, value);
            s_require (value [label->bytes] == 0x5a);
        }
    }
    free (value);
}

static void
s_check_catalogue (const catalogue_t *catalogue, const seen_t *seen)
{
    s_require (catalogue_samples (catalogue) == seen->samples
        && catalogue_fields (catalogue) == seen->field_count);
    s_require (catalogue_bytes (catalogue) == seen->bytes
        && strlen (catalogue_fingerprint (catalogue)) == 32);
    for (uint32_t id = 0; id < seen->samples; id++)
        for (size_t field = 0; field < seen->field_count; field++) {
            s_check_path (catalogue, id, field);
            s_require (id >= SAMPLES_MAX
                || catalogue_file_bytes (catalogue, id, field) == seen->sizes [id] [field]);
        }
    s_check_labels (catalogue);
}

//  Passing over all but the last sample gives that one and the same catalogue.
static void
s_check_skip (const char *path, unsigned choice, const seen_t *seen, const char *fingerprint)
{
    pack_source_t *source = s_open (path, choice);
    char error [PACK_SOURCE_ERROR_BYTES] = "";
    pack_item_t item;
    s_require (source != NULL);
    s_require (pack_source_skip (source, seen->samples - 1, error) == 1);
    s_require (pack_source_next (source, &item, error) == 1 && pack_source_next (source, &item, error) == 0);
    s_require (strcmp (catalogue_fingerprint (pack_source_catalogue (source)), fingerprint) == 0);
    pack_source_destroy (&source);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    unsigned choice = *data++;
    uint8_t *bytes = malloc (size--);
    int fd = memfd_create ("tar", MFD_CLOEXEC);
    s_require (bytes && fd >= 0);
    memcpy (bytes, data, size);
    if (!(choice & KEEP_SUMS))
        s_seal (bytes, size);
    s_require (write (fd, bytes, size) == (ssize_t) size);
    free (bytes);
    char path [40];
    snprintf (path, sizeof path, "/proc/self/fd/%d", fd);
    seen_t *seen = calloc (1, sizeof *seen);
    pack_source_t *source = s_open (path, choice);
    s_require (seen != NULL);
    if (source && s_read_all (source, seen)) {
        const catalogue_t *catalogue = pack_source_catalogue (source);
        s_check_catalogue (catalogue, seen);
        s_check_skip (path, choice, seen, catalogue_fingerprint (catalogue));
    }
    pack_source_destroy (&source);
    free (seen);
    close (fd);
    return 0;
}
