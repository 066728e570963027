#include "class_warning.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "utf8.h"

enum { NAMES_SHOWN = 3, NAME_BYTES = 80, LIST_BYTES = NAMES_SHOWN * (NAME_BYTES + 4) + 32 };

//  A data set's classes in the order of their names' bytes.
typedef struct {
    const class_warning_set_t *set;
    uint32_t *sorted;                   //  owned; NULL: it has no classes
    uint32_t count;
} classes_t;

//  What two have: which classes of each the other lacks, and a class that has two numbers.
typedef struct {
    uint32_t common;
    uint32_t lacked [2];
    char names [2] [LIST_BYTES];        //  of some of them
    const char *moved;                  //  NULL: each class that both have has one number
    uint32_t numbers [2];
} difference_t;

static int
s_compare (const void *left, const void *right, void *catalogue)
{
    return strcmp (catalogue_class_name (catalogue, *(const uint32_t *) left),
        catalogue_class_name (catalogue, *(const uint32_t *) right));
}

//  Without memory it has no classes, and there is no warning.
static classes_t
s_sort (const class_warning_set_t *set)
{
    classes_t self = { .set = set, .count = catalogue_classes (set->catalogue) };
    self.sorted = self.count? malloc (self.count * sizeof *self.sorted): NULL;
    self.count = self.sorted? self.count: 0;
    for (uint32_t class = 0; class < self.count; class++)
        self.sorted [class] = class;
    if (self.count)
        qsort_r (self.sorted, self.count, sizeof *self.sorted, s_compare, (void *) set->catalogue);
    return self;
}

static const char *
s_name (const classes_t *self, uint32_t place)
{
    return catalogue_class_name (self->set->catalogue, self->sorted [place]);
}

static void
s_note_lacked (difference_t *self, size_t side, const char *name)
{
    char shown [NAME_BYTES], *list = self->names [side];
    size_t used = strlen (list);
    if (self->lacked [side]++ < NAMES_SHOWN)
        snprintf (list + used, LIST_BYTES - used, "%s'%s'", used? ", ": "",
            utf8_visible (name, strlen (name), shown, sizeof shown));
}

static void
s_compare_sets (difference_t *self, const classes_t *left, const classes_t *right)
{
    uint32_t a = 0, b = 0;
    *self = (difference_t) { .common = 0 };
    while (a < left->count || b < right->count) {
        int order = a == left->count? 1: b == right->count? -1: strcmp (s_name (left, a), s_name (right, b));
        if (order == 0 && left->sorted [a] != right->sorted [b] && !self->moved) {
            self->moved = s_name (left, a);
            self->numbers [0] = left->sorted [a];
            self->numbers [1] = right->sorted [b];
        }
        self->common += order == 0;
        if (order < 0)
            s_note_lacked (self, 1, s_name (left, a));
        if (order > 0)
            s_note_lacked (self, 0, s_name (right, b));
        a += order <= 0;
        b += order >= 0;
    }
}

static void
s_print_lacked (FILE *text, const difference_t *self, size_t side, const char *name)
{
    if (self->lacked [side] > NAMES_SHOWN)
        fprintf (text, "; '%s' has no %s and %u more", name, self->names [side],
            self->lacked [side] - NAMES_SHOWN);
    else
    if (self->lacked [side])
        fprintf (text, "; '%s' has no %s", name, self->names [side]);
}

static void
s_print (FILE *text, const difference_t *self, const char *left, const char *right)
{
    char shown [NAME_BYTES];
    fprintf (text, "data sets '%s' and '%s' do not have the same classes", left, right);
    s_print_lacked (text, self, 0, left);
    s_print_lacked (text, self, 1, right);
    if (self->moved)
        fprintf (text, "; the label of '%s' is %u in '%s' and %u in '%s'",
            utf8_visible (self->moved, strlen (self->moved), shown, sizeof shown), self->numbers [0], left,
            self->numbers [1], right);
    const char *less = self->lacked [0]? left: right, *more = self->lacked [0]? right: left;
    fprintf (text, ": make an empty folder of each class that is missing (--allow-empty %s=yes)", less);
    if (self->lacked [0] == 0 || self->lacked [1] == 0)
        fprintf (text, ", or number by names (--classes-from %s=%s)", less, more);
}

//  Of two that are no splits of one set, few names are the same.
static bool
s_look_alike (const difference_t *self, const classes_t *left, const classes_t *right)
{
    uint32_t least = left->count < right->count? left->count: right->count;
    return least > 0 && 2 * (uint64_t) self->common >= least;
}

//  Without memory for the text there is none.
static void
s_tell (const class_warning_listener_t *listener, const difference_t *difference,
    const class_warning_set_t *sets, size_t left, size_t right)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream (&text, &size);
    if (!stream)
        return;
    s_print (stream, difference, sets [left].name, sets [right].name);
    if (fclose (stream) == 0)
        listener->tell (listener->context, left, right, text);
    free (text);
}

void
class_warning_find (const class_warning_set_t *sets, size_t count, const class_warning_listener_t *listener)
{
    classes_t *all = calloc (count + 1, sizeof *all);
    for (size_t index = 0; all && index < count; index++) {
        all [index] = s_sort (&sets [index]);
        difference_t difference;
        bool is_alike = false;
        for (size_t before = 0; before < index && !is_alike; before++) {
            s_compare_sets (&difference, &all [before], &all [index]);
            is_alike = s_look_alike (&difference, &all [before], &all [index]);
            if (is_alike && (difference.lacked [0] || difference.lacked [1] || difference.moved))
                s_tell (listener, &difference, sets, before, index);
        }
    }
    for (size_t index = 0; all && index < count; index++)
        free (all [index].sorted);
    free (all);
}
