"""Augmentations against torchvision itself: test_augment.py PATH-OF-tureen [all|short]

4 photographs, and images of one pixel and of one row, 32 draws of each operation (fewer of those that take
long): what the server drew, by reference.py, is given to torchvision's functions, and every pixel must be the
same.  Each kind of a policy must have been drawn, with either sign.  Of gaussian_blur a few values may differ
by 1: torch adds up in 32-bit floats and promises no order, and the server in another one, so a sum that lies
in the middle between two values is rounded to either.  Then the magnitudes, beside torchvision's tables.
`all`: 40 photographs, all of the size of the first, and 56 draws.  `short`, for builds with sanitizers:
half the draws, which may miss a kind.  Ends with 77 (a skip) where torchvision or Pillow is missing.
With another Python's torchvision: tests/parity.sh.
"""
import functools
import glob
import json
import os
import sys
import tempfile

import parity_cases

try:
    import numpy
    import torch
    import horizontal_first  # noqa: F401
    from PIL import Image, ImageFilter
    import torchvision
    import torchvision.transforms as transforms
    from torchvision.transforms import InterpolationMode, autoaugment, functional
    try:
        from torchvision.transforms import _functional_pil as functional_pil
        from torchvision.transforms import _functional_tensor as functional_tensor
    except ImportError:
        from torchvision.transforms import functional_pil, functional_tensor
    #  Displacements across are shares of the width, not of the height, and those down of the height.
    HAS_WIDTHS = tuple(map(int, torchvision.__version__.split(".")[:2])) >= (0, 26)
    import reference
    import reference_augment
except ImportError as missing:
    print(f"SKIP: augmentations not compared with torchvision: {missing}")
    sys.exit(77)

ALL, SHORT = sys.argv[2:] == ["all"], sys.argv[2:] == ["short"]
PHOTOS_MAX, ROUNDS, VIEWS = (40, 7, 8) if ALL else (4, 2 if SHORT else 4, 8)
SIZE = 240 if ALL else 120              # what is compared of each
FILTERS = {"nearest": InterpolationMode.NEAREST, "bilinear": InterpolationMode.BILINEAR}
FILTERS_OF_PILLOW = {InterpolationMode.NEAREST: Image.NEAREST, InterpolationMode.BILINEAR: Image.BILINEAR}
CASES = [
    [{"op": "rand_augment"}],
    [{"op": "rand_augment", "num_ops": 3, "magnitude": 15, "interpolation": "bilinear",
      "fill": [124, 116, 104]}],
    [{"op": "trivial_augment_wide"}],
    [{"op": "trivial_augment_wide", "num_magnitude_bins": 7, "interpolation": "bilinear", "fill": 9}],
    [{"op": "auto_augment"}],
    [{"op": "auto_augment", "policy": "cifar10", "interpolation": "bilinear"}],
    [{"op": "auto_augment", "policy": "svhn", "fill": [1, 2, 3]}],
    [{"op": "aug_mix"}],
    [{"op": "aug_mix", "severity": 9, "mixture_width": 2, "alpha": 4, "interpolation": "nearest", "fill": 9}],
    [{"op": "random_affine", "degrees": 30, "translate": [0.2, 0.3], "scale": [0.5, 1.8],
      "shear": [-20, 20, -10, 15], "fill": [9, 200, 77]}],
    [{"op": "random_affine", "degrees": 180, "shear": 25, "interpolation": "bilinear", "center": [10, 20.5]}],
    [{"op": "random_rotation", "degrees": 180}],
    [{"op": "random_perspective", "p": 0.9, "fill": [9, 200, 77]}],
    [{"op": "random_perspective", "distortion_scale": 0.8, "p": 1, "interpolation": "nearest"}],
    [{"op": "elastic_transform", "fill": [9, 200, 77]}],
    [{"op": "elastic_transform", "alpha": [300, 100], "sigma": [3, 4.6], "interpolation": "nearest"}],
    [{"op": "elastic_transform", "alpha": 3, "sigma": 0, "fill": 77}],
    [{"op": "random_rotation", "degrees": 45, "interpolation": "bilinear", "expand": True, "fill": 60,
      "share": True}],
    [{"op": "invert"}, {"op": "posterize", "bits": 4}, {"op": "solarize", "threshold": 128},
     {"op": "autocontrast"}, {"op": "equalize"}, {"op": "adjust_sharpness", "factor": 2.5}],
    [{"op": "pillow_gaussian_blur", "radius": [0, 9]}],
    [{"op": "gaussian_blur", "kernel_size": 23}],
    [{"op": "gaussian_blur", "kernel_size": [9, 5], "sigma": 3}],
    [{"op": "grayscale"}, {"op": "rand_augment", "num_ops": 3}],
    [{"op": "grayscale"}, {"op": "equalize"}, {"op": "adjust_sharpness", "factor": 0.3},
     {"op": "random_affine", "degrees": 40, "scale": [0.6, 1.2], "interpolation": "bilinear", "fill": 77}],
]
#  Of the values of gaussian_blur so many may differ.  Measured with 56 draws: 4,894 of 793,497,600.
BLUR_DIFFER_MAX = 1e-4
SLOW = ("gaussian_blur", "pillow_gaussian_blur", "random_perspective", "elastic_transform", "aug_mix")
failures, blurred = [], {"values": 0, "differ": 0}
drawn = set()                           # of a case: kinds of a policy, with the sign of their magnitude


def fill_of(operation, image):
    """As torchvision takes it."""
    fill = operation.get("fill", 0)
    if image.mode == "L":
        return fill if isinstance(fill, int) else fill[0]
    return [fill] * 3 if isinstance(fill, int) else fill


POINTS = {
    "invert": lambda image, _: functional.invert(image),
    "posterize": lambda image, operation: functional.posterize(image, operation["bits"]),
    "solarize": lambda image, operation: functional.solarize(image, operation["threshold"]),
    "autocontrast": lambda image, _: functional.autocontrast(image),
    "equalize": lambda image, _: functional.equalize(image),
    "adjust_sharpness": lambda image, operation: functional.adjust_sharpness(image, operation["factor"]),
}


def by_perspective(image, operation, interpolation, fill, random):
    """With the coefficients of the exact solution, which torch's must be nearly."""
    if not random.happens(operation.get("p", 0.5)):
        return image
    width, height = image.size
    corners = reference.draw_corners(operation, image.size, random)
    coefficients = reference.perspective_coefficients(image.size, corners)
    if coefficients is None:
        return image
    theirs = functional._get_perspective_coeffs(
        [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]], corners)
    #  Those before 0.20 solve in 32 bits.
    if not numpy.allclose(theirs, coefficients, 1e-2, 1e-2):
        failures.append(f"perspective of {image.size} to {corners}: {theirs} for {coefficients}")
    return functional.F_pil.perspective(image, coefficients, FILTERS_OF_PILLOW[interpolation], fill)


def mixed_step(image, kind, magnitude, interpolation, fill):
    """Of a tensor torchvision keeps 0 bits as well; Pillow refuses that from 13 on."""
    if kind == "Posterize" and int(magnitude) == 0:
        return Image.new(image.mode, image.size)
    return autoaugment._apply_op(image, kind, magnitude, interpolation, fill)


def by_mixing(image, operation, fill, random):
    """torchvision's AugMix, but for its steps, which are those of a Pillow image."""
    interpolation = FILTERS[operation.get("interpolation", "bilinear")]
    original, chains = reference_augment.draw_mix(operation, image.size, random)
    batch = functional.pil_to_tensor(image)
    mix = torch.tensor([original]).view(1, 1, 1) * batch
    for weight, steps in chains:
        changed = image
        for kind, magnitude in steps:
            drawn.add((kind, numpy.sign(magnitude)))
            changed = mixed_step(changed, kind, magnitude, interpolation, fill)
        mix.add_(torch.tensor([weight]).view(1, 1, 1) * functional.pil_to_tensor(changed))
    return functional.to_pil_image(mix.to(dtype=batch.dtype))


def check_mixed_magnitudes(size):
    space = autoaugment.AugMix()._augmentation_space(10, (size[1], size[0]))
    if list(space) != reference_augment.MIXED:
        failures.append(f"AugMix has other kinds: {list(space)}")
    for kind, (magnitudes, is_signed) in space.items():
        for level in range(10 if magnitudes.ndim else 0):
            ours, theirs = reference_augment.mixed_magnitude(kind, level, size), float(magnitudes[level])
            if abs(ours - theirs) > 2 ** -22 * max(abs(theirs), 1e-3):
                failures.append(f"AugMix: {kind} {level}: {ours!r}, torchvision's {theirs!r}")
        if is_signed != (kind in reference_augment.SIGNED) or (not magnitudes.ndim) != (
                kind in reference_augment.WITHOUT):
            failures.append(f"AugMix: {kind} differs")


def identity_grid(size):
    """torchvision's, of the newest torch's linspace: that of older ones differs in the last bit."""
    middles = [torch.from_numpy(reference.middles(side)) for side in size]
    rows, columns = torch.meshgrid(*middles, indexing="ij")
    return torch.stack([columns, rows], -1).unsqueeze(0)


functional_tensor._create_identity_grid = identity_grid


def by_displacement(image, operation, fill, random):
    field = torch.from_numpy(reference.draw_displacement(operation, image.size, random))[None]
    return functional.elastic_transform(image, field, FILTERS[operation.get("interpolation", "bilinear")],
                                        [float(channel) for channel in numpy.ravel(fill)])


def check_displacements():
    """The field is torchvision's of the same noise, but for the order in which a blur adds up."""
    for width, height, alpha, sigma in ((97, 61, [50.0, 50.0], [5.0, 5.0]),
                                        (64, 90, [300.0, 9.0], [3.0, 1.2])):
        operation, noise = {"alpha": alpha, "sigma": sigma}, {"alpha": (width, height), "sigma": 0}
        ours = reference.draw_displacement(operation, (width, height), reference.Keyed((1, 2, 3), 0, 4))
        drawn = reference.draw_displacement(noise, (width, height), reference.Keyed((1, 2, 3), 0, 4))
        given = [(1 + torch.from_numpy(drawn[:, :, axis])[None, None]) / 2 for axis in (0, 1)]
        rand = torch.rand
        torch.rand = lambda size: given.pop(0)
        try:
            theirs = transforms.ElasticTransform.get_params(alpha, sigma, [height, width])[0].numpy()
        finally:
            torch.rand = rand
        if not HAS_WIDTHS:
            theirs = theirs * numpy.float32([height / width, width / height])
        if not numpy.allclose(ours, theirs, 0, 1e-5) or numpy.abs(theirs).max() < 1e-3:
            failures.append(f"the displacements of {operation} differ by {numpy.abs(ours - theirs).max()}")


def span(value):
    """What a blur draws from."""
    return value if isinstance(value, list) else [value, value] if value else [0.1, 2.0]


def by_torchvision(image, operation, random):
    """One operation, with what was drawn of random."""
    name, fill = operation["op"], fill_of(operation, image)
    interpolation = FILTERS[operation.get("interpolation", "nearest")]
    if name in reference_augment.DRAW:
        for kind, magnitude in reference_augment.DRAW[name](operation, image.size, random):
            drawn.add((kind, numpy.sign(magnitude)))
            image = autoaugment._apply_op(image, kind, magnitude, interpolation, fill)
        return image
    if name == "random_rotation":
        angle = random.uniform(*reference.ends(operation["degrees"]))
        return functional.rotate(image, angle, interpolation, operation.get("expand", False), fill=fill)
    if name == "random_affine":
        angle, moved, scale, shear = reference.draw_affine(operation, image.size, random)
        return functional.affine(image, angle, moved, scale, shear, interpolation, fill,
                                 operation.get("center"))
    if name == "aug_mix":
        return by_mixing(image, operation, fill, random)
    if name == "random_perspective":
        interpolation = FILTERS[operation.get("interpolation", "bilinear")]
        return by_perspective(image, operation, interpolation, fill, random)
    if name == "elastic_transform":
        return by_displacement(image, operation, fill, random)
    if name == "pillow_gaussian_blur":
        return image.filter(ImageFilter.GaussianBlur(random.uniform(*span(operation.get("radius")))))
    if name == "gaussian_blur":
        size, sigma = operation["kernel_size"], random.uniform(*span(operation.get("sigma")))
        return functional.gaussian_blur(image, [size, size] if isinstance(size, int) else size, [sigma] * 2)
    if name == "grayscale":
        return functional.to_grayscale(image)
    return POINTS[name](image, operation) if random.happens(operation.get("p", 0.5)) else image


@functools.lru_cache(None)
def photograph(path):
    with Image.open(path) as file:
        return file.convert("RGB")


def expected(path, operations, key, view):
    image = photograph(path)
    for place, operation in enumerate(operations, 2):   # behind decode and views
        image = by_torchvision(image, operation, reference.Keyed(key, view, place))
    pixels = numpy.asarray(functional.center_crop(image, [SIZE, SIZE]))
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def same(ours, theirs, operations):
    if operations[-1]["op"] != "gaussian_blur":
        return numpy.array_equal(ours, theirs)
    difference = numpy.abs(ours.astype(int) - theirs)
    blurred["values"] += difference.size
    blurred["differ"] += numpy.count_nonzero(difference)
    return difference.max() <= 1


def check_drawn(operations):
    """All kinds of the policy have been compared; those that have one, with either sign of the magnitude."""
    policy = next((operation for operation in operations if operation["op"] in (*reference_augment.DRAW,
                                                                                "aug_mix")), None)
    if policy is None:
        return
    if policy["op"] == "auto_augment":
        text = reference_augment.POLICIES[policy.get("policy", "imagenet")]
        steps = [step.split() for sub in text.split("; ") for step in sub.split(" + ")]
        kinds = {kind for kind, p, _ in steps if float(p) > 0}
    else:
        kinds = set(reference_augment.MIXED if policy["op"] == "aug_mix" else reference_augment.KINDS)
    missing = kinds - {kind for kind, _ in drawn}
    missing |= {(kind, sign) for kind in kinds.intersection(reference_augment.SIGNED) for sign in (-1, 1)
                if (kind, sign) not in drawn}
    if missing:
        failures.append(f"not drawn: {missing}: {operations}")


def check_case(program, operations, files, root):
    drawn.clear()
    #  Sizes behind one that expands are bounded in the shared stage alone.
    mark = [] if any("expand" in operation for operation in operations) else [parity_cases.SHARE]
    pipeline = [{"op": "decode", "max_pixels": 300000}, *mark, {"op": "views", "count": VIEWS},
                *operations, {"op": "center_crop", "size": SIZE}]
    rounds = ROUNDS
    if operations[-1]["op"] == "gaussian_blur":     # torch mirrors an image once
        files = [file for file in files if "made_" not in file or "37x64" in file]
    if operations[-1]["op"] in SLOW:
        #  torch takes its time for a blur, fractions for a perspective, noise by the number.  With all files
        #  and draws it was the same.
        step = 3 if operations[-1]["op"] == "elastic_transform" else 1
        files, rounds = files[::2 * step if ALL else step], 1
    compared = 0
    for epoch in range(rounds):
        with tempfile.TemporaryDirectory() as out:
            errors = parity_cases.prepare(program, pipeline, files, out, (7, epoch, 100))
            if errors:
                failures.append(errors)
                continue
            for number, file in enumerate(files):
                paths = parity_cases.outputs(out, root, file, pipeline)
                for view, path in enumerate(paths):
                    theirs = expected(file, operations, (7, epoch, 100 + number), view)
                    compared += 1
                    if not same(numpy.load(path), theirs, operations):
                        failures.append(f"{os.path.basename(file)} epoch {epoch} view {view}: {operations}")
    if not SHORT:
        check_drawn(operations)
    print(f"{compared} images compared: {json.dumps(operations)}")


def make_files(folder):
    """Photographs, made smaller, of odd sizes; and images that have nearly nothing inside.  The first one is
    as large as all are by hand, for what grows with the distance from a corner."""
    root = os.environ.get("TUREEN_SOURCE", ".") + "/../shared/data/photos"
    photos = sorted(glob.glob(root + "/*/*"))
    if not photos:
        print(f"SKIP: no photos in {root}: only made images")
    files = []
    for number, path in enumerate(photos[::max(1, len(photos) // PHOTOS_MAX)][:PHOTOS_MAX]):
        with Image.open(path) as file:
            image = file.convert("RGB")
        side = 150 if ALL or not number else 60
        image.thumbnail((side + number, side + 30 - number))
        files.append(f"{folder}/{number:02}.png")
        image.save(files[-1])
    generator = numpy.random.default_rng(3)
    for width, height in ((1, 1), (1, 37), (53, 1), (2, 2), (3, 3), (37, 64)):
        pixels = generator.integers(0, 256, (height, width, 3), numpy.uint8)
        files.append(f"{folder}/made_{width}x{height}.png")
        Image.fromarray(pixels).save(files[-1])
    return files


def check_table(space, name, operation, bins, size):
    """Magnitudes but for the last bit, which differs between versions of torch; what is cut to a whole number
    may differ where it is one."""
    for kind, (magnitudes, is_signed) in space.items():
        if is_signed != (kind in reference_augment.SIGNED):
            failures.append(f"{name}: {kind} is signed: {is_signed}")
        if magnitudes is None or magnitudes.ndim == 0:
            if kind not in reference_augment.WITHOUT:
                failures.append(f"{name}: {kind} has no magnitudes")
            continue
        for level in range(bins):
            ours = reference_augment.magnitude_of(kind, operation, bins, level, size)
            is_unit = kind == "Solarize" and float(magnitudes[0]) == 1
            theirs = float(magnitudes[level]) * (255 if is_unit else 1)
            if abs(ours - theirs) > 2 ** -22 * max(abs(theirs), 1e-3):
                failures.append(f"{name}: {kind} {level} of {bins}: {ours!r}, torchvision's {theirs!r}")


def check_magnitudes():
    width, height = 337, 224
    check_mixed_magnitudes((width, height))
    check_displacements()
    for bins in (2, 10, 31, 50):
        operation = {"op": "rand_augment"}
        check_table(autoaugment.RandAugment()._augmentation_space(bins, (height, width)), "RandAugment",
                    operation, bins, (width, height))
        check_table(autoaugment.TrivialAugmentWide()._augmentation_space(bins), "TrivialAugmentWide",
                    {"op": "trivial_augment_wide"}, bins, (width, height))
    check_table(autoaugment.AutoAugment()._augmentation_space(10, (height, width)), "AutoAugment",
                {"op": "auto_augment"}, 10, (width, height))
    for policy in autoaugment.AutoAugmentPolicy:
        ours = [[step.split() for step in sub.split(" + ")]
                for sub in reference_augment.POLICIES[policy.value].split("; ")]
        theirs = [[[kind, f"{p:g}", str(level or 0)] for kind, p, level in sub]
                  for sub in autoaugment.AutoAugment(policy).policies]
        if ours != theirs:
            failures.append(f"the policy {policy} differs")
    try:
        from torchvision.transforms import v2
    except ImportError:
        print("SKIP: this torchvision has no v2")
        return
    for theirs, name in ((v2.RandAugment, "rand_augment"), (v2.TrivialAugmentWide, "trivial_augment_wide")):
        space = {kind: (make(31, height, width), is_signed)
                 for kind, (make, is_signed) in theirs._AUGMENTATION_SPACE.items()}
        check_table(space, "v2", {"op": name, "unit_threshold": True}, 31, (width, height))


def main():
    with tempfile.TemporaryDirectory() as folder:
        files = make_files(folder)
        for operations in CASES:
            check_case(sys.argv[1], operations, files, folder)
    print(f"{blurred['differ']} of {blurred['values']} values of gaussian_blur differ by 1 from torch's")
    if blurred["differ"] > BLUR_DIFFER_MAX * blurred["values"]:
        failures.append("more values of gaussian_blur differ than lie between two values")
    check_magnitudes()
    for failure in failures[:20]:
        print("FAIL:", failure)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
