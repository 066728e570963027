/*  fuzz_labels -- any text as a labels file: refused with a sentence, or samples and labels that hold
 *  together.
 *
 *  The first byte says what the rest is: 'j' JSON lines, anything else TSV.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "catalogue_labels.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static void
s_require (int condition)
{
    if (!condition)
        abort ();
}

static void
s_check_paths (const catalogue_t *self)
{
    for (uint32_t id = 0; id < catalogue_samples (self); id++) {
        char path [5000];
        size_t length = catalogue_path (self, id, 0, path, sizeof path);
        s_require (length > 0 && length < 4096 && *path != '/' && path [length - 1] != '/');
        s_require (!strstr (path, "//") && strncmp (path, "../", 3) && !strstr (path, "/../")
            && strcmp (path, ".."));
    }
}

static void
s_check_labels (const catalogue_t *self)
{
    uint8_t *value = malloc (CATALOGUE_LABEL_BYTES_MAX + 1);
    s_require (value != NULL && catalogue_labels (self) <= CATALOGUE_LABELS_MAX);
    for (size_t index = 0; index < catalogue_labels (self); index++) {
        const catalogue_label_t *label = catalogue_label (self, index);
        s_require (label->bytes > 0 && label->bytes <= CATALOGUE_LABEL_BYTES_MAX && label->dimensions <= 1);
        size_t size = !strcmp (label->dtype, "uint8")? 1: 8;
        s_require (label->bytes == size * (label->dimensions? label->shape [0]: 1));
        s_require (size == 8 || label->dimensions == 1);
        s_require (strlen (label->name) > 0 && strlen (label->name) < CATALOGUE_NAME_BYTES_MAX);
        for (uint32_t id = 0; id < catalogue_samples (self); id++) {
            value [label->bytes] = 0x5a;
            catalogue_label_value (self, index, id, value);
            s_require (value [label->bytes] == 0x5a);
        }
    }
    free (value);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    char *text = malloc (size);
    catalogue_t *self = catalogue_new ();
    s_require (text && self);
    memcpy (text, data + 1, size - 1);
    text [size - 1] = 0;
    strcpy (self->fields [0].name, "image");
    self->fields [0].path = strdup ("/data");
    self->field_count = 1;
    //  Every length of room for the sentence comes by.
    char error [300];
    draft_t draft = { .self = self, .error = error, .error_bytes = 1 + size % sizeof error };
    *error = 0;
    int rc = catalogue_labels_parse (&draft, *data == 'j'? &catalogue_jsonl: &catalogue_tsv, text, size - 1);
    free (text);
    s_require (memchr (error, 0, draft.error_bytes) != NULL);
    s_require (rc == 0? !*error: rc < 0 && (*error || draft.error_bytes == 1));
    if (rc == 0) {
        s_require (catalogue_samples (self) > 0);
        s_check_paths (self);
        s_check_labels (self);
    }
    catalogue_destroy (&self);
    return 0;
}
