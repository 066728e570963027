/*  disk_report -- what disk_bench prints: a table or JSON, and a picture.  */
#ifndef DISK_REPORT_H
#define DISK_REPORT_H
#include "disk_lines.h"

void disk_report_table (const disk_lines_t *lines);
void disk_report_json (const disk_lines_t *lines);
//  By gnuplot.  False: there is none, and it was said.
bool disk_report_plot (const disk_lines_t *lines);

#endif
