/*  tar_catalogue.c -- what the members of tar files are to each other: fields and labels (tar.h).  */
#include "tar.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>
#include "utf8.h"

enum { TAR_CATALOGUE_MAGIC = 0x7a2ca7a1 };

//  The sources of labels; by number, those that samples have.
enum { LABEL_CLS, LABEL_TXT, LABEL_JSON, LABELS };
static const char *const s_label_keys [LABELS] = { "cls", "txt", "json" };
static const char *const s_label_names [LABELS] = { "label", "txt", "json" };

struct tar_catalogue {
    uint32_t magic;
    catalogue_t *catalogue;
    const char *extensions;
    const char *masks;
    const char *classes;                //  names, a line each
    locale_t locale;                    //  in which a point is a point
    char keys [CATALOGUE_FIELDS_MAX] [CATALOGUE_NAME_BYTES_MAX];    //  of the further fields, from 1 on
    size_t file_limits [CATALOGUE_FIELDS_MAX];
    uint64_t last_extensions [CATALOGUE_FIELDS_MAX];                //  in the arena: most fields have but one
    column_t columns [LABELS];          //  while they are filled
    bool has_label [LABELS];
    bool is_unfit [LABELS];             //  a text that is none: no label
    bool finished;
    lookup_t directories;
    lookup_t samples;                   //  by directory and stem
};

//  The context of one call: the place for errors, and their names.
typedef struct {
    draft_t draft;
    const char *archive;
    const tar_member_t *members;
    size_t count;
} call_t;

static call_t
s_call (tar_catalogue_t *self, const char *archive, char *error)
{
    error [0] = 0;
    return (call_t) {
        .draft = { .self = self->catalogue, .error = error, .error_bytes = PACK_SOURCE_ERROR_BYTES },
        .archive = archive
    };
}

static shown_t
s_shown (const tar_member_t *member)
{
    return catalogue_shown (member->path, strlen (member->path));
}

static shown_t
s_shown_stem (const tar_member_t *member)
{
    return catalogue_shown (member->path, member->stem);
}


//  -- keys

static char
s_lower (char letter)
{
    return letter >= 'A' && letter <= 'Z'? (char) (letter + ('a' - 'A')): letter;
}

//  Whether the key is an item of the list ("jpg", "left.jpg"; dots in front are let pass), or ends in one
//  behind a dot.
static bool
s_is_listed (const char *key, const char *list, bool end_will_do)
{
    size_t length = strlen (key);
    for (const char *at = list; *at; at += *at == ',') {
        at += *at == '.';
        size_t size = strcspn (at, ","), same = 0;
        const char *tail = size <= length? key + length - size: key;
        while (size <= length && same < size && tail [same] == s_lower (at [same]))
            same++;
        if (size > 0 && same == size && (tail == key || (end_will_do && tail [-1] == '.')))
            return true;
        at += size;
    }
    return false;
}

static int
s_label_of (const char *key)
{
    for (int label = 0; label < LABELS; label++)
        if (strcmp (key, s_label_keys [label]) == 0)
            return label;
    return LABELS;
}

bool
tar_catalogue_needs (const char *key)
{
    return s_label_of (key) < LABELS;
}


//  -- the names of classes, as `tureen pack --classes` gives them: one a line, in the order of numbers

typedef struct {
    const char *name;
    size_t length, number;
} class_t;

//  Finds the name in the line that begins at *at_p, without the line's end ("\n" or "\r\n"), and moves *at_p
//  to the next line.  False: the text ends at *at_p.  The name is lent from the text.
static bool
s_next_class (const char **at_p, const char **name_p, size_t *length_p)
{
    const char *at = *at_p, *end = strchrnul (at, '\n');
    if (!*at)
        return false;
    *name_p = at;
    *length_p = (size_t) (end - at) - (end > at && end [-1] == '\r');
    *at_p = end + (*end == '\n');
    return true;
}

static int
s_compare_classes (const void *left, const void *right)
{
    const class_t *a = left, *b = right;
    int order = memcmp (a->name, b->name, a->length < b->length? a->length: b->length);
    return order? order: a->length != b->length? (a->length > b->length) - (a->length < b->length):
        (a->number > b->number) - (a->number < b->number);
}

static int
s_check_classes (class_t *classes, size_t count, char *error)
{
    for (size_t number = 0; number < count; number++)
        if (classes [number].length == 0 || classes [number].length >= PATH_MAX)
            return pack_source_fail (error, -EINVAL, "the name of class %zu is empty, or has more than %d "
                "bytes: give --classes a name a line", number, PATH_MAX - 1);
    qsort (classes, count, sizeof *classes, s_compare_classes);
    for (size_t index = 1; index < count; index++) {
        const class_t *one = &classes [index - 1], *other = &classes [index];
        if (one->length == other->length && memcmp (one->name, other->name, one->length) == 0)
            return pack_source_fail (error, -EINVAL, "the classes %zu and %zu are both called '%.*s': give "
                "--classes a name of its own for each", one->number, other->number,
                (int) (one->length < 160? one->length: 160), one->name);
    }
    return 0;
}

//  0; or -EINVAL (a name is empty, too long, or there twice) or -ENOMEM, and error (PACK_SOURCE_ERROR_BYTES)
//  says so.
static int
s_check_class_names (const char *text, char *error)
{
    size_t count = 0, limit = 1;
    for (const char *at = text; *at; at++)
        limit += *at == '\n';
    class_t *classes = reallocarray (NULL, limit, sizeof *classes);
    if (!classes)
        return pack_source_fail (error, -ENOMEM, "not enough memory: free memory");
    for (class_t class = { 0 }; s_next_class (&text, &class.name, &class.length); class.number = ++count)
        classes [count] = class;
    int rc = s_check_classes (classes, count, error);
    free (classes);
    return rc;
}


//  -- life

static bool
s_is_list (const char *list)
{
    for (const char *at = list; ; at++) {
        size_t size = strcspn (at, ",");
        if (size == 0 || (size == 1 && *at == '.') || strcspn (at, "/ ") < size)
            return false;
        at += size;
        if (!*at)
            return true;
    }
}

static int
s_check_options (const draft_t *draft, const pack_source_options_t *options)
{
    if (options->extensions && !catalogue_extensions_are_valid (options->extensions))
        return catalogue_fail (draft, -EINVAL, "'%.80s' is no list of file extensions: "
            "write them with their dots and commas between, like '.jpg,.left.png'", options->extensions);
    if (options->masks && !s_is_list (options->masks))
        return catalogue_fail (draft, -EINVAL,
            "'%.80s' is no list of masks: write the extensions of the members "
            "that are "
            "masks, with commas between, like 'seg.png,mask.png'", options->masks);
    if (options->field_count)
        return catalogue_fail (draft, -EINVAL,
            "the further field '%.80s' has a folder, and a tar has its fields in "
            "it: "
            "leave it out; every member of a sample is a field", options->fields [0].name);
    return 0;
}

tar_catalogue_t *
tar_catalogue_new (const pack_source_options_t *options, char *error)
{
    tar_catalogue_t *self = calloc (1, sizeof *self);
    catalogue_t *catalogue = self? catalogue_new (): NULL;
    if (!catalogue) {
        free (self);
        snprintf (error, PACK_SOURCE_ERROR_BYTES, "not enough memory: free memory");
        return NULL;
    }
    self->magic = TAR_CATALOGUE_MAGIC;
    self->catalogue = catalogue;
    self->extensions = options->extensions? options->extensions: catalogue_image_extensions;
    self->masks = options->masks;
    self->classes = options->classes;
    self->columns [LABEL_CLS].kind = COLUMN_WHOLE;
    self->locale = newlocale (LC_ALL_MASK, "C", (locale_t) 0);
    call_t call = s_call (self, options->paths [0], error);
    strcpy (catalogue->fields [0].name, "image");
    catalogue->fields [0].path = strdup (options->paths [0]);
    catalogue->field_count = 1;
    if ((options->classes && s_check_class_names (options->classes, error))
            || s_check_options (&call.draft, options)
            || ((!catalogue->fields [0].path || !self->locale) && catalogue_fail_memory (&call.draft)))
        tar_catalogue_destroy (&self);
    return self;
}

void
tar_catalogue_destroy (tar_catalogue_t **self_p)
{
    assert (self_p);
    tar_catalogue_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == TAR_CATALOGUE_MAGIC);
    for (size_t label = 0; label < LABELS; label++)
        free (self->columns [label].values);
    if (self->locale)
        freelocale (self->locale);
    free (self->directories.slots);
    free (self->samples.slots);
    catalogue_destroy (&self->catalogue);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}


//  -- which member is the image

//  Keys of the members that qualify, "jpg, png", or of all if none does.
static void
s_list_keys (const tar_catalogue_t *self, const call_t *call, bool all, bool end_will_do, char *text,
    size_t size)
{
    size_t used = 0;
    text [0] = 0;
    for (size_t index = 0; index < call->count && used < size; index++)
        if (all || s_is_listed (call->members [index].key, self->extensions, end_will_do))
            used += (size_t) snprintf (text + used, size - used, "%s'%s'", used? ", ": "",
                call->members [index].key);
}

static int
s_fail_image (const tar_catalogue_t *self, const call_t *call, size_t found, bool end_will_do)
{
    char keys [CATALOGUE_FIELDS_MAX * (CATALOGUE_NAME_BYTES_MAX + 4)];
    s_list_keys (self, call, found == 0, end_will_do, keys, sizeof keys);
    if (found == 0)
        return catalogue_fail (&call->draft, -EINVAL,
            "'%s': the sample '%s' has no image (%.400s; wanted: %.80s): "
            "say which "
            "member it is with --extensions, or leave these files out of the tar", call->archive,
            s_shown_stem (call->members).text, keys, self->extensions);
    return catalogue_fail (&call->draft, -EINVAL,
        "'%s': in the sample '%s' %zu members may be the image (%.400s): "
        "say which with "
        "--extensions, or which are masks with --mask", call->archive, s_shown_stem (call->members).text,
        found, keys);
}

static int
s_find_image (const tar_catalogue_t *self, const call_t *call, size_t *image_p)
{
    size_t found = 0;
    bool end_will_do = false;
    for (int pass = 0; pass < 2 && found == 0; pass++) {
        end_will_do = pass == 1;
        for (size_t index = 0; index < call->count; index++) {
            const char *key = call->members [index].key;
            if ((self->masks && s_is_listed (key, self->masks, false))
                    || !s_is_listed (key, self->extensions, end_will_do))
                continue;
            *image_p = index;
            found++;
        }
    }
    return found == 1? 0: s_fail_image (self, call, found, end_will_do);
}


//  -- fields

static bool
s_is_reserved (const char *name)
{
    for (size_t label = 0; label < LABELS; label++)
        if (strcmp (name, s_label_names [label]) == 0)
            return true;
    return strcmp (name, "image") == 0 || strcmp (name, PACK_ROWS_NAME) == 0;
}

static int
s_name_field (const call_t *call, const char *key, field_t *field)
{
    char name [CATALOGUE_NAME_BYTES_MAX + 8];
    strcpy (name, key);
    for (char *dot = name; (dot = strchr (dot, '.')); )
        *dot = '_';
    if (s_is_reserved (name))
        strcat (name, "_file");
    if (!catalogue_name_is_valid (name, strlen (name)))
        return catalogue_fail (&call->draft, -EINVAL,
            "'%s': a field cannot have the name '%s', which the members "
            "'%s.%s' would "
            "give it: use letters, digits, dots and '_' behind the first dot of a name, at most %d",
            call->archive, name,
            s_shown_stem (call->members).text, key, CATALOGUE_NAME_BYTES_MAX - 1);
    if (catalogue_name_is_taken (call->draft.self, name))
        return catalogue_fail (&call->draft, -EINVAL,
            "'%s': two members of the sample '%s' would be the field '%s': "
            "rename one", call->archive, s_shown_stem (call->members).text, name);
    strcpy (field->name, name);
    return 0;
}

static int
s_add_field (tar_catalogue_t *self, const call_t *call, const char *key)
{
    catalogue_t *catalogue = self->catalogue;
    field_t *field = &catalogue->fields [catalogue->field_count];
    int rc = s_name_field (call, key, field);
    if (rc)
        return rc;
    field->is_beside = true;
    field->is_mask = self->masks && s_is_listed (key, self->masks, false);
    field->path = strdup (catalogue->fields [0].path);
    if (!field->path)
        return catalogue_fail_memory (&call->draft);
    strcpy (self->keys [catalogue->field_count++], key);
    int label = s_label_of (key);
    if (label < LABELS)
        self->has_label [label] = true;
    return 0;
}

//  Every requested mask must exist, or a misspelt one would become an image.
static int
s_check_masks (const tar_catalogue_t *self, const call_t *call)
{
    for (const char *at = self->masks? self->masks: ""; *at; at += *at == ',') {
        at += *at == '.';
        size_t size = strcspn (at, ",");
        char item [CATALOGUE_NAME_BYTES_MAX] = "";
        bool is_there = false;
        if (size < sizeof item)
            memcpy (item, at, size);
        for (size_t index = 0; index < call->count; index++)
            is_there |= size < sizeof item && s_is_listed (call->members [index].key, item, false);
        if (!is_there)
            return catalogue_fail (&call->draft, -EINVAL,
                "'%s': the sample '%s' has no member '%.*s', which is to "
                "be a mask: "
                "correct --mask", call->archive, s_shown_stem (call->members).text,
                (int) (size < 80? size: 80), at);
        at += size;
    }
    return 0;
}

//  The first sample determines the fields; sorted, so that the members' order in the tar does not matter.
static int
s_make_fields (tar_catalogue_t *self, const call_t *call, size_t image)
{
    const char *last = "";
    int rc = s_check_masks (self, call);
    for (size_t added = 1; rc == 0 && added < call->count; added++) {
        const char *next = NULL;
        for (size_t index = 0; index < call->count; index++) {
            const char *key = call->members [index].key;
            if (index != image && strcmp (key, last) > 0 && (!next || strcmp (key, next) < 0))
                next = key;
        }
        assert (next);                  //  no two have one key
        rc = s_add_field (self, call, next);
        last = next;
    }
    return rc;
}

static int
s_fail_extra (const tar_catalogue_t *self, const call_t *call, const size_t *order)
{
    for (size_t index = 0; index < call->count; index++) {
        bool is_known = false;
        for (size_t field = 0; field < self->catalogue->field_count; field++)
            is_known |= order [field] == index;
        if (!is_known)
            return catalogue_fail (&call->draft, -EINVAL,
                "'%s': there is '%s', and the samples before have no '.%s': "
                "give all samples the same members", call->archive, s_shown (&call->members [index]).text,
                call->members [index].key);
    }
    assert (false);
    return -EINVAL;
}

static int
s_match_fields (const tar_catalogue_t *self, const call_t *call, size_t image, size_t *order)
{
    const catalogue_t *catalogue = self->catalogue;
    order [0] = image;
    for (size_t field = 1; field < catalogue->field_count; field++) {
        size_t index = 0;
        while (index < call->count && (index == image
            || strcmp (call->members [index].key, self->keys [field])))
            index++;
        if (index == call->count)
            return catalogue_fail (&call->draft, -EINVAL,
                "'%s': the sample '%s' has no '.%s', which the samples "
                "before have: "
                "give all samples the same members, next to each other", call->archive,
                s_shown_stem (call->members).text, self->keys [field]);
        order [field] = index;
    }
    return call->count == catalogue->field_count? 0: s_fail_extra (self, call, order);
}


//  -- samples

typedef struct {
    const catalogue_t *catalogue;
    const char *text;
    size_t length;
    uint32_t directory;
} wanted_t;

static bool
s_same_directory (const void *argument, uint32_t item)
{
    const wanted_t *wanted = argument;
    const char *path = wanted->catalogue->arena + wanted->catalogue->directories [item].path;
    return strncmp (path, wanted->text, wanted->length) == 0 && path [wanted->length] == 0;
}

static bool
s_same_stem (const void *argument, uint32_t item)
{
    const wanted_t *wanted = argument;
    const sample_t *sample = &wanted->catalogue->samples [item];
    const char *name = wanted->catalogue->arena + sample->name;
    return sample->directory == wanted->directory && strncmp (name, wanted->text, wanted->length) == 0
        && name [wanted->length] == '.';
}

static int
s_find_directory (tar_catalogue_t *self, const call_t *call, uint32_t *directory_p)
{
    catalogue_t *catalogue = self->catalogue;
    const tar_member_t *member = call->members;
    wanted_t wanted = { .catalogue = catalogue, .text = member->path,
        .length = member->name? member->name - 1: 0 };
    uint64_t hash = XXH3_64bits (wanted.text, wanted.length);
    int64_t found = catalogue_lookup_find (&self->directories, hash, s_same_directory, &wanted);
    if (found != LOOKUP_NONE) {
        *directory_p = (uint32_t) found;
        return 0;
    }
    directory_t *directories = catalogue_grown (catalogue->directories, &catalogue->directory_limit,
        catalogue->directory_count + 1, sizeof *directories);
    if (!directories)
        return catalogue_fail_memory (&call->draft);
    catalogue->directories = directories;
    *directory_p = (uint32_t) catalogue->directory_count;           //  at most as many as samples
    directory_t *directory = &directories [catalogue->directory_count];
    *directory = (directory_t) { 0 };
    if (catalogue_add_text (catalogue, NULL, wanted.text, wanted.length, &directory->path)
            || catalogue_lookup_add (&self->directories, hash, *directory_p))
        return catalogue_fail_memory (&call->draft);
    catalogue->directory_count++;
    return 0;
}

static int
s_add_companion (tar_catalogue_t *self, const call_t *call, size_t field_index, const tar_member_t *member)
{
    catalogue_t *catalogue = self->catalogue;
    field_t *field = &catalogue->fields [field_index];
    size_t id = catalogue->sample_count - 1;
    companion_t *files = catalogue_grown (field->files, &self->file_limits [field_index], id + 1,
        sizeof *files);
    if (!files)
        return catalogue_fail_memory (&call->draft);
    field->files = files;
    const char *extension = member->path + member->stem;
    uint64_t *last = &self->last_extensions [field_index];
    if ((id == 0 || strcmp (catalogue->arena + *last, extension) != 0)
            && catalogue_add_text (catalogue, NULL, extension, strlen (extension), last))
        return catalogue_fail_memory (&call->draft);
    files [id] = (companion_t) { .bytes = member->size, .extension = *last };
    catalogue->bytes += member->size;
    return 0;
}

static int
s_add_sample (tar_catalogue_t *self, const call_t *call, const size_t *order)
{
    catalogue_t *catalogue = self->catalogue;
    if (catalogue->sample_count == UINT32_MAX)
        //  UNTESTED: takes 2^32 samples.
        return catalogue_fail (&call->draft, -EOVERFLOW,
            "more than %u samples up to '%s': pack them in parts", UINT32_MAX,
            call->archive);
    uint32_t directory = 0;
    int rc = s_find_directory (self, call, &directory);
    if (rc)
        return rc;
    const tar_member_t *image = &call->members [order [0]];
    wanted_t wanted = { catalogue, image->path + image->name, image->stem - image->name, directory };
    uint64_t hash = XXH3_64bits_withSeed (wanted.text, wanted.length, directory);
    if (catalogue_lookup_find (&self->samples, hash, s_same_stem, &wanted) != LOOKUP_NONE)
        return catalogue_fail (&call->draft, -EINVAL,
            "'%s': the sample '%s' comes again: its members must stand "
            "next to each "
            "other, and every sample needs a name of its own, over all tar files: make the tar anew, sorted "
            "by name, or rename "
            "one", call->archive, s_shown_stem (image).text);
    if (catalogue_lookup_add (&self->samples, hash, (uint32_t) catalogue->sample_count)
            || catalogue_add_sample (catalogue, directory, image->path + image->name,
                strlen (image->path + image->name), image->size))
        return catalogue_fail_memory (&call->draft);
    for (size_t field = 1; rc == 0 && field < catalogue->field_count; field++)
        rc = s_add_companion (self, call, field, &call->members [order [field]]);
    return rc;
}


//  -- the number in a member "cls", and the type of all of them

//  Whole numbers are int64.  With the first that is not whole all are float64, as in a column of labels.tsv.

enum { NUMBER_BYTES_MAX = 64 };

typedef enum { NUMBER_NONE, NUMBER_WHOLE, NUMBER_REAL } number_t;

//  What the text is, and into *value_p the number.  The locale is one in which a point is a point.
static number_t
s_parse_number (const catalogue_buffer_t *data, locale_t locale, value_t *value_p)
{
    assert (data); assert (value_p);
    char text [NUMBER_BYTES_MAX + 1];
    if (data->size == 0 || data->size > NUMBER_BYTES_MAX)
        return NUMBER_NONE;
    memcpy (text, data->bytes, data->size);
    text [data->size] = 0;
    char *end;
    errno = 0;
    value_p->whole = strtoll (text, &end, 10);
    if (end > text && end + strspn (end, " \t\r\n") == text + data->size)
        return errno == 0? NUMBER_WHOLE: NUMBER_NONE;
    if (strpbrk (text, "xX("))          //  hexadecimal, and nan (...)
        return NUMBER_NONE;
    value_p->real = strtod_l (text, &end, locale);
    return end > text && end + strspn (end, " \t\r\n") == text + data->size? NUMBER_REAL: NUMBER_NONE;
}

//  Makes the column and the value, which is to be its next, of one type.  False: a whole number is beyond
//  2^53, and would be another number as float64.
static bool
s_fit_number (column_t *column, number_t number, value_t *value)
{
    assert (column); assert (value); assert (number != NUMBER_NONE);
    if (number == NUMBER_WHOLE && column->kind == COLUMN_WHOLE)
        return true;
    for (size_t index = 0; column->kind == COLUMN_WHOLE && index < column->value_count; index++) {
        int64_t whole = column->values [index].whole;
        if (!catalogue_is_exact (whole))
            return false;
        column->values [index].real = (double) whole;
    }
    column->kind = COLUMN_REAL;
    if (number == NUMBER_REAL)
        return true;
    int64_t whole = value->whole;
    value->real = (double) whole;
    return catalogue_is_exact (whole);
}


//  -- labels

//  "cls", one more.
static int
s_read_number (tar_catalogue_t *self, const call_t *call, const tar_member_t *member, value_t *value)
{
    const catalogue_buffer_t *data = &member->data;
    number_t number = s_parse_number (data, self->locale, value);
    if (number == NUMBER_NONE)
        return catalogue_fail (&call->draft, -EINVAL, "'%s': '%s' is no number ('%s'): write the class's "
            "number into it, or rename these members; texts are .txt", call->archive, s_shown (member).text,
            catalogue_shown ((const char *) data->bytes, data->size < 40? data->size: 40).text);
    return s_fit_number (&self->columns [LABEL_CLS], number, value)? 0:
        catalogue_fail (&call->draft, -EINVAL, "'%s': the numbers of '.cls' are not all whole at '%s', and "
            "some are beyond 2^53, where float64 has not all whole numbers: write smaller ones",
            call->archive,
            s_shown (member).text);
}

static bool
s_is_text (const catalogue_buffer_t *data)
{
    if (data->size > CATALOGUE_LABEL_BYTES_MAX || (data->size && memchr (data->bytes, 0, data->size)))
        return false;
    //  The reader of code points may look one byte behind, which must be there and end a character.
    char copy [CATALOGUE_LABEL_BYTES_MAX + 1];
    memcpy (copy, data->size? data->bytes: (const uint8_t *) "", data->size);
    copy [data->size] = 0;
    for (const uint8_t *at = (const uint8_t *) copy; *at; ) {
        uint32_t code = utf8_code_point (&at);
        if (code >= 0xdc80 && code <= 0xdcff)
            return false;
    }
    return true;
}

static int
s_put_label (tar_catalogue_t *self, const call_t *call, int label, const tar_member_t *member)
{
    column_t *column = &self->columns [label];
    const catalogue_buffer_t *data = &member->data;
    assert (data->size == member->size);
    value_t value = { 0 };
    if (self->is_unfit [label])
        return 0;
    int rc = label == LABEL_CLS? s_read_number (self, call, member, &value): 0;
    if (rc)
        return rc;
    if (label != LABEL_CLS && !s_is_text (data)) {
        self->is_unfit [label] = true;
        snprintf (catalogue_warning_new (self->catalogue), CATALOGUE_WARNING_BYTES,
            "there is no label '%s', as "
            "'%s' is no text of UTF-8 with at most %d bytes and no zero byte: the field has all of them",
            s_label_names [label], s_shown (member).text, CATALOGUE_LABEL_BYTES_MAX);
        return 0;
    }
    if (label != LABEL_CLS && data->size > column->longest)
        column->longest = data->size;
    value_t *values = catalogue_grown (column->values, &column->value_limit, column->value_count + 1,
        sizeof *values);
    if (!values)
        return catalogue_fail_memory (&call->draft);
    column->values = values;
    if (label != LABEL_CLS && catalogue_add_text (self->catalogue, NULL,
        data->size? (const char *) data->bytes: "",
            data->size, &value.text))
        return catalogue_fail_memory (&call->draft);
    values [column->value_count++] = value;
    return 0;
}

static int
s_put_labels (tar_catalogue_t *self, const call_t *call)
{
    int rc = 0;
    for (size_t index = 0; rc == 0 && index < call->count; index++) {
        int label = s_label_of (call->members [index].key);
        if (label < LABELS && self->has_label [label])
            rc = s_put_label (self, call, label, &call->members [index]);
    }
    return rc;
}

int
tar_catalogue_add (tar_catalogue_t *self, const char *archive, const tar_member_t *members, size_t count,
    size_t order [CATALOGUE_FIELDS_MAX], char *error)
{
    assert (self && self->magic == TAR_CATALOGUE_MAGIC);
    assert (!self->finished);
    assert (count > 0 && count <= CATALOGUE_FIELDS_MAX);
    call_t call = s_call (self, archive, error);
    call.members = members;
    call.count = count;
    size_t image = 0;
    int rc = s_find_image (self, &call, &image);
    if (rc == 0 && self->catalogue->sample_count == 0)
        rc = s_make_fields (self, &call, image);
    if (rc == 0)
        rc = s_match_fields (self, &call, image, order);
    if (rc == 0)
        rc = s_add_sample (self, &call, order);
    if (rc == 0)
        rc = s_put_labels (self, &call);
    return rc? rc: (int) self->catalogue->field_count;
}


//  -- classes

//  The length of the directories' common path, up to a slash or an end; the classes' names begin behind it.
static size_t
s_common (const catalogue_t *catalogue)
{
    const char *first = catalogue->arena + catalogue->directories [0].path;
    size_t common = strlen (first);
    for (size_t index = 1; index < catalogue->directory_count; index++)
        common = catalogue_common (first, common, catalogue->arena + catalogue->directories [index].path);
    return common;
}

//  For a directory: the offset of the class's name in the arena.
typedef struct {
    uint64_t at;
    size_t length;
    uint32_t directory;
} class_name_t;

static int
s_compare_names (const void *left, const void *right, void *arena)
{
    const class_name_t *a = left, *b = right;
    const char *text = arena;
    int order = memcmp (text + a->at, text + b->at, a->length < b->length? a->length: b->length);
    return order? order: (a->length > b->length) - (a->length < b->length);
}

//  The folder below the common ones.  False: a sample lies beside them.
static bool
s_name_classes (const catalogue_t *catalogue, class_name_t *names)
{
    size_t common = s_common (catalogue);
    for (size_t index = 0; index < catalogue->directory_count; index++) {
        uint64_t at = catalogue->directories [index].path + common;
        at += catalogue->arena [at] == '/';
        names [index] = (class_name_t) { at, strcspn (catalogue->arena + at, "/"), (uint32_t) index };
        if (names [index].length == 0)
            return false;
    }
    return true;
}

static int
s_add_class (catalogue_t *catalogue, const char *name, size_t length)
{
    uint64_t *classes = catalogue_grown (catalogue->classes, &catalogue->class_limit,
        catalogue->class_count + 1, sizeof *classes);
    if (!classes)
        return -ENOMEM;
    catalogue->classes = classes;
    return catalogue_add_text (catalogue, NULL, name, length, &classes [catalogue->class_count++]);
}

//  The name is in the arena, which moves while names are added.
static int
s_add_found (catalogue_t *catalogue, const class_name_t *found)
{
    char name [PATH_MAX];
    assert (found->length < sizeof name);
    memcpy (name, catalogue->arena + found->at, found->length);
    return s_add_class (catalogue, name, found->length);
}

//  names are sorted.
static int
s_number_classes (catalogue_t *catalogue, const class_name_t *names)
{
    int rc = 0;
    for (size_t index = 0; rc == 0 && index < catalogue->directory_count; index++) {
        if (index == 0 || s_compare_names (&names [index - 1], &names [index], catalogue->arena) != 0)
            rc = s_add_found (catalogue, &names [index]);
        catalogue->directories [names [index].directory].label = (uint32_t) (catalogue->class_count - 1);
    }
    return rc;
}

static int
s_label_by_folder (catalogue_t *catalogue)
{
    class_name_t *names = reallocarray (NULL, catalogue->directory_count, sizeof *names);
    if (!names)
        return -ENOMEM;
    int rc = 0;
    if (s_name_classes (catalogue, names)) {
        qsort_r (names, catalogue->directory_count, sizeof *names, s_compare_names, catalogue->arena);
        rc = s_number_classes (catalogue, names);
        column_t *column = &catalogue->columns [catalogue->column_count++];
        *column = (column_t) { .name = "label", .kind = COLUMN_CLASS, .length = 1 };
        catalogue_column_describe (column);
    }
    free (names);
    return rc;
}


//  The names that were given for the numbers of "cls"; -1 is none of them: no class is known.
static int
s_take_classes (tar_catalogue_t *self, const call_t *call)
{
    catalogue_t *catalogue = self->catalogue;
    const char *name, *at = self->classes? self->classes: "";
    for (size_t length; s_next_class (&at, &name, &length); )
        if (s_add_class (catalogue, name, length))
            return catalogue_fail_memory (&call->draft);
    const column_t *column = &self->columns [LABEL_CLS];
    if (self->classes && (!self->has_label [LABEL_CLS] || column->kind != COLUMN_WHOLE))
        return catalogue_fail (&call->draft, -EINVAL, "there are names of classes, and no whole numbers of "
            "classes in members '.cls': leave --classes out");
    for (size_t id = 0; self->classes && id < column->value_count; id++)
        if (column->values [id].whole < -1 || column->values [id].whole >= (int64_t) catalogue->class_count)
            return catalogue_fail (&call->draft, -EINVAL, "sample %zu is of class %lld, and --classes has "
                "%zu names: add the others", id, (long long) column->values [id].whole,
                catalogue->class_count);
    return 0;
}


//  -- the end

//  The column moves into the catalogue.
static void
s_take_column (tar_catalogue_t *self, int label)
{
    catalogue_t *catalogue = self->catalogue;
    column_t *column = &catalogue->columns [catalogue->column_count++];
    *column = self->columns [label];
    self->columns [label] = (column_t) { 0 };
    strcpy (column->name, s_label_names [label]);
    if (label != LABEL_CLS)
        column->kind = COLUMN_TEXT;
    column->length = 1;
    catalogue_column_describe (column);
    assert (column->value_count == catalogue->sample_count);
}

int
tar_catalogue_finish (tar_catalogue_t *self, char *error)
{
    assert (self && self->magic == TAR_CATALOGUE_MAGIC);
    assert (!self->finished);
    catalogue_t *catalogue = self->catalogue;
    assert (catalogue->sample_count > 0);
    call_t call = s_call (self, catalogue_root (catalogue), error);
    int rc = s_take_classes (self, &call);
    if (rc)
        return rc;
    for (int label = 0; label < LABELS; label++)
        if (self->has_label [label] && !self->is_unfit [label]
            && (label == LABEL_CLS || self->columns [label].longest))
            s_take_column (self, label);
    if (!self->has_label [LABEL_CLS] && !self->has_label [LABEL_TXT] && !self->has_label [LABEL_JSON])
        rc = s_label_by_folder (catalogue);
    if (rc)
        return catalogue_fail_memory (&call.draft);
    rc = catalogue_judge_splits (&call.draft, catalogue_class_is_folder (catalogue)? CATALOGUE_SPLITS_OF_TAR:
        CATALOGUE_SPLITS_OF_LIST);
    if (rc)
        return rc;
    if (catalogue_hash (catalogue))
        return catalogue_fail_memory (&call.draft);
    catalogue_trim (catalogue);
    self->finished = true;
    return 0;
}

uint64_t
tar_catalogue_samples (const tar_catalogue_t *self)
{
    assert (self && self->magic == TAR_CATALOGUE_MAGIC);
    return self->catalogue->sample_count;
}

const catalogue_t *
tar_catalogue_result (const tar_catalogue_t *self)
{
    assert (self && self->magic == TAR_CATALOGUE_MAGIC);
    assert (self->finished);
    return self->catalogue;
}
