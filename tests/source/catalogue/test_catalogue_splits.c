/*  Folders that are splits of a data set do not become its classes; classes that are called like splits stay.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "data_folder.h"
#include "seed.h"
#include "splits.h"

//  Makes the files "a/1.jpg b/2.jpg" in a folder of that name.
static const char *
folder_of (void *state, const char *name, const char *files)
{
    char list [1000], path [300];
    assert_true (strlen (files) < sizeof list);
    strcpy (list, files);
    for (char *rest = list, *file; (file = strtok_r (rest, " ", &rest)); ) {
        snprintf (path, sizeof path, "%s/%s", name, file);
        make_file (state, path, 1);
    }
    return in (state, name);
}

//  Guards: ROOT in place of ROOT/train, as torchvision's reference data lie, is refused with both folders.
static void
test_splits_are_refused (void **state)
{
    static const struct { const char *files, *what, *remedy; } cases [] = {
        { "train/cat/1.jpg train/dog/2.jpg val/cat/3.jpg val/dog/4.jpg", "'train' and 'val'", "/val' as an" },
        { "train/1.jpg val/2.jpg", "'train' and 'val' in", "/train', and '" },
        { "train/a/1.jpg test/a/1.jpg b/1.jpg c/1.jpg", "'train' and 'test' in", "labels.tsv" },     //  half
        { "dev/a/1.jpg test/a/1.jpg Train/a/1.jpg", "'Train' and 'dev' in", "labels.tsv" },
        { "training_set/a/1.jpg test_set/a/2.jpg", "'training_set' and 'test_set' in", "/test_set' as an" },
        { "train2017/1.jpg val2014/2.jpg", "'train2017' and 'val2014' in", "labels.tsv" },
        { "seg_train/a/1.jpg seg_test/a/1.jpg seg_pred/1.jpg", "'seg_train' and 'seg_test' in", "" },
        { "test_tube/a/1.jpg train/a/1.jpg val/a/1.jpg", "'train' and 'val' in", "labels.tsv" },
        { "data/train/a/1.jpg data/valid/a/1.jpg", "'data/train' and 'data/valid' in", "labels.tsv" },
        { "images/train/1.jpg images/val/1.jpg labels/train/1.txt", "'images/train' and 'images/val'", "" },
        { "train/cat/1.jpg train/dog/2.jpg", "'train' in", "it would become the only class: give '" },
        { "data/train/cat/1.jpg data/train/dog/2.jpg", "'data/train' in", "/data/train'" },
        { "bottle/train/good/1.jpg bottle/test/bad/2.jpg bottle/test/good/2.jpg nut/train/good/1.jpg "
            "nut/test/bad/2.jpg", "'bottle/train' and 'bottle/test' in", "the files of one split" },
        { "cat/train/1.jpg cat/val/2.jpg dog/train/3.jpg dog/val/4.jpg", "'cat/train' and 'cat/val'", "" }
    };
    char name [20];
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        snprintf (name, sizeof name, "refused%zu", index);
        catalogue_options_t options = { .path = folder_of (*state, name, cases [index].files) };
        assert_refused_with (&options, -EINVAL, cases [index].what, cases [index].remedy);
        options.allow_empty = true;
        assert_refused_with (&options, -EINVAL, cases [index].what, cases [index].remedy);
    }
}

//  Guards: one class among others, folders below classes, and unlabelled images in one folder are served.
static void
test_classes_with_such_names_stay (void **state)
{
    static const char *const good [] = {
        "test/1.jpg train/2.jpg car/3.jpg", "test/a/1.jpg car/3.jpg", "train/a/1.jpg bus/a/1.jpg car/a/1.jpg",
        "train/a/1.jpg test/a/1.jpg b/1.jpg c/1.jpg d/1.jpg", "train/1.jpg", "train/1.jpg train/a/1.jpg",
        "valid/1.jpg invalid/2.jpg", "train_station/1.jpg test_tube/1.jpg", "train/1.jpg training/2.jpg",
        "latest/a/1.jpg contest/a/1.jpg", "cat/train/1.jpg dog/2.jpg", "cat/train/1.jpg dog/train/1.jpg",
        "trainer/a/1.jpg tests/a/1.jpg", "test/a/1.jpg train/1.jpg train/a/1.jpg b/1.jpg c/1.jpg"
    };
    char name [20];
    for (size_t index = 0; index < sizeof good / sizeof *good; index++) {
        snprintf (name, sizeof name, "good%zu", index);
        catalogue_options_t options = { .path = folder_of (*state, name, good [index]) };
        catalogue_t *self = open_with (&options);
        assert_null (catalogue_warning (self, 0));
        catalogue_destroy (&self);
    }
    for (int number = 0; number < 99; number++) {
        snprintf (name, sizeof name, "many/%d/a/1.jpg", number);
        make_file (*state, name, 1);
    }
    catalogue_t *self = open_with (&(catalogue_options_t) {
        .path = folder_of (*state, "many", "test/a/1.jpg train/a/1.jpg") });
    assert_int_equal (catalogue_classes (self), 101);
    catalogue_destroy (&self);
}

//  Guards: a labels file is obeyed, and says what it mixes.
static void
test_labels_files_are_warned_of (void **state)
{
    const char *root = folder_of (*state, "list", "train/cat/1.jpg val/cat/2.jpg");
    make_text (*state, "list/labels.tsv", "path\tat\ntrain/cat/1.jpg\t0,5\nval/cat/2.jpg\t1,5\n");
    catalogue_t *self = open_with (&(catalogue_options_t) { .path = root });
    assert_non_null (strstr (catalogue_warning (self, 0), "'0,5'"));
    assert_string_equal (catalogue_warning (self, 1),
        "'train' and 'val' are splits by their names, and their "
        "files are one data set: if that is not meant, make one of each");
    assert_null (catalogue_warning (self, 2));
    catalogue_destroy (&self);
    make_text (*state, "list/labels.tsv", "path\tat\ntrain/cat/1.jpg\t0.5\n");
    self = open_with (&(catalogue_options_t) { .path = root });
    assert_null (catalogue_warning (self, 0));
    catalogue_destroy (&self);
}

//  Guards: images beside their masks, as Cityscapes, VOC and others lie, do not become classes.
static void
test_pairs_are_refused (void **state)
{
    static const struct { const char *files, *what, *remedy; } cases [] = {
        { "leftImg8bit/train/ulm/ulm_0_1_leftImg8bit.png leftImg8bit/train/ulm/ulm_0_2_leftImg8bit.png "
            "gtFine/train/ulm/ulm_0_1_gtFine_color.png gtFine/train/ulm/ulm_0_1_gtFine_labelIds.png "
            "gtFine/train/ulm/ulm_0_2_gtFine_color.png", "'leftImg8bit' and 'gtFine' in", "/gtFine' (" },
        { "VOC2012/JPEGImages/1.jpg VOC2012/JPEGImages/2.jpg VOC2012/SegmentationClass/2.png",
            "'VOC2012/JPEGImages' and 'VOC2012/SegmentationClass' in", "labels.tsv" },
        { "images/a/1.jpg images/b/2.jpg Masks/a/1.png Masks/b/2.png", "'images' and 'Masks'", "/images'" },
        { "train/1.jpg train/2.jpg train_masks/1_mask.png train_masks/2_mask.png",
            "'train' and 'train_masks' in", "/train_masks' (--field), with files of the same names" },
        { "tra/9.jpg train/1.jpg train-x/9.jpg train_a/9.jpg train_masks/1_mask.png trainz/9.jpg",
            "'train' and 'train_masks' in", "/train_masks'" },
        { "images/train/1.jpg images/val/2.jpg labels/train/1.png labels/val/2.png",
            "'images' and 'labels' in", "/labels'" },
        { "COVID/images/1.jpg COVID/masks/1.png Normal/images/2.jpg Normal/masks/2.png",
            "'COVID/images' and 'COVID/masks' in", "all would be samples: name the images" },
        { "cat/1.jpg image/1.jpg mask/1.jpg", "'image' and 'mask'", "if they are classes, name the files" }
    };
    char name [20];
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        snprintf (name, sizeof name, "pairs%zu", index);
        catalogue_options_t options = { .path = folder_of (*state, name, cases [index].files) };
        assert_refused_with (&options, -EINVAL, cases [index].what, cases [index].remedy);
        assert_refused_with (&options, -EINVAL, cases [index].what, "belong together by their names");
    }
    //  A list says what is a sample.
    make_text (*state, "pairs2/labels.tsv", "path\nimages/a/1.jpg\nMasks/a/1.png\n");
    catalogue_t *self = open_with (&(catalogue_options_t) { .path = in (*state, "pairs2") });
    catalogue_destroy (&self);
}

//  Guards: classes have files of the same names, and are called like halves of samples, and stay.
static void
test_classes_like_pairs_stay (void **state)
{
    static const char *const good [] = {
        "cat/0001.jpg cat/0002.jpg dog/0001.jpg dog/0002.jpg", "mask/1.jpg no_mask/1.jpg",
        "with_mask/1.jpg without_mask/1.jpg", "image/1.jpg label/2.jpg table/1.jpg",
        "images/img_1.jpg images/img_2.jpg masks/img_3.jpg masks/img_4.jpg",
        "images/1.jpg images/2.jpg masks/1.jpg masks/8.jpg masks/9.jpg", "depth/1.jpg cat/1.jpg",
        "train_images/1.jpg cat_masks/1.jpg", "leftImg8bit/ulm/1.png", "a/images/1.jpg b/masks/2.jpg",
        "images/a_1.jpg images/b_1.jpg masks/c_1.jpg"
    };
    char name [20];
    for (size_t index = 0; index < sizeof good / sizeof *good; index++) {
        snprintf (name, sizeof name, "halves%zu", index);
        catalogue_t *self = open_with (&(catalogue_options_t) {
            .path = folder_of (*state, name, good [index]) });
        catalogue_destroy (&self);
    }
}

//  Guards: of thousands of folders beside their masks sixteen are looked at: the time grows with the samples,
//  not with their square.
static void
test_sixteen_pairs_are_looked_at (void **state)
{
    char name [20], path [60];
    for (int before = 15; before <= 16; before++) {
        snprintf (name, sizeof name, "beside%d", before);
        for (int number = 0; number <= before; number++)
            for (int is_mask = 0; is_mask < 2; is_mask++) {
                snprintf (path, sizeof path, "%s/c%02d%s/%s.jpg", name, number, is_mask? "_mask": "",
                    is_mask && number < before? "other": "same");
                make_file (*state, path, 1);
            }
        catalogue_options_t options = { .path = in (*state, name) };
        if (before == 15)
            assert_refused_with (&options, -EINVAL, "'c15' and 'c15_mask'", "if they are classes");
        else {
            catalogue_t *self = open_with (&options);
            catalogue_destroy (&self);
        }
    }
}

//  Guards: two names that make a pair begin as the partner's name says: others are not compared.
static void
test_names_of_a_pair_begin_alike (void **state)
{
    (void) state;
    static const char *const pieces [] = { "a", "b", "train", "images", "Image", "img", "masks", "Mask", "gt",
        "-", "_", "_", "" };
    enum { PIECES = sizeof pieces / sizeof *pieces, ROUNDS = 50000 };
    uint64_t random = test_seed ();
    unsigned pairs = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        const char *stem = pieces [test_below (&random, PIECES)];
        char names [2] [64];
        pair_name_t pair [2], begin;
        for (int side = 0; side < 2; side++) {
            int length = snprintf (names [side], sizeof names [side], "%s%s%s", stem,
                pieces [test_below (&random, PIECES)], pieces [test_below (&random, PIECES)]);
            pair [side] = (pair_name_t) { names [side], (size_t) length };
        }
        if (!splits_are_pairs_by_name (pair [0], pair [1]))
            continue;
        pairs++;
        assert_true (splits_is_partner (pair [1], &begin));
        assert_true (pair [0].length >= begin.length);
        assert_memory_equal (pair [0].text, begin.text, begin.length);
    }
    assert_true (pairs > 100);
}

//  Guards: a column of the labels file that splits the samples is warned of; one of one kind, of many texts
//  or of numbers is not.
static void
test_columns_are_warned_of (void **state)
{
    static const struct { const char *column, *first, *second, *third; bool warns; } cases [] = {
        { "split", "train", "train", "test", true }, { "Split", "val", "extra", "val", true },
        { "partition", "", "test2017", "", true }, { "split", "train", "train", "train", false },
        { "subset", "train-clean-100", "train-clean-360", "train", false },
        { "split", "1", "2", "3", false }, { "split", "ripe", "rotten", "raw", false },
        { "caption", "train", "test", "val", false }
    };
    const char *root = folder_of (*state, "list", "a/1.jpg a/2.jpg a/3.jpg");
    char text [400];
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        snprintf (text, sizeof text, "path\t%s\na/1.jpg\t%s\na/2.jpg\t%s\na/3.jpg\t%s\n",
            cases [index].column, cases [index].first, cases [index].second, cases [index].third);
        make_text (*state, "list/labels.tsv", text);
        catalogue_t *self = open_with (&(catalogue_options_t) { .path = root });
        const char *warning = catalogue_warning (self, 0);
        assert_int_equal (warning != NULL, cases [index].warns);
        if (index == 0)
            assert_string_equal (warning,
                "by the column 'split' samples are of several splits, as 'train' and "
                "'test', and all are one data set: if that is not meant, make one of each, or give each job "
                "a subset");
        catalogue_destroy (&self);
    }
}

static void
test_many_texts_are_no_splits (void **state)
{
    char text [4000] = "path\tsplit\n", path [40];
    for (int number = 0; number < 18; number++) {
        snprintf (path, sizeof path, "many/a/%d.jpg", number);
        make_file (*state, path, 1);
        snprintf (text + strlen (text), sizeof text - strlen (text), "a/%d.jpg\t%s %d\n", number,
            number % 2? "train": "test", number);
    }
    make_text (*state, "many/labels.tsv", text);
    catalogue_t *self = open_with (&(catalogue_options_t) { .path = in (*state, "many") });
    assert_null (catalogue_warning (self, 0));
    catalogue_destroy (&self);
}

static void
test_words (void **state)
{
    (void) state;
    static const struct { const char *name; split_kind_t kind; bool is_plain; } cases [] = {
        { "train", SPLIT_TRAIN, true }, { "VAL", SPLIT_VALIDATION, true }, { "test2017", SPLIT_TEST, true },
        { "a-train-000.tar", SPLIT_TRAIN, false }, { "/test/x/dev.tar", SPLIT_VALIDATION, false },
        { "split=eval", SPLIT_TEST, false }, { "", SPLIT_NONE, false }, { "retrain", SPLIT_NONE, false },
        { "trains", SPLIT_NONE, false }, { "---", SPLIT_NONE, false }, { "2017", SPLIT_NONE, false }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        split_name_t name = splits_read (cases [index].name, strlen (cases [index].name));
        assert_int_equal (name.kind, cases [index].kind);
        assert_int_equal (splits_is_plain (&name), cases [index].is_plain);
    }
    split_name_t left = splits_read ("a/train-01", 10), right = splits_read ("a/val-2", 7);
    assert_true (splits_are_of_one (&left, &right));
    right = splits_read ("b/val-2", 7);
    assert_false (splits_are_of_one (&left, &right));
    right = splits_read ("a/val-2.", 8);
    assert_false (splits_are_of_one (&left, &right));
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_splits_are_refused, begin, end),
        cmocka_unit_test_setup_teardown (test_classes_with_such_names_stay, begin, end),
        cmocka_unit_test_setup_teardown (test_labels_files_are_warned_of, begin, end),
        cmocka_unit_test_setup_teardown (test_pairs_are_refused, begin, end),
        cmocka_unit_test_setup_teardown (test_classes_like_pairs_stay, begin, end),
        cmocka_unit_test_setup_teardown (test_sixteen_pairs_are_looked_at, begin, end),
        cmocka_unit_test (test_names_of_a_pair_begin_alike),
        cmocka_unit_test_setup_teardown (test_columns_are_warned_of, begin, end),
        cmocka_unit_test_setup_teardown (test_many_texts_are_no_splits, begin, end),
        cmocka_unit_test (test_words),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
