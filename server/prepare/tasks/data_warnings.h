/*  data_warnings -- sentences for people, in the log and in status, about what is probably wrong with a data
 *  set.  Some are found when the server starts, before a job asks for the data, others while samples are
 *  prepared.
 *
 *  These are warnings: a file's name decides nothing when a sample is read, and two data sets may have some
 *  classes in common by chance.
 *  Owner: the broker's thread; what is looked for before the first job has no state: any thread.
 */
#ifndef DATA_WARNINGS_H
#define DATA_WARNINGS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "catalogue.h"

typedef struct data_warnings data_warnings_t;

enum { DATA_WARNINGS_TEXT_BYTES = 768 };

//  name and catalogue are lent.  NULL: no memory.
data_warnings_t *data_warnings_new (const char *name, const catalogue_t *catalogue);
void data_warnings_destroy (data_warnings_t **self_p);
//  The data set's name.
const char *data_warnings_name (const data_warnings_t *self);

//  One more, which is copied.  other: another data set's name, lent, that it speaks of; NULL: none.  Without
//  memory it is left out.
void data_warnings_add (data_warnings_t *self, const char *other, const char *text);
//  Those that speak of the data set `other`, which goes, go too.
void data_warnings_forget (data_warnings_t *self, const char *other);
//  From index 0 on; NULL: no more.  Lent.  *other_p: as it was added.
const char *data_warnings_text (const data_warnings_t *self, size_t index, const char **other_p);

//  Values of a sample that was prepared, above 255, became 255; samples are counted once.  With the first one
//  self is put into the list *news_p.
void data_warnings_note_clipped (data_warnings_t *self, uint32_t id, data_warnings_t **news_p);
//  Takes one out of the list; NULL: it is empty.
data_warnings_t *data_warnings_take_news (data_warnings_t **news_p);
//  How many.
uint32_t data_warnings_clipped (const data_warnings_t *self);
//  The sentence about them, with the first one's name and the number of the others so far.  False: there are
//  none.
bool data_warnings_clipped_text (const data_warnings_t *self, char text [DATA_WARNINGS_TEXT_BYTES]);

//  ---- files that no image pipeline of this build can read

//  By the files' names.  Writes to text what there is and the remedy, "this build cannot read 3 files as
//  images: .."; false: there is none, and text is empty.
bool data_warnings_unreadable (const catalogue_t *catalogue, char *text, size_t size);

//  ---- classes that differ: one number may mean two classes, which no job can see

//  A data set's classes in the order of their names' bytes.
typedef struct {
    const catalogue_t *catalogue;       //  lent, as the data set's name
    const char *name;
    uint32_t *sorted;                   //  owned; NULL: it has no classes
    uint32_t count;
    bool goes_by_others;                //  they are numbered by another data set's
} data_warnings_classes_t;

//  Without memory it has no classes, and there is no warning.
data_warnings_classes_t data_warnings_classes_of (const catalogue_t *catalogue, const char *name,
    bool goes_by_others);
void data_warnings_classes_clear (data_warnings_classes_t *self);
//  Whether they share at least half of the classes of either.  *text_p, the caller's: how they differ then,
//  and the remedy; NULL: they do not, or there is no memory for it.
bool data_warnings_classes_compare (const data_warnings_classes_t *left,
    const data_warnings_classes_t *right, char **text_p);

#endif
