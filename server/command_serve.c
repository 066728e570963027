#include "command_serve.h"
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>
#include "decoder.h"
#include "endpoint.h"
#include "machine.h"
#include "options.h"
#include "reader.h"
#include "service.h"
#include "source.h"
#include "tenants.h"

enum {
    BUFFER_BYTES = 64 * 1024 * 1024,    //  for ranges on their way, where there is that much
    READ_BYTES_MAX = 4 * 1024 * 1024,   //  of one range of several samples
    CHUNK_ENDS = STREAM_ORDER_PIECE,    //  in one range, with padding behind each: where a job's pool is read, members of
                                        //  a piece are up to 64 places apart, and a chunk is 64 or more
    PROBE_MS = 100,                     //  for a pack's first volume, at start
    READS_TOGETHER = 16,                //  pieces that are read at once, when the size of a piece is chosen
    PIECE_LEAST = 8,                    //  samples of a piece, where the pool has room for
    PIECES_OF_POOL = 64                 //  of them
};
//  Exit statuses; that another server has the endpoint is one of its own, for who starts a server unless there is one.
enum { STATUS_FAILED = 1, STATUS_TAKEN = 3 };
enum { BEAT_MS = 500, LINGER_MS = 3000, ERROR_BYTES = 1024, SEND_HIGH_WATER = 1000, RECEIVE_HIGH_WATER = 64 };

//  All that a server is made of, in the order in which it is made.
typedef struct {
    options_t options;
    source_t sources [OPTIONS_DATASETS_MAX];
    char **paths;                       //  volumes of all packs
    size_t path_count;
    size_t buffer_bytes;                //  that the largest read of a pack needs on its way
    endpoint_t *endpoint;
    int signals;
    broker_t *broker;
    tasks_t *tasks;
    door_t *door;
    void *context, *router;
    tenants_t *tenants;
    service_t *service;
    idle_t idle;
    log_t log;
    int failure;                        //  exit status where it cannot start
} server_t;

static int64_t
s_now_ms (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool
s_complain (const char *what)
{
    fprintf (stderr, "tureen serve: %s\n", what);
    return false;
}

static bool
s_complain_errno (const char *what)
{
    fprintf (stderr, "tureen serve: %s: %s\n", what, strerror (errno));
    return false;
}

//  "3.2 GiB"
static const char *
s_size (uint64_t bytes, char *text, size_t size)
{
    static const char *const units [] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
    double value = (double) bytes;
    size_t unit = 0;
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    snprintf (text, size, unit? "%.1f %s": "%.0f %s", value, units [unit]);
    return text;
}

//  ---- starting

//  Of the memory for compressed samples, so much at most is for ranges on their way from the disk.
static size_t
s_buffer_part (const server_t *self)
{
    return self->options.raw_bytes / BROKER_RAW_PARTS;
}

static int
s_open_catalogue (catalogue_t **catalogue_p, const options_dataset_t *wanted, char *error, size_t error_bytes)
{
    catalogue_field_t fields [OPTIONS_FIELDS_MAX];
    for (size_t field = 0; field < wanted->field_count; field++)
        fields [field] = (catalogue_field_t) { .name = wanted->fields [field].name,
            .is_mask = wanted->fields [field].is_mask, .path = wanted->fields [field].path };
    catalogue_options_t options = { .path = wanted->path, .extensions = wanted->extensions, .fields = fields,
        .field_count = wanted->field_count };
    return catalogue_open (catalogue_p, &options, error, error_bytes);
}

//  One line for the log: what was found.
static void
s_describe (const options_dataset_t *wanted, const catalogue_t *catalogue)
{
    char size [32];
    printf ("data set '%s': %u samples", wanted->name, catalogue_samples (catalogue));
    if (catalogue_classes (catalogue))
        printf (" in %u classes", catalogue_classes (catalogue));
    else
        for (size_t label = 0; label < catalogue_labels (catalogue); label++)
            printf ("%s%s", label? ", ": " with labels ", catalogue_label (catalogue, label)->name);
    for (size_t field = 1; field < catalogue_fields (catalogue); field++)
        printf (", %s %s", catalogue_field_is_mask (catalogue, field)? "mask": "image",
            catalogue_field_name (catalogue, field));
    printf (", %s, in %s\n", s_size (catalogue_bytes (catalogue), size, sizeof size), wanted->path);
}

//  ---- packs

static size_t
s_sample_bytes (void *user, uint32_t id)
{
    const source_t *source = user;
    return pack_sample_bytes (source->pack, id);
}

static uint32_t
s_piece (void *user, uint64_t pool_samples)
{
    const source_t *source = user;
    uint64_t bytes = catalogue_bytes (source->catalogue);       //  0: all files are empty
    double sample_bytes = (double) (bytes? bytes: 1) / catalogue_samples (source->catalogue);
    //  Throttled disks look better than they are (docs/disk.md), and small pieces gain little where the pool is large.
    uint64_t least = pool_samples / PIECES_OF_POOL;
    least = least < 1? 1: least > PIECE_LEAST? PIECE_LEAST: least;
    return cost_piece (&source->cost, sample_bytes, READS_TOGETHER, pool_samples, (uint32_t) least, RAW_PIECE_MAX);
}

static bool
s_prefers_singles (void *user, uint32_t samples, size_t sample_bytes, size_t range_bytes)
{
    const source_t *source = user;
    //  Whole blocks are read, also where files are empty.
    double single_bytes = (double) sample_bytes / samples + READER_ALIGN_BYTES;
    double together_bytes = (double) range_bytes + READER_ALIGN_BYTES;
    return cost_prefers_singles (&source->cost, samples, single_bytes, together_bytes, READS_TOGETHER);
}

//  The volumes join the files that the reading thread is to open; the first is measured.
static bool
s_list_volumes (server_t *self, source_t *source)
{
    uint32_t volumes = pack_volumes (source->pack);
    source->first_file = (uint32_t) self->path_count;
    source->breaks = calloc (volumes + 1, sizeof *source->breaks);
    char **paths = realloc (self->paths, (self->path_count + volumes) * sizeof *paths);
    self->paths = paths? paths: self->paths;
    if (!paths || !source->breaks)
        return s_complain ("no memory for the list of volumes");
    char path [PATH_MAX];
    for (uint32_t volume = 0; volume < volumes; volume++) {
        source->breaks [volume] = pack_volume_first (source->pack, volume);
        pack_volume_path (source->pack, volume, path, sizeof path);
        self->paths [self->path_count] = strdup (path);
        if (!self->paths [self->path_count])
            return s_complain ("no memory for the list of volumes");
        self->path_count++;
    }
    return true;
}

//  What reading costs here: as measured now, or where that cannot be, as assumed.
static void
s_measure (server_t *self, source_t *source, const options_dataset_t *wanted)
{
    source->cost = cost_assumed ();
    source->cost.piece_set = wanted->piece;
    source->cost.depth_set = self->options.reads;
    if (pack_volumes (source->pack) > 0)
        cost_probe (&source->cost, self->paths [source->first_file], PROBE_MS);
}

//  Names are options.c's, which refuses others.
static raw_policy_t
s_tier (const options_dataset_t *wanted)
{
    const char *name = wanted->tier? wanted->tier: "stream";
    return strcmp (name, "redox") == 0? RAW_REDOX: strcmp (name, "direct") == 0? RAW_DIRECT: RAW_STREAM;
}

static bool
s_open_pack (server_t *self, dataset_t *dataset, const options_dataset_t *wanted)
{
    source_t *source = source_of (dataset);
    uint32_t chunk = pack_chunk_samples (source->pack);
    if (s_tier (wanted) == RAW_REDOX && chunk > RAW_PIECE_MAX) {
        fprintf (stderr, "tureen serve: data set '%s': tier redox takes chunks of at most %d samples, this pack has %u: pack "
            "it again with --chunk %d\n", wanted->name, RAW_PIECE_MAX, chunk, RAW_PIECE_MAX);
        return false;
    }
    if (!s_list_volumes (self, source))
        return false;
    s_measure (self, source, wanted);
    size_t largest = 0, least, half = s_buffer_part (self) / 2;
    for (uint32_t id = 0; id < pack_samples (source->pack); id++)
        if (pack_sample_bytes (source->pack, id) > largest)
            largest = pack_sample_bytes (source->pack, id);
    size_t read_bytes = half < READ_BYTES_MAX? half: READ_BYTES_MAX, together = largest > read_bytes? largest: read_bytes;
    size_t room = reader_span (READER_ALIGN_BYTES - 1, together + CHUNK_ENDS * READER_ALIGN_BYTES);
    self->buffer_bytes = room > self->buffer_bytes? room: self->buffer_bytes;
    broker_pack_t pack = { .order = pack_order (source->pack), .breaks = source->breaks,
        .break_count = pack_volumes (source->pack), .sample_bytes = s_sample_bytes, .piece = s_piece,
        .prefers_singles = s_prefers_singles, .user = source,
        .policy = s_tier (wanted), .chunk = chunk,
        .read_bytes_max = read_bytes };
    if (broker_set_pack (self->broker, dataset, &pack, &least))
        return true;
    fprintf (stderr, "tureen serve: data set '%s': %llu bytes for compressed samples are too few for samples of this size: "
        "start with --raw %zu\n", wanted->name, (unsigned long long) self->options.raw_bytes, broker_raw_setting (least));
    return false;
}

static bool
s_open_dataset (server_t *self, size_t index)
{
    const options_dataset_t *wanted = &self->options.datasets [index];
    source_t *source = &self->sources [index];
    char error [ERROR_BYTES];
    if (s_open_catalogue (&source->catalogue, wanted, error, sizeof error)) {
        fprintf (stderr, "tureen serve: data set '%s': %s\n", wanted->name, error);
        return false;
    }
    source->jpeg_warnings_max = wanted->jpeg_warnings_max;
    source->pack = catalogue_pack (source->catalogue);
    s_describe (wanted, source->catalogue);
    dataset_t *dataset = broker_add_dataset (self->broker, wanted->name, catalogue_samples (source->catalogue),
        wanted->bad_is_fatal? BROKER_BAD_FAIL: BROKER_BAD_DROP, source);
    if (source->pack)
        return s_open_pack (self, dataset, wanted);
    if (!wanted->tier && !wanted->piece)
        return true;
    fprintf (stderr, "tureen serve: data set '%s': tier and piece are for packs, this is a folder of files: make a pack "
        "of it with `tureen pack %s DIR`\n", wanted->name, wanted->path);
    return false;
}

//  Clients of one host are many descriptors: as many as the system lets us have.
static void
s_raise_descriptors (void)
{
    struct rlimit limit;
    if (getrlimit (RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit (RLIMIT_NOFILE, &limit);
    }
}

//  What asks for an end becomes something to poll; blocked before any thread exists, so that all inherit it.
static bool
s_take_signals (server_t *self)
{
    signal (SIGPIPE, SIG_IGN);
    sigset_t ends;
    sigemptyset (&ends);
    sigaddset (&ends, SIGTERM);
    sigaddset (&ends, SIGINT);
    sigaddset (&ends, SIGHUP);
    sigprocmask (SIG_BLOCK, &ends, NULL);
    self->signals = signalfd (-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    return self->signals >= 0 || s_complain_errno ("no signal descriptor");
}

//  Names are options.c's, which refuses others.
static sampler_policy_t
s_policy (const char *name)
{
    return strcmp (name, "dsa") == 0? SAMPLER_POLICY_DSA: SAMPLER_POLICY_FOLLOW;
}

static bool
s_make_broker (server_t *self)
{
    const pipeline_t *recipe;
    char error [ERROR_BYTES];
    json_t *name = json_string ("train");
    int rc = pipeline_new (&recipe, name, NULL, NULL, 0, error, sizeof error);
    json_decref (name);
    if (rc)
        return s_complain (error);
    size_t least = broker_cache_least (self->options.workers, pipeline_version_bytes (recipe));
    pipeline_destroy (&recipe);
    if (self->options.cache_bytes < least) {
        fprintf (stderr, "tureen serve: a cache of %llu bytes is too small: with %u workers the standard recipes need "
            "at least %zu; start with --cache %zu or fewer --workers\n",
            (unsigned long long) self->options.cache_bytes, self->options.workers, least, least);
        return false;
    }
    broker_options_t options = {
        .cache_bytes = self->options.cache_bytes, .raw_bytes = self->options.raw_bytes - s_buffer_part (self),
        .workers = self->options.workers,
        .jobs_bytes_max = machine_memory_bytes ("") / 4, .policy = s_policy (self->options.policy),
            .gather_ms = BROKER_GATHER_MS
    };
    if (getrandom (&options.seed, sizeof options.seed, 0) != sizeof options.seed)
        return s_complain_errno ("no random seed to be had");
    self->broker = broker_new (&options);
    return true;
}

static bool
s_make_router (server_t *self)
{
    //  libzmq numbers connections from rand (): a start that a peer can guess lets it take the next one's
    //  place.
    unsigned seed;
    if (getrandom (&seed, sizeof seed, 0) != sizeof seed)
        return s_complain_errno ("no random seed to be had");
    srand (seed);
    self->context = zmq_ctx_new ();
    self->router = self->context? zmq_socket (self->context, ZMQ_ROUTER): NULL;
    if (!self->router)
        return s_complain_errno ("no ZeroMQ socket");
    int on = 1, linger = LINGER_MS, send = SEND_HIGH_WATER, receive = RECEIVE_HIGH_WATER;
    int64_t frame = WIRE_FRAME_BYTES_MAX;
    zmq_setsockopt (self->router, ZMQ_ROUTER_MANDATORY, &on, sizeof on);
    zmq_setsockopt (self->router, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt (self->router, ZMQ_SNDHWM, &send, sizeof send);
    zmq_setsockopt (self->router, ZMQ_RCVHWM, &receive, sizeof receive);
    zmq_setsockopt (self->router, ZMQ_MAXMSGSIZE, &frame, sizeof frame);
    zmq_setsockopt (self->router, ZMQ_IPV6, &on, sizeof on);
    const char *text = endpoint_text (self->endpoint);
    if (zmq_bind (self->router, text)) {
        fprintf (stderr, "tureen serve: cannot listen on %s: %s; choose another --listen\n", text,
            zmq_strerror (zmq_errno ()));
        return false;
    }
    return true;
}

static bool
s_start_tasks (server_t *self)
{
    const char *path;
    size_t buffer_bytes = s_buffer_part (self) < BUFFER_BYTES? s_buffer_part (self): BUFFER_BYTES;
    buffer_bytes = buffer_bytes > self->buffer_bytes? buffer_bytes: self->buffer_bytes;
    tasks_options_t options = { .broker = self->broker, .workers = self->options.workers,
        .paths = (const char *const *) self->paths, .path_count = self->path_count,
        .buffer_bytes = buffer_bytes, .depth = self->options.reads };
    int rc = tasks_new (&self->tasks, &options, &path);
    if (rc == 0)
        return true;
    errno = -rc;
    return s_complain_errno (path? path: "cannot start the workers; try fewer --workers");
}

static bool
s_start (server_t *self)
{
    char error [ERROR_BYTES];
    umask (0077);                       //  sockets are this user's alone
    s_raise_descriptors ();
    if (!s_take_signals (self) || !s_make_broker (self))
        return false;
    int rc = endpoint_claim (&self->endpoint, self->options.listen, error, sizeof error);
    if (rc == -EADDRINUSE)
        self->failure = STATUS_TAKEN;
    if (rc)
        return s_complain (error);
    for (size_t index = 0; index < self->options.dataset_count; index++)
        if (!s_open_dataset (self, index))
            return false;
    if (!s_start_tasks (self))
        return false;
    rc = door_new (&self->door, endpoint_ring_path (self->endpoint));
    if (rc) {
        errno = -rc;
        return s_complain_errno (endpoint_ring_path (self->endpoint));
    }
    if (!s_make_router (self))
        return false;
    self->tenants = tenants_new (self->broker);
    if (!self->tenants)
        return s_complain_errno ("no memory");
    service_options_t options = { .broker = self->broker, .tenants = self->tenants, .tasks = self->tasks, .door = self->door,
        .router = self->router, .ring_path = endpoint_ring_path (self->endpoint), .log = &self->log,
        .idle = &self->idle };
    self->service = service_new (&options);
    return self->service || s_complain_errno ("no memory");
}

static void
s_announce (const server_t *self)
{
    char size [32];
    printf ("%u workers, a cache of %s, policy %s\n", self->options.workers,
        s_size (self->options.cache_bytes, size, sizeof size), self->options.policy);
    if (self->path_count > 0)
        printf ("packs are read by %s%s, with %s for compressed samples\n", tasks_reading_mode (self->tasks),
            tasks_reads_direct (self->tasks, 0)? " and O_DIRECT": " through the page cache",
            s_size (self->options.raw_bytes, size, sizeof size));
    else
        printf ("files are read by %s\n", tasks_reading_mode (self->tasks));
    if (endpoint_is_open (self->endpoint))
        printf ("warning: anyone who can reach %s can read these data sets: there is no authentication yet\n",
            endpoint_text (self->endpoint));
    printf ("listening on %s\n", endpoint_text (self->endpoint));
    fflush (stdout);
}

//  ---- running

static int
s_patience_ms (const server_t *self, int64_t now_ms, int64_t beat_ms)
{
    int64_t next = broker_wakeup (self->broker), due_ms = idle_due_ms (&self->idle, service_jobs (self->service));
    if (beat_ms < next)
        next = beat_ms;
    if (due_ms < next)
        next = due_ms;
    return next <= now_ms? 0: (int) (next - now_ms);
}

static void
s_run (server_t *self)
{
    enum { ROUTER, DOOR, SIGNALS, TASKS, ITEMS = TASKS + TASKS_DESCRIPTORS };
    int tasks [TASKS_DESCRIPTORS];
    tasks_descriptors (self->tasks, tasks);
    zmq_pollitem_t items [ITEMS] = {
        [ROUTER] = { .socket = self->router, .events = ZMQ_POLLIN },
        [DOOR] = { .fd = door_descriptor (self->door), .events = ZMQ_POLLIN },
        [SIGNALS] = { .fd = self->signals, .events = ZMQ_POLLIN }
    };
    for (size_t index = 0; index < TASKS_DESCRIPTORS; index++)
        items [TASKS + index] = (zmq_pollitem_t) { .fd = tasks [index], .events = ZMQ_POLLIN };
    int64_t beat_ms = 0;
    idle_begin (&self->idle, (int64_t) self->options.until_idle * 1000, s_now_ms ());
    while (!(items [SIGNALS].revents & ZMQ_POLLIN)) {
        int64_t now_ms = s_now_ms ();
        if (now_ms >= beat_ms) {
            door_tick (self->door, now_ms);
            service_beat (self->service, now_ms);
            beat_ms = now_ms + BEAT_MS;
        }
        service_receive (self->service, now_ms);
        service_attend (self->service, now_ms);
        service_act (self->service, now_ms);
        if (idle_look (&self->idle, service_jobs (self->service), broker_jobs_total (self->broker), now_ms)) {
            log_line (&self->log, "no job is left, and none has come: ending (--until-idle)");
            break;
        }
        zmq_poll (items, ITEMS, s_patience_ms (self, s_now_ms (), beat_ms));
    }
}

//  In an order in which every client hears of it: jobs first, then the socket with time to send, then the
//  rings' sockets.
static void
s_stop (server_t *self)
{
    if (self->service)
        service_stop (self->service, s_now_ms ());
    else
    if (self->tasks)
        tasks_stop (self->tasks);
    if (self->router)
        zmq_close (self->router);
    if (self->context)
        zmq_ctx_term (self->context);
    service_destroy (&self->service);
    tenants_destroy (&self->tenants);
    door_destroy (&self->door);
    tasks_destroy (&self->tasks);
    broker_destroy (&self->broker);
    for (size_t index = 0; index < OPTIONS_DATASETS_MAX; index++) {
        catalogue_destroy (&self->sources [index].catalogue);
        free (self->sources [index].breaks);
    }
    for (size_t index = 0; index < self->path_count; index++)
        free (self->paths [index]);
    free (self->paths);
    endpoint_destroy (&self->endpoint);
    if (self->signals >= 0)
        close (self->signals);
}

int
command_serve (int argc, char **argv)
{
    char error [ERROR_BYTES];
    server_t self = { .signals = -1, .log = { .descriptor = STDOUT_FILENO }, .failure = STATUS_FAILED };
    options_status_t parsed = options_parse (&self.options, argc, argv, error, sizeof error);
    int status = 0;
    if (parsed == OPTIONS_HELP)
        printf ("%s\nThis build reads %s.\n", options_help (), decoder_formats ());
    else
    if (parsed == OPTIONS_ERROR) {
        fprintf (stderr, "tureen serve: %s\n", error);
        status = 2;
    }
    else
    if (s_start (&self)) {
        s_announce (&self);
        s_run (&self);
        log_line (&self.log, "ending");
    }
    else
        status = self.failure;
    s_stop (&self);
    options_clear (&self.options);
    return status;
}
