//  Reads two epochs of the data set that is its argument.
#include <stdio.h>
#include <tureen.h>

int
main (int argc, char **argv)
{
    char error [TUREEN_ERROR_BYTES];
    tureen_options_t options = { .dataset = argc > 1? argv [1]: "train", .batch_size = 64, .epochs = 2 };
    tureen_loader_t *loader = tureen_loader_new (&options, error, sizeof error);
    if (!loader)
        return fprintf (stderr, "%s\n", error), 1;
    tureen_batch_t *batch;
    tureen_event_t event;
    while ((event = tureen_loader_next (loader, &batch)) == TUREEN_BATCH || event == TUREEN_EPOCH_END) {
        tureen_array_t image;
        if (batch && tureen_batch_array (batch, "image", &image))
            printf ("%zu images at %p\n", image.shape [0], image.data);
        tureen_batch_release (&batch);
    }
    if (event == TUREEN_ERROR)
        fprintf (stderr, "%s\n", tureen_loader_error (loader));
    tureen_loader_destroy (&loader);
    return event == TUREEN_ERROR;
}
