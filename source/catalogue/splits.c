#include "splits.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

static const struct { const char *word; split_kind_t kind; } s_words [] = {
    { "train", SPLIT_TRAIN }, { "training", SPLIT_TRAIN }, { "validation", SPLIT_VALIDATION },
    { "valid", SPLIT_VALIDATION }, { "dev", SPLIT_VALIDATION }, { "val", SPLIT_VALIDATION },
    { "test", SPLIT_TEST }, { "testing", SPLIT_TEST }, { "eval", SPLIT_TEST }, { "evaluation", SPLIT_TEST }
};
enum { WORDS = sizeof s_words / sizeof *s_words };

static bool
s_is_digit (char letter)
{
    return letter >= '0' && letter <= '9';
}

//  What may stand before and behind a word.
static bool
s_separates (char letter)
{
    return s_is_digit (letter) || (letter && strchr ("-._ =/", letter));
}

static split_kind_t
s_kind (const char *word, size_t length)
{
    for (size_t index = 0; index < WORDS; index++)
        if (strlen (s_words [index].word) == length && strncasecmp (s_words [index].word, word, length) == 0)
            return s_words [index].kind;
    return SPLIT_NONE;
}

split_name_t
splits_read (const char *text, size_t length)
{
    assert (text);
    split_name_t name = { .text = text, .length = length };
    size_t end = length;
    while (end > 0 && !name.kind) {
        while (end > 0 && s_separates (text [end - 1]))
            end--;
        size_t begin = end;
        while (begin > 0 && !s_separates (text [begin - 1]))
            begin--;
        name.kind = s_kind (text + begin, end - begin);
        name.begin = begin;
        name.end = end;
        end = begin;
    }
    return name;
}

//  The place of the next character at or behind `at` that is neither of the word nor a digit.
static size_t
s_next (const split_name_t *name, size_t at)
{
    while (at < name->length && ((at >= name->begin && at < name->end) || s_is_digit (name->text [at])))
        at++;
    return at;
}

bool
splits_is_plain (const split_name_t *name)
{
    return name->kind && s_next (name, 0) == name->length;
}

bool
splits_are_of_one (const split_name_t *left, const split_name_t *right)
{
    assert (left->kind && right->kind);
    size_t a = s_next (left, 0), b = s_next (right, 0);
    while (a < left->length && b < right->length && left->text [a] == right->text [b]) {
        a = s_next (left, a + 1);
        b = s_next (right, b + 1);
    }
    return a == left->length && b == right->length;
}
