"""What the parity tests run: pipelines, and how `tureen prepare` is asked for them.  Standard library
only."""
import json
import os
import subprocess

SHARE = {"share": True}
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
JITTER = {"op": "color_jitter", "brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1}

#  (pipeline, whether pixels are resampled)
PIPELINES = [
    ("eval", True),
    ("train", True),
    ([{"op": "resize", "size": [97, 41]}, SHARE], True),
    ([{"op": "resize", "size": [40, 300]}, {"op": "flip", "p": 1}, SHARE, {"op": "flip", "p": 0.5}], True),
    ([{"op": "resize", "size": 33}, {"op": "center_crop", "size": [32, 31]}, SHARE], True),
    ([{"op": "resize", "size": 20}, {"op": "center_crop", "size": [51, 38]}, SHARE], True),
    ([{"op": "resize", "size": 40, "max_size": 60, "interpolation": "bicubic"}, SHARE,
      {"op": "random_crop", "size": 32, "pad_if_needed": True}], True),
    ([{"op": "resize", "size": [31, 77], "interpolation": "nearest"}, SHARE], False),
    ([{"op": "resize", "size": [131, 17], "interpolation": "bicubic"}, {"op": "vertical_flip", "p": 1},
      SHARE], True),
    ([{"op": "center_crop", "size": [101, 64]}, {"op": "resize", "size": 50}, SHARE], True),
    ([{"op": "center_crop", "size": 333}, {"op": "flip"}, SHARE], False),
    ([{"op": "center_crop", "size": [31, 15]}, SHARE], False),
    ([{"op": "flip"}, {"op": "resize", "size": 31}, {"op": "flip"}, {"op": "center_crop", "size": 29}, SHARE],
     True),
    ([{"op": "random_resized_crop", "size": [60, 45], "scale": [0.9, 1], "ratio": [2, 3]}, SHARE,
      {"op": "flip", "p": 0}],
     True),
    ([{"op": "random_resized_crop", "size": 300, "scale": [0.01, 0.05]}, {"op": "center_crop", "size": 299},
      SHARE], True),
    ([{"op": "random_resized_crop", "size": 50, "interpolation": "bicubic"}, SHARE, {"op": "vertical_flip"}],
     True),
    ([{"op": "random_resized_crop", "size": [41, 52], "interpolation": "random"}, SHARE, {"op": "flip"}],
     True),
    ([{"op": "random_crop", "size": [40, 48], "padding": [3, 5, 7, 9], "fill": [9, 200, 77],
       "pad_if_needed": True}, SHARE],
     False),
    ([{"op": "random_crop", "size": 30, "padding": 8, "pad_if_needed": True, "mode": "edge"}, SHARE,
      {"op": "flip"}], False),
    ([{"op": "pad", "padding": [2, 3], "fill": 128}, {"op": "resize", "size": [64, 64]}, SHARE], True),
    ([{"op": "resize", "size": [30, 40]}, {"op": "pad", "padding": 12, "mode": "reflect"}, SHARE,
      {"op": "random_crop", "size": 32}], True),
    ([{"op": "resize", "size": [30, 40]}, {"op": "pad", "padding": [1, 29, 3, 30], "mode": "symmetric"},
      SHARE], True),
    ([{"op": "center_crop", "size": 48}, SHARE, JITTER, {"op": "flip"}], False),
    ([dict(JITTER, brightness=[0.2, 2.5], contrast=0, hue=0.5), {"op": "center_crop", "size": 40},
      {"op": "color_jitter", "contrast": [0, 3]}, SHARE], False),
    ([{"op": "resize", "size": [40, 40]}, {"op": "grayscale", "p": 0.5}, SHARE,
      {"op": "color_jitter", "brightness": 1}], True),
    ([{"op": "resize", "size": [28, 28]}, {"op": "grayscale"}, SHARE,
      {"op": "normalize", "mean": [0.1307], "std": [0.3081]},
      {"op": "layout", "layout": "NCHW"}], True),
    ([{"op": "resize", "size": 48}, {"op": "center_crop", "size": 40}, SHARE,
      {"op": "normalize", "mean": MEAN, "std": STD}, {"op": "layout", "layout": "NCHW"}], True),
    ([{"op": "random_resized_crop", "size": 41}, SHARE, {"op": "flip"},
      {"op": "normalize", "mean": MEAN, "std": STD},
      {"op": "cast", "dtype": "float16"}, {"op": "layout", "layout": "NCHW"}], True),
    ([{"op": "random_resized_crop", "size": 41}, SHARE, {"op": "flip"},
      {"op": "normalize", "mean": MEAN, "std": STD},
      {"op": "cast", "dtype": "bfloat16"}], True),
    ([{"op": "center_crop", "size": 37}, SHARE, {"op": "cast", "dtype": "float16"}], False),
    ([{"op": "resize", "size": [60, 70]}, SHARE, {"op": "random_resized_crop", "size": 33}, JITTER,
      {"op": "flip"}], True),
    ([{"op": "decode", "max_pixels": 300000}, SHARE, {"op": "random_resized_crop", "size": 33},
      {"op": "flip"}], True),
    ([{"op": "decode", "orientation": True}, {"op": "resize", "size": [50, 60]}, SHARE], True),
    ([{"op": "views", "count": 2}, {"op": "random_resized_crop", "size": 32}, {"op": "flip"}, SHARE, JITTER],
     True),
    ([{"op": "resize", "size": [50, 60]}, SHARE, {"op": "views", "count": 3},
      {"op": "random_crop", "size": 32},
      {"op": "flip"}], True),
    ([{"op": "invert"}, {"op": "equalize", "p": 0.8}, {"op": "center_crop", "size": 45}, SHARE,
      {"op": "posterize", "bits": 3}], False),
    ([{"op": "autocontrast", "p": 1}, {"op": "adjust_sharpness", "factor": 3.5, "p": 0.9},
      {"op": "center_crop", "size": [51, 40]}, SHARE, {"op": "solarize", "threshold": 100.5},
      {"op": "flip"}], False),
    ([{"op": "resize", "size": [44, 37]}, SHARE, {"op": "adjust_sharpness", "factor": 0.25, "p": 1},
      {"op": "equalize", "p": 1}, {"op": "autocontrast"}, {"op": "equalize"}], True),
    ([{"op": "center_crop", "size": 55}, {"op": "gaussian_blur", "kernel_size": [5, 23]},
      {"op": "pillow_gaussian_blur"}, {"op": "center_crop", "size": 45}, SHARE,
      {"op": "gaussian_blur", "kernel_size": 7, "sigma": 0.4},
      {"op": "flip"}, {"op": "pillow_gaussian_blur", "radius": [0, 60]}], False),
    ([{"op": "center_crop", "size": [44, 37]}, SHARE, {"op": "pillow_gaussian_blur", "radius": 3},
      {"op": "gaussian_blur", "kernel_size": [255, 1], "sigma": [5, 500]},
      {"op": "equalize", "p": 1}], False),
    ([{"op": "random_rotation", "degrees": 40, "fill": [9, 200, 77]},
      {"op": "center_crop", "size": 47}, SHARE,
      {"op": "random_affine", "degrees": [10, 20], "translate": [0.2, 0.4], "scale": [0.7, 1.6],
       "shear": [-20, 20, -5, 9]}], False),
    ([{"op": "random_affine", "degrees": 180, "shear": 30, "interpolation": "bilinear", "fill": 50,
       "center": [11.5, 3]}, {"op": "center_crop", "size": [40, 50]}, SHARE,
      {"op": "random_rotation", "degrees": 180, "interpolation": "bilinear", "expand": True},
      {"op": "center_crop", "size": 60}], False),
    ([{"op": "random_rotation", "degrees": [90, 90], "expand": True},
      {"op": "random_rotation", "degrees": [180, 180], "interpolation": "bilinear"},
      {"op": "random_rotation", "degrees": [-90, -90], "center": [3, 4.25]},
      {"op": "random_affine", "degrees": 0, "translate": [0.5, 0.5], "fill": 200},
      {"op": "center_crop", "size": [60, 45]}, SHARE, {"op": "random_rotation", "degrees": [270, 270]},
      {"op": "random_affine", "degrees": 0, "scale": [0.3, 3]},
      {"op": "random_affine", "degrees": 0, "scale": [0.01, 0.02], "interpolation": "bilinear"}], False),
    ([{"op": "resize", "size": [70, 90]}, {"op": "random_perspective", "p": 0.8, "fill": [9, 200, 77]},
      {"op": "center_crop", "size": 60}, SHARE,
      {"op": "random_perspective", "distortion_scale": 1, "p": 1, "interpolation": "nearest"}], True),
    ([{"op": "resize", "size": [50, 40]},
      {"op": "elastic_transform", "alpha": [90, 40], "fill": [9, 200, 77]},
      {"op": "center_crop", "size": 40}, SHARE, {"op": "views", "count": 2},
      {"op": "elastic_transform", "alpha": 8, "sigma": [0.7, 2], "interpolation": "nearest"}], True),
    ([{"op": "resize", "size": [47, 50]}, {"op": "views", "count": 10, "stack": True},
      {"op": "corner_crop", "size": [30, 33], "mirror": "down"}, SHARE, {"op": "flip"},
      {"op": "layout", "layout": "NCHW"}, {"op": "normalize", "mean": MEAN, "std": STD}], True),
    ([{"op": "resize", "size": [47, 50]}, SHARE, {"op": "views", "count": 10, "stack": True},
      {"op": "corner_crop", "size": [32, 31]}, JITTER, {"op": "random_erasing", "p": 1}], False),
    ([{"op": "rand_augment"}, {"op": "center_crop", "size": 50}, SHARE,
      {"op": "trivial_augment_wide", "fill": [1, 90, 200]}, {"op": "flip"}], False),
    ([{"op": "auto_augment"}, {"op": "resize", "size": [48, 40]}, SHARE,
      {"op": "auto_augment", "policy": "cifar10", "interpolation": "bilinear", "fill": 128},
      {"op": "auto_augment", "policy": "svhn"}], True),
    ([{"op": "rand_augment", "num_ops": 8, "magnitude": 30, "interpolation": "bilinear"},
      {"op": "center_crop", "size": 60}, SHARE, {"op": "rand_augment", "num_ops": 3, "magnitude": 4,
                                                  "num_magnitude_bins": 10, "unit_threshold": True}], False),
    ([{"op": "center_crop", "size": 60}, {"op": "aug_mix"}, {"op": "center_crop", "size": 50}, SHARE,
      {"op": "views", "count": 2},
      {"op": "flip"},
      {"op": "aug_mix", "severity": 10, "mixture_width": 5, "chain_depth": 3, "alpha": 0.2, "all_ops": False,
       "interpolation": "nearest", "fill": [9, 200, 77]}], False),
    ([{"op": "center_crop", "size": [41, 33]}, SHARE, {"op": "views", "count": 3}, {"op": "flip"},
      {"op": "random_erasing", "p": 0.8, "value": [9, 200, 77]}], False),
    ([{"op": "center_crop", "size": [41, 33]}, SHARE, {"op": "normalize", "mean": MEAN, "std": STD},
      {"op": "random_erasing", "p": 1, "scale": [0.1, 0.9], "ratio": [0.2, 5], "value": [0.1, -2.7, 1e5]},
      {"op": "cast", "dtype": "float16"}, {"op": "layout", "layout": "NCHW"}], False),
    ([{"op": "resize", "size": [30, 45]}, {"op": "grayscale"}, SHARE, {"op": "layout", "layout": "NCHW"},
      {"op": "cast", "dtype": "bfloat16"}, {"op": "random_erasing", "value": 0.3}], True),
    ([{"op": "center_crop", "size": 1}, SHARE, {"op": "random_erasing", "p": 1}], False),
    ([{"op": "random_apply", "count": 2, "p": 0.4}, JITTER, {"op": "grayscale", "p": 0.5},
      {"op": "center_crop", "size": 40}, SHARE, {"op": "views", "count": 4},
      {"op": "random_apply", "count": 2}, {"op": "invert", "p": 1},
      {"op": "random_rotation", "degrees": 30}, {"op": "flip"}], False),
    ([{"op": "center_crop", "size": 40}, {"op": "random_choice", "counts": [1, 2, 0], "p": [3, 1, 0.5]},
      {"op": "grayscale", "channels": 3}, {"op": "invert", "p": 1}, {"op": "flip", "p": 1}, SHARE,
      {"op": "views", "count": 3}, {"op": "random_order", "counts": [1, 3, 1]}, {"op": "equalize", "p": 1},
      {"op": "random_choice", "counts": [1, 1]}, {"op": "posterize", "bits": 3, "p": 1},
      {"op": "pillow_gaussian_blur", "radius": 2}, {"op": "adjust_sharpness", "factor": 3, "p": 1}], False),
]

#  Of an image and its mask.
MASK_PIPELINES = [
    [{"op": "decode", "fields": ["image", "mask"]},
     {"op": "resize", "size": [20, 65], "interpolation": "bicubic", "pillow13": True},
     {"op": "random_resized_crop", "size": [17, 43], "pillow13": True}, SHARE],
    [{"op": "decode", "fields": ["image", "mask"]},
     {"op": "random_resized_crop", "size": 41, "interpolation": "random"}, SHARE],
    [{"op": "decode", "fields": ["image", "mask"]}, {"op": "random_resized_crop", "size": 40}, SHARE,
     {"op": "flip"}, JITTER,
     {"op": "normalize", "std": 0.3, "reciprocal": True}],
    [{"op": "decode", "fields": ["image", "mask"]}, {"op": "resize", "size": [45, 50]}, SHARE,
     {"op": "views", "count": 2},
     {"op": "random_crop", "size": 48, "pad_if_needed": True, "mask_fill": 255}, {"op": "vertical_flip"}],
    [{"op": "decode", "fields": ["image", "mask"]}, {"op": "pad", "padding": 7, "mode": "edge"},
     {"op": "resize", "size": 30, "interpolation": "bicubic"}, {"op": "center_crop", "size": 33}, SHARE],
    [{"op": "decode", "fields": ["image", "mask"]}, {"op": "resize", "size": [45, 50]}, SHARE,
     {"op": "random_rotation", "degrees": 90, "interpolation": "bilinear", "fill": 7, "mask_fill": 255},
     {"op": "random_affine", "degrees": 10, "translate": [0.1, 0.1], "scale": [0.8, 1.2], "shear": 10,
      "interpolation": "bilinear"}, {"op": "equalize", "p": 1}, {"op": "pillow_gaussian_blur"},
     {"op": "gaussian_blur", "kernel_size": 3}],
    [{"op": "decode", "fields": ["image", "mask"]}, {"op": "resize", "size": [45, 50]}, SHARE,
     {"op": "aug_mix"}, {"op": "random_perspective", "p": 1, "fill": 7, "mask_fill": 255},
     {"op": "elastic_transform", "fill": 7, "mask_fill": 254}],
    [{"op": "decode", "fields": ["image", "mask"]}, {"op": "resize", "size": [45, 50]},
     {"op": "views", "count": 5, "stack": True}, {"op": "corner_crop", "size": 45}, SHARE, {"op": "flip"}],
    [{"op": "decode", "fields": ["image", "mask"]}, {"op": "rand_augment", "num_ops": 4, "mask_fill": 255},
     {"op": "resize", "size": [45, 50]}, SHARE, {"op": "trivial_augment_wide", "interpolation": "bilinear"}],
]


def names(pipeline):
    """What stands between a file's path and .npy, of each output."""
    operations = pipeline if isinstance(pipeline, list) else []
    fields = next((o["fields"] for o in operations if "fields" in o), ["image"])
    views = next((o["count"] for o in operations if o.get("op") == "views" and not o.get("stack")), 1)
    every = [field + (f"_{view + 1}" if view else "") for view in range(views) for field in fields]
    return [""] + ["." + name for name in every[1:]]


def prepare(program, pipeline, files, out, key=(0, 0, 0), more=()):
    """Runs `tureen prepare`; what went wrong with single files is on standard error, which is returned."""
    what = ["--recipe", pipeline] if isinstance(pipeline, str) else ["--pipeline", json.dumps(pipeline)]
    done = subprocess.run([program, "prepare", *what, "--seed", str(key[0]), "--epoch", str(key[1]), "--id",
                           str(key[2]), "--out", out, *more, *files], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"tureen prepare ended with {done.returncode} for {json.dumps(pipeline)}: "
                         f"{done.stderr}")
    return done.stderr


def outputs(folder, root, file, pipeline):
    """Where the outputs of a file below root are."""
    return [os.path.join(folder, os.path.relpath(file, root) + name + ".npy") for name in names(pipeline)]
