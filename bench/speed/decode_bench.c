/*  decode_bench -- what preparing costs beside plain libjpeg-turbo loops on the same files, boxes and
 *  machine, in one run.
 *
 *      decode_bench [--rounds N] [--threads N] [--json] FOLDER|FILE...
 *
 *  Every method does all images in turn, round by round; a ratio is the median over the rounds of what two
 *  methods took in the same round, so that a slow moment of the machine weighs on both.  One thread:
 *  processor time; several: the wall's.
 */
#include <assert.h>
#include <errno.h>
#include <fts.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <jansson.h>
#if defined (__SSE2__)
#include <emmintrin.h>
#endif
#include "option.h"
#include "bare_jpeg.h"
#include "clock.h"
#include "decoder.h"
#include "geometry.h"
#include "image_reader.h"
#include "plan.h"
#include "resize.h"
#include "median.h"

enum {
    FILES_MAX = 100000, ROUNDS_MAX = 1000, THREADS_MAX = 256, SIDE = 224, BATCH = 64, SLOTS = 4,
        ERROR_BYTES = 400
};

typedef struct {
    decoder_file_t file;
    uint32_t height;
    uint32_t width;
    uint8_t *version;           //  prepared by `train`
    uint8_t *rows;              //  image_reader_rows' of it
    size_t rows_bytes;
} photo_t;

typedef struct {
    char **paths;
    size_t path_count;
    photo_t *photos;
    size_t count;
    uint32_t rounds;
    uint32_t threads;
    bool json;
    const pipeline_t *train;
    const pipeline_t *eval;
    const pipeline_t *inexact;
    const pipeline_t *plain;    //  `train` without its flip: the private stage is a bare copy
    const pipeline_t *halves;
    const pipeline_t *floats;
    uint8_t *ring;              //  SLOTS batches of the largest dtype
} bench_t;

//  What one thread works with.
typedef struct {
    const bench_t *bench;
    bare_jpeg_t *bare;
    decoder_t *decoder;
    decoder_t *by_libjpeg;      //  libjpeg's own entropy decoder (jpeg_reader.h)
    resize_t *resize;
    uint8_t *target;
    uint64_t round;
} thread_t;

//  ---- what is measured: one image

//  The box that `train` takes of the image in this round.
static image_box_t
s_box (const thread_t *self, size_t index)
{
    const operation_t *crop = &pipeline_plan (self->bench->train)->operations [1];
    assert (crop->kind == OPERATION_RANDOM_RESIZED_CROP);
    pipeline_key_t key = { .round = self->round, .id = index };
    keyed_random_t random;
    keyed_random_init (&random, &key, 0, crop->place);
    return geometry_random_box (crop, self->bench->photos [index].height, self->bench->photos [index].width,
        &random);
}

static void
s_resize (const thread_t *self, const image_t *image)
{
    resize_span_t down = resize_whole (image->height, SIDE), across = resize_whole (image->width, SIDE);
    bool good = resize_run (self->resize, RESIZE_BILINEAR, false, image, 0, 0, &down, &across, self->target,
        image_bytes (1, SIDE, IMAGE_COLOURS));
    assert (good);
}

static void
s_entropy (const thread_t *self, size_t index)
{
    const decoder_file_t *file = &self->bench->photos [index].file;
    bare_jpeg_coefficients (self->bare, file->bytes, file->size);
}

static void
s_full (const thread_t *self, size_t index)
{
    const decoder_file_t *file = &self->bench->photos [index].file;
    bare_jpeg_full (self->bare, file->bytes, file->size);
}

static void
s_full_resize (const thread_t *self, size_t index)
{
    const decoder_file_t *file = &self->bench->photos [index].file;
    image_box_t box = s_box (self, index);
    image_t image = bare_jpeg_full (self->bare, file->bytes, file->size), part = image_part (&image, &box);
    s_resize (self, &part);
}

static void
s_partial_resize (const thread_t *self, size_t index)
{
    const decoder_file_t *file = &self->bench->photos [index].file;
    image_box_t box = s_box (self, index);
    image_t image = bare_jpeg_box (self->bare, file->bytes, file->size, &box);
    s_resize (self, &image);
}

static void
s_shared_file (const thread_t *self, decoder_t *decoder, const pipeline_t *pipeline, size_t index,
    const decoder_file_t *file)
{
    decoder_sample_t sample = { .files = file, .warnings_max = UINT32_MAX };
    pipeline_key_t key = { .round = self->round, .id = index };
    char error [ERROR_BYTES];
    decoder_status_t status = decoder_shared (decoder, pipeline, &key, &sample, self->target, NULL,
        error, sizeof error);
    assert (status == DECODER_OK);
}

static void
s_shared (const thread_t *self, decoder_t *decoder, const pipeline_t *pipeline, size_t index)
{
    s_shared_file (self, decoder, pipeline, index, &self->bench->photos [index].file);
}

static void
s_with_rows (const thread_t *self, const pipeline_t *pipeline, size_t index)
{
    const photo_t *photo = &self->bench->photos [index];
    decoder_file_t file = { .bytes = photo->file.bytes, .size = photo->file.size, .rows = photo->rows,
        .rows_bytes = photo->rows_bytes };
    s_shared_file (self, self->decoder, pipeline, index, &file);
}

static void
s_exact_rows (const thread_t *self, size_t index)
{
    s_with_rows (self, self->bench->train, index);
}

static void
s_eval_rows (const thread_t *self, size_t index)
{
    s_with_rows (self, self->bench->eval, index);
}

static void
s_exact (const thread_t *self, size_t index)
{
    s_shared (self, self->decoder, self->bench->train, index);
}

static void
s_exact_libjpeg (const thread_t *self, size_t index)
{
    s_shared (self, self->by_libjpeg, self->bench->train, index);
}

static void
s_eval (const thread_t *self, size_t index)
{
    s_shared (self, self->decoder, self->bench->eval, index);
}

static void
s_eval_libjpeg (const thread_t *self, size_t index)
{
    s_shared (self, self->by_libjpeg, self->bench->eval, index);
}

static void
s_inexact (const thread_t *self, size_t index)
{
    s_shared (self, self->decoder, self->bench->inexact, index);
}

//  The resize alone, on a box of a version: 224 x 224 pixels are there, of which the box takes its share.
static image_t
s_version_box (const thread_t *self, size_t index)
{
    image_box_t box = s_box (self, index);
    const photo_t *photo = &self->bench->photos [index];
    image_t version = { photo->version, image_bytes (1, SIDE, IMAGE_COLOURS), SIDE, SIDE, IMAGE_COLOURS };
    image_box_t part = { .height = 1 + (SIDE - 1) * box.height / photo->height,
        .width = 1 + (SIDE - 1) * box.width / photo->width };
    return image_part (&version, &part);
}

static void
s_resize_ours (const thread_t *self, size_t index)
{
    image_t part = s_version_box (self, index);
    s_resize (self, &part);
}

static void
s_resize_scalar (const thread_t *self, size_t index)
{
    image_t part = s_version_box (self, index);
    scalar_resize (&part, SIDE, SIDE, self->target);
}

//  Shrinking, as photographs in whole are: to a third of a version.
static void
s_shrink_ours (const thread_t *self, size_t index)
{
    image_t version = { self->bench->photos [index].version, image_bytes (1, SIDE, IMAGE_COLOURS), SIDE, SIDE,
        IMAGE_COLOURS };
    resize_span_t span = resize_whole (SIDE, SIDE / 3);
    bool good = resize_run (self->resize, RESIZE_BILINEAR, false, &version, 0, 0, &span, &span, self->target,
        image_bytes (1, SIDE / 3, IMAGE_COLOURS));
    assert (good);
}

static void
s_shrink_scalar (const thread_t *self, size_t index)
{
    image_t version = { self->bench->photos [index].version, image_bytes (1, SIDE, IMAGE_COLOURS), SIDE, SIDE,
        IMAGE_COLOURS };
    scalar_resize (&version, SIDE / 3, SIDE / 3, self->target);
}

//  ---- the private stage: from a version to its place in a ring

//  Consecutive samples go to consecutive rows of consecutive slots.
static uint8_t *
s_row (const thread_t *self, size_t index, size_t bytes)
{
    return self->bench->ring + (index % (BATCH * SLOTS)) * bytes;
}

static void
s_private (const thread_t *self, const pipeline_t *pipeline, size_t index)
{
    size_t bytes = pipeline_output (pipeline, 0)->bytes;
    pipeline_key_t key = { .round = self->round, .id = index };
    uint8_t *target = s_row (self, index, bytes);
    bool good = decoder_private (self->decoder, pipeline, &key, self->bench->photos [index].version, &target);
    assert (good);
}

static void
s_memcpy (const thread_t *self, size_t index)
{
    size_t bytes = image_bytes (SIDE, SIDE, IMAGE_COLOURS);
    memcpy (s_row (self, index, bytes), self->bench->photos [index].version, bytes);
}

//  Streaming stores of a constant: nothing is read.
static void
s_stream (const thread_t *self, size_t index, size_t bytes)
{
    uint8_t *target = s_row (self, index, bytes);
#if defined (__SSE2__)
    __m128i constant = _mm_set1_epi32 ((int) index);
    for (size_t at = 0; at + 16 <= bytes; at += 16)
        _mm_stream_si128 ((__m128i *) (void *) (target + at), constant);
    _mm_sfence ();
#else
    memset (target, (int) index, bytes);
#endif
}

static void s_copy_plain (const thread_t *self, size_t index) { s_private (self, self->bench->plain, index); }
static void s_copy_flip (const thread_t *self, size_t index) { s_private (self, self->bench->train, index); }
static void s_copy_halves (const thread_t *self, size_t index) { s_private (self, self->bench->halves, index);
    }
static void s_copy_floats (const thread_t *self, size_t index) { s_private (self, self->bench->floats, index);
    }

static void
s_stream_halves (const thread_t *self, size_t index)
{
    s_stream (self, index, pipeline_output (self->bench->halves, 0)->bytes);
}

static void
s_stream_floats (const thread_t *self, size_t index)
{
    s_stream (self, index, pipeline_output (self->bench->floats, 0)->bytes);
}

//  ---- methods and ratios

typedef void work_t (const thread_t *self, size_t index);

typedef enum {
    ENTROPY, FULL, FULL_RESIZE, PARTIAL_RESIZE, EXACT, EXACT_ROWS, EXACT_LIBJPEG, EVAL, EVAL_ROWS,
    EVAL_LIBJPEG, INEXACT,
    RESIZE_OURS, RESIZE_SCALAR, SHRINK_OURS, SHRINK_SCALAR,
    MEMCPY, COPY_PLAIN, COPY_FLIP, STREAM_HALVES, COPY_HALVES, STREAM_FLOATS, COPY_FLOATS, METHODS
} method_t;

static const struct {
    const char *name;
    work_t *work;
} s_methods [METHODS] = {
    [ENTROPY] = { "entropy decoding alone", s_entropy },
    [FULL] = { "full decode", s_full },
    [FULL_RESIZE] = { "full decode, resize of the box", s_full_resize },
    [PARTIAL_RESIZE] = { "bare partial decode, resize", s_partial_resize },
    [EXACT] = { "train, exact", s_exact },
    [EXACT_ROWS] = { "the same, of a pack (jpeg_rows)", s_exact_rows },
    [EXACT_LIBJPEG] = { "the same, libjpeg's entropy decoder", s_exact_libjpeg },
    [EVAL] = { "eval", s_eval },
    [EVAL_ROWS] = { "the same, of a pack (jpeg_rows)", s_eval_rows },
    [EVAL_LIBJPEG] = { "the same, libjpeg's entropy decoder", s_eval_libjpeg },
    [INEXACT] = { "train, exact false", s_inexact },
    [RESIZE_OURS] = { "resize of boxes to 224", s_resize_ours },
    [RESIZE_SCALAR] = { "the same, scalar", s_resize_scalar },
    [SHRINK_OURS] = { "resize of 224 to 74", s_shrink_ours },
    [SHRINK_SCALAR] = { "the same, scalar", s_shrink_scalar },
    [MEMCPY] = { "memcpy of versions to a ring", s_memcpy },
    [COPY_PLAIN] = { "private stage: nothing", s_copy_plain },
    [COPY_FLIP] = { "private stage: flip", s_copy_flip },
    [STREAM_HALVES] = { "streaming stores of 2 bytes a value", s_stream_halves },
    [COPY_HALVES] = { "private stage: flip, float16 NCHW", s_copy_halves },
    [STREAM_FLOATS] = { "streaming stores of 4 bytes a value", s_stream_floats },
    [COPY_FLOATS] = { "private stage: flip, float32 NCHW", s_copy_floats },
};

//  How much faster the first is than the second.
static const struct {
    method_t fast, slow;
    const char *text;
} s_ratios [] = {
    { EXACT, FULL_RESIZE, "train, exact, to full decode and resize" },
    { EXACT, PARTIAL_RESIZE, "train, exact, to bare partial decode and resize" },
    { EXACT, EXACT_LIBJPEG, "train, exact, to the same with libjpeg's decoder" },
    { EVAL, EVAL_LIBJPEG, "eval, to the same with libjpeg's decoder" },
    { EXACT_ROWS, EXACT_LIBJPEG, "train, exact, of a pack, to libjpeg's decoder" },
    { EVAL_ROWS, EVAL_LIBJPEG, "eval, of a pack, to libjpeg's decoder" },
    { EXACT_ROWS, EXACT, "train, exact, of a pack, to that of a folder" },
    { INEXACT, EXACT, "train, exact false, to exact" },
    { RESIZE_OURS, RESIZE_SCALAR, "resize of boxes to scalar" },
    { SHRINK_OURS, SHRINK_SCALAR, "resize to a third to scalar" },
    { COPY_PLAIN, MEMCPY, "private stage, uint8, to memcpy" },
    { COPY_FLIP, MEMCPY, "private stage, uint8 with flip, to memcpy" },
    { COPY_HALVES, STREAM_HALVES, "private stage, float16 NCHW, to streaming stores" },
    { COPY_FLOATS, STREAM_FLOATS, "private stage, float32 NCHW, to streaming stores" },
};
enum { RATIOS = sizeof s_ratios / sizeof *s_ratios };

//  ---- threads

static void
s_thread_open (thread_t *self, const bench_t *bench)
{
    *self = (thread_t) { .bench = bench, .bare = bare_jpeg_new (), .decoder = decoder_new (),
        .resize = resize_new (),
        .target = aligned_alloc (64, (image_bytes (SIDE, SIDE, IMAGE_COLOURS) + 63) / 64 * 64) };
    self->by_libjpeg = decoder_new ();
    assert (self->decoder && self->by_libjpeg && self->resize && self->target);
}

static void
s_thread_close (thread_t *self)
{
    bare_jpeg_destroy (&self->bare);
    decoder_destroy (&self->decoder);
    decoder_destroy (&self->by_libjpeg);
    resize_destroy (&self->resize);
    free (self->target);
}

typedef struct {
    thread_t thread;
    pthread_t id;
    work_t *work;
    atomic_size_t *next;
} runner_t;

static void *
s_run_shared (void *argument)
{
    runner_t *self = argument;
    for (size_t index; (index = atomic_fetch_add (self->next, 1)) < self->thread.bench->count;)
        self->work (&self->thread, index);
    return NULL;
}

//  Seconds for all images on all threads.
static double
s_run_all (const bench_t *bench, runner_t *runners, work_t *work, uint64_t round)
{
    atomic_size_t next;
    atomic_init (&next, 0);
    double begin = clock_seconds (CLOCK_MONOTONIC);
    for (uint32_t index = 0; index < bench->threads; index++) {
        runners [index].work = work;
        runners [index].next = &next;
        runners [index].thread.round = round;
        int rc = pthread_create (&runners [index].id, NULL, s_run_shared, &runners [index]);
        assert (rc == 0);
    }
    for (uint32_t index = 0; index < bench->threads; index++)
        pthread_join (runners [index].id, NULL);
    return clock_seconds (CLOCK_MONOTONIC) - begin;
}

//  ---- the measurement

typedef struct {
    double seconds [METHODS] [ROUNDS_MAX];
    double bare [ROUNDS_MAX];   //  all threads: the bare loop and ours
    double ours [ROUNDS_MAX];
} times_t;

static void
s_measure (const bench_t *bench, times_t *times)
{
    thread_t thread;
    s_thread_open (&thread, bench);
    setenv ("TUREEN_JPEG", "libjpeg", 1);       //  is looked at before a decoder's first image
    s_exact_libjpeg (&thread, 0);
    unsetenv ("TUREEN_JPEG");
    for (uint32_t round = 0; round < bench->rounds; round++) {
        thread.round = round;
        for (method_t method = 0; method < METHODS; method++) {
            double begin = clock_seconds (CLOCK_PROCESS_CPUTIME_ID);
            for (size_t index = 0; index < bench->count; index++)
                s_methods [method].work (&thread, index);
            times->seconds [method] [round] = clock_seconds (CLOCK_PROCESS_CPUTIME_ID) - begin;
        }
        fprintf (stderr, "\rround %u of %u", round + 1, bench->rounds);
    }
    s_thread_close (&thread);
    runner_t *runners = calloc (bench->threads, sizeof *runners);
    assert (runners);
    for (uint32_t index = 0; index < bench->threads; index++)
        s_thread_open (&runners [index].thread, bench);
    for (uint32_t round = 0; round < bench->rounds; round++) {
        times->bare [round] = s_run_all (bench, runners, s_partial_resize, round);
        times->ours [round] = s_run_all (bench, runners, s_exact, round);
    }
    for (uint32_t index = 0; index < bench->threads; index++)
        s_thread_close (&runners [index].thread);
    free (runners);
    fputs ("\r                          \r", stderr);
}

static double
s_ratio (const bench_t *bench, const double *fast, const double *slow)
{
    double ratios [ROUNDS_MAX];
    for (uint32_t round = 0; round < bench->rounds; round++)
        ratios [round] = slow [round] / fast [round];
    return median_of (ratios, bench->rounds);
}

static void
s_report (const bench_t *bench, times_t *times)
{
    json_t *object = json_object (), *methods = json_object (), *ratios = json_object ();
    double ratio [RATIOS];
    for (size_t index = 0; index < RATIOS; index++)
        ratio [index] = s_ratio (bench, times->seconds [s_ratios [index].fast],
            times->seconds [s_ratios [index].slow]);
    double all = s_ratio (bench, times->ours, times->bare);
    if (!bench->json)
        printf ("%zu images, medians of %u rounds, one thread, processor time\n%-50s %10s %10s\n",
            bench->count, bench->rounds, "", "images/s", "ms");
    for (method_t method = 0; method < METHODS; method++) {
        double each = median_of (times->seconds [method], bench->rounds) / (double) bench->count;
        if (!bench->json)
            printf ("%-50s %10.0f %10.4f\n", s_methods [method].name, 1 / each, 1e3 * each);
        json_object_set_new (methods, s_methods [method].name, json_real (each));
    }
    double ours = (double) bench->count / median_of (times->ours, bench->rounds);
    if (!bench->json) {
        printf ("train, exact, %u threads%*s %10.0f\n\nhow many times as fast\n", bench->threads, 27, "",
            ours);
        for (size_t index = 0; index < RATIOS; index++)
            printf ("%-50s %10.2f\n", s_ratios [index].text, ratio [index]);
        printf ("%-50s %10.2f\n", "all threads: train, exact, to the bare loop", all);
    }
    for (size_t index = 0; index < RATIOS; index++)
        json_object_set_new (ratios, s_ratios [index].text, json_real (ratio [index]));
    json_object_set_new (ratios, "all threads: train, exact, to the bare loop", json_real (all));
    json_object_set_new (object, "images", json_integer ((json_int_t) bench->count));
    json_object_set_new (object, "threads", json_integer (bench->threads));
    json_object_set_new (object, "images_per_second_all_threads", json_real (ours));
    json_object_set_new (object, "seconds_an_image", methods);
    json_object_set_new (object, "ratios", ratios);
    if (bench->json) {
        json_dumpf (object, stdout, JSON_INDENT (1));
        puts ("");
    }
    json_decref (object);
}

//  ---- files and pipelines

//  By name, so that the order is the same on every machine.
static int
s_compare_entries (const FTSENT **left, const FTSENT **right)
{
    return strcmp ((*left)->fts_name, (*right)->fts_name);
}

static void
s_list (bench_t *self, char **roots)
{
    self->paths = calloc (FILES_MAX, sizeof *self->paths);
    FTS *walk = fts_open (roots, FTS_LOGICAL | FTS_NOCHDIR, s_compare_entries);
    assert (self->paths && walk);
    for (FTSENT *entry; (entry = fts_read (walk)) && self->path_count < FILES_MAX;) {
        if (entry->fts_info == FTS_NS || entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR) {
            fprintf (stderr, "decode_bench: %s: %s\n", entry->fts_path, strerror (entry->fts_errno));
            exit (2);
        }
        if (entry->fts_info != FTS_F)
            continue;
        char *path = strdup (entry->fts_path);
        assert (path);
        self->paths [self->path_count++] = path;
    }
    fts_close (walk);
}

static bool
s_read (photo_t *photo, const char *path)
{
    FILE *file = fopen (path, "rb");
    struct stat status;
    if (!file || fstat (fileno (file), &status) || status.st_size < 4) {
        fprintf (stderr, "decode_bench: %s: %s\n", path, errno? strerror (errno): "empty");
        exit (2);
    }
    photo->file.size = (size_t) status.st_size;
    uint8_t *bytes = malloc (photo->file.size);
    assert (bytes);
    bool good = fread (bytes, 1, photo->file.size, file) == photo->file.size && bytes [0] == 0xff
        && bytes [1] == 0xd8;
    fclose (file);
    photo->file.bytes = bytes;
    if (!good)
        free (bytes);
    return good;
}

static const pipeline_t *
s_pipeline (const char *text)
{
    char error [ERROR_BYTES];
    const pipeline_t *pipeline = NULL;
    json_t *value = json_loads (text, JSON_DECODE_ANY, NULL);
    int rc = pipeline_new (&pipeline, value, NULL, NULL, 0, error, sizeof error);
    json_decref (value);
    if (rc)
        fprintf (stderr, "decode_bench: %s\n", error);
    assert (rc == 0);
    return pipeline;
}

#define CROP "{\"op\":\"random_resized_crop\",\"size\":224},{\"share\":true}"
#define FLIP "{\"op\":\"flip\"}"
#define NORMALIZE "{\"op\":\"normalize\",\"mean\":[0.485,0.456,0.406],\"std\":[0.229,0.224,0.225]}," \
    "{\"op\":\"layout\",\"layout\":\"NCHW\"}"

static void
s_find_rows (photo_t *photo, image_reader_t *reader)
{
    const uint8_t *rows;
    int rc = image_reader_rows (reader, photo->file.bytes, photo->file.size, &rows, &photo->rows_bytes);
    photo->rows = malloc (photo->rows_bytes + 1);
    assert (rc == 0 && photo->rows);
    if (photo->rows_bytes)
        memcpy (photo->rows, rows, photo->rows_bytes);
}

static void
s_open (bench_t *self)
{
    self->train = s_pipeline ("\"train\"");
    self->eval = s_pipeline ("\"eval\"");
    self->inexact = s_pipeline ("[{\"op\":\"decode\",\"exact\":false}," CROP "," FLIP "]");
    self->plain = s_pipeline ("[" CROP "]");
    self->halves = s_pipeline ("[" CROP "," FLIP "," NORMALIZE ",{\"op\":\"cast\",\"dtype\":\"float16\"}]");
    self->floats = s_pipeline ("[" CROP "," FLIP "," NORMALIZE "]");
    size_t ring_bytes = BATCH * SLOTS * pipeline_output (self->floats, 0)->bytes;
    self->ring = aligned_alloc (4096, (ring_bytes + 4095) / 4096 * 4096);
    self->photos = calloc (self->path_count, sizeof *self->photos);
    assert (self->ring && self->photos);
    memset (self->ring, 0, ring_bytes);
    thread_t thread;
    s_thread_open (&thread, self);
    image_reader_t *reader = image_reader_new ();
    assert (reader);
    for (size_t index = 0; index < self->path_count; index++) {
        photo_t *photo = &self->photos [self->count];
        if (!s_read (photo, self->paths [index]))
            continue;
        bare_jpeg_size (thread.bare, photo->file.bytes, photo->file.size, &photo->height, &photo->width);
        s_exact (&thread, self->count);
        photo->version = aligned_alloc (64, image_bytes (SIDE, SIDE, IMAGE_COLOURS));
        assert (photo->version);
        memcpy (photo->version, thread.target, image_bytes (SIDE, SIDE, IMAGE_COLOURS));
        s_find_rows (photo, reader);
        self->count++;
    }
    image_reader_destroy (&reader);
    s_thread_close (&thread);
}

static void
s_close (bench_t *self)
{
    for (size_t index = 0; index < self->count; index++) {
        free ((void *) (uintptr_t) self->photos [index].file.bytes);
        free (self->photos [index].version);
        free (self->photos [index].rows);
    }
    free (self->photos);
    free (self->ring);
    const pipeline_t *pipelines [] = { self->train, self->eval, self->inexact, self->plain, self->halves,
        self->floats };
    for (size_t index = 0; index < sizeof pipelines / sizeof *pipelines; index++)
        pipeline_destroy (&pipelines [index]);
    for (size_t index = 0; index < self->path_count; index++)
        free (self->paths [index]);
    free (self->paths);
}

static const option_row_t s_rows [] = {
    { "rounds", "N", OPTION_AT (bench_t, rounds), "how often each figure is measured (7)", 1, ROUNDS_MAX },
    { "threads", "N", OPTION_AT (bench_t, threads), "of the last figure (as many as processors)", 1,
        THREADS_MAX },
    { "json", NULL, OPTION_AT (bench_t, json), "one JSON object" }
};

static const option_table_t s_table = { "decode_bench", s_rows, OPTION_ROWS (s_rows), SIZE_MAX, .before =
    "usage: decode_bench [--rounds N] [--threads N] [--json] FOLDER|FILE...\n"
    "Measures preparing of JPEGs beside plain libjpeg-turbo loops.  What is no JPEG is passed over.\n" };

int
main (int argc, char **argv)
{
    long processors = sysconf (_SC_NPROCESSORS_ONLN);
    bench_t bench = { .rounds = 7,
        .threads = processors < 1? 1: processors > THREADS_MAX? THREADS_MAX: (uint32_t) processors };
    option_result_t result;
    int status = option_parse (&s_table, &bench, argc, argv, &result);
    if (status >= 0)
        return status;
    if (result.word_count) {
        result.words [result.word_count] = NULL;
        s_list (&bench, result.words);
        s_open (&bench);
    }
    if (!bench.count) {
        fprintf (stderr, "decode_bench: no JPEG to measure with; see `decode_bench --help`\n");
        return 2;
    }
    times_t *times = calloc (1, sizeof *times);
    assert (times);
    s_measure (&bench, times);
    s_report (&bench, times);
    free (times);
    s_close (&bench);
    return 0;
}
