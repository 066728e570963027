/*  catalogue_splits.c -- folders that are splits of a data set, and would become its classes:
 *  ROOT/train/CLASS and ROOT/val/CLASS; folders of images and their masks, which would too; and labels files
 *  that tell of which split each sample is.
 *
 *  The first level at which the folders differ is judged, and then the next one, for class folders with
 *  splits in them.  Names are splits if they are the same but for the word (train, val), and two kinds are
 *  there.  A word alone proves little, as a class may be called "test": all folders of the level must be
 *  splits, or at least half of them, if these have folders and no files in them.
 */
#include "catalogue_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "pairs.h"
#include "splits.h"

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
        snprintf (catalogue_doubt_new (draft->self), CATALOGUE_DOUBT_BYTES, "'%s' and '%s' are splits by "
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
    bool are_pairs = has_memory && pairs_are_by_files (names [0], counts [0], names [1], counts [1]);
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
        if (!pairs_is_partner (s_name (pair [1]), &begin))
            continue;
        for (size_t index = s_first (level, begin); rc == 0 && index < level->folder_count; index++) {
            pair [0] = &level->folders [index];
            if (!s_begins_with (s_name (pair [0]), begin))
                break;
            if (!pairs_are_by_name (s_name (pair [0]), s_name (pair [1])))
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
s_doubt_column (catalogue_t *self)
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
        snprintf (catalogue_doubt_new (self), CATALOGUE_DOUBT_BYTES, "by the column '%s' samples are of "
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
        s_doubt_column (draft->self);
    free (level.paths);
    free (level.folders);
    return rc;
}
