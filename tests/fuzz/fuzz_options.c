/*  fuzz_options -- any text as the file of settings.  */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "options.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static void
s_require (int condition)
{
    if (!condition)
        abort ();
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    int descriptor = memfd_create ("options", MFD_CLOEXEC);
    s_require (descriptor >= 0 && write (descriptor, data, size) == (ssize_t) size);
    char path [64], error [256], *argv [] = { "serve", "--config", path, NULL };
    snprintf (path, sizeof path, "/proc/self/fd/%d", descriptor);
    options_t options;
    option_status_t status = options_parse (&options, 3, argv, error, sizeof error);
    s_require (status == OPTION_RUN? options.dataset_count > 0 && !*error
        : status == OPTION_WRONG && *error);
    //  Our own check must refuse whatever czmq would refuse.
    char unforeseen [128];
    snprintf (unforeseen, sizeof unforeseen, "%s: is no ZPL", path);
    s_require (strcmp (error, unforeseen) != 0);
    for (size_t index = 0; status == OPTION_RUN && index < options.user_count; index++)
        s_require (options.users [index].tenant < options.tenant_count
            && (index == 0 || options.users [index - 1].uid < options.users [index].uid));
    for (size_t index = 0; status == OPTION_RUN && index < options.tenant_count; index++)
        s_require (options.tenants [index].weight >= 1
            && options.tenants [index].weight <= OPTIONS_WEIGHT_MAX);
    s_require (status != OPTION_RUN || !options.open || (options.tenant_count == 0 && !options.keys));
    options_clear (&options);
    close (descriptor);
    return 0;
}
