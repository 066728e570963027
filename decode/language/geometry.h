/*  geometry -- what chance and an image's size choose for a sample: which operations of a list are done, in
 *  which order, and which pixels each takes, in torchvision's arithmetic.
 *
 *  Every operation draws its own numbers from its place in the list, wherever random_apply, random_choice and
 *  random_order put it.
 *  Pure functions; any thread.
 */
#ifndef GEOMETRY_H
#define GEOMETRY_H
#include <stdint.h>
#include "image.h"
#include "keyed_random.h"
#include "operation.h"

//  What a crop or a pad makes: an image of height x width in which the box `from` of the source is at
//  (to_top, to_left); the rest is border.  Row y shows row from.top - to_top + y of the source, columns
//  likewise; where the window lies wholly beside the source, from is empty (height or width 0), and may begin
//  beyond it.
typedef struct {
    uint32_t height;
    uint32_t width;
    image_box_t from;
    uint32_t to_top;
    uint32_t to_left;
} geometry_window_t;

//  The size that resize gives an image of height x width: at least 1 x 1, where torchvision fails; sides that
//  are no uint32_t come as UINT32_MAX.
void geometry_resize (const operation_t *resize, uint32_t height, uint32_t width,
    uint32_t *new_height_p, uint32_t *new_width_p);
//  The middle crop_height x crop_width of an image; smaller images are padded evenly, the odd pixel below and
//  at the right.
geometry_window_t geometry_center_crop (uint32_t crop_height, uint32_t crop_width, uint32_t height,
    uint32_t width);
//  The box of an image that corner_crop takes for a view: upper left, upper right, lower left, lower right,
//  the middle; for the next five views those of the image mirrored, and *is_mirrored_p: it is to be mirrored.
//  False: the image is smaller than the crop.
bool geometry_corner_crop (const operation_t *crop, uint32_t view, uint32_t height, uint32_t width,
    image_box_t *box_p, bool *is_mirrored_p);
geometry_window_t geometry_pad (const operation_t *pad, uint32_t height, uint32_t width);
//  False: the image, with its padding, is smaller than the crop, and the operation does not pad where it is
//  needed.
//  Draws top, then left; nothing where image and crop have one size (as torchvision).
bool geometry_random_crop (const operation_t *crop, uint32_t height, uint32_t width, keyed_random_t *random,
    geometry_window_t *window_p);
//  The box that random_resized_crop takes, never empty.  Order of the draws: a try takes area, then ratio;
//  the one that fits takes top, then left; after ten that do not fit, the middle, with no further draw.
image_box_t geometry_random_box (const operation_t *crop, uint32_t height, uint32_t width,
    keyed_random_t *random);
//  How random_resized_crop resizes its box: "random" draws one more number, behind the box.
resize_filter_t geometry_random_filter (const operation_t *crop, keyed_random_t *random);
//  Whether an operation that has a probability is done; draws once, and not at all with p 0 or 1.
bool geometry_happens (const operation_t *operation, keyed_random_t *random);
//  The draw of a blur: its sigma or its radius.
double geometry_blur (const operation_t *blur, keyed_random_t *random);
//  The box that random_erasing erases, perhaps empty; false: none, and an empty one.  Order of the draws:
//  whether it is done; a try takes area, then ratio of height to width; the one that is smaller than the
//  image takes top, then left; after ten that are not, nothing is erased.
bool geometry_erasing (const operation_t *erasing, uint32_t height, uint32_t width, keyed_random_t *random,
    image_box_t *box_p);
//  Which source pixel (row or column) a border of mode shows at `at`, counted from the source's first; -1:
//  the fill.  A mirror that is wider than the source is mirrored again, as numpy.pad of NumPy 2 has it.
int64_t geometry_border (pad_mode_t mode, int64_t at, uint32_t side);
//  color_jitter's draws: four numbers say the order of the steps (each takes one of those that are left: of
//  4, 3, 2, 1), then one for each step that is on, in the order brightness, contrast, saturation, hue.
//  Appends them to program in that random order; false: it is full, and part of them may be in it.
bool geometry_jitter (const operation_t *jitter, keyed_random_t *random, colour_program_t *program);
//  Appends the steps of an operation on colours, if it is done: color_jitter, grayscale and the point
//  operations.  False: it is full, as geometry_jitter.
bool geometry_colour (const operation_t *operation, keyed_random_t *random, colour_program_t *program);


//  ---- which operations are done: random_apply, random_choice and random_order

//  Indices in the list, groups among them before what they are about.
typedef struct {
    uint8_t operations [PIPELINE_OPERATIONS_MAX];
    size_t count;
} geometry_chosen_t;

//  Of [begin, end), which no group crosses, in a view.
geometry_chosen_t geometry_choose (const operation_t *operations, size_t begin, size_t end,
    const pipeline_key_t *key, uint32_t view);
//  The draw of a random_choice: its part.
uint32_t geometry_choose_part (const operation_t *choice, keyed_random_t *random);
//  The draws of a random_order: its parts in their order; a draw takes one of those that are left.
void geometry_choose_order (const operation_t *order, keyed_random_t *random,
    uint32_t parts [GROUP_PARTS_MAX]);

#endif
