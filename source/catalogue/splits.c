#include "splits.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "catalogue_state.h"

//  ---- folders beside each other

static const char *const s_images [] = { "images", "image", "imgs", "img", "jpegimages", "leftimg8bit", "rgb",
    "photos", "frames", "inputs", "input", NULL };
static const char *const s_partners [] = { "masks", "mask", "labels", "label", "annotations", "annotation",
    "segmentation", "segmentations", "segmentationclass", "segmentationobject", "seg", "gtfine", "gtcoarse",
    "gt", "groundtruth", "ground_truth", "ground-truth", "trimaps", "depth", "depths", "disparity", "targets",
    "target", NULL };

static bool
s_parts (char letter)
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
        && (before == 0 || s_parts (name.text [before - 1])))
            return (ptrdiff_t) before;
    }
    return -1;
}

bool
splits_is_partner (pair_name_t folder, pair_name_t *begin_p)
{
    ptrdiff_t before = s_before (folder, s_partners);
    *begin_p = (pair_name_t) { folder.text, before > 0? (size_t) before - 1: 0 };
    return before >= 0;
}

bool
splits_are_pairs_by_name (pair_name_t images, pair_name_t partners)
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
s_compare_names (const void *left, const void *right)
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
    while (end > 0 && !s_parts (name->text [end - 1]))
        end--;
    char first = end < name->length? name->text [end]: '0';
    if (end < 2 || (first >= '0' && first <= '9'))
        return false;
    name->length = end - 1;
    return true;
}

//  Whether nine of ten partners are called as an image, but for words behind that name: "a_leftImg8bit" and
//  "a_gtFine_labelIds".  The names are without extensions; images are sorted here.
static bool
s_are_pairs_by_files (pair_name_t *images, size_t image_count, const pair_name_t *partners,
    size_t partner_count)
{
    assert (images && partners);
    //  An image's own name is tried before the one without its last word ("a_leftImg8bit").
    size_t found [2] = { 0, 0 };
    for (int is_cut = 0; is_cut < 2; is_cut++) {
        for (size_t index = 0; is_cut && index < image_count; index++)
            s_cut (&images [index]);
        qsort (images, image_count, sizeof *images, s_compare_names);
        for (size_t index = 0; index < partner_count; index++) {
            pair_name_t name = partners [index];
            bool is_there;
            do
                is_there = bsearch (&name, images, image_count, sizeof *images, s_compare_names) != NULL;
            while (!is_there && s_cut (&name));
            found [is_cut] += is_there;
        }
    }
    size_t most = found [0] > found [1]? found [0]: found [1];
    return partner_count > 0 && 10 * most >= 9 * partner_count;
}


//  ---- names that tell a split

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


//  ---- whether the folders of a data set are several splits

/*  Folders that are splits of a data set, and would become its classes:
 *  ROOT/train/CLASS and ROOT/val/CLASS; folders of images and their masks, which would too; and labels files
 *  that tell of which split each sample is.
 *
 *  The first level at which the folders differ is judged, and then the next one, for class folders with
 *  splits in them.  Names are splits if they are the same but for the word (train, val), and two kinds are
 *  there.  A word alone proves little, as a class may be called "test": all folders of the level must be
 *  splits, or at least half of them, if these have folders and no files in them.
 */

//  A folder at the level; the path is of some directory in it, or its own.
typedef struct {
    const char *path;
    size_t begin, end;                  //  its name's place in the path
    bool is_deep;                       //  no file is directly in it
} level_folder_t;

typedef struct {
    const draft_t *draft;
    catalogue_splits_source_t source;
    const char **paths;                 //  of directories with samples
    size_t path_count;
    level_folder_t *folders;            //  room for one a path
    size_t folder_count;
} level_t;


//  -- directories

//  Of those that have samples.
static int
s_find_paths (level_t *level)
{
    const catalogue_t *self = level->draft->self;
    bool *is_used = calloc (self->directory_count + 1, sizeof *is_used);
    level->paths = reallocarray (NULL, self->directory_count + 1, sizeof *level->paths);
    level->folders = reallocarray (NULL, self->directory_count + 1, sizeof *level->folders);
    for (size_t id = 0; is_used && id < self->sample_count; id++)
        is_used [self->samples [id].directory] = true;
    for (size_t index = 0; is_used && level->paths && index < self->directory_count; index++)
        if (is_used [index])
            level->paths [level->path_count++] = self->arena + self->directories [index].path;
    bool has_memory = is_used && level->paths && level->folders;
    free (is_used);
    return has_memory? 0: catalogue_fail_memory (level->draft);
}

static int
s_compare (const level_folder_t *a, const level_folder_t *b)
{
    size_t a_size = a->end - a->begin, b_size = b->end - b->begin;
    int order = memcmp (a->path + a->begin, b->path + b->begin, a_size < b_size? a_size: b_size);
    return order? order: (a_size > b_size) - (a_size < b_size);
}

//  By path where names are the same, so that an error names the first one.
static int
s_order (const void *left, const void *right)
{
    const level_folder_t *a = left, *b = right;
    int order = s_compare (a, b);
    return order? order: strcmp (a->path, b->path);
}

//  The different names that stand `depth` names behind the first `common` bytes of all paths.  False: some
//  path has none there, which is a sample beside the folders.
static bool
s_find_folders (level_t *level, size_t common, int depth)
{
    level_folder_t *folders = level->folders;
    size_t count = 0;
    for (size_t index = 0; index < level->path_count; index++) {
        const char *path = level->paths [index];
        size_t begin = common + (path [common] == '/');
        for (int skipped = 0; skipped < depth; skipped++) {
            begin += strcspn (path + begin, "/");
            begin += path [begin] == '/';
        }
        size_t end = begin + strcspn (path + begin, "/");
        if (end == begin)
            return false;
        folders [index] = (level_folder_t) { path, begin, end, path [end] == '/' };
    }
    qsort (folders, level->path_count, sizeof *folders, s_order);
    for (size_t index = 0; index < level->path_count; index++)
        if (index > 0 && s_compare (&folders [count - 1], &folders [index]) == 0)
            folders [count - 1].is_deep &= folders [index].is_deep;
        else
            folders [count++] = folders [index];
    level->folder_count = count;
    return true;
}


//  -- judging

static split_name_t
s_read (const level_folder_t *folder)
{
    return splits_read (folder->path + folder->begin, folder->end - folder->begin);
}

//  Whether the folders that are the same as this one but for the word are splits, and two of them.
static bool
s_are_splits (const level_t *level, const split_name_t *example, const level_folder_t *pair [2])
{
    const level_folder_t *first [SPLIT_TEST + 1] = { NULL };        //  of each kind
    size_t count = 0, kinds = 0;
    bool are_deep = true;
    for (size_t index = 0; index < level->folder_count; index++) {
        const level_folder_t *folder = &level->folders [index];
        split_name_t name = s_read (folder);
        if (!name.kind || !splits_are_of_one (example, &name))
            continue;
        if (!first [name.kind])
            first [name.kind] = folder;
        count++;
        are_deep = are_deep && folder->is_deep;
    }
    for (size_t kind = 0; kind <= SPLIT_TEST; kind++)
        if (first [kind] && kinds++ < 2)
            pair [kinds - 1] = first [kind];
    return kinds > 1 && (count == level->folder_count || (are_deep && 2 * count >= level->folder_count));
}

//  Names that are the word alone, or those of the first one that has a word.
static bool
s_has_splits (const level_t *level, const level_folder_t *pair [2])
{
    split_name_t plain = { .kind = SPLIT_NONE }, other = plain;
    for (size_t index = 0; index < level->folder_count; index++) {
        split_name_t name = s_read (&level->folders [index]);
        split_name_t *found = splits_is_plain (&name)? &plain: &other;
        if (name.kind && !found->kind)
            *found = name;
    }
    return (plain.kind && s_are_splits (level, &plain, pair))
        || (other.kind && s_are_splits (level, &other, pair));
}

static shown_t
s_shown (const level_folder_t *folder)
{
    return catalogue_shown (folder->path, folder->end);
}

static int
s_fail (const level_t *level, const level_folder_t *const pair [2], int depth)
{
    const draft_t *draft = level->draft;
    shown_t first = s_shown (pair [0]), second = s_shown (pair [1]);
    const char *root = catalogue_root (draft->self);
    if (level->source == CATALOGUE_SPLITS_OF_LIST) {
        snprintf (catalogue_warning_new (draft->self), CATALOGUE_WARNING_BYTES, "'%s' and '%s' are splits by "
            "their names, and their files are one data set: if that is not meant, make one of each",
            first.text, second.text);
        return 0;
    }
    if (level->source == CATALOGUE_SPLITS_OF_TAR)
        return catalogue_fail (draft, -EINVAL, "the folders '%s' and '%s' in the tar files are splits by "
            "their names, and all would be one data set: make tar files of each, or extract them and pack "
            "each one's folder", first.text, second.text);
    if (depth > 0)
        return catalogue_fail (draft, -EINVAL, "the folders '%s' and '%s' in '%s' are splits by their names, "
            "and all would be one data set: name the files of one split, with their labels, in a labels.tsv "
            "(or of all, if that is meant)", first.text, second.text, root);
    return catalogue_fail (draft, -EINVAL, "the folders '%s' and '%s' in '%s' are splits by their names, and "
        "would become classes: give '%s/%s', and '%s/%s' as another data set; if they are classes, name the "
        "files, with their labels, in a labels.tsv", first.text, second.text, root, root, first.text, root,
        second.text);
}

//  One class that is a split by its name, and has folders and no files in it.  Paths are sorted: if files are
//  in a folder that all have in common, the first path is that folder.
static int
s_judge_single (const level_t *level, size_t common)
{
    const char *path = level->paths [0], *root = catalogue_root (level->draft->self);
    for (size_t begin = 0, end; begin < common; begin = end + 1) {
        end = begin + strcspn (path + begin, "/");
        split_name_t name = splits_read (path + begin, end - begin);
        shown_t shown = catalogue_shown (path, end);
        if (path [end] == '/' && splits_is_plain (&name))
            return catalogue_fail (level->draft, -EINVAL, "the folder '%s' in '%s' is a split by its name, "
                "and %s would become the only class: give '%s/%s'; if that is meant, name the files, with "
                "their labels, in a labels.tsv", shown.text, root, begin == 0? "it": "what it is in", root,
                shown.text);
    }
    return 0;
}


//  -- images and their masks

static pair_name_t
s_name (const level_folder_t *folder)
{
    return (pair_name_t) { folder->path + folder->begin, folder->end - folder->begin };
}

//  Which of the two folders a path is in: 0, 1; or 2, none.
static size_t
s_side (const char *path, const level_folder_t *const pair [2], size_t common, int depth)
{
    size_t begin = common + (path [common] == '/');
    for (int skipped = 0; skipped < depth; skipped++) {
        begin += strcspn (path + begin, "/");
        begin += path [begin] == '/';
    }
    level_folder_t folder = { path, begin, begin + strcspn (path + begin, "/"), false };
    return s_compare (&folder, pair [0]) == 0? 0: s_compare (&folder, pair [1]) == 0? 1: 2;
}

//  1: their files are called alike; 0; or -errno.
static int
s_files_are_pairs (const level_t *level, const level_folder_t *const pair [2], size_t common, int depth)
{
    const catalogue_t *self = level->draft->self;
    pair_name_t *names [2] = { NULL, NULL };
    size_t counts [2] = { 0, 0 };
    for (size_t side = 0; side < 2; side++)
        names [side] = reallocarray (NULL, self->sample_count, sizeof **names);
    bool has_memory = names [0] && names [1];
    for (size_t id = 0; has_memory && id < self->sample_count; id++) {
        const sample_t *sample = &self->samples [id];
        const char *text = self->arena + sample->name, *dot = strrchr (text, '.');
        size_t length = dot? (size_t) (dot - text): strlen (text);
        size_t side = s_side (self->arena + self->directories [sample->directory].path, pair, common, depth);
        if (side < 2)
            names [side] [counts [side]++] = (pair_name_t) { text, length };
    }
    bool are_pairs = has_memory && s_are_pairs_by_files (names [0], counts [0], names [1], counts [1]);
    free (names [0]);
    free (names [1]);
    return has_memory? are_pairs: catalogue_fail_memory (level->draft);
}

static int
s_fail_pair (const level_t *level, const level_folder_t *const pair [2], int depth)
{
    shown_t images = s_shown (pair [0]), others = s_shown (pair [1]);
    const char *root = catalogue_root (level->draft->self);
    const draft_t *draft = level->draft;
    static const char what [] = "belong together by their names and their files' names, as images and masks";
    if (level->source == CATALOGUE_SPLITS_OF_TAR)
        return catalogue_fail (draft, -EINVAL, "the folders '%s' and '%s' in the tar files %s, and all would "
            "be one data set: put each two files beside each other, as 0001.jpg and 0001.mask.png",
            images.text, others.text, what);
    if (depth > 0)
        return catalogue_fail (draft, -EINVAL, "the folders '%s' and '%s' in '%s' %s, and all would be "
            "samples: name the images, with their labels, in a labels.tsv, and give the others as a field "
            "(--field), with the same paths in a folder of their own", images.text, others.text, root, what);
    return catalogue_fail (draft, -EINVAL, "the folders '%s' and '%s' in '%s' %s, and would become classes: "
        "give '%s/%s', and as a field '%s/%s' (--field), with files of the same names; if they are classes, "
        "name the files, with their labels, in a labels.tsv", images.text, others.text, root, what, root,
        images.text, root, others.text);
}

//  The first of the level's folders with this name or one behind it.
static size_t
s_first (const level_t *level, pair_name_t name)
{
    level_folder_t wanted = { .path = name.text, .end = name.length };
    size_t first = 0, end = level->folder_count;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if (s_compare (&level->folders [middle], &wanted) < 0)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

static bool
s_begins_with (pair_name_t name, pair_name_t begin)
{
    return name.length >= begin.length && memcmp (name.text, begin.text, begin.length) == 0;
}

//  Refuses two folders of the level that belong together.  A look at the files of two goes through all
//  samples: the first PAIRS_MAX pairs by name stand for the others.
static int
s_judge_pairs (const level_t *level, size_t common, int depth)
{
    enum { PAIRS_MAX = 16 };
    int rc = 0;
    size_t pairs = 0;
    for (size_t other = 0; rc == 0 && other < level->folder_count; other++) {
        const level_folder_t *pair [2] = { NULL, &level->folders [other] };
        pair_name_t begin;
        if (!splits_is_partner (s_name (pair [1]), &begin))
            continue;
        for (size_t index = s_first (level, begin); rc == 0 && index < level->folder_count; index++) {
            pair [0] = &level->folders [index];
            if (!s_begins_with (s_name (pair [0]), begin))
                break;
            if (!splits_are_pairs_by_name (s_name (pair [0]), s_name (pair [1])))
                continue;
            if (pairs++ == PAIRS_MAX)
                return 0;
            rc = s_files_are_pairs (level, pair, common, depth);
            if (rc > 0)
                return s_fail_pair (level, pair, depth);
        }
    }
    return rc;
}


//  -- all of it

static int
s_judge (level_t *level)
{
    const level_folder_t *pair [2];
    size_t common = strlen (level->paths [0]);
    for (size_t index = 1; index < level->path_count; index++)
        common = catalogue_common (level->paths [0], common, level->paths [index]);
    int rc = level->source == CATALOGUE_SPLITS_OF_FOLDER? s_judge_single (level, common): 0;
    for (int depth = 0; rc == 0 && depth < 2 && s_find_folders (level, common, depth); depth++) {
        if (s_has_splits (level, pair))
            return s_fail (level, pair, depth);
        if (level->source != CATALOGUE_SPLITS_OF_LIST)
            rc = s_judge_pairs (level, common, depth);
    }
    return rc;
}


//  -- columns

//  Names of columns that may say of which split a sample is: those of clients/python/tureen/splits.py
//  (tests/clients/test_python_splits.py compares the two).
static const char *const s_columns [] = { "split", "data_split", "dataset_split", "subset", "partition" };

//  A column of texts with such a name.
static const column_t *
s_find_column (const catalogue_t *self)
{
    for (size_t index = 0; index < self->column_count; index++)
        for (size_t name = 0; name < sizeof s_columns / sizeof *s_columns; name++)
            if (self->columns [index].kind == COLUMN_TEXT && self->columns [index].value_count > 0
            && strcasecmp (self->columns [index].name, s_columns [name]) == 0)
                return &self->columns [index];
    return NULL;
}

//  Samples of several splits by a column of their own.  Of many values it is a text like any other.
static void
s_warn_of_column (catalogue_t *self)
{
    enum { VALUES_MAX = 16 };
    const char *values [VALUES_MAX];
    const column_t *column = s_find_column (self);
    size_t count = 0, other = 0;
    for (size_t id = 0; column && id < column->value_count; id++) {
        const char *value = self->arena + column->values [id].text;
        size_t index = 0;
        while (index < count && strcmp (values [index], value) != 0)
            index++;
        if (index < count)
            continue;
        if (count == VALUES_MAX)
            return;
        values [count++] = value;
        if (other == 0 && splits_read (value, strlen (value)).kind
        != splits_read (values [0], strlen (values [0])).kind)
            other = index;
    }
    if (other)                          //  one of the two at least is a split's word
        snprintf (catalogue_warning_new (self), CATALOGUE_WARNING_BYTES, "by the column '%s' samples are of "
            "several splits, as '%.60s' and '%.60s', and all are one data set: if that is not meant, make "
            "one of each, or give each job a subset", column->name,
            catalogue_shown (values [0], strlen (values [0])).text,
            catalogue_shown (values [other], strlen (values [other])).text);
}

int
catalogue_judge_splits (const draft_t *draft, catalogue_splits_source_t source)
{
    level_t level = { .draft = draft, .source = source };
    int rc = s_find_paths (&level);
    if (rc == 0 && level.path_count > 0)
        rc = s_judge (&level);
    if (rc == 0 && source == CATALOGUE_SPLITS_OF_LIST)
        s_warn_of_column (draft->self);
    free (level.paths);
    free (level.folders);
    return rc;
}
