#include "store_listing.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <expat.h>
#include "clock.h"

//  ---- one page of a list

//  One page of a list, which is XML:
//
//      <ListBucketResult> <EncodingType>url</EncodingType>
//          <Contents> <Key>..</Key> <ETag>..</ETag> <Size>..</Size> </Contents> ..
//          <CommonPrefixes> <Prefix>..</Prefix> </CommonPrefixes> ..
//          <NextContinuationToken>..</NextContinuationToken> </ListBucketResult>

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
    bool has_quotes = item->version && (*item->version == '"' || transfers_version_is_weak (item->version));
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


//  ---- the whole list

enum {
    TOGETHER_MAX = 32,                  //  pages under way
    PAGE_BYTES = 4 * 1024 * 1024,       //  1,000 names of 1,024 bytes, each byte as %XX, and what is around
    EMPTY_PAGES_MAX = 1000              //  in a row, of a part
};

//  A part of the list: what begins with this text.
typedef struct part {
    char *begin;                        //  below the address
    char *token;                        //  of its next page; NULL: its first
    char *url;
    bool is_flat;
    uint64_t pages, marked_pages;       //  that were taken; when the mark was set
    char *mark;                         //  a token of before
    uint32_t empty_pages;               //  in a row
    transfer_t transfer;
    struct part *next;
} part_t;

typedef struct {
    store_listing_t *listing;
    store_t *store;
    transfers_t *transfers;
    part_t *waiting;                    //  their next pages are to be asked for
    size_t under_way;
    part_t *failed;                     //  the first one that failed for good; no other is begun
    int rc;
    const part_t *taken;                //  its page is being taken
    uint64_t pages;                     //  that were taken
    progress_t *progress;
} fetch_t;


//  -- parts

static void
s_part_destroy (part_t *part)
{
    free (part->begin);
    free (part->token);
    free (part->mark);
    free (part->url);
    free (part->transfer.memory);
    free (part);
}

static int
s_add_part (fetch_t *self, const char *begin)
{
    part_t *part = calloc (1, sizeof *part);
    char *kept = part? strdup (begin): NULL;
    if (!kept) {
        free (part);
        return -ENOMEM;
    }
    *part = (part_t) { .begin = kept, .is_flat = !*begin, .next = self->waiting };
    self->waiting = part;
    return 0;
}

//  The list of folders has names of its own.
static int
s_on_folder (void *context, const char *folder)
{
    fetch_t *self = context;
    return self->taken->is_flat && *folder? s_add_part (self, folder): -EPROTO;
}

static int
s_begin (fetch_t *self, part_t *part)
{
    free (part->url);
    part->url = store_list_url (self->store, part->begin, part->is_flat, part->token);
    uint8_t *memory = part->transfer.memory? part->transfer.memory: malloc (PAGE_BYTES);
    part->transfer = (transfer_t) { .url = part->url, .bytes = PAGE_BYTES, .memory = memory, .is_whole = true,
        .user = part };
    if (!part->url || !memory)
        return -ENOMEM;
    return transfers_begin (self->transfers, &part->transfer);
}

//  Whether the pages go round in a circle, which would keep us for ever: a token comes again that was there
//  before (as Brent finds cycles: the mark is set anew after twice as many pages); or nothing comes.
static bool
s_is_endless (part_t *part, const char *token, bool is_empty)
{
    part->empty_pages = is_empty? part->empty_pages + 1: 0;
    if (!token)
        return false;
    if (part->empty_pages > EMPTY_PAGES_MAX || (part->mark && strcmp (token, part->mark) == 0))
        return true;
    if (++part->pages >= 2 * part->marked_pages) {
        free (part->mark);
        part->mark = strdup (token);
        part->marked_pages = part->pages;
    }
    return false;
}

//  Its page has come.
static int
s_take (fetch_t *self, part_t *part)
{
    char *token;
    size_t before = self->listing->count;
    const part_t *first = self->waiting;
    self->taken = part;
    int rc = store_listing_take_page (self->listing, store_path (self->store), part->transfer.memory,
        part->transfer.done, s_on_folder, self, &token);
    bool is_empty = self->listing->count == before && self->waiting == first;
    if (rc == 0 && s_is_endless (part, token, is_empty))
        rc = -EPROTO;
    self->pages += rc == 0;
    progress_tell (self->progress, self->listing->count, 0);
    //  A page that found no memory is asked for again: behind the one before, not from the first one on.
    if (rc == 0) {
        free (part->token);
        part->token = token;
    }
    else
        free (token);
    if (rc == -EPROTO)
        snprintf (part->transfer.detail, TRANSFER_DETAIL_BYTES, "the answer is no list of objects");
    return part->transfer.rc = rc;
}


//  -- all of them

//  One that is done, well or not.  True: it failed, and may succeed later.
static bool
s_finish (fetch_t *self, part_t *part)
{
    int rc = part->transfer.rc? part->transfer.rc: s_take (self, part);
    //  Keys that have ended are renewed meanwhile.
    bool may_pass = transfers_may_pass (rc) || (rc == -EKEYEXPIRED && store_keys (self->store));
    bool is_through = rc == 0 && !part->token;
    if (is_through)
        s_part_destroy (part);
    else
    if (rc == 0 || (may_pass && !self->failed)) {
        part->next = self->waiting;     //  for its next page, or once more
        self->waiting = part;
    }
    else
    if (self->failed)
        s_part_destroy (part);
    else {
        self->failed = part;
        self->rc = rc;
    }
    return rc && may_pass;
}

//  Begins what waits, as far as it may, and takes what is done.  True: some failed, and may succeed later.
static bool
s_turn (fetch_t *self)
{
    bool is_failing = false;
    do {
        while (self->waiting && self->under_way < TOGETHER_MAX && !is_failing && !self->failed) {
            part_t *part = self->waiting;
            self->waiting = part->next;
            part->transfer.rc = s_begin (self, part);
            if (part->transfer.rc)
                is_failing = s_finish (self, part);
            else
                self->under_way++;
        }
        if (self->under_way > 0)
            transfers_wait (self->transfers, NULL, 0, -1);
        for (transfer_t *transfer; (transfer = transfers_take (self->transfers)); self->under_way--)
            is_failing = s_finish (self, transfer->user) || is_failing;
    } while (self->under_way > 0 || (self->waiting && !is_failing && !self->failed));
    return is_failing;
}

//  One that failed and waits for another try will get none.
static void
s_give_up (fetch_t *self)
{
    part_t **place = &self->waiting;
    while ((*place)->transfer.rc == 0)
        place = &(*place)->next;
    self->failed = *place;
    *place = self->failed->next;
    self->rc = self->failed->transfer.rc;
}

//  Patience counts from the first failure behind the last page that came.
static void
s_fetch_all (fetch_t *self, uint32_t patience_ms)
{
    int64_t limit_ms = 0;
    uint64_t pages = 0;
    for (uint32_t failures = 0; s_turn (self) && !self->failed; failures++) {
        if (failures == 0 || self->pages > pages) {
            failures = 0;
            limit_ms = clock_now_ms () + patience_ms;
        }
        pages = self->pages;
        if (clock_now_ms () < limit_ms)
            store_pause (failures);
        else
            s_give_up (self);
    }
}

static int
s_compare (const void *left, const void *right, void *text)
{
    const store_object_t *a = left, *b = right;
    return strcmp ((const char *) text + a->name, (const char *) text + b->name);
}

//  In order, each once: an object that is written anew while the list is taken may be in two pages.
static void
s_sort (store_listing_t *self)
{
    if (self->count == 0)
        return;
    qsort_r (self->objects, self->count, sizeof *self->objects, s_compare, self->text);
    size_t kept = 1;
    for (size_t index = 1; index < self->count; index++)
        if (s_compare (&self->objects [index], &self->objects [kept - 1], self->text))
            self->objects [kept++] = self->objects [index];
    self->count = kept;
}

int
store_listing_fetch (store_listing_t *self, store_t *store, uint32_t patience_ms, progress_t *progress,
    char *error, size_t error_bytes)
{
    assert (self && self->count == 0); assert (store && store_lists (store)); assert (error && error_bytes);
    error [0] = 0;
    fetch_t fetch = { .listing = self, .store = store, .progress = progress };
    progress_step (progress, &(progress_step_t) { .what = "listing objects", .unit = "objects" }, 0);
    int rc = transfers_new (&fetch.transfers, store_account (store), store_keys (store));
    if (rc == 0)
        rc = s_add_part (&fetch, "");
    if (rc == 0) {
        s_fetch_all (&fetch, patience_ms);
        rc = fetch.rc;
    }
    if (fetch.failed && rc != -ENOMEM)
        store_explain (store, NULL, &fetch.failed->transfer, error, error_bytes);
    else
    if (rc)
        snprintf (error, error_bytes, "not enough memory for the list of '%s' (%zu objects so far): free "
            "memory or raise the limit", store_name (store), self->count);
    if (fetch.failed)
        s_part_destroy (fetch.failed);
    for (part_t *part; (part = fetch.waiting); s_part_destroy (part))
        fetch.waiting = part->next;
    transfers_destroy (&fetch.transfers);
    if (rc == 0)
        s_sort (self);
    return rc;
}

void
store_listing_clear (store_listing_t *self)
{
    free (self->text);
    free (self->objects);
    *self = (store_listing_t) { .text = NULL };
}


//  -- questions

const char *
store_listing_name (const store_listing_t *self, const store_object_t *object)
{
    return self->text + object->name;
}

const char *
store_listing_version (const store_listing_t *self, const store_object_t *object)
{
    return self->text + object->version;
}

size_t
store_listing_from (const store_listing_t *self, const char *name)
{
    size_t first = 0, end = self->count;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if (strcmp (store_listing_name (self, &self->objects [middle]), name) < 0)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

const store_object_t *
store_listing_find (const store_listing_t *self, const char *name)
{
    size_t index = store_listing_from (self, name);
    const store_object_t *object = &self->objects [index];
    return index < self->count && strcmp (store_listing_name (self, object), name) == 0? object: NULL;
}
