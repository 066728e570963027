/*  splits -- names of files and folders that tell a data set's split: train, val, test and the like.
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

#endif
