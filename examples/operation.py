"""An operation of your own, with OpenCV (Debian: python3-opencv): local contrast, then the size asked for.

    tureen serve --dataset train=/data/train --operation contrast="python3 examples/operation.py"

and in a pipeline, before the share point:

    [{"op": "custom", "name": "contrast", "size": 224, "arguments": {"limit": 3}}, {"share": true},
     {"op": "flip"}]
"""
from __future__ import annotations

from typing import Any

import cv2
import numpy as np

import tureen.operation


def contrast(image: np.ndarray[Any, Any], height: int, width: int, seed: int,
             arguments: dict[str, Any]) -> np.ndarray[Any, Any]:
    lightness = cv2.cvtColor(image, cv2.COLOR_RGB2LAB)
    equalizer = cv2.createCLAHE(clipLimit=float(arguments.get("limit", 2)), tileGridSize=(8, 8))
    lightness[..., 0] = equalizer.apply(lightness[..., 0])
    image = cv2.cvtColor(lightness, cv2.COLOR_LAB2RGB)
    return cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)


if __name__ == "__main__":
    cv2.setNumThreads(1)            # the server starts as many processes as it wants samples at once
    tureen.operation.run(contrast, version=cv2.__version__)
