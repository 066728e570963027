/*  read_box -- what a reader makes of a part of a JPEG, whatever it warns of.  */
#ifndef READ_BOX_H
#define READ_BOX_H
#include "jpeg_reader.h"

//  0; or -errno, as jpeg_reader.open and jpeg_reader.read say.
static inline int
read_box (jpeg_reader_t *reader, const uint8_t *bytes, size_t size, const image_request_t *request,
    image_pixels_t *pixels)
{
    const image_reader_options_t options = { .warnings_max = UINT32_MAX };
    char error [400];
    uint32_t height, width;
    int rc = jpeg_reader.open (reader, &options, bytes, size, &height, &width, error, sizeof error);
    return rc? rc: jpeg_reader.read (reader, request, pixels, error, sizeof error);
}

#endif
