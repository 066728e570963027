/*  operation_costs -- what operations cost beside what a join foresees of them (plan_foresee): each by
 *  itself; and a search for the pipeline with the worst ratio, in which every second one is the worst so far
 *  with one thing changed.
 *
 *      operation_costs [PIPELINES [SEED]]
 *
 *      PIPELINES   that the search tries (200); those that foresee more than 20 s are not run
 *      SEED        of the search (drawn, and printed)
 *
 *  Times are this thread's processor time on pictures of noise.  Exit status 1: something took more than
 *  RATIO_MAX times what was foreseen.
 */
#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <jansson.h>
#include "clock.h"
#include "decoder.h"
#include "random.h"

enum { SIDE = 1024, ALIGNMENT = 64, ERROR_BYTES = 400, TEXT_BYTES = 16384, PIPELINES = 200,
    OPERATIONS_MAX = 12 };
static const double RATIO_MAX = 2, LONGEST_MS = 20000;

//  What stands behind "op": of an operation; those of the first rows get a size as well.
static const struct { const char *text; bool is_sized; } s_operations [] = {
    { "\"resize\",\"interpolation\":\"bilinear\"", true },
    { "\"resize\",\"interpolation\":\"bicubic\"", true },
    { "\"center_crop\"", true },
    { "\"random_resized_crop\"", true },
    { "\"random_crop\",\"pad_if_needed\":true,\"mode\":\"edge\"", true },
    { "\"pad\",\"padding\":16", false },
    { "\"pad\",\"padding\":16,\"mode\":\"edge\"", false },
    { "\"flip\",\"p\":1", false },
    { "\"vertical_flip\",\"p\":1", false },
    { "\"color_jitter\",\"brightness\":0.4,\"contrast\":0.4,\"saturation\":0.4,\"hue\":0.1", false },
    { "\"grayscale\",\"p\":1", false },
    { "\"invert\",\"p\":1", false },
    { "\"posterize\",\"bits\":3,\"p\":1", false },
    { "\"solarize\",\"threshold\":99,\"p\":1", false },
    { "\"autocontrast\",\"p\":1", false },
    { "\"equalize\",\"p\":1", false },
    { "\"adjust_sharpness\",\"factor\":2,\"p\":1", false },
    { "\"gaussian_blur\",\"kernel_size\":[5,5]", false },
    { "\"gaussian_blur\",\"kernel_size\":[255,255],\"sigma\":[30,30]", false },
    { "\"pillow_gaussian_blur\",\"radius\":[100,200]", false },
    { "\"random_rotation\",\"degrees\":180", false },
    { "\"random_rotation\",\"degrees\":180,\"interpolation\":\"bilinear\"", false },
    { "\"random_affine\",\"degrees\":90,\"interpolation\":\"bilinear\"", false },
    { "\"random_perspective\",\"p\":1", false },
    { "\"random_perspective\",\"p\":1,\"interpolation\":\"bilinear\"", false },
    { "\"elastic_transform\"", false },
    { "\"elastic_transform\",\"alpha\":500,\"sigma\":31", false },
    { "\"rand_augment\",\"num_ops\":1", false },
    { "\"rand_augment\",\"num_ops\":16", false },
    { "\"trivial_augment_wide\"", false },
    { "\"auto_augment\"", false },
    { "\"auto_augment\",\"interpolation\":\"bilinear\"", false },
    { "\"aug_mix\"", false },
    { "\"aug_mix\",\"mixture_width\":8,\"chain_depth\":8,\"interpolation\":\"bilinear\"", false }
};
enum { OPERATIONS = sizeof s_operations / sizeof *s_operations };

//  What may come at a pipeline's end alone.
static const char *const s_tails [] = { "", "",
    ",{\"op\":\"random_erasing\",\"p\":1,\"scale\":[1,1],\"ratio\":[1,1]}",
    ",{\"op\":\"normalize\"},{\"op\":\"layout\",\"layout\":\"NCHW\"}",
    (",{\"op\":\"normalize\"},{\"op\":\"cast\",\"dtype\":\"float16\"},"
        "{\"op\":\"random_erasing\",\"p\":1}"),
    ",{\"op\":\"cast\",\"dtype\":\"float32\"},{\"op\":\"layout\",\"layout\":\"NCHW\"}"
};
enum { TAILS = sizeof s_tails / sizeof *s_tails };

typedef struct {
    decoder_t *decoder;
    uint8_t *picture;
    size_t picture_bytes;
} bench_t;

static bench_t
s_bench (random_t *random)
{
    bench_t self = { .decoder = decoder_new () };
    char head [32];
    int head_bytes = snprintf (head, sizeof head, "P6\n%d %d\n255\n", SIDE, SIDE);
    self.picture_bytes = (size_t) head_bytes + 3 * SIDE * SIDE;
    self.picture = malloc (self.picture_bytes);
    assert (self.decoder && self.picture);
    memcpy (self.picture, head, (size_t) head_bytes);
    for (size_t index = (size_t) head_bytes; index < self.picture_bytes; index++)
        self.picture [index] = (uint8_t) random_below (random, 256);
    return self;
}

static uint8_t *
s_room (size_t bytes)
{
    uint8_t *room = aligned_alloc (ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    assert (room);
    return room;
}

//  How many milliseconds of this thread the private stage takes, the longest of several draws; negative: the
//  sample does not suit.
static double
s_time (bench_t *self, const pipeline_t *pipeline, int draws)
{
    char error [ERROR_BYTES];
    uint8_t *version = s_room (pipeline_version_bytes (pipeline)),
        *batch = s_room (pipeline_sample_bytes (pipeline)), *end = batch, *targets [PIPELINE_OUTPUTS_MAX];
    for (size_t index = 0; index < pipeline_outputs (pipeline); index++) {
        targets [index] = end;
        end += pipeline_output (pipeline, index)->bytes;
    }
    decoder_file_t file = { .bytes = self->picture, .size = self->picture_bytes };
    decoder_sample_t sample = { .files = &file, .warnings_max = UINT32_MAX };
    pipeline_key_t key = { .seed = 1 };
    double longest = -1;
    bool is_well = decoder_shared (self->decoder, pipeline, &key, &sample, version, NULL, error, sizeof error)
        == DECODER_OK;
    for (int draw = 0; is_well && draw < draws; draw++) {
        key.round = (uint64_t) draw;
        uint64_t began_ns = clock_thread_ns ();
        is_well = decoder_private (self->decoder, pipeline, &key, version, targets);
        double took = (double) (clock_thread_ns () - began_ns) / 1e6;
        longest = is_well && took > longest? took: longest;
    }
    free (version);
    free (batch);
    return longest;
}

//  What s_time says of the list; negative also where no pipeline is made of it, or where a sample is foreseen
//  to take too long for this program.
static double
s_measure (bench_t *self, const char *text, int draws, double *foreseen_p)
{
    char error [ERROR_BYTES];
    const pipeline_t *pipeline = NULL;
    json_t *list = json_loads (text, 0, NULL);
    assert (list);
    int rc = pipeline_new (&pipeline, list, NULL, NULL, 0, error, sizeof error);
    json_decref (list);
    if (rc)
        return -1;
    *foreseen_p = pipeline_private_ms (pipeline);
    double longest = *foreseen_p > 0 && *foreseen_p < LONGEST_MS? s_time (self, pipeline, draws): -1;
    pipeline_destroy (&pipeline);
    return longest;
}

//  An operation of a pipeline; its size counts if it has one.
typedef struct {
    size_t operation;
    uint32_t height, width;
} part_t;

typedef struct {
    uint32_t views;                     //  1: without
    size_t tail;
    size_t count;
    part_t parts [OPERATIONS_MAX];
} list_t;

static part_t
s_draw_part (random_t *random)
{
    uint32_t side_max = 1u << (5 + random_below (random, 7));
    return (part_t) { random_below (random, OPERATIONS), 1 + (uint32_t) random_below (random, side_max),
        1 + (uint32_t) random_below (random, side_max) };
}

static list_t
s_draw_list (random_t *random)
{
    list_t list = { .views = random_below (random, 3) == 0? 2 + (uint32_t) random_below (random, 4): 1,
        .tail = random_below (random, TAILS), .count = 1 + random_below (random, OPERATIONS_MAX) };
    for (size_t index = 0; index < list.count; index++)
        list.parts [index] = s_draw_part (random);
    return list;
}

//  The list with one thing changed: a part is another one, comes in or goes, or the tail is another one.
static list_t
s_draw_neighbour (const list_t *list, random_t *random)
{
    list_t next = *list;
    size_t place = random_below (random, next.count);
    switch (random_below (random, 4)) {
    case 0:
        next.tail = random_below (random, TAILS);
        break;
    case 1:
        if (next.count > 1)
            next.parts [place] = next.parts [--next.count];
        break;
    case 2:
        if (next.count < OPERATIONS_MAX)
            place = next.count++;
        next.parts [place] = s_draw_part (random);
        break;
    default:
        next.parts [place] = s_draw_part (random);
    }
    return next;
}

static size_t
s_write_part (char *text, size_t bytes, const part_t *part)
{
    if (!s_operations [part->operation].is_sized)
        return (size_t) snprintf (text, bytes, ",{\"op\":%s}", s_operations [part->operation].text);
    return (size_t) snprintf (text, bytes, ",{\"op\":%s,\"size\":[%u,%u]}",
        s_operations [part->operation].text, part->height, part->width);
}

//  Behind a share point at which pictures have this side.
static void
s_write (char text [TEXT_BYTES], const list_t *list, int side)
{
    size_t length = (size_t) snprintf (text, TEXT_BYTES,
        "[{\"op\":\"resize\",\"size\":[%d,%d]},{\"share\":true}", side, side);
    if (list->views > 1)
        length += (size_t) snprintf (text + length, TEXT_BYTES - length, ",{\"op\":\"views\",\"count\":%u}",
            list->views);
    for (size_t index = 0; index < list->count; index++)
        length += s_write_part (text + length, TEXT_BYTES - length, &list->parts [index]);
    snprintf (text + length, TEXT_BYTES - length, "%s]", s_tails [list->tail]);
}

static bool
s_each (bench_t *self)
{
    bool is_well = true;
    printf ("%-100s %10s %10s %6s\n", "operation, on 1024 x 1024", "ms", "foreseen", "ratio");
    for (size_t index = 0; index < OPERATIONS; index++) {
        char text [TEXT_BYTES];
        double foreseen = 0;
        list_t list = { .views = 1, .count = 1, .parts = { { index, 2 * SIDE, 2 * SIDE } } };
        s_write (text, &list, SIDE);
        double ms = s_measure (self, text, 20, &foreseen);
        printf ("%-100s %10.2f %10.2f %6.2f\n", s_operations [index].text, ms, foreseen, ms / foreseen);
        is_well = is_well && ms >= 0 && ms <= RATIO_MAX * foreseen;
    }
    return is_well;
}

int
main (int argc, char **argv)
{
    unsigned long pipelines = argc > 1? strtoul (argv [1], NULL, 10): PIPELINES;
    uint64_t seed = argc > 2? strtoull (argv [2], NULL, 10): (uint64_t) time (NULL);
    random_t random = random_from_seed (seed);
    bench_t self = s_bench (&random);
    bool is_well = s_each (&self);
    list_t worst = { 0 };
    double worst_ratio = 0;
    unsigned long ran = 0;
    for (unsigned long number = 0; number < pipelines; number++) {
        char text [TEXT_BYTES];
        list_t list = worst_ratio > 0 && random_below (&random, 2)? s_draw_neighbour (&worst, &random):
            s_draw_list (&random);
        s_write (text, &list, 64);
        double foreseen = 0, ms = s_measure (&self, text, 2, &foreseen);
        ran += ms >= 0;
        if (ms >= 1 && ms / foreseen > worst_ratio) {
            worst_ratio = ms / foreseen;
            worst = list;
            printf ("ratio %.2f: %.2f ms, foreseen %.2f: %s\n", worst_ratio, ms, foreseen, text);
        }
    }
    printf ("%lu of %lu random pipelines (seed %llu): at most %.2f times what was foreseen\n", ran, pipelines,
        (unsigned long long) seed, worst_ratio);
    decoder_destroy (&self.decoder);
    free (self.picture);
    return is_well && worst_ratio <= RATIO_MAX? 0: 1;
}
