#include "operation_augment.h"
#include "operation_warp.h"

enum { BINS_MAX = 1000, MIX_BINS = 10 };
static const double ALPHA_LEAST = 0.1, ALPHA_MOST = 100;

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

//  "chain_depth": a whole number, or -1, which is any of 1 to 3.
static int
s_parse_depth (operation_t *self, const operation_keys_t *keys)
{
    const json_t *value = json_object_get (keys->object, "chain_depth");
    double depth = value? json_number_value (value): -1;
    self->augment.depth = depth > 0 && depth <= MIX_DEPTH_MAX? (uint32_t) depth: 0;
    if (!value || (json_is_number (value) && (depth == -1 || (depth > 0 && self->augment.depth == depth))))
        return 0;
    return operation_keys_refuse (keys, "chain_depth", "-1 or a whole number from 1 to %d", MIX_DEPTH_MAX);
}

int
operation_augment_parse_mix (operation_t *self, const operation_keys_t *keys)
{
    self->augment.bins = MIX_BINS;
    self->augment.level = self->augment.chains = 3;
    self->augment.alpha = 1;
    self->augment.all_kinds = self->edge.is_bilinear = true;
    int rc = operation_keys_whole (keys, "severity", OPERATION_KEY_OPTIONAL, 1, MIX_BINS,
        &self->augment.level);
    rc = rc? rc: operation_keys_whole (keys, "mixture_width", OPERATION_KEY_OPTIONAL, 1, MIX_CHAINS_MAX,
        &self->augment.chains);
    rc = rc? rc: s_parse_depth (self, keys);
    rc = rc? rc: operation_keys_number (keys, "alpha", ALPHA_LEAST, ALPHA_MOST, &self->augment.alpha);
    rc = rc? rc: operation_keys_flag (keys, "all_ops", &self->augment.all_kinds);
    return rc? rc: operation_warp_parse_edge (self, keys);
}

void
operation_augment_write_mix (const operation_t *self, operation_text_t *text)
{
    const uint8_t *fill = self->edge.fill;
    operation_text_put (text, ",\"severity\":%u,\"mixture_width\":%u,\"chain_depth\":%d,\"alpha\":",
        self->augment.level, self->augment.chains, self->augment.depth? (int) self->augment.depth: -1);
    operation_text_number (text, self->augment.alpha, false);
    operation_text_flag (text, "all_ops", self->augment.all_kinds);
    operation_text_put (text, ",\"interpolation\":\"%s\",\"fill\":[%u,%u,%u]",
        self->edge.is_bilinear? "bilinear": "nearest", fill [0], fill [1], fill [2]);
}
