/*  splits -- names of files and folders that tell a data set's split: train, val, test and the like; names
 *  that tell images from their masks; and what is wrong with folders and labels files that have such names.
 *
 *  The words and the characters around them are those of the library `datasets`, which
 *  clients/python/tureen/splits.py has as well; tests/clients/test_python_splits.py compares the two.
 */
#ifndef SPLITS_H
#define SPLITS_H
#include <stdbool.h>
#include <stddef.h>

typedef enum { SPLIT_NONE, SPLIT_TRAIN, SPLIT_VALIDATION, SPLIT_TEST } split_kind_t;

//  A name or a path, and the last word in it that tells a split; the text is lent.
typedef struct {
    const char *text;
    size_t length;
    size_t begin, end;                  //  of the word
    split_kind_t kind;                  //  SPLIT_NONE: there is no word
} split_name_t;

split_name_t splits_read (const char *text, size_t length);
//  Whether the name is the word and nothing else but digits.
bool splits_is_plain (const split_name_t *name);
//  Whether two names that have a word are the same but for it and for digits: "a/train-01" and "a/val-02".
bool splits_are_of_one (const split_name_t *left, const split_name_t *right);


//  ---- folders beside each other

//  Folders of images and of what belongs to each image, beside each other: images/ and masks/, leftImg8bit/
//  and gtFine/, JPEGImages/ and SegmentationClass/.
//
//  Classes may have files of the same names, and a class may be called "mask": two folders are a pair only if
//  their names and the names of nearly all files say so.

typedef struct {
    const char *text;
    size_t length;
} pair_name_t;

//  Whether this may be the folder of what belongs to images: "masks", "train_masks".  Then *begin_p is how
//  the folder of those images begins: "", "train".
bool splits_is_partner (pair_name_t folder, pair_name_t *begin_p);
//  Whether these may be the folder of images, and that of what belongs to them: "images" and "masks",
//  "train_images" (or "train") and "train_masks".
bool splits_are_pairs_by_name (pair_name_t images, pair_name_t partners);

#endif
