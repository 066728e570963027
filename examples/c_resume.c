//  Reads two epochs of a data set; stopped and started again, it goes on where it was.   example DATASET
//  STATE-FILE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <tureen.h>

static volatile sig_atomic_t s_stop;
static void s_note_signal (int number) { s_stop = number; }

int
main (int argc, char **argv)
{
    static char before [1 << 20];
    char error [TUREEN_ERROR_BYTES], *state = NULL;
    FILE *file = argc > 2? fopen (argv [2], "r"): NULL;
    size_t size = file? fread (before, 1, sizeof before - 1, file): 0;
    if (argc < 3)
        return fprintf (stderr, "usage: example DATASET STATE-FILE\n"), 2;
    if (file)
        fclose (file);
    tureen_options_t options = { .dataset = argv [1], .batch_size = 64, .epochs = 2,
        .state = size? before: NULL };
    tureen_loader_t *loader = tureen_loader_new (&options, error, sizeof error);
    if (!loader)
        return fprintf (stderr, "%s\n", error), 1;
    signal (SIGINT, s_note_signal);
    setvbuf (stdout, NULL, _IOLBF, 0);
    tureen_batch_t *batch;
    tureen_event_t event = TUREEN_BATCH;
    while (!s_stop && event != TUREEN_END && event != TUREEN_ERROR) {
        tureen_array_t image;
        event = tureen_loader_next_within (loader, &batch, 100);
        if (batch && tureen_batch_array (batch, "image", &image))
            printf ("%zu images at %p\n", image.shape [0], image.data);     //  here goes the training step
        tureen_batch_release (&batch);
    }
    if (event == TUREEN_ERROR)
        fprintf (stderr, "%s\n", tureen_loader_error (loader));
    if (tureen_loader_state (loader, &state) == 0 && (file = fopen (argv [2], "w")) != NULL) {
        fputs (state, file);
        fclose (file);
    }
    free (state);
    tureen_loader_destroy (&loader);
    return event == TUREEN_ERROR;
}
