/*  pack_report -- what `tureen verify` and `tureen unpack` say of a pack while they read it: damage, and how
 *  far they are.  */
#ifndef PACK_REPORT_H
#define PACK_REPORT_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "catalogue.h"
#include "pack.h"
#include "pack_scan.h"
#include "progress.h"

//  Opens a pack's index alone (catalogue.h).  NULL: *status_p is an exit status, 1 for a damaged or
//  unfinished pack, 2 where there is none, and error says why.
enum { PACK_REPORT_ERROR_BYTES = 1024, PACK_REPORT_NAME_BYTES = 1024 };
catalogue_t *pack_report_open (const char *path, progress_t *progress, int *status_p,
    char error [PACK_REPORT_ERROR_BYTES]);

//  The sample's path, fit for one line.
const char *pack_report_name (const catalogue_t *catalogue, uint32_t id, size_t field,
    char buffer [PACK_REPORT_NAME_BYTES]);
//  "volume-00000.tureen: chunk 3: sample 17 'cat/1.jpg': image: its bytes ..."
void pack_report_sample (FILE *stream, const catalogue_t *catalogue, const pack_scan_sample_t *sample);
//  "volume-00001.tureen: is missing (...)", and which samples that costs.
void pack_report_volume (FILE *stream, const catalogue_t *catalogue, uint32_t volume, const char *damage,
    bool is_lost);

//  Says so of a pack that an earlier version made with --tile; nothing of others.
void pack_report_tiled (FILE *stream, const catalogue_t *catalogue);

//  How far it is in the pack: the samples are read one after the other.
typedef struct {
    progress_t progress;
    double began;                       //  the reading, after the pack was opened
    uint64_t bytes, samples;
} pack_report_meter_t;

//  what: static, "verifying".  The progress is there, from progress_begin.
void pack_report_begin (pack_report_meter_t *self, const char *what, const pack_t *pack);
//  One sample more is read, of so many bytes.
void pack_report_read (pack_report_meter_t *self, uint64_t bytes);
//  Since pack_report_begin.
double pack_report_seconds (const pack_report_meter_t *self);

//  ---- values that images lose

//  Samples of which the own file is grey of 16 bits (image_reader_clips).  Begins as all zero.
typedef struct {
    uint64_t count;
    uint32_t first;                     //  its id
    char name [PACK_REPORT_NAME_BYTES];     //  of the first one; "": not known yet
} pack_report_clipped_t;
enum { PACK_REPORT_CLIPPED_BYTES = PACK_REPORT_NAME_BYTES + 400 };

//  catalogue NULL: names are not known yet.
void pack_report_note_clipped (pack_report_clipped_t *self, const catalogue_t *catalogue, uint32_t id,
    const uint8_t *bytes, size_t size);
//  Once names are known.
void pack_report_name_clipped (pack_report_clipped_t *self, const catalogue_t *catalogue);
//  A warning of them.  False: there are none.
bool pack_report_clipped_text (const pack_report_clipped_t *self, char text [PACK_REPORT_CLIPPED_BYTES]);

#endif
