//  The raw pool beside a simple model of the resident samples; its passes, its memory, its costs; and that no
//  sample is favoured.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "raw_pool_play.h"
#include "effort.h"

//  ---- the model: residents as reads, takes and leaves tell of them

typedef struct {
    play_t *play;
    bool *resident;             //  by id
    uint64_t kept;              //  samples that reads made resident
    uint64_t holes;             //  samples that were read for nothing
    uint64_t reads;
    uint64_t neighbours;        //  reads that begin where the last one ended, or end where it began
    raw_read_t last;
} model_t;

static void
s_left (void *context, uint32_t id)
{
    model_t *model = context;
    assert_true (model->resident [id]);
    model->resident [id] = false;
}

static model_t
s_model (play_t *play)
{
    return (model_t) { .play = play, .resident = calloc (play->samples, 1) };
}

//  A supply holds what is resident, open to its job, and not drawn yet.
static void
s_check (const model_t *model)
{
    const play_t *play = model->play;
    raw_pool_check (play->pool);
    for (uint32_t id = 0; id < play->samples; id++)
        assert_int_equal (raw_pool_is_resident (play->pool, id), model->resident [id]);
    for (uint32_t number = 0; play->policy == RAW_STREAM && number < PLAY_JOBS_MAX; number++)
        for (uint32_t index = 0; play->jobs [number].here
            && index < raw_pool_supply_count (play->pool, number); index++) {
            uint32_t id = raw_pool_supply_at (play->pool, number, index);
            assert_true (raw_pool_is_in_supply (play->pool, number, id));
            assert_true (model->resident [id] && play->jobs [number].remains [id]
                && play->jobs [number].open [id]);
        }
}

//  A read is within a piece's length, and does not go over a break; what it keeps was not there.  trimmed: it
//  begins and ends with such a sample.
static void
s_enter_read (model_t *model, const raw_read_t *read, uint32_t piece, bool trimmed)
{
    const play_t *play = model->play;
    assert_in_range (read->count, 1, piece);
    assert_true (read->first + read->count <= play->samples);
    for (size_t index = 0; index < play->break_count; index++)
        assert_false (play->breaks [index] > read->first && play->breaks [index] < read->first + read->count);
    if (trimmed)
        assert_true (read->keep & 1 && read->keep >> (read->count - 1) == 1);
    model->reads++;
    model->neighbours += read->first == model->last.first + model->last.count
        || read->first + read->count == model->last.first;
    model->last = *read;
    for (uint32_t index = 0; index < RAW_PIECE_MAX; index++) {
        if (!(read->keep >> index & 1)) {
            model->holes += index < read->count;
            continue;
        }
        assert_true (index < read->count);
        uint32_t id = play->order [read->first + index];
        assert_false (model->resident [id]);
        assert_int_not_equal (play_need (model->play, RAW_ANY_JOB, id), RAW_UNNEEDED);
        model->resident [id] = true;
        model->kept++;
    }
}

//  Whether a sample of these positions, of a ring, was opened to the job.
static bool
s_was_opened (const play_t *play, const bool *before, const play_job_t *job, uint32_t first, uint32_t count)
{
    bool any = false;
    for (uint32_t index = 0; index < count; index++) {
        uint32_t id = play->order [(first + index) % play->samples];
        any = any || (job->open [id] && !before [id]);
    }
    return any;
}

//  A job takes part in a read with all that it needs, or not at all: what lies between the samples of one
//  read is open to each job to which one of them was opened with it.
static void
s_check_whole (const play_t *play, bool (*before) [PLAY_JOBS_MAX], const raw_read_t *read)
{
    bool *opened = calloc (play->samples, 1);
    for (uint32_t number = 0; number < PLAY_JOBS_MAX; number++) {
        const play_job_t *job = &play->jobs [number];
        for (uint32_t id = 0; id < play->samples; id++)
            opened [id] = before [id] [number];
        if (!job->here || !s_was_opened (play, opened, job, read->first, read->count))
            continue;
        for (uint32_t index = 0; index < read->count; index++) {
            uint32_t id = play->order [read->first + index];
            assert_true (!job->remains [id] || job->open [id]);
        }
    }
    free (opened);
}

static void
s_read_all (model_t *model, uint32_t piece, bool trimmed)
{
    raw_read_t read;
    while (raw_pool_next (model->play->pool, &read))
        s_enter_read (model, &read, piece, trimmed);
}

//  The same, with s_check_whole.
static void
s_read_whole (model_t *model, uint32_t piece, bool trimmed)
{
    play_t *play = model->play;
    bool (*before) [PLAY_JOBS_MAX] = calloc (play->samples, sizeof *before);
    raw_read_t read;
    for (bool more = true; more;) {
        for (uint32_t id = 0; id < play->samples; id++)
            for (uint32_t number = 0; number < PLAY_JOBS_MAX; number++)
                before [id] [number] = play->jobs [number].open [id];
        more = raw_pool_next (play->pool, &read);
        if (more) {
            s_enter_read (model, &read, piece, trimmed);
            s_check_whole (play, before, &read);
        }
    }
    free (before);
}

//  One draw of the job; served: a version had it.
static uint32_t
s_draw (model_t *model, play_job_t *job, bool served)
{
    raw_pool_t *pool = model->play->pool;
    uint32_t id = play_choose (model->play, job);
    //  A redirection may have loaded a chunk; what it made resident is told before it can leave.
    raw_read_t read;
    while (model->play->policy == RAW_REDOX && raw_pool_next (pool, &read))
        s_enter_read (model, &read, RAW_PIECE_MAX, false);
    play_commit (job, id);
    if (served)
        raw_pool_drawn (pool, id);
    else {
        assert_int_equal (raw_pool_take (pool, id), model->resident [id]);
        model->resident [id] = raw_pool_is_resident (pool, id);
    }
    raw_pool_share_out (pool);
    return id;
}

//  ---- properties

typedef struct {
    raw_policy_t policy;
    uint32_t samples, piece, virtual_chunks;
    size_t bytes_max, limit_bytes;
    bool even;
} setting_t;

static setting_t
s_setting (uint64_t *random)
{
    setting_t setting = { .policy = (raw_policy_t) test_below (random, 3),
        .samples = 1 + (uint32_t) test_below (random, 300),
        .piece = 1 + (uint32_t) test_below (random, test_below (random, 2)? 8: RAW_PIECE_MAX),
        .bytes_max = 1 + test_below (random, 5), .even = test_below (random, 2) };
    uint32_t chunks = (setting.samples - 1) / setting.piece + 1;
    setting.virtual_chunks = (uint32_t) test_below (random, chunks + 1);
    //  From the least there may be to more than all.
    size_t least = RAW_PIECE_MAX * setting.bytes_max;
    setting.limit_bytes = least + test_below (random, setting.samples * setting.bytes_max);
    return setting;
}

static void
s_start (play_t *play, model_t *model, const setting_t *setting, uint64_t *random)
{
    //  Breaks at whole chunks, as volumes have them.
    uint32_t every = setting->piece * (1 + (uint32_t) test_below (random, 20));
    *play = play_new (test_below (random, UINT64_MAX), setting->samples, setting->bytes_max, setting->even,
        every);
    *model = s_model (play);
    play_start (play, setting->policy, setting->limit_bytes, setting->piece, setting->virtual_chunks);
    raw_pool_on_leave (play->pool, s_left, model);
}

static size_t
s_all_bytes (const play_t *play)
{
    size_t bytes = 0;
    for (uint32_t id = 0; id < play->samples; id++)
        bytes += play->bytes [id];
    return bytes;
}

static void
s_end (play_t *play, model_t *model)
{
    play_destroy (play);
    free (model->resident);
}

//  Property: a lone job draws every sample of its data once an epoch, whatever the policy; a stream over all
//  data reads each sample once an epoch at most (fewer: what stays again), or once for ever where all fit,
//  and no draw finds nothing. Replay: TEST_SEED.
static void
test_a_lone_job_draws_each_sample_once (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    for (int round = 0; round < EFFORT (150); round++) {
        uint64_t seed = random;
        setting_t setting = s_setting (&random);
        play_t play;
        model_t model;
        s_start (&play, &model, &setting, &random);
        play_job_t *job = &play.jobs [0];
        uint32_t epochs = 4, chance = test_below (&random, 2)? 8: 3;
        play_join (&play, job, chance, epochs);
        s_read_all (&model, setting.piece, setting.policy == RAW_STREAM);
        for (uint32_t epoch = 0; epoch < epochs; epoch++) {
            uint32_t draws = 0;
            for (; job->left; draws++) {
                s_draw (&model, job, false);
                s_read_all (&model, setting.piece, setting.policy == RAW_STREAM);
                s_check (&model);
            }
            assert_int_equal (draws, job->size);
            if (epoch + 1 < epochs) {
                job->epochs--;
                play_epoch_begin (&play, job);
                s_read_all (&model, setting.piece, setting.policy == RAW_STREAM);
            }
        }
        raw_pool_figures_t figures = raw_pool_figures (play.pool);
        assert_int_equal (figures.hits + figures.misses, (uint64_t) epochs * job->size);
        assert_int_equal (figures.discarded, 0);
        bool holds = setting.policy == RAW_STREAM && s_all_bytes (&play) <= setting.limit_bytes;
        assert_true (holds || figures.resident == 0);
        if (setting.policy == RAW_STREAM && chance == 8) {
            uint64_t once = holds? 1: epochs;
            if (figures.misses || model.kept + model.holes > once * setting.samples
                || model.kept < setting.samples)
                fail_msg ("seed %" PRIu64 ": %" PRIu64 " misses, %" PRIu64 " read, %" PRIu64 " holes of %u x "
                    "%" PRIu64, seed, figures.misses, model.kept, model.holes, setting.samples, once);
        }
        s_end (&play, &model);
    }
}

//  As a tier does it.
static void
s_restart (play_t *play)
{
    for (uint32_t number = 0; number < PLAY_JOBS_MAX; number++) {
        memset (play->jobs [number].open, 0, play->samples);
        play->jobs [number].opened = 0;
    }
    raw_pool_restart (play->pool);
}

static void
s_random_step (model_t *model, setting_t *setting, uint64_t *random)
{
    play_t *play = model->play;
    play_job_t *job = &play->jobs [test_below (random, PLAY_JOBS_MAX)];
    uint64_t what = test_below (random, 100);
    if (!job->here) {
        if (what < 10)
            play_join (play, job, 1 + (uint32_t) test_below (random, 8),
                1 + (uint32_t) test_below (random, 4));
    } else if (what == 0)
        play_leave (play, job);
    else if (what == 1 && test_below (random, 4) == 0)
        s_restart (play);
    else if (what == 1 && test_below (random, 2))
        raw_pool_piece (play->pool, setting->piece = 1 + (uint32_t) test_below (random, RAW_PIECE_MAX));
    else if (what == 1)
        raw_pool_limit (play->pool, RAW_PIECE_MAX * setting->bytes_max
            + test_below (random, setting->samples * setting->bytes_max));
    else if (what == 2) {
        uint32_t id = (uint32_t) test_below (random, play->samples);
        play->versions [id] = !play->versions [id];
    } else if (what == 3)
        raw_pool_pace (play->pool, play_number (play, job), (double) test_below (random, 101) / 100);
    else if (job->left)
        s_draw (model, job, what < 30);
    else if (job->epochs) {
        job->epochs--;
        play_epoch_begin (play, job);
    } else
        play_leave (play, job);
}

//  Property: with jobs that come, go and draw as they like, versions that serve some, and a limit that
//  changes, residents are what reads, takes and leaves say, and the pool's invariants hold after every step;
//  supplies hold what they may, and a job takes part in a read wholly or not.  Replay: TEST_SEED.
static void
test_residents_are_what_was_told (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    for (int round = 0; round < EFFORT (150); round++) {
        setting_t setting = s_setting (&random);
        play_t play;
        model_t model;
        s_start (&play, &model, &setting, &random);
        for (int step = 0; step < 800; step++) {
            s_random_step (&model, &setting, &random);
            s_read_whole (&model, setting.piece, setting.policy == RAW_STREAM);
            s_check (&model);
        }
        s_end (&play, &model);
    }
}

//  ---- event by event

//  A stream of even samples of one byte over all data, with one job.
static play_job_t *
s_stream (play_t *play, model_t *model, uint32_t samples, size_t limit_bytes, uint32_t piece, uint32_t epochs)
{
    *play = play_new (test_seed (), samples, 1, true, samples);
    *model = s_model (play);
    play_start (play, RAW_STREAM, limit_bytes, piece, 0);
    raw_pool_on_leave (play->pool, s_left, model);
    play_join (play, &play->jobs [0], 8, epochs);
    return &play->jobs [0];
}

//  Guards: a first batch does not wait for all the memory to be filled; and it is filled, two samples read
//  for one drawn.
static void
test_memory_is_filled_gently (void **state)
{
    (void) state;
    play_t play;
    model_t model;
    play_job_t *job = s_stream (&play, &model, 4000, 1000, 4, 2);
    s_read_all (&model, 4, true);
    uint64_t begun = raw_pool_figures (play.pool).resident;
    assert_in_range (begun, 16 * 4 - 4, 17 * 4);
    for (uint32_t draw = 1; draw <= 1500; draw++) {
        s_draw (&model, job, false);
        s_read_all (&model, 4, true);
        uint64_t expected = begun + draw < 1000? begun + draw: 1000;
        assert_in_range (raw_pool_figures (play.pool).resident, expected - 4, expected + 4);
    }
    s_end (&play, &model);
}

//  Guards: if no job needs anything new, a draw costs one look-up, not a pass; and a need that grows is
//  found.
static void
test_nothing_to_find_costs_nothing (void **state)
{
    (void) state;
    play_t play;
    model_t model;
    play_job_t *job = s_stream (&play, &model, 4000, 5000, 8, 1);
    s_read_all (&model, 8, true);
    while (job->left > 3) {
        s_draw (&model, job, false);
        s_read_all (&model, 8, true);
    }
    uint64_t before = play.needs_asked;
    s_draw (&model, job, false);
    s_read_all (&model, 8, true);
    assert_in_range (play.needs_asked - before, 0, 2);
    //  Without the memory that holds all, what the next epoch needs must come again.
    raw_pool_limit (play.pool, 800);
    s_read_all (&model, 8, true);
    for (int draw = 0; draw < 200 && job->left; draw++) {
        s_draw (&model, job, false);
        s_read_all (&model, 8, true);
    }
    assert_int_equal (raw_pool_figures (play.pool).resident, 0);
    before = play.needs_asked;
    s_read_all (&model, 8, true);
    assert_int_equal (play.needs_asked, before);
    play_epoch_begin (&play, job);
    s_read_all (&model, 8, true);
    assert_true (raw_pool_figures (play.pool).resident > 0);
    s_end (&play, &model);
}

//  Guards: a draw of a job that needs next to nothing of a large pack asks for no more than a few pieces.
static void
test_a_draw_looks_at_few_pieces (void **state)
{
    (void) state;
    play_t play = play_new (test_seed (), 100000, 1, true, 100000);
    model_t model = s_model (&play);
    play_start (&play, RAW_STREAM, 1000, 8, 0);
    play_job_t *job = &play.jobs [0];
    for (uint32_t id = 0; id < play.samples; id += 1000)
        job->data [id] = true;
    job->size = 100;
    play_begin (&play, job, 4);
    for (int epoch = 0; epoch < 3; epoch++, job->epochs--, play_epoch_begin (&play, job))
        while (job->left) {
            s_draw (&model, job, false);
            raw_read_t read;
            for (bool more = true; more;) {
                uint32_t resident = raw_pool_resident_count (play.pool);
                uint64_t before = play.needs_asked;
                more = raw_pool_next (play.pool, &read);
                assert_in_range (play.needs_asked - before, 0,
                    (resident == 0? 1024: resident < 16 * 8? 128: 16) * 8);
                if (more)
                    s_enter_read (&model, &read, 8, true);
            }
        }
    raw_pool_check (play.pool);
    s_end (&play, &model);
}

//  Guards: a job on few neighbours in a large pack draws from several pieces, not from the one that was found
//  last.
static void
test_few_neighbours_are_mixed (void **state)
{
    (void) state;
    play_t play = play_new (test_seed (), 100000, 1, true, 100000);
    model_t model = s_model (&play);
    play_start (&play, RAW_STREAM, 1000, 8, 0);
    play_job_t *job = &play.jobs [0];
    for (uint32_t position = 40000; position < 40500; position++)
        job->data [play.order [position]] = true;
    job->size = 500;
    play_begin (&play, job, 1);
    s_read_all (&model, 8, true);
    uint64_t sum = 0, draws = 0;
    for (; job->left > 250; draws++) {
        s_draw (&model, job, false);
        s_read_all (&model, 8, true);
        sum += raw_pool_resident_count (play.pool);
    }
    assert_in_range (sum / draws, 64, 500);
    s_end (&play, &model);
}

//  One draw of the job from its supply, if it has one; and what is due then.
static void
s_draw_and_read (model_t *model, play_job_t *job)
{
    play_t *play = model->play;
    uint32_t number = play_number (play, job), count = raw_pool_supply_count (play->pool, number);
    uint32_t at = count? (uint32_t) test_below (&play->random, count): 0;
    uint32_t id = count? raw_pool_supply_at (play->pool, number, at): play_choose (play, job);
    play_commit (job, id);
    raw_pool_take (play->pool, id);
    model->resident [id] = raw_pool_is_resident (play->pool, id);
    raw_pool_share_out (play->pool);
    if (job->left == 0) {
        job->epochs--;
        play_epoch_begin (play, job);
    }
    s_read_all (model, 8, true);
}

//  Guards: a job with few samples leaves memory to the job beside it: memory is filled, few samples leave
//  undrawn, and few draws of either job find nothing.
static void
test_few_samples_leave_memory_to_others (void **state)
{
    (void) state;
    enum { SAMPLES = 20000, LIMIT = 1600, DRAWS = 8000 };
    const uint32_t parts [] = { 13, 64, 200 };
    for (size_t part = 0; part < sizeof parts / sizeof *parts; part++) {
        play_t play = play_new (test_seed (), SAMPLES, 1, true, SAMPLES);
        model_t model = s_model (&play);
        play_start (&play, RAW_STREAM, LIMIT, 8, 0);
        raw_pool_on_leave (play.pool, s_left, &model);
        play_join (&play, &play.jobs [0], 8, 2);
        play_job_t *few = &play.jobs [1];
        for (uint32_t id = 0; id < parts [part]; id++)
            few->data [id] = true;
        few->size = parts [part];
        play_begin (&play, few, DRAWS);
        s_read_all (&model, 8, true);
        uint64_t resident = 0;
        for (uint32_t draw = 0; draw < DRAWS; draw++) {
            s_draw_and_read (&model, &play.jobs [0]);
            s_draw_and_read (&model, few);
            resident += draw >= DRAWS / 2? raw_pool_resident_count (play.pool): 0;
        }
        s_check (&model);
        raw_pool_figures_t figures = raw_pool_figures (play.pool);
        assert_true (resident / (DRAWS / 2) > LIMIT * 9 / 10);
        assert_true (figures.discarded < DRAWS / 8);
        assert_true (figures.misses < 2 * DRAWS / 50);
        s_end (&play, &model);
    }
}

//  Guards: with little memory a stream reads each piece once an epoch, whole, in random order, and nothing
//  else.
static void
test_a_pass_reads_each_piece_once (void **state)
{
    (void) state;
    play_t play;
    model_t model;
    enum { SAMPLES = 4096, PIECE = 8, EPOCHS = 6 };
    play_job_t *job = s_stream (&play, &model, SAMPLES, 100, PIECE, EPOCHS);
    s_read_all (&model, PIECE, true);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        while (job->left) {
            s_draw (&model, job, false);
            s_read_all (&model, PIECE, true);
        }
        job->epochs -= job->epochs > 0;
        if (epoch + 1 < EPOCHS) {
            play_epoch_begin (&play, job);
            s_read_all (&model, PIECE, true);
        }
    }
    raw_pool_figures_t figures = raw_pool_figures (play.pool);
    assert_int_equal (figures.misses, 0);
    assert_int_equal (figures.hits, EPOCHS * SAMPLES);
    //  What stayed again was not read again: some of the hundred, each time.
    assert_in_range (EPOCHS * SAMPLES - model.kept, 0, EPOCHS * 100);
    assert_in_range (model.kept + model.holes, model.kept, EPOCHS * SAMPLES);
    //  A piece that lies over the end comes in two, and so does one with a sample that stayed.
    assert_in_range (model.reads, EPOCHS * (SAMPLES / PIECE - 2),
        EPOCHS * (SAMPLES / PIECE + 1) + EPOCHS * SAMPLES - model.kept);
    //  In random order: about two neighbours a pass, a Poisson variable; more than 45 of 12: 1e-13.
    assert_in_range (model.neighbours, 0, 45);
    s_end (&play, &model);
}

//  Guards: a piece is one read, though a version serves every other sample of it: whether to read through the
//  gaps is for the caller to decide.
static void
test_a_piece_with_gaps_is_one_read (void **state)
{
    (void) state;
    play_t play = play_new (test_seed (), 4096, 1, true, 4096);
    model_t model = s_model (&play);
    play_start (&play, RAW_STREAM, 1000, 8, 0);
    raw_pool_on_leave (play.pool, s_left, &model);
    for (uint32_t position = 0; position < play.samples; position += 2)
        play.versions [play.order [position]] = true;
    play_job_t *job = &play.jobs [0];
    play_join (&play, job, 8, 1);
    s_read_all (&model, 8, true);
    while (job->left) {
        s_draw (&model, job, false);
        s_read_all (&model, 8, true);
    }
    assert_in_range (model.reads, 1, 4096 / 8 + 1);
    s_check (&model);
    s_end (&play, &model);
}

//  Guards: what was to stay for a next epoch that will not be does not stay for ever.
static void
test_nothing_stays_that_no_job_needs (void **state)
{
    (void) state;
    play_t play;
    model_t model;
    play_job_t *job = s_stream (&play, &model, 400, 200, 4, 2);
    s_read_all (&model, 4, true);
    while (job->left > 60) {
        s_draw (&model, job, false);
        s_read_all (&model, 4, true);
    }
    assert_int_equal (raw_pool_figures (play.pool).passes, 2);      //  the next epoch's pieces have been come
                                                                    //  to
    job->epochs = 0;
    raw_pool_sweep (play.pool);
    while (job->left) {
        s_draw (&model, job, false);
        s_read_all (&model, 4, true);
        s_check (&model);
    }
    assert_int_equal (raw_pool_resident_count (play.pool), 0);
    s_end (&play, &model);
}

//  Guards: a sample that versions served stays for the next epoch alone, though it was to stay for two when
//  a job would have taken it.
static void
test_what_versions_served_stays_once (void **state)
{
    (void) state;
    play_t play;
    model_t model;
    play_job_t *job = s_stream (&play, &model, 400, 200, 4, 4);
    s_read_all (&model, 4, true);
    while (job->left) {
        s_draw (&model, job, job->left <= 150);
        s_read_all (&model, 4, true);
    }
    uint32_t stayed = raw_pool_resident_count (play.pool);
    assert_true (stayed > 100);
    job->epochs--;
    play_epoch_begin (&play, job);
    //  Nothing is read in this epoch.  When only residents are left, the next epoch needs them all as well.
    for (uint32_t id = 0; id < play.samples; id++)
        if (!raw_pool_is_resident (play.pool, id)) {
            play_commit (job, id);
            raw_pool_drawn (play.pool, id);
        }
    assert_int_equal (job->left, stayed);
    while (job->left)
        assert_false (raw_pool_is_resident (play.pool, s_draw (&model, job, false)));
    s_check (&model);
    s_end (&play, &model);
}

//  Guards: samples that leave for a smaller limit and are still needed are read again when there is room,
//  even if the pool had found all that was needed and looked no more.
static void
test_what_a_smaller_limit_drops_is_read_again (void **state)
{
    (void) state;
    play_t play;
    model_t model;
    play_job_t *job = s_stream (&play, &model, 400, 200, 4, 1);
    s_read_all (&model, 4, true);
    while (job->left > 120) {
        s_draw (&model, job, false);
        s_read_all (&model, 4, true);
    }
    assert_int_equal (raw_pool_resident_count (play.pool), job->left);
    raw_pool_limit (play.pool, 80);
    assert_true (raw_pool_resident_count (play.pool) < job->left);
    while (job->left) {
        s_draw (&model, job, false);
        s_read_all (&model, 4, true);
    }
    assert_int_equal (raw_pool_figures (play.pool).misses, 0);
    s_check (&model);
    s_end (&play, &model);
}

//  Guards: the same when all that the job needs for its next epoch has been read as well.
static void
test_what_leaves_after_all_was_read_is_read_again (void **state)
{
    (void) state;
    play_t play = play_new (test_seed (), 400, 1, true, 400);
    model_t model = s_model (&play);
    play_start (&play, RAW_STREAM, 200, 4, 0);
    raw_pool_on_leave (play.pool, s_left, &model);
    play_job_t *job = &play.jobs [0];
    memset (job->data, 1, 150);
    job->size = 150;
    play_begin (&play, job, 2);
    s_read_all (&model, 4, true);
    for (int draw = 0; draw < 100; draw++)
        s_draw_and_read (&model, job);
    assert_int_equal (raw_pool_resident_count (play.pool), 150);
    raw_pool_limit (play.pool, 120);
    raw_pool_limit (play.pool, 200);
    while (job->left > 1)
        s_draw_and_read (&model, job);
    assert_int_equal (raw_pool_figures (play.pool).misses, 0);
    s_check (&model);
    s_end (&play, &model);
}

//  Guards: where all fit, what a job has drawn outlives another's leaving, but not the last one's.
static void
test_all_that_fits_is_held (void **state)
{
    (void) state;
    play_t play;
    model_t model;
    play_job_t *job = s_stream (&play, &model, 100, 100, 4, 3), *other = &play.jobs [1];
    play_join (&play, other, 4, 2);
    s_read_all (&model, 4, true);
    for (int draw = 0; draw < 60; draw++) {
        s_draw (&model, job, false);
        s_read_all (&model, 4, true);
    }
    assert_int_equal (raw_pool_resident_count (play.pool), 100);
    play_leave (&play, other);
    s_check (&model);
    assert_int_equal (raw_pool_resident_count (play.pool), 100);
    play_leave (&play, job);
    s_check (&model);
    assert_int_equal (raw_pool_resident_count (play.pool), 0);
    s_end (&play, &model);
}

//  Guards: where all fit, a job that joins or begins an epoch does not ask for all samples at once, and finds
//  them all in memory.
static void
test_what_is_held_is_taken_in_by_parts (void **state)
{
    (void) state;
    enum { SAMPLES = 40000, MOST = 8 * (1024 + 128) };
    play_t play;
    model_t model;
    play_job_t *job = s_stream (&play, &model, SAMPLES, SAMPLES, 8, 2);
    s_read_all (&model, 8, true);
    for (int draw = 0; draw < SAMPLES; draw++)
        s_draw_and_read (&model, job);
    assert_int_equal (raw_pool_resident_count (play.pool), SAMPLES);
    play.needs_asked = 0;
    play_epoch_begin (&play, job);
    assert_in_range (play.needs_asked, 0, MOST);
    play_join (&play, &play.jobs [1], 8, 1);
    assert_in_range (play.needs_asked, 0, MOST);
    while (job->left > 1) {
        play.needs_asked = 0;
        s_draw_and_read (&model, job);
        assert_in_range (play.needs_asked, 0, 2 * MOST);
    }
    assert_int_equal (raw_pool_supply_count (play.pool, 1), SAMPLES);
    assert_int_equal (model.kept, SAMPLES);
    assert_int_equal (raw_pool_figures (play.pool).misses, 0);
    s_check (&model);
    s_end (&play, &model);
}

//  Guards: when a job leaves, or begins no further epoch, samples that others have are not asked for; what
//  was for this job leaves.
static void
test_a_leave_asks_for_few (void **state)
{
    (void) state;
    play_t play;
    model_t model;
    play_job_t *job = s_stream (&play, &model, 4000, 1000, 8, 2), *other = &play.jobs [1];
    memset (other->data, 1, 200);
    other->size = 200;
    play_begin (&play, other, 3);
    s_read_all (&model, 8, true);
    while (raw_pool_figures (play.pool).resident < 950) {
        s_draw_and_read (&model, job);
        s_draw_and_read (&model, other);
    }
    play.needs_asked = 0;
    other->epochs = 0;
    raw_pool_sweep (play.pool);
    s_check (&model);
    play_leave (&play, other);
    s_check (&model);
    assert_in_range (play.needs_asked, 0, other->size);
    for (uint32_t index = 0; index < raw_pool_resident_count (play.pool); index++)
        assert_true (raw_pool_is_in_supply (play.pool, 0, raw_pool_resident_at (play.pool, index)));
    s_end (&play, &model);
}

//  Guards: what is no more needed goes before what is, when the limit falls; a restart leaves nothing, and
//  all begins anew.
static void
test_limit_and_restart (void **state)
{
    (void) state;
    play_t play;
    model_t model;
    play_job_t *job = s_stream (&play, &model, 200, 200, 4, 1);
    for (int draw = 0; draw < 120; draw++) {
        s_read_all (&model, 4, true);
        s_draw (&model, job, false);
    }
    assert_int_equal (raw_pool_resident_count (play.pool), 200);
    raw_pool_limit (play.pool, 100);
    assert_int_equal (raw_pool_resident_count (play.pool), 80);
    for (uint32_t id = 0; id < play.samples; id++)
        assert_true (raw_pool_is_resident (play.pool, id) == job->remains [id]);
    raw_pool_limit (play.pool, 70);
    assert_int_equal (raw_pool_resident_count (play.pool), 70);
    s_restart (&play);
    assert_int_equal (raw_pool_resident_count (play.pool), 0);
    s_check (&model);
    s_read_all (&model, 4, true);
    assert_in_range (raw_pool_resident_count (play.pool), 50, 64);
    s_check (&model);
    s_end (&play, &model);
}

//  Guards: what is still to come of an epoch is read in pieces of the new size, and nothing is read twice or
//  by itself; the same size again changes nothing.
static void
test_pieces_change (void **state)
{
    (void) state;
    play_t play;
    model_t model;
    play_job_t *job = s_stream (&play, &model, 400, 130, 8, 1);
    for (int draw = 0; draw < 100; draw++) {
        s_read_all (&model, 8, true);
        s_draw (&model, job, false);
    }
    s_read_all (&model, 8, true);
    uint64_t passes = raw_pool_figures (play.pool).passes;
    raw_pool_piece (play.pool, 8);
    s_read_all (&model, 8, true);
    assert_int_equal (raw_pool_figures (play.pool).passes, passes);
    raw_pool_limit (play.pool, 70);
    raw_pool_piece (play.pool, 2);
    assert_int_equal (raw_pool_figures (play.pool).piece, 2);
    s_check (&model);
    uint64_t left = raw_pool_figures (play.pool).discarded;
    while (job->left > 0) {
        s_read_all (&model, 2, true);
        s_draw (&model, job, false);
        s_check (&model);
    }
    raw_pool_figures_t figures = raw_pool_figures (play.pool);
    assert_int_equal (figures.misses, 0);
    assert_in_range (figures.passes, passes + 1, passes + 2);       //  the last finds nothing
    //  What the smaller limit had no room for was read again.
    assert_int_equal (model.kept, 400 + left);
    assert_true (left > 20);
    s_end (&play, &model);
}

//  ---- statistics

enum { SMALL = 40, BINS = 20 };

//  Guards: over seeds each sample is equally likely at each position of an epoch, the first and a later one.
//  Chi-square of sample x position with 19 x 39 degrees of freedom; |z| < 4.4 in both: false alarms 2e-5.
static void
test_each_sample_comes_anywhere (void **state)
{
    (void) state;
    static double tally [2] [SMALL] [BINS];
    int runs = EFFORT (4000);
    memset (tally, 0, sizeof tally);
    uint64_t random = test_seed ();
    for (int run = 0; run < runs; run++) {
        play_t play = play_new (test_below (&random, UINT64_MAX), SMALL, 1, true, 17);
        for (uint32_t position = 0; position < SMALL; position++)
            play.order [position] = position;
        play_start (&play, RAW_STREAM, 18, 9, 0);
        play_job_t *job = &play.jobs [0];
        play_join (&play, job, 8, 3);
        raw_read_t read;
        for (int epoch = 0; epoch < 3; epoch++) {
            while (raw_pool_next (play.pool, &read)) ;
            for (uint32_t draw = 0; draw < SMALL; draw++) {
                uint32_t id = play_choose (&play, job);
                play_commit (job, id);
                raw_pool_take (play.pool, id);
                while (raw_pool_next (play.pool, &read)) ;
                //  Memory is divided anew, in every other run.
                if (run % 2 && epoch == 0 && draw == 13) {
                    raw_pool_limit (play.pool, 8);
                    raw_pool_piece (play.pool, 3);
                    while (raw_pool_next (play.pool, &read)) ;
                }
                if (epoch != 1)
                    tally [epoch / 2] [id] [draw * BINS / SMALL]++;
            }
            job->epochs -= job->epochs > 0;
            play_epoch_begin (&play, job);
        }
        play_destroy (&play);
    }
    double expected = (double) runs / BINS, freedom = (BINS - 1) * (SMALL - 1);
    for (int which = 0; which < 2; which++) {
        double sum = 0;
        for (int id = 0; id < SMALL; id++)
            for (int bin = 0; bin < BINS; bin++)
                sum += (tally [which] [id] [bin] - expected) * (tally [which] [id] [bin]
                    - expected) / expected;
        double z = (sum * (SMALL - 1) / SMALL - freedom) / sqrt (2 * freedom);
        print_message ("epoch %d: z %.2f\n", 1 + 2 * which, z);
        assert_true (fabs (z) < 4.4);
    }
}

//  Guards: the capacity by samples leaves room for sizes that are not the mean.
static void
test_a_capacity_allows_for_uneven_sizes (void **state)
{
    (void) state;
    play_t play = play_new (test_seed (), 1000, 200, true, 1000);
    for (uint32_t id = 0; id < play.samples; id++)
        play.bytes [id] = id % 2? 300: 100;
    play_start (&play, RAW_STREAM, 1 << 20, 8, 0);
    //  A mean of 200 and a deviation of 100: 25 * 200 bytes, and 5 * sqrt (25) * 100 more.
    assert_int_equal (raw_pool_capacity (play.pool, 7500), 25);
    assert_int_equal (raw_pool_capacity (play.pool, 7499), 24);
    play_destroy (&play);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_a_lone_job_draws_each_sample_once),
        cmocka_unit_test (test_residents_are_what_was_told),
        cmocka_unit_test (test_memory_is_filled_gently),
        cmocka_unit_test (test_nothing_to_find_costs_nothing),
        cmocka_unit_test (test_a_draw_looks_at_few_pieces),
        cmocka_unit_test (test_few_neighbours_are_mixed),
        cmocka_unit_test (test_few_samples_leave_memory_to_others),
        cmocka_unit_test (test_a_pass_reads_each_piece_once),
        cmocka_unit_test (test_a_piece_with_gaps_is_one_read),
        cmocka_unit_test (test_nothing_stays_that_no_job_needs),
        cmocka_unit_test (test_what_versions_served_stays_once),
        cmocka_unit_test (test_what_a_smaller_limit_drops_is_read_again),
        cmocka_unit_test (test_what_leaves_after_all_was_read_is_read_again),
        cmocka_unit_test (test_all_that_fits_is_held),
        cmocka_unit_test (test_what_is_held_is_taken_in_by_parts),
        cmocka_unit_test (test_a_leave_asks_for_few),
        cmocka_unit_test (test_limit_and_restart),
        cmocka_unit_test (test_pieces_change),
        cmocka_unit_test (test_each_sample_comes_anywhere),
        cmocka_unit_test (test_a_capacity_allows_for_uneven_sizes),
    };
    return cmocka_run_group_tests_name ("raw_pool", tests, NULL, NULL);
}
