#include "build_version.h"

const char *
build_version (void)
{
    return TUREEN_VERSION;
}
