#include "pack_options.h"
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include "complain.h"
#include "machine.h"
#include "options.h"
#include "pack_format.h"
#include "tiling.h"

enum { WORKERS_MAX = 256 };
#define MEMORY_BYTES_DEFAULT (UINT64_C (1) << 30)

static bool
s_number (const char *option, const char *text, uint64_t *number_p)
{
    char *end = NULL;
    errno = 0;
    unsigned long long number = *text >= '0' && *text <= '9'? strtoull (text, &end, 10): 0;
    if (!end || *end || errno)
        return complain ("pack", "--%s '%s': expected a number from 0 to 2^64 - 1", option, text);
    *number_p = number;
    return true;
}

static bool
s_chunk (pack_options_t *self, const char *text)
{
    uint64_t number = 0;
    if (!s_number ("chunk", text, &number))
        return false;
    if (number == 0 || number % PACK_CHUNK_SAMPLES || number > PACK_CHUNK_SAMPLES_MAX)
        return complain ("pack", "--chunk '%s': expected a multiple of %d, at most %d", text,
            PACK_CHUNK_SAMPLES, PACK_CHUNK_SAMPLES_MAX);
    self->packing.chunk_samples = (uint32_t) number;
    return true;
}

static bool
s_memory (pack_options_t *self, const char *text)
{
    if (options_size (text, &self->packing.memory_bytes)
        && self->packing.memory_bytes >= PACKING_MEMORY_BYTES_MIN)
        return true;
    return complain ("pack", "--memory '%s': expected a size of at least 1M, as in 512M or 4G", text);
}

static bool
s_tile (pack_options_t *self, const char *text)
{
    self->packing.has_tile = true;
    return packing_tile_parse (text, &self->packing.tile)
        || complain ("pack", "--tile '%s': expected off, auto, or how many pixels wide a segment may be, %d "
            "to %d", text, PACKING_TILE_LEAST, PACKING_TILE_MOST);
}

static bool
s_workers (pack_options_t *self, const char *text)
{
    uint64_t number = 0;
    if (!s_number ("workers", text, &number))
        return false;
    self->workers = (uint32_t) number;
    return (number > 0 && number <= WORKERS_MAX)
        || complain ("pack", "--workers '%s': expected a number from 1 to %d", text, WORKERS_MAX);
}

//  NAME=mask:DIR or NAME=image:DIR; the text is cut up in place.  The catalogue judges the name.
static bool
s_field (pack_options_t *self, char *text)
{
    char *kind = strchr (text, '='), *folder = kind? strchr (kind, ':'): NULL;
    size_t kind_bytes = folder? (size_t) (folder - kind - 1): 0;
    bool is_mask = kind_bytes == 4 && memcmp (kind + 1, "mask", 4) == 0;
    bool is_image = kind_bytes == 5 && memcmp (kind + 1, "image", 5) == 0;
    if (kind == text || !(is_mask || is_image) || !folder [1])
        return complain ("pack", "--field '%s': expected NAME=mask:FOLDER or NAME=image:FOLDER", text);
    pack_source_options_t *source = &self->packing.source;
    if (source->field_count == CATALOGUE_FIELDS_MAX - 1)
        return complain ("pack", "--field '%s': at most %d beside the image", text, CATALOGUE_FIELDS_MAX - 1);
    *kind = 0;
    self->fields [source->field_count++] = (catalogue_field_t) { text, is_mask, folder + 1 };
    return true;
}

static bool
s_take (pack_options_t *self, int option)
{
    switch (option) {
    case 'c': return s_chunk (self, optarg);
    case 's': self->packing.has_seed = true; return s_number ("seed", optarg, &self->packing.seed);
    case 'm': return s_memory (self, optarg);
    case 'e': self->packing.source.extensions = optarg; return true;
    case 'f': return s_field (self, optarg);
    case 'k': self->packing.source.masks = optarg; return true;
    case 't': return s_tile (self, optarg);
    case 'w': return s_workers (self, optarg);
    case 'o': return self->originals = true;
    case 'r': return self->packing.resume = true;
    case 'q': return self->quiet = true;
    case 'j': return self->json = true;
    case 'h': return self->help = true;
    default: return false;
    }
}

static bool
s_finish (pack_options_t *self, int count, char **words)
{
    if (count < 2)
        return complain ("pack", "expected a source and a folder for the pack; try: tureen pack --help");
    if (self->originals && (!self->packing.has_tile || self->packing.tile == PACKING_TILE_OFF))
        return complain ("pack", "--keep-original-bytes says what files that become others keep: give --tile "
            "auto beside it");
    if (self->originals)
        self->packing.tile |= PACKING_TILE_ORIGINALS;
    self->packing.source.paths = (const char *const *) words;
    self->packing.source.path_count = (size_t) count - 1;
    self->packing.source.fields = self->fields;
    self->packing.target = words [count - 1];
    for (int index = 0; index < count; index++)
        if (!*words [index])
            return complain ("pack", "an argument is empty; expected a path");
    return true;
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

bool
pack_options_parse (pack_options_t *self, int argc, char **argv)
{
    static const struct option options [] = {
        { "chunk", required_argument, NULL, 'c' }, { "seed", required_argument, NULL, 's' },
        { "memory", required_argument, NULL, 'm' }, { "extensions", required_argument, NULL, 'e' },
        { "field", required_argument, NULL, 'f' }, { "mask", required_argument, NULL, 'k' },
        { "tile", required_argument, NULL, 't' }, { "keep-original-bytes", no_argument, NULL, 'o' },
        { "workers", required_argument, NULL, 'w' },
        { "resume", no_argument, NULL, 'r' }, { "quiet", no_argument, NULL, 'q' },
        { "json", no_argument, NULL, 'j' },
        { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 }
    };
    *self = (pack_options_t) { .packing.memory_bytes = s_default_memory () };
    opterr = 0;
    optind = 0;                         //  glibc: start anew, whatever was parsed before
    for (int option; (option = getopt_long (argc, argv, ":h", options, NULL)) != -1;) {
        if (option == ':' || option == '?')
            return complain_of_option ("pack", argv, options, option);
        if (!s_take (self, option))
            return false;
        if (self->help)
            return true;
    }
    return s_finish (self, argc - optind, argv + optind);
}
