#include "pairs.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *const s_images [] = { "images", "image", "imgs", "img", "jpegimages", "leftimg8bit", "rgb",
    "photos", "frames", "inputs", "input", NULL };
static const char *const s_partners [] = { "masks", "mask", "labels", "label", "annotations", "annotation",
    "segmentation", "segmentations", "segmentationclass", "segmentationobject", "seg", "gtfine", "gtcoarse",
    "gt", "groundtruth", "ground_truth", "ground-truth", "trimaps", "depth", "depths", "disparity", "targets",
    "target", NULL };

static bool
s_separates (char letter)
{
    return letter && strchr ("-_. ", letter);
}

//  How many bytes stand before the word with which the name ends: 0, or up to a separator; -1: it ends with
//  none of them.
static ptrdiff_t
s_before (pair_name_t name, const char *const *words)
{
    for (size_t index = 0; words [index]; index++) {
        size_t length = strlen (words [index]);
        if (length > name.length)
            continue;
        size_t before = name.length - length;
        if (strncasecmp (name.text + before, words [index], length) == 0
        && (before == 0 || s_separates (name.text [before - 1])))
            return (ptrdiff_t) before;
    }
    return -1;
}

bool
pairs_is_partner (pair_name_t folder, pair_name_t *begin_p)
{
    ptrdiff_t before = s_before (folder, s_partners);
    *begin_p = (pair_name_t) { folder.text, before > 0? (size_t) before - 1: 0 };
    return before >= 0;
}

bool
pairs_are_by_name (pair_name_t images, pair_name_t partners)
{
    ptrdiff_t before = s_before (partners, s_partners), same = s_before (images, s_images);
    if (before < 0)
        return false;
    if (same < 0)                       //  "train" and "train_masks"
        same = (ptrdiff_t) images.length + 1;
    return same == before
        && strncmp (images.text, partners.text, images.length < (size_t) same? images.length: (size_t) same)
        == 0;
}

static int
s_compare (const void *left, const void *right)
{
    const pair_name_t *a = left, *b = right;
    int order = memcmp (a->text, b->text, a->length < b->length? a->length: b->length);
    return order? order: (a->length > b->length) - (a->length < b->length);
}

//  Cuts the last word and what separates it; a number is no such word.  False: there is none.
static bool
s_cut (pair_name_t *name)
{
    size_t end = name->length;
    while (end > 0 && !s_separates (name->text [end - 1]))
        end--;
    char first = end < name->length? name->text [end]: '0';
    if (end < 2 || (first >= '0' && first <= '9'))
        return false;
    name->length = end - 1;
    return true;
}

bool
pairs_are_by_files (pair_name_t *images, size_t image_count, const pair_name_t *partners,
    size_t partner_count)
{
    assert (images && partners);
    //  An image's own name is tried before the one without its last word ("a_leftImg8bit").
    size_t found [2] = { 0, 0 };
    for (int is_cut = 0; is_cut < 2; is_cut++) {
        for (size_t index = 0; is_cut && index < image_count; index++)
            s_cut (&images [index]);
        qsort (images, image_count, sizeof *images, s_compare);
        for (size_t index = 0; index < partner_count; index++) {
            pair_name_t name = partners [index];
            bool is_there;
            do
                is_there = bsearch (&name, images, image_count, sizeof *images, s_compare) != NULL;
            while (!is_there && s_cut (&name));
            found [is_cut] += is_there;
        }
    }
    size_t most = found [0] > found [1]? found [0]: found [1];
    return partner_count > 0 && 10 * most >= 9 * partner_count;
}
