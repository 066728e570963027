#include "operation_augment.h"
#include "operation_warp.h"

enum { BINS_MAX = 1000 };

static const char *const s_policy_words [AUGMENT_POLICIES] = { "imagenet", "cifar10", "svhn" };

//  torchvision's v2 counts the thresholds of Solarize from 1 to 0, which rounds some of them otherwise.
static int
s_parse_end (operation_t *self, const operation_keys_t *keys)
{
    int rc = operation_keys_flag (keys, "unit_threshold", &self->augment.unit_threshold);
    return rc? rc: operation_warp_parse_edge (self, keys);
}

static void
s_write_end (const operation_t *self, operation_text_t *text)
{
    operation_text_flag (text, "unit_threshold", self->augment.unit_threshold);
    operation_warp_write_edge (self, text);
}

static int
s_parse_bins (operation_t *self, const operation_keys_t *keys)
{
    self->augment.bins = 31;
    return operation_keys_whole (keys, "num_magnitude_bins", OPERATION_KEY_OPTIONAL, 2, BINS_MAX,
        &self->augment.bins);
}

int
operation_augment_parse_random (operation_t *self, const operation_keys_t *keys)
{
    self->augment.steps = 2;
    self->augment.level = 9;
    int rc = operation_keys_whole (keys, "num_ops", OPERATION_KEY_OPTIONAL, 0, AUGMENT_STEPS_MAX,
        &self->augment.steps);
    rc = rc? rc: s_parse_bins (self, keys);
    rc = rc? rc: operation_keys_whole (keys, "magnitude", OPERATION_KEY_OPTIONAL, 0, BINS_MAX - 1,
        &self->augment.level);
    if (!rc && self->augment.level >= self->augment.bins)
        return operation_complain (keys->complaint,
            "\"magnitude\" %u of %u; expected a whole number below \"num_magnitude_bins\"",
            self->augment.level, self->augment.bins);
    return rc? rc: s_parse_end (self, keys);
}

void
operation_augment_write_random (const operation_t *self, operation_text_t *text)
{
    operation_text_put (text, ",\"num_ops\":%u,\"magnitude\":%u,\"num_magnitude_bins\":%u",
        self->augment.steps, self->augment.level, self->augment.bins);
    s_write_end (self, text);
}

int
operation_augment_parse_trivial (operation_t *self, const operation_keys_t *keys)
{
    int rc = s_parse_bins (self, keys);
    return rc? rc: s_parse_end (self, keys);
}

void
operation_augment_write_trivial (const operation_t *self, operation_text_t *text)
{
    operation_text_put (text, ",\"num_magnitude_bins\":%u", self->augment.bins);
    s_write_end (self, text);
}

int
operation_augment_parse_auto (operation_t *self, const operation_keys_t *keys)
{
    unsigned word = AUGMENT_IMAGENET;
    int rc = operation_keys_word (keys, "policy", OPERATION_KEY_OPTIONAL, s_policy_words, AUGMENT_POLICIES,
        &word);
    self->augment.policy = (augment_policy_t) word;
    return rc? rc: s_parse_end (self, keys);
}

void
operation_augment_write_auto (const operation_t *self, operation_text_t *text)
{
    operation_text_put (text, ",\"policy\":\"%s\"", s_policy_words [self->augment.policy]);
    s_write_end (self, text);
}
