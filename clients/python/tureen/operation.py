"""An operation of the operator's own: `tureen serve --operation NAME="python3 FILE"` runs FILE, which ends in

    tureen.operation.run(function)

function(image, height, width, seed, arguments) returns the image of height x width that the pipeline asks
for.
Images are uint8 arrays of shape [height, width, 3]: red, green, blue.  docs/operation.md has the protocol.
"""
from __future__ import annotations

import json
import mmap
import os
from typing import Any, Callable

import numpy as np

#   image, height, width, seed (0 unless random), arguments of the pipeline.  image is only lent for the call.
Function = Callable[["np.ndarray[Any, Any]", int, int, int, "dict[str, Any]"], "np.ndarray[Any, Any]"]

SOCKET, MEMORY = 3, 4               # descriptors that the server leaves open
PROTOCOL = 1
MESSAGE_BYTES_MAX = 4096
ERROR_BYTES_MAX = 300


class _Memory:
    """The memory in which the server puts an image and finds the result."""

    def __init__(self) -> None:
        self.mapped: mmap.mmap | None = None

    def view(self, size: int, at: int, height: int, width: int) -> np.ndarray[Any, Any]:
        """An image in it; size: of all the memory, which the server may have made larger."""
        if self.mapped is None or len(self.mapped) != size:
            self.mapped = mmap.mmap(MEMORY, size)
        return np.ndarray((height, width, 3), np.uint8, self.mapped, at)


def _answer(function: Function, memory: _Memory, question: dict[str, Any]) -> dict[str, Any]:
    height, width = question["result_height"], question["result_width"]
    image = memory.view(question["memory"], 0, question["height"], question["width"])
    result = function(image, height, width, question.get("seed", 0), question["arguments"])
    if result.dtype != np.uint8 or result.shape != (height, width, 3):
        return {"error": f"returned {result.dtype} of shape {list(result.shape)}; expected uint8 of "
                         f"{[height, width, 3]}"}
    memory.view(question["memory"], question["result_at"], height, width)[...] = result
    return {"height": height, "width": width}


def run(function: Function, *, random: bool = False, version: str = "") -> None:
    """Answers the server until it ends.

    random: function uses its seed; then each job gets a version once at most.  version: becomes part of what
    tells pixels of this operation from others; change it when something changes that is in no file of the
    command line, a library or a module.
    """
    memory = _Memory()
    greeting: dict[str, Any] = {"tureen_operation": PROTOCOL, "random": random, "version": version}
    os.write(SOCKET, json.dumps(greeting).encode())
    while True:
        packet = os.read(SOCKET, MESSAGE_BYTES_MAX)
        if not packet:
            return                  # the server has ended
        question = json.loads(packet)
        try:
            answer = _answer(function, memory, question)
        except Exception as error:  # the sample's fault, or the function's: the server says so to the job
            answer = {"error": f"{type(error).__name__}: {error}"[:ERROR_BYTES_MAX]}
        answer["call"] = question["call"]
        os.write(SOCKET, json.dumps(answer).encode())
