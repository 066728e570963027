#include "loading.h"
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "fake_checks.h"

char loading_error [TUREEN_ERROR_BYTES];

tureen_loader_t *
loading_join (fake_server_t *fake, tureen_options_t options)
{
    options.endpoint = fake_endpoint (fake);
    if (!options.dataset)
        options.dataset = "train";
    if (!options.batch_size)
        options.batch_size = 4;
    //  What happens then is test_rejoin's.
    if (!options.rejoin_ms)
        options.rejoin_ms = -1;
    tureen_loader_t *loader = tureen_loader_new (&options, loading_error, sizeof loading_error);
    if (!loader)
        print_message ("%s\n", loading_error);
    return loader;
}

tureen_batch_t *
loading_next_batch (tureen_loader_t *loader)
{
    tureen_batch_t *batch;
    assert_int_equal (tureen_loader_next_within (loader, &batch, PATIENCE_MS), TUREEN_BATCH);
    assert_non_null (batch);
    return batch;
}

void
loading_read_all (fake_server_t *fake, tureen_loader_t *loader, uint64_t samples, uint64_t epochs)
{
    uint64_t sequence = 0, batches = (samples + 3) / 4;
    for (uint64_t epoch = 0; epoch < epochs; epoch++) {
        for (uint64_t index = 0; index < batches; index++) {
            tureen_batch_t *batch = loading_next_batch (loader);
            assert_int_equal (tureen_batch_epoch (batch), epoch);
            assert_int_equal (tureen_batch_index (batch), index);
            assert_int_equal (tureen_batch_sequence (batch), sequence++);
            assert_int_equal (tureen_batch_ids (batch) [0], index * 4);
            fake_check_batch (batch);
            tureen_batch_release (&batch);
            assert_null (batch);
        }
        tureen_batch_t *none;
        assert_int_equal (tureen_loader_next_within (loader, &none, PATIENCE_MS), TUREEN_EPOCH_END);
        assert_null (none);
        tureen_epoch_t end = tureen_loader_epoch (loader);
        assert_int_equal (end.epoch, epoch);
        assert_int_equal (end.samples, samples);
        assert_int_equal (end.batches, batches);
    }
    tureen_batch_t *none;
    assert_int_equal (tureen_loader_next (loader, &none), TUREEN_END);
    assert_int_equal (tureen_loader_next (loader, &none), TUREEN_END);
    //  All had and released: it leaves by itself.
    WAIT_FOR (fake, seen, seen.leaves == 1);
    WAIT_FOR (fake, seen, seen.progress.released == sequence);
    assert_int_equal (fake_seen (fake).wrong, 0);
}
