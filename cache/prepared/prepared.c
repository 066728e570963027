#include "prepared.h"
#include <assert.h>
#include <stdlib.h>
#include "machine.h"
#include "xalloc.h"

enum { PREPARED_MAGIC = 0x70726570, TABLE_MIN = 64, BUCKET_MIN = 64, BUCKETS = PREPARED_JOBS_MAX + 1,
    MEMORY_ALIGNMENT = 64 };

//  Versions of one count, dense, so that a random one is one access away.
typedef struct {
    version_t **versions;
    size_t count, room;
} bucket_t;

typedef struct {
    uint32_t weight;
    size_t bytes_max, outside_bytes;
    size_t bytes, versions;
    uint64_t evictions;
    bucket_t buckets [2 * BUCKETS];     //  by count: first versions of use to other accounts only, then the
                                        //  rest
} account_t;

_Static_assert (SIZE_MAX / PREPARED_WEIGHT_MAX > (size_t) 1 << 53, "bytes times a weight are a size");

struct prepared {
    uint32_t magic;
    //  set at birth
    size_t budget_bytes;
    uint64_t (*random_below) (void *random, uint64_t bound);
    void *random;
    void (*left) (void *context, version_t *version, bool evicted);
    void *left_context;
    void (*freed) (void *context, const version_t *version);
    void *freed_context;
    //  owner only
    size_t limit_bytes;
    version_t **table;          //  hash of (class, id) -> chain
    size_t table_size;          //  a power of two
    account_t *accounts [PREPARED_ACCOUNTS];    //  NULL: never used
    uint32_t account_count;     //  none from here to PREPARED_NOBODY has been used
    size_t versions;
    size_t indexed_bytes;
    size_t memory_bytes;
    size_t alive;               //  versions not freed, indexed or not
    uint64_t evictions;
};

static size_t
s_hash (const prepared_t *self, uint32_t class, uint32_t id)
{
    uint64_t key = ((uint64_t) class << 32 | id) * 0x9e3779b97f4a7c15u;
    return (size_t) (key ^ key >> 29) & (self->table_size - 1);
}

static account_t *
s_account (prepared_t *self, uint32_t number)
{
    assert (number < PREPARED_ACCOUNTS);
    account_t *account = self->accounts [number];
    if (!account) {
        account = self->accounts [number] = xalloc_memory (calloc (1, sizeof *account));
        account->weight = 1;
        account->bytes_max = SIZE_MAX;
        if (number != PREPARED_NOBODY && number >= self->account_count)
            self->account_count = number + 1;
    }
    return account;
}

prepared_t *
prepared_new (const prepared_options_t *options)
{
    assert (options->limit_bytes <= options->budget_bytes);
    assert (options->random_below);
    prepared_t *self = xalloc_memory (calloc (1, sizeof *self));
    self->magic = PREPARED_MAGIC;
    self->budget_bytes = options->budget_bytes;
    self->limit_bytes = options->limit_bytes;
    self->random_below = options->random_below;
    self->random = options->random;
    self->table_size = TABLE_MIN;
    self->table = xalloc_memory (calloc (TABLE_MIN, sizeof *self->table));
    return self;
}

static void
s_free_version (prepared_t *self, version_t *version)
{
    assert (!version->indexed);
    assert (version->pins == 0);
    if (version->memory) {
        self->memory_bytes -= version->bytes;
        free (version->block);
    }
    self->alive--;
    if (self->freed)
        self->freed (self->freed_context, version);
    free (version);
}

static void
s_empty_account (prepared_t *self, account_t *account)
{
    for (size_t number = 0; account && number < 2 * BUCKETS; number++) {
        bucket_t *bucket = &account->buckets [number];
        while (bucket->count)
            prepared_remove (self, bucket->versions [0]);
        free (bucket->versions);
    }
}

void
prepared_destroy (prepared_t **self_p)
{
    prepared_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == PREPARED_MAGIC);
    for (uint32_t number = 0; number < PREPARED_ACCOUNTS; number++)
        s_empty_account (self, self->accounts [number]);
    for (uint32_t number = 0; number < PREPARED_ACCOUNTS; number++)
        free (self->accounts [number]);
    assert (self->alive == 0);          //  a caller kept a pin
    free (self->table);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

void
prepared_on_leave (prepared_t *self, void (*left) (void *context, version_t *version, bool evicted),
    void *context)
{
    self->left = left;
    self->left_context = context;
}

void
prepared_on_free (prepared_t *self, void (*freed) (void *context, const version_t *version), void *context)
{
    self->freed = freed;
    self->freed_context = context;
}

static bool
s_is_of_use (const version_t *version)
{
    return version->account == PREPARED_NOBODY || version->sharers >> version->account & 1;
}

static bucket_t *
s_bucket (account_t *account, const version_t *version)
{
    assert (version->count < BUCKETS);
    return &account->buckets [(s_is_of_use (version)? BUCKETS: 0) + version->count];
}

static void
s_bucket_enter (prepared_t *self, version_t *version)
{
    account_t *account = s_account (self, version->account);
    bucket_t *bucket = s_bucket (account, version);
    if (bucket->count == bucket->room) {
        bucket->room = bucket->room? bucket->room * 2: BUCKET_MIN;
        size_t bytes = bucket->room * sizeof *bucket->versions;
        bucket->versions = xalloc_memory (realloc (bucket->versions, bytes));
    }
    version->place = (uint32_t) bucket->count;
    bucket->versions [bucket->count++] = version;
    account->versions++;
    account->bytes += version->bytes;
}

//  Shrinks a bucket that was larger: as consumers come and go, all versions pass through all counts.
static void
s_bucket_shrink (bucket_t *bucket)
{
    if (bucket->room <= BUCKET_MIN || bucket->count > bucket->room / 4)
        return;
    version_t **versions = realloc (bucket->versions, bucket->room / 2 * sizeof *versions);
    if (!versions)
        return;
    bucket->versions = versions;
    bucket->room /= 2;
}

static void
s_bucket_leave (prepared_t *self, version_t *version)
{
    account_t *account = self->accounts [version->account];
    bucket_t *bucket = s_bucket (account, version);
    assert (bucket->versions [version->place] == version);
    version_t *last = bucket->versions [--bucket->count];
    bucket->versions [version->place] = last;
    last->place = version->place;
    s_bucket_shrink (bucket);
    account->versions--;
    account->bytes -= version->bytes;
}

static void
s_table_grow (prepared_t *self)
{
    version_t **old = self->table;
    size_t old_size = self->table_size;
    self->table_size *= 2;
    self->table = xalloc_memory (calloc (self->table_size, sizeof *old));
    for (size_t slot = 0; slot < old_size; slot++) {
        for (version_t *version = old [slot], *next; version; version = next) {
            next = version->chain;
            size_t hash = s_hash (self, version->class, version->id);
            version->chain = self->table [hash];
            self->table [hash] = version;
        }
    }
    free (old);
}

static void
s_index_enter (prepared_t *self, version_t *version)
{
    if (self->versions >= self->table_size)
        s_table_grow (self);
    size_t hash = s_hash (self, version->class, version->id);
    version->chain = self->table [hash];
    self->table [hash] = version;
    version->indexed = true;
    self->versions++;
    self->indexed_bytes += version->bytes;
    s_bucket_enter (self, version);
}

static void
s_index_leave (prepared_t *self, version_t *version, bool evicted)
{
    s_bucket_leave (self, version);
    version_t **link = &self->table [s_hash (self, version->class, version->id)];
    while (*link != version)
        link = &(*link)->chain;
    *link = version->chain;
    version->chain = NULL;
    version->indexed = false;
    self->versions--;
    self->indexed_bytes -= version->bytes;
    if (self->left)
        self->left (self->left_context, version, evicted);
    if (version->pins == 0)
        s_free_version (self, version);
}

void
prepared_remove (prepared_t *self, version_t *version)
{
    if (version->indexed)
        s_index_leave (self, version, false);
}

//  The account's bytes with so much more on it, times the other's weight: comparable as bytes for weight.
static size_t
s_has (const account_t *account, size_t more_bytes, const account_t *other)
{
    return (account->bytes + account->outside_bytes + more_bytes) * other->weight;
}

//  The sharer with the least that would still have less than the version's account; or that account.
static uint32_t
s_heir (prepared_t *self, const version_t *version)
{
    uint32_t heir = version->account;
    uint64_t ties = 0;
    for (uint64_t left = version->sharers; left; left &= left - 1) {
        uint32_t number = (uint32_t) __builtin_ctzll (left);
        account_t *account = s_account (self, number), *least = self->accounts [heir];
        if (number == version->account || !prepared_account_fits (self, number, version->bytes))
            continue;
        size_t least_more = heir == version->account? 0: version->bytes;
        size_t one = s_has (account, version->bytes, least), other = s_has (least, least_more, account);
        if (one > other || (one == other && heir == version->account))
            continue;
        ties = one < other? 1: ties + 1;
        if (self->random_below (self->random, ties) == 0)
            heir = number;
    }
    return heir;
}

//  Evicts the version that the account needs least, or moves it to another account.
static void
s_relieve (prepared_t *self, account_t *account)
{
    assert (account->versions > 0);
    bucket_t *bucket = account->buckets;
    while (bucket->count == 0)
        bucket++;
    version_t *unlucky = bucket->versions [self->random_below (self->random, bucket->count)];
    uint32_t heir = s_heir (self, unlucky);
    if (heir != unlucky->account) {
        prepared_share (self, unlucky, unlucky->sharers, heir);
        return;
    }
    self->evictions++;
    account->evictions++;
    s_index_leave (self, unlucky, true);
}

//  The account that loses the next version.
static account_t *
s_furthest_over (prepared_t *self)
{
    account_t *unowned = self->accounts [PREPARED_NOBODY], *furthest = NULL;
    if (unowned && unowned->versions)
        return unowned;
    uint64_t ties = 0;
    for (uint32_t number = 0; number < self->account_count; number++) {
        account_t *account = self->accounts [number];
        if (!account || account->versions == 0)
            continue;
        size_t has = furthest? s_has (account, 0, furthest): 1,
            most = furthest? s_has (furthest, 0, account): 0;
        if (has < most)
            continue;
        ties = has > most? 1: ties + 1;
        if (ties == 1 || self->random_below (self->random, ties) == 0)
            furthest = account;
    }
    assert (furthest);
    return furthest;
}

static void
s_evict_excess (prepared_t *self)
{
    while (self->indexed_bytes > self->limit_bytes)
        s_relieve (self, s_furthest_over (self));
}

static void
s_evict_excess_of (prepared_t *self, account_t *account)
{
    while (account->bytes > account->bytes_max)
        s_relieve (self, account);
}

bool
prepared_account_fits (const prepared_t *self, uint32_t account, size_t bytes)
{
    const account_t *own = self->accounts [account];
    return !own || (own->bytes <= own->bytes_max && bytes <= own->bytes_max - own->bytes);
}

bool
prepared_has_room (const prepared_t *self, uint32_t account, size_t bytes)
{
    return bytes <= self->limit_bytes - self->indexed_bytes && prepared_account_fits (self, account, bytes);
}

void
prepared_account (prepared_t *self, uint32_t account, uint32_t weight, size_t bytes_max)
{
    assert (account < PREPARED_NOBODY);
    assert (weight > 0 && weight <= PREPARED_WEIGHT_MAX);
    account_t *own = s_account (self, account);
    own->weight = weight;
    own->bytes_max = bytes_max;
    s_evict_excess_of (self, own);
}

void
prepared_account_outside (prepared_t *self, uint32_t account, size_t outside_bytes)
{
    assert (account < PREPARED_NOBODY);
    s_account (self, account)->outside_bytes = outside_bytes;
}

size_t
prepared_account_bytes (const prepared_t *self, uint32_t account)
{
    assert (account < PREPARED_ACCOUNTS);
    return self->accounts [account]? self->accounts [account]->bytes: 0;
}

void
prepared_limit (prepared_t *self, size_t limit_bytes)
{
    assert (limit_bytes <= self->budget_bytes);
    self->limit_bytes = limit_bytes;
    s_evict_excess (self);
}

size_t
prepared_account_outside_bytes (const prepared_t *self, uint32_t account)
{
    assert (account < PREPARED_ACCOUNTS);
    return self->accounts [account]? self->accounts [account]->outside_bytes: 0;
}

static version_t *
s_match (version_t *version, uint32_t class, uint32_t id)
{
    while (version && (version->id != id || version->class != class))
        version = version->chain;
    return version;
}

version_t *
prepared_find (prepared_t *self, uint32_t class, uint32_t id)
{
    assert (self->magic == PREPARED_MAGIC);
    return s_match (self->table [s_hash (self, class, id)], class, id);
}

version_t *
prepared_find_next (version_t *version)
{
    return s_match (version->chain, version->class, version->id);
}

version_t *
prepared_insert (prepared_t *self, uint32_t account, uint32_t class, uint32_t id, uint32_t draw, size_t bytes,
    uint32_t count)
{
    assert (self->magic == PREPARED_MAGIC);
    assert (bytes <= self->limit_bytes);
    version_t *version = xalloc_memory (calloc (1, sizeof *version));
    version->class = class;
    version->id = id;
    version->draw = draw;
    version->bytes = bytes;
    version->count = count;
    version->account = account;
    version->sharers = account == PREPARED_NOBODY? 0: UINT64_C (1) << account;
    version->pins = 1;
    self->alive++;
    s_index_enter (self, version);
    s_evict_excess_of (self, self->accounts [account]);
    s_evict_excess (self);
    return version;
}

void
prepared_count (prepared_t *self, version_t *version, int change)
{
    assert (version->indexed);
    assert (change == 1 || (change == -1 && version->count > 0));
    s_bucket_leave (self, version);
    version->count = change > 0? version->count + 1: version->count - 1;
    s_bucket_enter (self, version);
}

void
prepared_share (prepared_t *self, version_t *version, uint64_t sharers, uint32_t account)
{
    assert (version->indexed);
    assert (version->account == account || prepared_account_fits (self, account, version->bytes));
    if (version->account == account && version->sharers == sharers)
        return;
    s_bucket_leave (self, version);
    version->sharers = sharers;
    version->account = account;
    s_bucket_enter (self, version);
}

void
prepared_pin (version_t *version)
{
    version->pins++;
}

void
prepared_unpin (prepared_t *self, version_t *version)
{
    assert (version->pins > 0);
    if (--version->pins == 0 && !version->indexed)
        s_free_version (self, version);
}

static uint8_t *
s_align (void *block)
{
    uint8_t *bytes = block;
    return bytes + (MEMORY_ALIGNMENT - (uintptr_t) bytes % MEMORY_ALIGNMENT) % MEMORY_ALIGNMENT;
}

bool
prepared_reserve (prepared_t *self, version_t *version)
{
    if (version->memory)
        return true;
    if (version->bytes > self->budget_bytes - self->memory_bytes)
        return false;
    //  Not posix_memalign: other blocks take the gaps that it frees around a block, and the next one does not
    //  fit there again.
    version->block = machine_keep_headroom (malloc (version->bytes + MEMORY_ALIGNMENT - 1));
    if (!version->block)
        return false;           //  tried again when something is freed
    version->memory = s_align (version->block);
    self->memory_bytes += version->bytes;
    return true;
}

void
prepared_release (prepared_t *self, version_t *version)
{
    assert (version->memory);
    free (version->block);
    version->block = NULL;
    version->memory = NULL;
    self->memory_bytes -= version->bytes;
}

void
prepared_each (prepared_t *self, void (*visit) (void *context, version_t *version), void *context)
{
    //  By the table, because visit moves versions between buckets.
    for (size_t slot = 0; slot < self->table_size; slot++)
        for (version_t *version = self->table [slot]; version; version = version->chain)
            visit (context, version);
}

size_t
prepared_memory_bytes (const prepared_t *self)
{
    return self->memory_bytes;
}

size_t
prepared_versions (const prepared_t *self)
{
    return self->versions;
}

uint64_t
prepared_evictions (const prepared_t *self)
{
    return self->evictions;
}

uint64_t
prepared_account_evictions (const prepared_t *self, uint32_t account)
{
    assert (account < PREPARED_ACCOUNTS);
    return self->accounts [account]? self->accounts [account]->evictions: 0;
}

//  Returns the memory of its versions.
static size_t
s_check_account (const account_t *account, uint32_t number)
{
    size_t versions = 0, bytes = 0, memory = 0;
    for (size_t index = 0; index < 2 * BUCKETS; index++) {
        const bucket_t *bucket = &account->buckets [index];
        for (size_t place = 0; place < bucket->count; place++) {
            const version_t *version = bucket->versions [place];
            assert (version->indexed);
            assert (version->account == number);
            assert (version->count == index % BUCKETS);
            assert (s_is_of_use (version) == (index >= BUCKETS));
            assert (version->place == place);
            versions++;
            bytes += version->bytes;
            memory += version->memory? version->bytes: 0;
        }
    }
    assert (versions == account->versions);
    assert (bytes == account->bytes);
    assert (bytes <= account->bytes_max);
    return memory;
}

void
prepared_check (const prepared_t *self)
{
    assert (self->magic == PREPARED_MAGIC);
    assert (self->indexed_bytes <= self->limit_bytes);
    assert (self->limit_bytes <= self->budget_bytes);
    assert (self->memory_bytes <= self->budget_bytes);
    size_t versions = 0, bytes = 0, memory = 0;
    uint64_t evictions = 0;
    for (uint32_t number = 0; number < PREPARED_ACCOUNTS; number++) {
        const account_t *account = self->accounts [number];
        if (!account)
            continue;
        memory += s_check_account (account, number);
        versions += account->versions;
        bytes += account->bytes;
        evictions += account->evictions;
    }
    assert (versions == self->versions);
    assert (bytes == self->indexed_bytes);
    assert (evictions == self->evictions);                                      //  P6
    assert (memory <= self->memory_bytes);
    assert (self->versions <= self->alive);
}
