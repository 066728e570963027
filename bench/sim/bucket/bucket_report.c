#include "bucket_report.h"
#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "bucket_cache.h"

void
bucket_report_table (const bucket_question_t *question, const bucket_answer_t *answers)
{
    const bucket_store_t *store = &question->store;
    const bucket_prices_t *prices = &question->prices;
    double share = fmin (question->cache / question->data, 1);
    printf ("%.4g GB in %" PRIu32 " samples of %.4g KB; %" PRIu32 " node%s, %.4g samples/s together; a node: "
        "%.4g Gbit/s, %" PRIu32 " GETs of %.4g ms, disk for %.1f %% of the data\n",
        question->data / 1e9, question->samples, question->data / question->samples / 1e3, question->nodes,
        question->nodes == 1? "": "s", question->rate, store->link * 8 / 1e9, store->reads,
        store->latency * 1e3, 100 * share);
    printf ("%s; %s; %s\n\n", prices->name, prices->source, prices->date);
    printf ("| an epoch with full caches | GB from the store | of the data | GETs | seconds | money "
        "| first epoch: GB | seconds |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (int policy = 0; policy < BUCKET_QUESTION_POLICIES; policy++) {
        const bucket_answer_t *answer = &answers [policy];
        printf ("| %s | %.1f | %.3f | %.0f | %.0f | %.3f | %.1f | %.0f |\n", bucket_question_name (policy),
            answer->bytes / 1e9, answer->bytes / question->data, answer->gets, answer->seconds, answer->money,
            answer->first_bytes / 1e9, answer->first_seconds);
    }
    printf ("\nTaking the samples alone: %.0f seconds. ", question->samples / question->rate);
    printf ("Closed forms, of the data: pinned %.3f", fmax (1 - share * question->nodes, 0));
    if (question->nodes == 1)
        printf (", LRU %.3f", bucket_cache_lru_misses (share));
    printf (".\n");
}

static void
s_set (json_t *object, const char *key, json_t *value)
{
    int rc = json_object_set_new (object, key, value);
    assert (rc == 0);
}

static json_t *
s_json_answer (int policy, const bucket_answer_t *answer)
{
    json_t *object = json_object ();
    s_set (object, "policy", json_string (bucket_question_name (policy)));
    s_set (object, "bytes", json_real (answer->bytes));
    s_set (object, "gets", json_real (answer->gets));
    s_set (object, "lists", json_real (answer->lists));
    s_set (object, "seconds", json_real (answer->seconds));
    s_set (object, "money", json_real (answer->money));
    s_set (object, "first_bytes", json_real (answer->first_bytes));
    s_set (object, "first_seconds", json_real (answer->first_seconds));
    return object;
}

void
bucket_report_json (const bucket_question_t *question, uint64_t seed, const bucket_answer_t *answers)
{
    json_t *object = json_object (), *list = json_array ();
    for (int policy = 0; policy < BUCKET_QUESTION_POLICIES; policy++)
        json_array_append_new (list, s_json_answer (policy, &answers [policy]));
    s_set (object, "data_bytes", json_real (question->data));
    s_set (object, "samples", json_integer (question->samples));
    s_set (object, "nodes", json_integer (question->nodes));
    s_set (object, "seed", json_integer ((json_int_t) seed));
    s_set (object, "prices", json_string (question->prices.name));
    s_set (object, "prices_date", json_string (question->prices.date));
    s_set (object, "policies", list);
    char *text = json_dumps (object, JSON_INDENT (2) | JSON_REAL_PRECISION (10));
    assert (text);
    printf ("%s\n", text);
    free (text);
    json_decref (object);
}
