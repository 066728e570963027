"""Which of a batch's fields the pipeline makes, and which of these are images."""
from __future__ import annotations

from typing import Any, List, Mapping, Sequence, Tuple

Steps = Sequence[Mapping[str, Any]]


def outputs(pipeline: Steps) -> Tuple[List[str], List[str]]:
    """The names of what the pipeline makes, and which of it are images and masks; the other fields are
    labels, and lengths.  `pipeline` is as JOINED wrote it out, `decode` first."""
    decode: Mapping[str, Any] = next((step for step in pipeline if step.get("op") == "decode"), {})
    kind = decode.get("as", "image")
    if kind != "image":
        return [str(kind)], []
    given = decode.get("fields", ["image"])
    names = [str(field) for field in given if not isinstance(field, Mapping)]
    #  Stacked ones are one array.
    views = next((int(step["count"]) for step in pipeline
                  if step.get("op") == "views" and not step.get("stack")), 1)
    images = names + [f"{name}_{view}" for view in range(2, views + 1) for name in names]
    others = [field for field in given if isinstance(field, Mapping)]
    boxes = [f"{field['field']}_{view}" for view in range(2, views + 1) for field in others
             if field.get("as") == "boxes"]
    return images + [str(field["field"]) for field in others] + boxes, images


def are_stacked(pipeline: Steps) -> bool:
    """Each image, or mask, has a dimension more: that of its views."""
    return any(step.get("op") == "views" and step.get("stack") for step in pipeline)


def has_channels_first(pipeline: Steps) -> bool:
    return any(step.get("op") == "layout" and step.get("layout") == "NCHW" for step in pipeline)
