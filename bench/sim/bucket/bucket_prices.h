/*  bucket_prices -- what a store and a machine cost, from a JSON file.
 *
 *      { "name": "...", "date": "2026-06", "source": "...", "get_per_1000": 0.0004, ... }
 *
 *  All fields are required, and there are no others; a wrong one is an error that names it.
 */
#ifndef BUCKET_PRICES_H
#define BUCKET_PRICES_H
#include <stdbool.h>
#include "option.h"

enum { BUCKET_PRICES_TEXT_BYTES = 200 };

//  Money: of the currency that the file has its figures in.
typedef struct {
    char name [BUCKET_PRICES_TEXT_BYTES], date [BUCKET_PRICES_TEXT_BYTES], source [BUCKET_PRICES_TEXT_BYTES];
    double get_per_1000, list_per_1000;
    double transfer_per_gb;             //  from the store to the machines; a GB is 10^9 bytes
    double disk_per_gb_month;           //  of the machines' disks; a month has 730 hours
    double machine_per_hour;
} bucket_prices_t;

//  False: error names the file, the field and what is expected.
bool bucket_prices_read (bucket_prices_t *self, const char *path, char error [OPTION_ERROR_BYTES]);

#endif
