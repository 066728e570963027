#include "memory_answer.h"
#include <stdio.h>
#include <string.h>
#include "answer.h"
#include "utf8.h"
#include "words.h"

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
s_add_saved (char *text, size_t text_bytes, double seconds)
{
    if (seconds < 0.095)
        append (text, text_bytes, ", less than 0.1 s of reading saved");
    else
    if (seconds < 120)
        append (text, text_bytes, seconds < 9.95? ", about %.1f s of reading saved":
            ", about %.0f s of reading saved", seconds);
    else
    if (seconds < 7200)
        append (text, text_bytes, ", about %.0f minutes of reading saved", seconds / 60);
    else
        append (text, text_bytes, ", about %.1f hours of reading saved", seconds / 3600);
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
memory_answer_words (const json_t *status, char *text, size_t text_bytes)
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
    if (all <= 0)
        return;
    append (text, text_bytes, "; %s of the bytes read so far came from pins", s_percent (hits, all, is));
    if (hits > 0)
        s_add_saved (text, text_bytes, saved);
}

void
memory_answer_dataset (const json_t *dataset, char *text, size_t text_bytes)
{
    const json_t *pins = json_object_get (dataset, "pins");
    double hits = answer_real (pins, "hit_bytes"), all = hits + answer_real (pins, "miss_bytes");
    char size [FIGURE_BYTES], percent [FIGURE_BYTES];
    text [0] = 0;
    if (!json_is_object (pins))
        return;
    append (text, text_bytes, "pinned %s, %s of it", s_size (answer_real (pins, "bytes"), size),
        s_percent (answer_real (pins, "bytes"), answer_real (pins, "data_bytes"), percent));
    if (all <= 0)
        return;
    append (text, text_bytes, "; %s of the bytes read so far came from there", s_percent (hits, all,
        percent));
    if (hits > 0) {
        append (text, text_bytes, " (%s)", s_size (hits, size));
        s_add_saved (text, text_bytes, answer_real (pins, "saved_seconds"));
    }
}

void
memory_answer_job (const json_t *status, const json_t *job, char *text, size_t text_bytes)
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
        s_add_saved (text, text_bytes, answer_real (reads, "epoch_saved_seconds"));
}
