#include "device.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include "request.h"
#include "utf8.h"

enum {
    //  reads between two looks at the model
    DEPTH_MAX = 128, DEPTH_BEGIN = 16, FILES_DEPTH_LEAST = 8, OBSERVED_A_TURN = 32,
    PROBE_MS = 3000
};

struct device {
    //  set before it is open
    dev_t number;
    const store_t *store;           //  NULL: a file system
    char **volumes, **versions;
    reader_blocks_t *blocks;        //  by volume
    size_t volume_count;
    size_t span_max;                //  largest span of all ranges
    bool has_folders;
    char owner [REQUEST_NAME_BYTES_MAX + 4];    //  " (val)"; "": none
    bool was_probed;
    //  owner only
    cost_t cost;
    keyring_look_t keys;            //  of the store, as they were looked at last
    uint32_t observed;              //  reads since the last look
    double read_bytes;              //  of a read, running mean
    double in_flight;               //  reads, running mean; 0: none was observed
    reading_t *reading;             //  NULL: not open
};

device_t *
device_new (dev_t number, const store_t *store, uint32_t depth)
{
    assert (depth <= DEPTH_MAX);
    device_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->number = number;
    self->store = store;
    self->cost = cost_assumed ();
    self->cost.depth_set = depth;
    return self;
}

void
device_destroy (device_t **self_p)
{
    device_t *self = *self_p;
    if (!self)
        return;
    reading_destroy (&self->reading);
    for (size_t index = 0; index < self->volume_count; index++) {
        free (self->volumes [index]);
        free (self->versions [index]);
    }
    free (self->volumes);
    free (self->versions);
    free (self->blocks);
    free (self);
    *self_p = NULL;
}

void
device_set_owner (device_t *self, const char *dataset)
{
    snprintf (self->owner, sizeof self->owner, " (%s)", dataset);
}

bool
device_is (const device_t *self, dev_t number, const store_t *store)
{
    if (*self->owner)
        return false;
    if (self->store && store)
        return strcmp (store_name (self->store), store_name (store)) == 0;
    return !self->store && !store && self->number == number;
}

bool
device_add_volume (device_t *self, const char *path, const char *version, size_t span, uint32_t *file_p)
{
    assert (!self->reading);
    size_t bytes = (self->volume_count + 1) * sizeof (char *);
    char **volumes = realloc (self->volumes, bytes);
    self->volumes = volumes? volumes: self->volumes;
    char **versions = realloc (self->versions, bytes);
    self->versions = versions? versions: self->versions;
    reader_blocks_t *blocks = realloc (self->blocks, (self->volume_count + 1) * sizeof *blocks);
    self->blocks = blocks? blocks: self->blocks;
    if (!volumes || !versions || !blocks)
        return false;
    char *path_kept = strdup (path), *version_kept = strdup (version);
    if (!path_kept || !version_kept) {
        free (path_kept);
        free (version_kept);
        return false;
    }
    volumes [self->volume_count] = path_kept;
    versions [self->volume_count] = version_kept;
    blocks [self->volume_count] = (reader_blocks_t) { .data = NULL };
    *file_p = (uint32_t) self->volume_count++;
    self->span_max = span > self->span_max? span: self->span_max;
    return true;
}

void
device_keep_volume (device_t *self, uint32_t file, const reader_blocks_t *blocks)
{
    assert (!self->reading && file < self->volume_count);
    self->blocks [file] = *blocks;
}

size_t
device_volumes (const device_t *self)
{
    return self->volume_count;
}

void
device_add_folder (device_t *self)
{
    self->has_folders = true;
}

void
device_probe (device_t *self, const cost_source_t *source)
{
    if (self->volume_count > 0 && !self->was_probed && source)
        cost_probe_source (&self->cost, source, PROBE_MS);
    else
    if (self->volume_count > 0 && !self->was_probed)
        cost_probe (&self->cost, self->volumes [0], PROBE_MS);
    self->was_probed = self->volume_count > 0;
}

void
device_measure_as (device_t *self, const device_t *other)
{
    if (self->store || other->store || self->number != other->number || !other->was_probed)
        return;
    uint32_t depth_set = self->cost.depth_set;
    self->cost = other->cost;
    self->cost.depth_set = depth_set;
    self->was_probed = true;
}

const cost_t *
device_cost (const device_t *self)
{
    return &self->cost;
}

int
device_open (device_t *self, const device_options_t *options, const char **path_p)
{
    reading_options_t reading = { .paths = (const char *const *) self->volumes,
        .versions = (const char *const *) self->versions, .blocks = self->blocks,
        .path_count = self->volume_count,
        .store = self->store, .cluster = self->store && !*self->owner? options->cluster: NULL,
        .buffer_bytes = options->buffer_bytes > self->span_max? options->buffer_bytes: self->span_max,
        .requests_max = options->requests_max,
        .depth = self->cost.depth_set? self->cost.depth_set: DEPTH_BEGIN,
        .no_ring = options->no_ring, .finish = options->finish, .context = options->context };
    return reading_new (&self->reading, &reading, path_p);
}

void
device_submit (device_t *self, reader_request_t *request)
{
    reading_submit (self->reading, request);
}

//  Sets the depth even if it is the same: threads that could not be started before may start now.
static void
s_learn (device_t *self, const reader_request_t *request)
{
    //  What came from pins or the local disk's cache alone tells nothing of the source, nor does a read that
    //  waited for another member.
    if (request->rc || request->peer_bytes > 0
    ||  (request->read_bytes == 0 && request->cached_bytes + request->pinned_bytes > 0))
        return;
    cost_observe (&self->cost, request->read_bytes, request->wait_ns, request->in_flight);
    self->read_bytes += ((double) request->read_bytes - self->read_bytes) / OBSERVED_A_TURN;
    double in_flight = self->in_flight > 0? self->in_flight: request->in_flight;
    self->in_flight = in_flight + ((double) request->in_flight - in_flight) / OBSERVED_A_TURN;
    if (++self->observed < OBSERVED_A_TURN)
        return;
    self->observed = 0;
    uint32_t depth = cost_next_depth (&self->cost, (uint64_t) self->read_bytes, DEPTH_MAX);
    if (self->has_folders && !self->cost.depth_set && depth < FILES_DEPTH_LEAST)
        depth = FILES_DEPTH_LEAST;
    reading_set_depth (self->reading, depth);
}

reader_request_t *
device_done (device_t *self)
{
    reader_request_t *request = self->reading? reading_done (self->reading): NULL;
    if (request)
        s_learn (self, request);
    return request;
}

size_t
device_pending (const device_t *self)
{
    return reading_pending (self->reading);
}

//  Of one read, when as many are under way as usually are: often fewer than might be.
static double
s_busy_seconds (const device_t *self, uint64_t bytes)
{
    uint32_t depth = self->in_flight > 0? (uint32_t) (self->in_flight + 0.5): device_depth (self);
    return bytes? (double) bytes / cost_rate (&self->cost, (double) bytes, depth? depth: 1): 0;
}

uint64_t
device_saved_ns (const device_t *self, const reader_request_t *request)
{
    if (request->pinned_bytes == 0)
        return 0;
    double without = s_busy_seconds (self, request->read_bytes + request->pinned_bytes);
    return (uint64_t) ((without - s_busy_seconds (self, request->read_bytes)) * 1e9);
}

int
device_descriptor (const device_t *self)
{
    return reading_descriptor (self->reading);
}

void
device_stop (device_t *self)
{
    if (self->reading)
        reading_stop (self->reading);
}

uint32_t
device_depth (const device_t *self)
{
    return reading_depth (self->reading);
}

uint32_t
device_source_depth (const device_t *self)
{
    return reading_source_depth (self->reading);
}

bool
device_is_store (const device_t *self)
{
    return self->store;
}

const store_t *
device_store (const device_t *self)
{
    return self->store;
}

const char *
device_mode (const device_t *self)
{
    return reading_mode (self->reading);
}

bool
device_is_direct (const device_t *self)
{
    bool direct = true;
    for (uint32_t file = 0; file < self->volume_count; file++)
        direct = direct && reading_is_direct (self->reading, file);
    return direct;
}

const char *
device_name (const device_t *self, char name [DEVICE_NAME_BYTES])
{
    if (self->store)
        snprintf (name, DEVICE_NAME_BYTES, "%s%s", store_name (self->store), self->owner);
    else
        snprintf (name, DEVICE_NAME_BYTES, "%u:%u%s", major (self->number), minor (self->number),
            self->owner);
    return name;
}

bool
device_next_key_trouble (device_t *self, const char **trouble_p)
{
    const char *from;
    bool was_trouble = *self->keys.trouble;
    if (!self->store || !store_look_at_keys (self->store, &from, &self->keys))
        return false;
    *trouble_p = self->keys.trouble;
    return *self->keys.trouble? !was_trouble: was_trouble;
}

//  None of files, and of requests that are not signed.
static json_t *
s_keys_status (const device_t *self)
{
    keyring_look_t keys;
    const char *from;
    if (!self->store || !store_look_at_keys (self->store, &from, &keys))
        return json_null ();
    json_t *left = keys.ends_s? json_integer (keys.ends_s - (json_int_t) time (NULL)): json_null ();
    json_t *trouble = *keys.trouble? utf8_json (keys.trouble): json_null ();    //  it may be cut
    return json_pack ("{s:s, s:o, s:I, s:o}", "from", from, "seconds_left", left, "renewals",
        (json_int_t) keys.renewals, "trouble", trouble);
}

void
device_proxy (const device_t *self, char shown [HTTP_PROXY_SHOWN_BYTES])
{
    shown [0] = 0;
    if (self->store)
        store_show_proxy (self->store, shown);
}

json_t *
device_status (const device_t *self)
{
    char name [DEVICE_NAME_BYTES], proxy [HTTP_PROXY_SHOWN_BYTES];
    device_proxy (self, proxy);
    return json_pack ("{s:s, s:s, s:i, s:b, s:f, s:f, s:I, s:o, s:s?}", "device", device_name (self, name),
        "reading", device_mode (self), "reads_max", (int) device_depth (self), "measured",
        self->cost.observed > 0, "latency_microseconds", self->cost.latency_seconds * 1e6,
        "megabytes_per_second", self->cost.bytes_per_second / 1e6, "observed_reads",
        (json_int_t) self->cost.observed, "keys", s_keys_status (self),
        "proxy", *proxy? proxy: NULL);
}


//  ---- lists

device_t *
device_list_get (device_list_t *self, dev_t number, const store_t *store, uint32_t depth)
{
    for (size_t index = 0; index < self->count; index++)
        if (device_is (self->all [index], number, store))
            return self->all [index];
    device_t **all = realloc (self->all, (self->count + 1) * sizeof *all);
    if (!all)
        return NULL;
    self->all = all;
    all [self->count] = device_new (number, store, depth);
    return all [self->count]? all [self->count++]: NULL;
}

device_t *
device_list_add_volume (device_list_t *self, const store_t *store, const char *path, const char *version,
    size_t span, uint32_t depth, uint32_t *file_p)
{
    struct stat status = { .st_dev = 0 };
    if (!store && stat (path, &status))
        return NULL;
    errno = ENOMEM;
    device_t *device = device_list_get (self, status.st_dev, store, depth);
    return device && device_add_volume (device, path, version, span, file_p)? device: NULL;
}

void
device_list_clear (device_list_t *self)
{
    for (size_t index = 0; index < self->count; index++)
        device_destroy (&self->all [index]);
    free (self->all);
    *self = (device_list_t) { .count = 0 };
}
