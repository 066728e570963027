//  `tureen audit`: whether the ids that clients recorded are epochs as training assumes.

#include "command.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <jansson.h>
#include "audit.h"
#include "complain.h"
#include "file.h"
#include "location.h"
#include "option.h"
#include "pack.h"
#include "pack_report.h"
#include "utf8.h"

enum { EXIT_FAULTS = 1, EXIT_UNUSABLE = 2, ERROR_BYTES = 1024, NAME_BYTES = 1024, CELL_BYTES = 64,
    KEY_BYTES = 24 };

typedef struct {
    uint64_t samples;
    const char *groups;         //  NULL: none
    bool held, ranks, json;
    char **paths;
    size_t path_count;
} arguments_t;

//  --------------------------------------------------------------------------
//  Arguments

static const option_row_t s_rows [] = {
    { "samples", "N", OPTION_AT (arguments_t, samples),
        "each epoch must have the ids 0 to N-1; else: those that the file's finished epochs\n"
        "have, and that each lacks equally many is taken for --drop-last", 1, (uint64_t) AUDIT_ID_MAX + 1 },
    { "groups", "PATH", OPTION_AT (arguments_t, groups),
        "also test whether a group's samples come early or late: PATH is a pack, then its\n"
        "chunks are the groups; or a file with a line for each sample, `ID GROUP`" },
    { "held", NULL, OPTION_AT (arguments_t, held),
        "the FILEs are jobs on different data: also test of each whether the samples that another\n"
        "one holds, that many hold or that fast ones hold come early or late" },
    { "ranks", NULL, OPTION_AT (arguments_t, ranks),
        "the FILEs are the ranks of one job, those of all nodes: judges their epochs together,\n"
        "each rank's own order, and whether samples come to all ranks alike" },
    { "json", NULL, OPTION_AT (arguments_t, json), "one JSON object; docs/operations.md explains its keys" }
};

static const option_table_t s_table = { "tureen audit", s_rows, OPTION_ROWS (s_rows), SIZE_MAX, .before =
    "Usage: tureen audit [--samples N] [--groups PATH] [--held] [--ranks] [--json] FILE...\n"
    "Says whether recorded epochs are what training assumes: each sample once, in an order that is a\n"
    "shuffle, and that the epochs before do not tell.\n"
    "\n"
    "  tureen read --dataset train --epochs 12 --ids job.ids\n"
    "  tureen audit --samples 50000 job.ids\n"
    "\n"
    "A FILE is one job, or with --ranks what one rank of it was given: a line an epoch, `0: 5 17 3`;\n"
    "` ...` at its end if it is unfinished.\n"
    "\n", .after =
    "\n"
    "The table shows what was measured, and in brackets what true shuffles have, with its standard\n"
    "deviation: phi2 (does an epoch's order tell of the next one's? 0: no; up to 0.02 is called fresh),\n"
    "t5h5 (how much more often than chance the last 5 % come in the next first 5 %), pair-repeat (how much\n"
    "more often than chance two samples that shared a batch of 64 share one again).  Faults and notes\n"
    "follow.  All tests together call true shuffles faulty in fewer than 1 run of 10,000.\n"
    "With --ranks a second table: own phi2 (of a rank's own order), stay (how much more often than chance\n"
    "samples come to the rank that they had), uneven (to some ranks more often than to others).\n"
    "\n"
    "Exit status: 0 no faults, 1 faults, 2 unusable arguments or files.\n" };

//  -1: go on; else the exit status.
static int
s_parse (arguments_t *self, int argc, char **argv)
{
    option_result_t result;
    int status = option_parse (&s_table, self, argc, argv, &result);
    self->paths = result.words;
    self->path_count = result.word_count;
    if (status < 0 && self->ranks && self->path_count == 1) {
        complain ("audit", "--ranks: one file; give that of each rank of the job, or leave --ranks out");
        return EXIT_UNUSABLE;
    }
    if (status < 0 && self->ranks && self->path_count > UINT16_MAX) {
        complain ("audit", "--ranks: more than %d files", UINT16_MAX);
        return EXIT_UNUSABLE;
    }
    if (status >= 0 || self->path_count)
        return status;
    complain ("audit", "no file; record one with `tureen read --ids FILE`, then: tureen audit FILE");
    return EXIT_UNUSABLE;
}

//  --------------------------------------------------------------------------
//  For people

//  A name as it is shown: on one line, without what moves a terminal.
static const char *
s_visible (const char *text, char buffer [NAME_BYTES])
{
    return utf8_visible (text, strlen (text), buffer, NAME_BYTES);
}

//  "0.0004 [0 +- 0.0012]": to two digits of the spread.
static const char *
s_cell (const audit_figure_t *figure, char buffer [CELL_BYTES])
{
    if (figure->count == 0)
        return "-";
    double digits = 1 - floor (log10 (figure->spread));
    int places = digits < 1? 1: digits > 9? 9: (int) digits;
    snprintf (buffer, CELL_BYTES, "%.*f [%.0f +- %.*f]", places, figure->value, figure->expected, places,
        figure->spread);
    return buffer;
}

//  "0.003 at 4": of the lags from 2 on the one with the highest phi2.
static const char *
s_later_cell (const audit_figure_t phi2 [AUDIT_LAGS], char buffer [CELL_BYTES])
{
    size_t worst = 1;
    for (size_t lag = 2; lag < AUDIT_LAGS; lag++)
        if (phi2 [lag].count && phi2 [lag].value > phi2 [worst].value)
            worst = lag;
    if (phi2 [worst].count == 0)
        return "-";
    snprintf (buffer, CELL_BYTES, "%.3f at %zu", phi2 [worst].value, worst + 1);
    return buffer;
}

static int
s_name_width (const audit_t *audit)
{
    size_t width = 4;
    for (size_t index = 0; index < audit_job_count (audit); index++) {
        char name [NAME_BYTES];
        size_t length = strlen (s_visible (audit_job (audit, index)->name, name));
        width = length > width? length: width;
    }
    return width < 40? (int) width: 40;
}

static void
s_print_table (const audit_t *audit)
{
    static const char *const once [] = { [AUDIT_ONCE] = "yes", [AUDIT_AT_MOST_ONCE] = "at most",
        [AUDIT_NOT_ONCE] = "no" };
    int width = s_name_width (audit);
    printf ("%-*s %7s %10s %12s  %-24s %-15s %-24s %s\n", width, "file", "epochs", "samples", "exactly once",
        "phi2", "lags 2 to 6", "t5h5", "pair-repeat");
    for (size_t index = 0; index < audit_job_count (audit); index++) {
        const audit_job_t *job = audit_job (audit, index);
        char name [NAME_BYTES], phi2 [CELL_BYTES], later [CELL_BYTES], heads [CELL_BYTES], pairs [CELL_BYTES];
        printf ("%-*s %7zu %10" PRIu64 " %12s  %-24s %-15s %-24s %s\n", width, s_visible (job->name, name),
            job->epochs, job->samples, once [job->once], s_cell (&job->phi2 [0], phi2),
            s_later_cell (job->phi2, later), s_cell (&job->t5h5, heads), s_cell (&job->pair_repeat, pairs));
    }
}

static void
s_print_rank (const char *name, const char *samples, const audit_figure_t own [AUDIT_LAGS])
{
    char shown [NAME_BYTES], phi2 [CELL_BYTES], later [CELL_BYTES];
    printf ("%-40s %20s  %-24s %s\n", s_visible (name, shown), samples, s_cell (own, phi2),
        s_later_cell (own, later));
}

static void
s_print_ranks (const audit_parts_t *parts)
{
    char samples [CELL_BYTES], stay [CELL_BYTES], later [CELL_BYTES], uneven [CELL_BYTES];
    printf ("\n%-40s %20s  %-24s %s\n", "rank", "samples an epoch", "own phi2", "lags 2 to 6");
    for (size_t index = 0; index < parts->count; index++) {
        const audit_part_t *part = &parts->part [index];
        snprintf (samples, sizeof samples, part->samples_least < part->samples_most?
            "%" PRIu64 " to %" PRIu64: "%" PRIu64, part->samples_least, part->samples_most);
        s_print_rank (part->name, samples, part->own_phi2);
    }
    s_print_rank ("all ranks", "", parts->own_phi2);
    printf ("stay %s, lags 2 to 6 %s; uneven %s\n", s_cell (&parts->stay [0], stay),
        s_later_cell (parts->stay, later), s_cell (&parts->uneven, uneven));
}

static void
s_print (const audit_t *audit)
{
    s_print_table (audit);
    if (audit_job (audit, 0)->parts)
        s_print_ranks (audit_job (audit, 0)->parts);
    size_t faults = audit_fault_count (audit);
    for (size_t index = 0; index < audit_finding_count (audit); index++) {
        const audit_finding_t *finding = audit_finding (audit, index);
        char name [NAME_BYTES], text [NAME_BYTES];
        if (index == 0 || index == faults)
            printf ("\n");
        printf ("%s: %s: %s.\n", s_visible (audit_job (audit, finding->job)->name, name),
            index < faults? "fault": "note", s_visible (finding->text, text));
    }
    printf ("\n%zu fault%s. %zu test%s of chance; one fails below p = %.1g, so that true shuffles fail any "
        "in fewer than 1 run of 10,000.\n", faults, faults == 1? "": "s", audit_test_count (audit),
        audit_test_count (audit) == 1? "": "s", audit_bound (audit));
}

//  --------------------------------------------------------------------------
//  JSON

static json_t *
s_json_figure (const audit_figure_t *figure)
{
    if (figure->count == 0)
        return json_null ();
    return json_pack ("{s:I, s:f, s:f, s:f}", "count", (json_int_t) figure->count, "value", figure->value,
        "expected", figure->expected, "spread", figure->spread);
}

//  Adds the figures by lag.
static void
s_json_lags (json_t *object, const char *name, const audit_figure_t figures [AUDIT_LAGS])
{
    for (size_t lag = 0; lag < AUDIT_LAGS; lag++) {
        char key [KEY_BYTES];
        snprintf (key, sizeof key, lag? "%s_lag%zu": "%s", name, lag + 1);
        json_object_set_new (object, key, s_json_figure (&figures [lag]));
    }
}

static json_t *
s_json_parts (const audit_parts_t *parts)
{
    json_t *list = json_array ();
    for (size_t index = 0; index < parts->count; index++) {
        const audit_part_t *part = &parts->part [index];
        json_t *entry = json_pack ("{s:o, s:I, s:I}", "file", utf8_json (part->name),
            "samples_least", (json_int_t) part->samples_least,
            "samples_most", (json_int_t) part->samples_most);
        s_json_lags (entry, "own_phi2", part->own_phi2);
        json_array_append_new (list, entry);
    }
    json_t *object = json_pack ("{s:o, s:I, s:o}", "files", list, "groups", (json_int_t) parts->groups,
        "uneven", s_json_figure (&parts->uneven));
    s_json_lags (object, "own_phi2", parts->own_phi2);
    s_json_lags (object, "stay", parts->stay);
    return object;
}

static json_t *
s_json_job (const audit_job_t *job)
{
    static const char *const once [] = { [AUDIT_ONCE] = "yes", [AUDIT_AT_MOST_ONCE] = "at_most",
        [AUDIT_NOT_ONCE] = "no" };
    json_t *object = json_pack ("{s:o, s:I, s:I, s:I, s:s, s:o, s:o, s:o, s:o}",
        "file", utf8_json (job->name), "epochs", (json_int_t) job->epochs,
        "unfinished", (json_int_t) job->unfinished, "samples", (json_int_t) job->samples,
        "exactly_once", once [job->once],
        "t5h5", s_json_figure (&job->t5h5), "pair_repeat", s_json_figure (&job->pair_repeat),
        "id_correlation", s_json_figure (&job->id_correlation), "id_phi2", s_json_figure (&job->id_phi2));
    s_json_lags (object, "phi2", job->phi2);
    if (job->parts)
        json_object_set_new (object, "ranks", s_json_parts (job->parts));
    return object;
}

static json_t *
s_json_finding (const audit_t *audit, const audit_finding_t *finding)
{
    json_t *epochs = json_array ();
    for (size_t index = 0; index < finding->epoch_count; index++)
        json_array_append_new (epochs, json_integer ((json_int_t) finding->epochs [index]));
    json_t *object = json_pack ("{s:o, s:o, s:o, s:s, s:o, s:o}",
        "file", utf8_json (audit_job (audit, finding->job)->name),
        "epoch", finding->epoch_count? json_integer ((json_int_t) finding->worst): json_null (),
        "epochs", epochs, "kind", audit_kind_name (finding->kind),
        "p", isnan (finding->p)? json_null (): json_real (finding->p),
        "message", utf8_json (finding->text));
    if (finding->other != finding->job)
        json_object_set_new (object, "other", utf8_json (audit_job (audit, finding->other)->name));
    return object;
}

static void
s_print_json (const audit_t *audit)
{
    json_t *files = json_array (), *faults = json_array (), *notes = json_array ();
    for (size_t index = 0; index < audit_job_count (audit); index++)
        json_array_append_new (files, s_json_job (audit_job (audit, index)));
    for (size_t index = 0; index < audit_finding_count (audit); index++)
        json_array_append_new (index < audit_fault_count (audit)? faults: notes,
            s_json_finding (audit, audit_finding (audit, index)));
    json_t *root = json_pack ("{s:b, s:I, s:f, s:o, s:o, s:o}", "clean", audit_fault_count (audit) == 0,
        "tests", (json_int_t) audit_test_count (audit), "bound", audit_bound (audit), "files", files,
        "faults", faults, "notes", notes);
    assert (root);
    json_dumpf (root, stdout, JSON_REAL_PRECISION (9));
    putchar ('\n');
    json_decref (root);
}

//  --------------------------------------------------------------------------

static bool
s_read_file (audit_t *audit, const char *path)
{
    char error [ERROR_BYTES];
    FILE *file = file_stream (path);
    if (!file && errno == ENOENT)
        return complain ("audit", "there is no file '%s': %s", path, location_remedy (path));
    if (!file && errno == EISDIR)
        return complain ("audit", "%s: a folder, not a file of ids", path);
    if (!file)
        return complain ("audit", "%s: %s", path, file_error (errno));
    bool fine = audit_input_ids (audit, path, file, error, sizeof error);
    fclose (file);
    return fine || complain ("audit", "%s", error);
}

static bool
s_cut_pack (audit_input_groups_t *grouping, const char *path)
{
    char error [PACK_REPORT_ERROR_BYTES];
    int status;
    catalogue_t *catalogue = pack_report_open (path, NULL, &status, error);
    if (!catalogue)
        return complain ("audit", "--groups: %s", error);
    const pack_t *pack = catalogue_pack (catalogue);
    bool fine = audit_input_chunks (grouping, pack_order (pack), pack_samples (pack),
        pack_chunk_samples (pack));
    catalogue_destroy (&catalogue);
    return fine || complain ("audit", "out of memory");
}

static bool
s_read_groups (audit_input_groups_t *grouping, const char *path)
{
    char error [ERROR_BYTES];
    struct stat info;
    if (stat (path, &info) == 0 && S_ISDIR (info.st_mode))
        return s_cut_pack (grouping, path);
    FILE *file = fopen (path, "re");
    if (!file)
        return complain ("audit", "--groups: %s: %s", path, strerror (errno));
    bool fine = audit_input_groups (grouping, path, file, error, sizeof error);
    fclose (file);
    return fine || complain ("audit", "--groups: %s", error);
}

static int
s_run (const arguments_t *arguments)
{
    int status = EXIT_UNUSABLE;
    audit_input_groups_t grouping = { .count = 0 };
    audit_t *audit = audit_new (arguments->samples);
    bool fine = audit || complain ("audit", "out of memory");
    if (fine && arguments->groups) {
        fine = s_read_groups (&grouping, arguments->groups);
        if (fine)
            audit_set_groups (audit, &grouping.members, grouping.count, (const char *const *) grouping.names,
                grouping.group_count);
    }
    if (fine && arguments->held)
        audit_test_held (audit);
    for (size_t index = 0; fine && index < arguments->path_count; index++)
        fine = s_read_file (audit, arguments->paths [index]);
    if (fine && arguments->ranks && audit_join (audit))
        fine = complain ("audit", "out of memory");
    if (fine && audit_run (audit))
        fine = complain ("audit", "out of memory; audit fewer files at a time");
    if (fine) {
        (arguments->json? s_print_json: s_print) (audit);
        status = audit_fault_count (audit)? EXIT_FAULTS: EXIT_SUCCESS;
    }
    audit_destroy (&audit);
    audit_input_clear (&grouping);
    return status;
}

int
command_audit (int argc, char **argv)
{
    complain_begin ();
    arguments_t arguments = { 0 };
    int status = s_parse (&arguments, argc, argv);
    if (status < 0)
        status = s_run (&arguments);
    //  Exit status 1 is for faults: what could not be written is no answer.
    int ended = complain_of_output ("audit", status);
    return ended == status? status: EXIT_UNUSABLE;
}
