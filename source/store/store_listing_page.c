//  One page of a list, which is XML:
//
//      <ListBucketResult> <EncodingType>url</EncodingType>
//          <Contents> <Key>..</Key> <ETag>..</ETag> <Size>..</Size> </Contents> ..
//          <CommonPrefixes> <Prefix>..</Prefix> </CommonPrefixes> ..
//          <NextContinuationToken>..</NextContinuationToken> </ListBucketResult>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <expat.h>
#include "store_listing.h"

enum { VALUE_BYTES = 8 * 1024, DEPTH_MAX = 3 };

//  Elements that hold something; others are NOTHING.
typedef enum { NOTHING, PAGE, ENCODING, TOKEN, OBJECT, KEY, VERSION, SIZE, FOLDERS, FOLDER } element_t;

//  What an element is: by its name and the element around it.
static const struct {
    element_t around;
    const char *name;
    element_t element;
} s_elements [] = {
    { NOTHING, "ListBucketResult", PAGE }, { PAGE, "EncodingType", ENCODING },
    { PAGE, "NextContinuationToken", TOKEN }, { PAGE, "Contents", OBJECT }, { OBJECT, "Key", KEY },
    { OBJECT, "ETag", VERSION }, { OBJECT, "Size", SIZE }, { PAGE, "CommonPrefixes", FOLDERS },
    { FOLDERS, "Prefix", FOLDER }
};

//  An object's name and version, or a folder, until the page is known to be whole.
typedef struct {
    char *name, *version;               //  owned
    uint64_t bytes;
    bool has_bytes, is_folder;
} item_t;

typedef struct {
    XML_Parser parser;
    element_t open [DEPTH_MAX + 1];     //  by depth; of what is around, NOTHING
    size_t depth;
    char value [VALUE_BYTES];           //  of the innermost element
    size_t value_bytes;
    bool is_page, is_encoded;
    char *token;                        //  owned
    item_t *items;
    size_t count, limit;
    int rc;                             //  the first fault
} page_t;


//  -- the parser's calls

static void
s_fail (page_t *self, int rc)
{
    if (self->rc == 0)
        self->rc = rc;
    XML_StopParser (self->parser, XML_FALSE);
}

static element_t
s_element (element_t around, const char *name)
{
    for (size_t index = 0; index < sizeof s_elements / sizeof *s_elements; index++)
        if (s_elements [index].around == around && strcmp (s_elements [index].name, name) == 0)
            return s_elements [index].element;
    return NOTHING;
}

static void
s_add_item (page_t *self, bool is_folder)
{
    if (self->count == self->limit) {
        size_t limit = self->limit? 2 * self->limit: 256;
        item_t *items = realloc (self->items, limit * sizeof *items);
        if (!items) {
            s_fail (self, -ENOMEM);
            return;
        }
        self->items = items;
        self->limit = limit;
    }
    self->items [self->count++] = (item_t) { .is_folder = is_folder };
}

static void
s_on_begin (void *context, const char *name, const char **attributes)
{
    (void) attributes;
    page_t *self = context;
    const char *bare = strrchr (name, ':');         //  a namespace's prefix means nothing here
    self->value_bytes = 0;
    self->depth++;
    if (self->depth > DEPTH_MAX)
        return;
    element_t element = self->depth > 1 && self->open [self->depth - 1] == NOTHING? NOTHING:
        s_element (self->open [self->depth - 1], bare? bare + 1: name);
    self->open [self->depth] = element;
    self->is_page = self->is_page || element == PAGE;
    if (element == OBJECT || element == FOLDER)
        s_add_item (self, element == FOLDER);
}

static void
s_on_text (void *context, const char *text, int bytes)
{
    page_t *self = context;
    if (self->depth > DEPTH_MAX || self->open [self->depth] == NOTHING)
        return;
    if ((size_t) bytes >= VALUE_BYTES - self->value_bytes) {
        s_fail (self, -EPROTO);
        return;
    }
    memcpy (self->value + self->value_bytes, text, (size_t) bytes);
    self->value_bytes += (size_t) bytes;
}

static char *
s_keep (page_t *self, char *before)
{
    free (before);
    char *kept = strndup (self->value, self->value_bytes);
    if (!kept)
        s_fail (self, -ENOMEM);
    return kept;
}

static void
s_take_size (page_t *self, item_t *item)
{
    char *end;
    errno = 0;
    item->bytes = strtoull (self->value, &end, 10);
    item->has_bytes = true;
    if (errno || end == self->value || *end || self->value [0] == '-')
        s_fail (self, -EPROTO);
}

static void
s_on_end (void *context, const char *name)
{
    (void) name;
    page_t *self = context;
    element_t element = self->depth <= DEPTH_MAX? self->open [self->depth]: NOTHING;
    item_t *item = self->count? &self->items [self->count - 1]: NULL;
    self->value [self->value_bytes] = 0;
    if (element == ENCODING)
        self->is_encoded = strcmp (self->value, "url") == 0;
    else
    if (element == TOKEN)
        self->token = s_keep (self, self->token);
    else
    if (item && (element == KEY || element == FOLDER))
        item->name = s_keep (self, item->name);
    else
    if (item && element == VERSION)
        item->version = s_keep (self, item->version);
    else
    if (item && element == SIZE)
        s_take_size (self, item);
    self->value_bytes = 0;
    self->depth--;
}


//  -- what it says

static int
s_digit (char letter)
{
    static const char digits [] = "0123456789abcdef0123456789ABCDEF";
    const char *at = letter? strchr (digits, letter): NULL;
    return at? (int) ((at - digits) % 16): -1;
}

//  "a%20b", "a+b" in place; a '%' without two digits stays.
static void
s_decode (char *text)
{
    char *target = text;
    for (; *text; text++) {
        bool is_code = *text == '%' && s_digit (text [1]) >= 0 && s_digit (text [2]) >= 0;
        *target++ = is_code? (char) (16 * s_digit (text [1]) + s_digit (text [2])): *text == '+'? ' ': *text;
        text += is_code? 2: 0;
    }
    *target = 0;
}

static bool
s_add_text (store_listing_t *self, const char *text, uint64_t *place_p)
{
    size_t bytes = strlen (text) + 1;
    if (self->text_limit - self->text_used < bytes) {
        size_t limit = 2 * self->text_limit + bytes + 4096;
        char *grown = realloc (self->text, limit);
        if (!grown)
            return false;
        self->text = grown;
        self->text_limit = limit;
    }
    *place_p = self->text_used;
    memcpy (self->text + self->text_used, text, bytes);
    self->text_used += bytes;
    return true;
}

static int
s_add_object (store_listing_t *self, const item_t *item, const char *name)
{
    size_t length = strlen (name);
    if (length == 0 || name [length - 1] == '/')
        return 0;
    //  Some stores leave out the quotes here, which HTTP's header has.  A weak version (W/"..") stays weak.
    char version [TRANSFER_VERSION_BYTES] = "";
    bool has_quotes = item->version && (*item->version == '"' || transfer_is_weak (item->version));
    if (item->version && *item->version
    &&  (size_t) snprintf (version, sizeof version, has_quotes? "%s": "\"%s\"", item->version)
            >= sizeof version)
        return -EPROTO;
    if (!item->has_bytes)
        return -EPROTO;
    if (self->count == self->limit) {
        size_t limit = self->limit? 2 * self->limit: 1024;
        store_object_t *objects = realloc (self->objects, limit * sizeof *objects);
        if (!objects)
            return -ENOMEM;
        self->objects = objects;
        self->limit = limit;
    }
    store_object_t *object = &self->objects [self->count];
    *object = (store_object_t) { .bytes = item->bytes };
    if (!s_add_text (self, name, &object->name) || !s_add_text (self, version, &object->version))
        return -ENOMEM;
    self->count++;
    return 0;
}

static int
s_use (page_t *page, store_listing_t *listing, const char *path, store_listing_folder_fn *on_folder,
    void *context)
{
    size_t length = strlen (path);
    int rc = 0;
    for (size_t index = 0; rc == 0 && index < page->count; index++) {
        item_t *item = &page->items [index];
        if (!item->name)
            return -EPROTO;
        if (page->is_encoded)
            s_decode (item->name);
        //  Keys of other things do not come, since they were not asked for.
        bool is_below = strncmp (item->name, path, length) == 0
            && (length == 0 || item->name [length] == '/');
        if (!is_below)
            return -EPROTO;
        const char *name = item->name + length + (length > 0);
        rc = item->is_folder? on_folder (context, name): s_add_object (listing, item, name);
    }
    return rc;
}

int
store_listing_take_page (store_listing_t *self, const char *path, const uint8_t *page, size_t bytes,
    store_listing_folder_fn *on_folder, void *context, char **token_p)
{
    *token_p = NULL;
    page_t *parsed = calloc (1, sizeof *parsed);
    XML_Parser parser = parsed? XML_ParserCreate (NULL): NULL;
    if (!parser) {
        free (parsed);
        return -ENOMEM;
    }
    parsed->parser = parser;
    XML_SetUserData (parser, parsed);
    XML_SetElementHandler (parser, s_on_begin, s_on_end);
    XML_SetCharacterDataHandler (parser, s_on_text);
    bool is_whole = XML_Parse (parser, (const char *) page, (int) bytes, 1) == XML_STATUS_OK;
    int rc = parsed->rc;
    if (rc == 0 && !is_whole)
        rc = XML_GetErrorCode (parser) == XML_ERROR_NO_MEMORY? -ENOMEM: -EPROTO;
    if (rc == 0)
        rc = parsed->is_page? s_use (parsed, self, path, on_folder, context): -EPROTO;
    if (rc == 0 && parsed->token && *parsed->token) {
        *token_p = parsed->token;
        parsed->token = NULL;
    }
    XML_ParserFree (parser);
    for (size_t index = 0; index < parsed->count; index++) {
        free (parsed->items [index].name);
        free (parsed->items [index].version);
    }
    free (parsed->items);
    free (parsed->token);
    free (parsed);
    return rc;
}
