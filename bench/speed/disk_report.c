#include "disk_report.h"
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static bool
s_has_ratio (const disk_line_t *line)
{
    return line->kind == DISK_PACKED || line->kind == DISK_SERVED;
}

static const disk_line_t *
s_reference (const disk_lines_t *lines, const disk_line_t *line)
{
    if (line->count == 0)
        return NULL;
    return s_has_ratio (line)? disk_lines_reference (lines, line):
        disk_lines_best (lines, DISK_SEQUENTIAL, 0);
}

//  ---- the table

static void
s_print_line (const disk_lines_t *lines, const disk_line_t *line)
{
    if (line->missing) {
        printf ("%-40s %9s  %s\n", line->name, "-", line->missing);
        return;
    }
    const disk_line_t *reference = s_reference (lines, line);
    double mean_bytes = (double) lines->data->bytes / pack_samples (lines->data->pack),
        rate = disk_line_median (line);
    printf ("%-40s %9.1f %11.0f %7.3f", line->name, rate / 1e6, rate / mean_bytes,
        reference? disk_line_ratio (line, reference): NAN);
    if (s_has_ratio (line) && reference)
        printf ("  of %s", reference->name);
    if (line->kind == DISK_PACKED)
        printf ("; pieces of %u, depth %u, %.3f bytes read a byte", line->piece, line->notes.depth,
            line->notes.read_amplification);
    printf ("\n");
}

static void
s_print_model (const char *when, const cost_t *cost)
{
    printf ("%s: latency %.3f ms, %.4f ms a read beside its bytes, %.1f MB/s\n", when,
        1e3 * cost->latency_seconds, 1e3 * cost->serial_seconds, cost->bytes_per_second / 1e6);
}

void
disk_report_table (const disk_lines_t *lines)
{
    const disk_data_t *data = lines->data;
    printf ("%u samples, %.1f MB; medians of %u rounds; %s, %s\n", pack_samples (data->pack),
        (double) data->bytes / 1e6,
        lines->options->rounds, disk_device_is_direct (lines->device)? "past the page cache":
        "through the page cache", disk_device_has_ring (lines->device)? "io_uring": "no io_uring");
    s_print_model ("the model, probed", &lines->probed);
    s_print_model ("after a pass", &lines->learnt);
    printf ("\n%-40s %9s %11s %7s\n", "", "MB/s", "samples/s", "ratio");
    for (size_t index = 0; index < lines->count; index++)
        s_print_line (lines, &lines->lines [index]);
    printf ("\nratio: to the fastest sequential reading, or where something else is named, to that\n");
}

//  ---- JSON

static json_t *
s_real (double number)
{
    return isfinite (number)? json_real (number): json_null ();
}

static json_t *
s_line (const disk_lines_t *lines, const disk_line_t *line)
{
    json_t *object = json_object (), *values = json_array ();
    const disk_line_t *reference = s_reference (lines, line);
    json_object_set_new (object, "kind", json_string (disk_kind_name (line->kind)));
    json_object_set_new (object, "name", json_string (line->name));
    if (line->missing)
        json_object_set_new (object, "missing", json_string (line->missing));
    json_object_set_new (object, "bytes_per_second", s_real (disk_line_median (line)));
    for (size_t round = 0; round < line->count; round++)
        json_array_append_new (values, json_real (line->values [round]));
    json_object_set_new (object, "rounds", values);
    json_object_set_new (object, "ratio",
        reference? s_real (disk_line_ratio (line, reference)): json_null ());
    json_object_set_new (object, "reference", reference? json_string (reference->name): json_null ());
    if (line->request_bytes)
        json_object_set_new (object, "request_bytes", json_integer (line->request_bytes));
    if (line->piece)
        json_object_set_new (object, "piece", json_integer (line->piece));
    if (line->memory) {
        json_object_set_new (object, "memory_percent", json_integer (line->memory));
        json_object_set_new (object, "memory_bytes", json_integer ((json_int_t) line->limit_bytes));
    }
    uint32_t depth = line->kind == DISK_PACKED? line->notes.depth: line->depth;
    if (depth)
        json_object_set_new (object, "depth", json_integer (depth));
    if (line->kind == DISK_PACKED)
        json_object_set_new (object, "read_amplification", s_real (line->notes.read_amplification));
    return object;
}

static json_t *
s_model (const cost_t *cost)
{
    return json_pack ("{s:f, s:f, s:f}", "latency_seconds", cost->latency_seconds, "serial_seconds",
        cost->serial_seconds,
        "bytes_per_second", cost->bytes_per_second);
}

void
disk_report_json (const disk_lines_t *lines)
{
    const disk_data_t *data = lines->data;
    json_t *list = json_array ();
    for (size_t index = 0; index < lines->count; index++)
        json_array_append_new (list, s_line (lines, &lines->lines [index]));
    json_t *object = json_pack ("{s:I, s:I, s:I, s:b, s:b, s:o, s:o, s:o}",
        "samples", (json_int_t) pack_samples (data->pack), "bytes", (json_int_t) data->bytes,
        "rounds", (json_int_t) lines->options->rounds,
        "direct", disk_device_is_direct (lines->device), "io_uring", disk_device_has_ring (lines->device),
        "probed", s_model (&lines->probed), "model", s_model (&lines->learnt), "lines", list);
    json_dumpf (object, stdout, JSON_INDENT (1) | JSON_REAL_PRECISION (9));
    puts ("");
    json_decref (object);
}

//  ---- the picture

//  A bar for each line; what was not measured has none.
static void
s_write_script (FILE *file, const disk_lines_t *lines)
{
    const char *plot = lines->options->plot;
    bool is_png = strcmp (plot + strlen (plot) - 4, ".png") == 0;
    const disk_line_t *sequential = disk_lines_best (lines, DISK_SEQUENTIAL, 0);
    fprintf (file, "$bars << END\n");
    for (size_t index = 0; index < lines->count; index++) {
        const disk_line_t *line = &lines->lines [index];
        int colour = line->kind == DISK_SEQUENTIAL? 1: line->kind == DISK_PIECES? 2:
            line->kind <= DISK_SERVED? 3: 4;
        if (line->count)
            fprintf (file, "\"%s\" %.3f %d\n", line->name, disk_line_median (line) / 1e6, colour);
    }
    fprintf (file, "END\nset terminal %s\nset title 'Reading %.0f MB in samples of %.0f KB'\n"
        "set ylabel 'MB/s'\nset yrange [0:*]\nset grid y\nset style fill solid 0.8\nset boxwidth 0.8\nunset "
        "key\n"
        "set xtics rotate by 45 right nomirror\nset lmargin 20\n",
        is_png? "png size 1200,800": "svg size 1200,800 dynamic background rgb 'white'",
        (double) lines->data->bytes / 1e6,
        (double) lines->data->bytes / pack_samples (lines->data->pack) / 1e3);
    fprintf (file, "plot $bars using 0:2:3:xtic(1) with boxes lc variable, %.3f with lines dashtype 2 lw 2 "
        "lc 'gray50'\n", sequential? disk_line_median (sequential) / 1e6: 0);
}

//  gnuplot reads its script and writes the picture to its standard output, which the shell opens.
bool
disk_report_plot (const disk_lines_t *lines)
{
    setenv ("DISK_PICTURE", lines->options->plot, 1);
    signal (SIGPIPE, SIG_IGN);          //  without gnuplot the script has no reader
    FILE *gnuplot = popen ("command -v gnuplot >/dev/null || exit 127; exec gnuplot >\"$DISK_PICTURE\"", "w");
    int status = -1;
    if (gnuplot) {
        s_write_script (gnuplot, lines);
        status = pclose (gnuplot);
    }
    if (status != -1 && WIFEXITED (status) && WEXITSTATUS (status) == 127)
        disk_complain ("gnuplot is not installed, so there is no picture: apt-get install gnuplot-nox "
            "(or scripts/install-packages.sh bench)");
    else
    if (status != 0) {
        disk_complain ("gnuplot failed, so there is no %s", lines->options->plot);
        remove (lines->options->plot);
    }
    return status == 0;
}
