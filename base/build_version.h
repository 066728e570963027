/*  build_version -- the version of this build, as `tureen --version` says it.
 *
 *  Threads: no state.
 */
#ifndef BUILD_VERSION_H
#define BUILD_VERSION_H

//  "0.2.0", or "0.2.1.dev7+g0123abcd" seven commits later (scripts/version.sh); static.
const char *build_version (void);

#endif
