/*  pairs -- folders of images and of what belongs to each image, beside each other: images/ and masks/,
 *  leftImg8bit/ and gtFine/, JPEGImages/ and SegmentationClass/.
 *
 *  Classes may have files of the same names, and a class may be called "mask": two folders are a pair only if
 *  their names and the names of nearly all files say so.
 */
#ifndef PAIRS_H
#define PAIRS_H
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    const char *text;
    size_t length;
} pair_name_t;

//  Whether this may be the folder of what belongs to images: "masks", "train_masks".  Then *begin_p is how
//  the folder of those images begins: "", "train".
bool pairs_is_partner (pair_name_t folder, pair_name_t *begin_p);
//  Whether these may be the folder of images, and that of what belongs to them: "images" and "masks",
//  "train_images" (or "train") and "train_masks".
bool pairs_are_by_name (pair_name_t images, pair_name_t partners);
//  Whether nine of ten partners are called as an image, but for words behind that name: "a_leftImg8bit" and
//  "a_gtFine_labelIds".  The names are without extensions; images are sorted here.
bool pairs_are_by_files (pair_name_t *images, size_t image_count, const pair_name_t *partners,
    size_t partner_count);

#endif
