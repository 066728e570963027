#include "answer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "utf8.h"
#include "words.h"

//  What follows returns false where there is no memory for a member.
static bool s_make_visible (json_t *value);

//  Keys are shown too, as names of stages and of labels are.
static bool
s_make_members_visible (json_t *object)
{
    const char *key;
    json_t *member, *shown = json_object ();
    bool is_done = shown;
    json_object_foreach (object, key, member) {
        char *visible = utf8_all_visible (key);
        is_done = is_done && s_make_visible (member) && json_object_set (shown, visible, member) == 0;
        free (visible);
    }
    is_done = is_done && json_object_clear (object) == 0 && json_object_update (object, shown) == 0;
    json_decref (shown);
    return is_done;
}

static bool
s_make_visible (json_t *value)
{
    json_t *member;
    size_t index;
    bool is_done = true;
    if (json_is_string (value)) {
        char *visible = utf8_all_visible (json_string_value (value));
        is_done = json_string_set (value, visible) == 0;
        free (visible);
    }
    json_array_foreach (value, index, member)
        is_done = is_done && s_make_visible (member);
    return is_done && (!json_is_object (value) || s_make_members_visible (value));
}

json_t *
answer_parse (const char *text, char *error, size_t error_bytes)
{
    json_error_t at;
    json_t *answer = json_loads (text, 0, &at);
    if (answer && s_make_visible (answer))
        return answer;
    bool is_json = answer || json_error_code (&at) == json_error_out_of_memory;
    snprintf (error, error_bytes, is_json? "there is no memory for what the server answers":
        "what the server answers is no JSON");
    json_decref (answer);
    return NULL;
}

double
answer_real (const json_t *object, const char *key)
{
    return json_number_value (json_object_get (object, key));
}

const char *
answer_text (const json_t *object, const char *key)
{
    const char *text = json_string_value (json_object_get (object, key));
    return text? text: "";
}

//  ---- sampling trees

enum { LINES_JOBS = 8, WORDS_JOBS = 3 };

static const json_t *
s_list (const json_t *object, const char *key)
{
    const json_t *list = json_object_get (object, key);
    return json_is_array (list)? list: NULL;
}

size_t
answer_tree_jobs (const json_t *tree)
{
    return json_array_size (s_list (tree, "vertices")) + json_array_size (s_list (tree, "off_path"));
}

double
answer_tree_remaining (const json_t *tree, double job)
{
    size_t index;
    const json_t *item;
    json_array_foreach (s_list (tree, "vertices"), index, item)
        if (answer_real (json_object_get (item, "leaf"), "job") == job)
            return answer_real (json_object_get (item, "leaf"), "remaining");
    json_array_foreach (s_list (tree, "off_path"), index, item)
        if (answer_real (item, "job") == job)
            return answer_real (item, "remaining");
    return -1;
}

const json_t *
answer_tree_of (const json_t *status, double job)
{
    size_t index, number;
    const json_t *dataset, *tree;
    json_array_foreach (s_list (status, "datasets"), index, dataset)
        json_array_foreach (s_list (dataset, "sharing_trees"), number, tree)
            if (answer_tree_remaining (tree, job) >= 0)
                return tree;
    return NULL;
}

double
answer_tree_common (const json_t *tree, double job, double other)
{
    const json_t *pairs = json_object_get (tree, "pairs"), *item;
    size_t index, none = json_array_size (s_list (pairs, "jobs")), a = none, b = none;
    json_array_foreach (s_list (pairs, "jobs"), index, item) {
        a = json_number_value (item) == job? index: a;
        b = json_number_value (item) == other? index: b;
    }
    if (a == b || a == none || b == none)
        return -1;
    item = json_array_get (json_array_get (s_list (pairs, "common"), a > b? a: b), a > b? b: a);
    return json_is_number (item)? json_number_value (item): -1;
}

//  The job that shares most with this one of those that share less than `below`, or as much and come later.
static double
s_next (const json_t *tree, double job, double below, double after)
{
    size_t index;
    const json_t *item;
    double found = -1, most = -1;
    json_array_foreach (s_list (json_object_get (tree, "pairs"), "jobs"), index, item) {
        double other = json_number_value (item), common = answer_tree_common (tree, job, other);
        bool is_later = common < below || (common == below && other > after);
        if (common >= 0 && is_later && (common > most || (common == most && other < found))) {
            most = common;
            found = other;
        }
    }
    return found;
}

double
answer_tree_most (const json_t *tree, double job)
{
    return s_next (tree, job, 1e300, -1);
}

//  "": it has none.
static const char *
s_own_name (const json_t *status, double job)
{
    size_t index;
    const json_t *item;
    json_array_foreach (s_list (status, "jobs"), index, item)
        if (answer_real (item, "job") == job && *answer_text (item, "name"))
            return answer_text (item, "name");
    return "";
}

const char *
answer_tree_name (const json_t *status, double job, char text [ANSWER_TREE_NAME_BYTES])
{
    const char *own = s_own_name (status, job);
    //  Such a name could be taken for another job's number.
    bool is_number = strncmp (own, "job ", 4) == 0 && own [4 + strspn (own + 4, "0123456789")] == 0;
    if (!*own)
        snprintf (text, ANSWER_TREE_NAME_BYTES, "job %.0f", job);
    else
        snprintf (text, ANSWER_TREE_NAME_BYTES, is_number? "'%s'": "%s", own);
    return text;
}

//  Of the tree's pairs, and where it is not kept of its vertices and leaves.
static bool
s_is_estimated (const json_t *tree)
{
    return answer_real (tree, "looked_at") < answer_real (tree, "ids");
}

static bool
s_is_kept (const json_t *tree)
{
    return json_is_true (json_object_get (tree, "kept"));
}

void
answer_tree_words (const json_t *status, double job, char *text, size_t text_bytes)
{
    const json_t *tree = answer_tree_of (status, job);
    double remaining = answer_tree_remaining (tree, job), below = 1e300, after = -1;
    text [0] = 0;
    for (size_t turn = 0; turn < WORDS_JOBS && remaining > 0; turn++) {
        char name [ANSWER_TREE_NAME_BYTES];
        double other = s_next (tree, job, below, after), common = answer_tree_common (tree, job, other);
        if (common <= 0)
            break;
        append (text, text_bytes, turn? ", %s %s%.0f %%": "of what this job has to draw, %s needs %s%.0f %%",
            answer_tree_name (status, other, name), s_is_estimated (tree)? "about ": "",
            100 * common / remaining);
        below = common;
        after = other;
    }
}

//  The pair that shares most.
static double
s_largest_pair (const json_t *tree, double *one_p, double *other_p)
{
    size_t index;
    const json_t *item;
    double most = -1;
    json_array_foreach (s_list (json_object_get (tree, "pairs"), "jobs"), index, item) {
        double job = json_number_value (item), other = answer_tree_most (tree, job);
        double common = answer_tree_common (tree, job, other);
        if (common <= most)
            continue;
        most = common;
        *one_p = job;
        *other_p = other;
    }
    return most;
}

void
answer_tree_summary (const json_t *status, const json_t *dataset, char *text, size_t text_bytes)
{
    size_t index;
    const json_t *tree;
    text [0] = 0;
    json_array_foreach (s_list (dataset, "sharing_trees"), index, tree) {
        char name [ANSWER_TREE_NAME_BYTES], beside [ANSWER_TREE_NAME_BYTES];
        double one = 0, other = 0;
        if (answer_tree_jobs (tree) < 2)
            continue;
        size_t jobs = answer_tree_jobs (tree), on_path = json_array_size (s_list (tree, "vertices"));
        const json_t *all = json_object_get (json_array_get (s_list (tree, "vertices"), 0), "size");
        double most = s_largest_pair (tree, &one, &other), size = json_number_value (all);
        const char *about = s_is_estimated (tree)? "about ": "";
        append (text, text_bytes, "%s%zu jobs", *text? ". ": "", jobs);
        bool is_told = json_is_number (all) && on_path > 1;
        if (is_told)
            append (text, text_bytes, "; %s%.0f sample%s still needed by ", s_is_kept (tree)? "": about, size,
                size == 1? " is": "s are");
        if (is_told && on_path == jobs)
            append (text, text_bytes, jobs == 2? "both": "all");
        else
        if (is_told)
            append (text, text_bytes, "%zu of them", on_path);
        if (most > 0)
            append (text, text_bytes, "; %s and %s share most: %s%.0f", answer_tree_name (status, one, name),
                answer_tree_name (status, other, beside), about, most);
    }
}

//  "about 20", "not known how many".
static void
s_print_size (const json_t *size, bool is_estimated)
{
    if (json_is_null (size))
        printf ("not known how many");
    else
        printf ("%s%.0f", is_estimated? "about ": "", json_number_value (size));
}

static void
s_print_vertex (const json_t *tree, const json_t *vertex, size_t place, size_t depth)
{
    double jobs = answer_real (vertex, "jobs");
    printf ("    %*s", 2 * (int) depth, "");
    s_print_size (json_object_get (vertex, "size"), s_is_estimated (tree) && !s_is_kept (tree));
    printf ("%s by ", place? " more": "");
    if (jobs == 2)
        printf ("both jobs%s\n", place? " below": "");
    else
        printf ("all %.0f jobs%s\n", jobs, place? " below": "");
}

//  The last vertex is its job's alone, as leaves are.
static void
s_print_leaf (const json_t *status, const json_t *tree, const json_t *vertex, size_t depth)
{
    const json_t *leaf = json_object_get (vertex, "leaf"), *size = json_object_get (leaf, "size"),
        *last = answer_real (vertex, "jobs") == 1? json_object_get (vertex, "size"): NULL;
    double job = answer_real (leaf, "job"), most = answer_tree_most (tree, job);
    const char *about = s_is_estimated (tree)? "about ": "", *own = s_own_name (status, job);
    printf ("    %*s- job %.0f", 2 * (int) depth, "", job);
    if (*own)
        printf (" (%s)", own);
    printf (": %.0f to draw, ", answer_real (leaf, "remaining"));
    if (json_is_null (size) || json_is_null (last))
        printf ("not known how many in its leaf");
    else
        printf ("%s%.0f in its leaf", s_is_kept (tree)? "": about,
            json_number_value (size) + json_number_value (last));
    if (most >= 0)
        printf ("; most with job %.0f: %s%.0f", most, about, answer_tree_common (tree, job, most));
    printf ("\n");
}

static void
s_print_tree (const json_t *status, const json_t *tree)
{
    size_t place, depth = 0;
    const json_t *vertex, *off;
    printf ("  who shares what: samples that %zu jobs still have to draw (%s", answer_tree_jobs (tree),
        s_is_kept (tree)? "the tree that draws are made from": "no tree is kept; made for this answer");
    if (s_is_estimated (tree))
        printf (s_is_kept (tree)? "; pairs estimated from %.0f": "; estimated from %.0f",
            answer_real (tree, "looked_at"));
    printf (")\n");
    json_array_foreach (s_list (tree, "vertices"), place, vertex) {
        const json_t *size = json_object_get (vertex, "size");
        if (place == LINES_JOBS)
            break;
        //  The last vertex stands in its job's line.
        if (answer_real (vertex, "jobs") != 1
                && (place == 0 || json_is_null (size) || json_number_value (size) > 0)) {
            depth += place > 0;
            s_print_vertex (tree, vertex, place, depth);
        }
        s_print_leaf (status, tree, vertex, depth);
    }
    if (json_array_size (s_list (tree, "vertices")) > LINES_JOBS)
        printf ("    and %zu more: `tureen status --json`, or the page (serve --http)\n",
            json_array_size (s_list (tree, "vertices")) - LINES_JOBS);
    json_array_foreach (s_list (tree, "off_path"), place, off)
        printf ("%s%.0f", place? ", ": "    beside the tree now, drawing alone: job ",
            answer_real (off, "job"));
    if (place > 0)
        printf ("\n");
}

void
answer_tree_print (const json_t *status, const json_t *dataset)
{
    size_t index;
    const json_t *tree;
    json_array_foreach (s_list (dataset, "sharing_trees"), index, tree)
        if (answer_tree_jobs (tree) > 1)
            s_print_tree (status, tree);
}


//  ---- what --memory holds and saves

enum { FIGURE_BYTES = 32, NAME_BYTES = 80, DATASETS_TOLD = 3 };

static const char *
s_size (double bytes, char text [FIGURE_BYTES])
{
    static const char *const units [] = { "kB", "MB", "GB", "TB" };
    size_t unit = 0;
    for (bytes /= 1e3; bytes >= 999.5 && unit < 3; unit++)
        bytes /= 1e3;
    snprintf (text, FIGURE_BYTES, bytes < 9.95? "%.1f %s": "%.0f %s", bytes, units [unit]);
    return text;
}

static const char *
s_percent (double part, double all, char text [FIGURE_BYTES])
{
    double percent = all > 0? 100 * part / all: 0;
    snprintf (text, FIGURE_BYTES, percent > 0 && percent < 0.95? "%.1f %%": "%.0f %%", percent);
    return text;
}

//  ", about 41 s of reading saved": it is measured on other reads of the same source.
static void
s_add_saved (char *text, size_t text_bytes, double seconds, const char *what)
{
    if (seconds < 0.095)
        append (text, text_bytes, ", less than 0.1 s of %s saved", what);
    else
    if (seconds < 120)
        append (text, text_bytes, seconds < 9.95? ", about %.1f s of %s saved":
            ", about %.0f s of %s saved", seconds, what);
    else
    if (seconds < 7200)
        append (text, text_bytes, ", about %.0f minutes of %s saved", seconds / 60, what);
    else
        append (text, text_bytes, ", about %.1f hours of %s saved", seconds / 3600, what);
}

//  " (54 % of photos, 20 % of val and more)".
static void
s_add_datasets (char *text, size_t text_bytes, const json_t *datasets)
{
    size_t index, told = 0;
    const json_t *dataset;
    char name [NAME_BYTES], percent [FIGURE_BYTES];
    json_array_foreach (datasets, index, dataset) {
        const json_t *pins = json_object_get (dataset, "pins");
        const char *given = answer_text (dataset, "name");
        if (!json_is_object (pins) || told++ >= DATASETS_TOLD)
            continue;
        append (text, text_bytes, "%s%s of %s", told == 1? " (": ", ", s_percent (answer_real (pins, "bytes"),
            answer_real (pins, "data_bytes"), percent), utf8_visible (given, strlen (given), name,
            sizeof name));
    }
    if (told > 0)
        append (text, text_bytes, told > DATASETS_TOLD? " and more)": ")");
}

void
answer_memory_words (const json_t *status, char *text, size_t text_bytes)
{
    const json_t *memory = json_object_get (status, "memory"), *datasets = json_object_get (status,
        "datasets"), *dataset;
    double hits = 0, all = 0, saved = 0;
    char is [FIGURE_BYTES], most [FIGURE_BYTES], more [FIGURE_BYTES];
    size_t index;
    text [0] = 0;
    if (!json_is_object (memory))
        return;
    json_array_foreach (datasets, index, dataset) {
        const json_t *pins = json_object_get (dataset, "pins");
        hits += answer_real (pins, "hit_bytes");
        all += answer_real (pins, "hit_bytes") + answer_real (pins, "miss_bytes");
        saved += answer_real (pins, "saved_seconds");
    }
    append (text, text_bytes, "memory %s: %s of %s pinned", s_size (answer_real (memory, "bytes"), more),
        s_size (answer_real (memory,
        "pinned_bytes"), is), s_size (answer_real (memory, "pins_bytes"), most));
    s_add_datasets (text, text_bytes, datasets);
    append (text, text_bytes, ", %s for mixing, %s for prepared samples", s_size (answer_real (memory,
        "mixing_bytes"), is), s_size (answer_real (memory, "prepared_bytes"), most));
    if (answer_real (memory, "pictures_bytes") > 0)
        append (text, text_bytes, ", %s of %s decoded", s_size (answer_real (memory, "decoded_bytes"), is),
            s_size (answer_real (memory, "pictures_bytes"), most));
    if (all <= 0)
        return;
    append (text, text_bytes, "; %s of the bytes read so far came from pins", s_percent (hits, all, is));
    if (hits > 0)
        s_add_saved (text, text_bytes, saved, "reading");
}

//  "; 2307 pictures decoded (1.3 GB), about 2.0 s of decoding saved", if there are any.
static void
s_add_pictures (char *text, size_t text_bytes, const json_t *pictures)
{
    char size [FIGURE_BYTES];
    if (answer_real (pictures, "count") <= 0)
        return;
    append (text, text_bytes, "; %.0f picture%s decoded (%s)", answer_real (pictures, "count"),
        answer_real (pictures, "count") == 1? "": "s", s_size (answer_real (pictures, "bytes"), size));
    s_add_saved (text, text_bytes, answer_real (pictures, "saved_seconds"), "decoding");
}

static void
s_add_pins (char *text, size_t text_bytes, const json_t *pins)
{
    double hits = answer_real (pins, "hit_bytes"), all = hits + answer_real (pins, "miss_bytes");
    char size [FIGURE_BYTES], percent [FIGURE_BYTES];
    append (text, text_bytes, "pinned %s, %s of it", s_size (answer_real (pins, "bytes"), size),
        s_percent (answer_real (pins, "bytes"), answer_real (pins, "data_bytes"), percent));
    if (all <= 0)
        return;
    append (text, text_bytes, "; %s of the bytes read so far came from there", s_percent (hits, all,
        percent));
    if (hits > 0) {
        append (text, text_bytes, " (%s)", s_size (hits, size));
        s_add_saved (text, text_bytes, answer_real (pins, "saved_seconds"), "reading");
    }
}

void
answer_memory_dataset (const json_t *dataset, char *text, size_t text_bytes)
{
    const json_t *pins = json_object_get (dataset, "pins");
    text [0] = 0;
    if (!json_is_object (pins))
        return;
    s_add_pins (text, text_bytes, pins);
    s_add_pictures (text, text_bytes, json_object_get (dataset, "pictures"));
}

void
answer_memory_job (const json_t *status, const json_t *job, char *text, size_t text_bytes)
{
    const json_t *reads = json_object_get (job, "reads");
    double bytes = answer_real (reads, "epoch_bytes"), pinned = answer_real (reads, "epoch_pinned_bytes");
    char percent [FIGURE_BYTES];
    text [0] = 0;
    if (!json_is_object (json_object_get (status, "memory")) || bytes <= 0)
        return;
    append (text, text_bytes, "in epoch %.0f, %s of the bytes read for it came from pins", answer_real (reads,
        "epoch"), s_percent (pinned, bytes, percent));
    if (pinned > 0)
        s_add_saved (text, text_bytes, answer_real (reads, "epoch_saved_seconds"), "reading");
}
