/*  tar_number -- the number in a member "cls", and the type of all of them; for tar_catalogue.c.
 *
 *  Whole numbers are int64.  With the first that is not whole all are float64, as in a column of labels.tsv.
 */
#ifndef TAR_NUMBER_H
#define TAR_NUMBER_H
#include <locale.h>
#include "catalogue_state.h"

typedef enum { TAR_NUMBER_NONE, TAR_NUMBER_WHOLE, TAR_NUMBER_REAL } tar_number_t;

//  What the text is, and into *value_p the number.  The locale is one in which a point is a point.
tar_number_t tar_number_parse (const catalogue_buffer_t *data, locale_t locale, value_t *value_p);

//  Makes the column and the value, which is to be its next, of one type.  False: a whole number is beyond
//  2^53, and would be another number as float64.
bool tar_number_fit (column_t *column, tar_number_t number, value_t *value);

#endif
