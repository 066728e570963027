"""What the server says of itself."""
from __future__ import annotations

import os
from typing import Any, Dict, Optional, Union

from . import wire
from .asking import Asker
from .errors import ProtocolError
from .keys import KeyPaths
from .request import resolve_endpoint, seconds


Path = Union[str, "os.PathLike[str]"]


def status(endpoint: Optional[str] = None, timeout: float = 5.0, *, key: Optional[Path] = None,
           server_key: Optional[Path] = None) -> Dict[str, Any]:
    """The object that `tureen status --json` prints.  `timeout` in seconds; math.inf: as long as it takes.
    NoServer comes at once where nothing listens at the endpoint.  `key` and `server_key` as of Loader."""
    endpoint = resolve_endpoint(endpoint)
    keys = KeyPaths(key, server_key).read(endpoint)
    with Asker(endpoint, keys, seconds("timeout", timeout)) as asker:
        frames = asker.ask(wire.status, wire.STATUS_REPLY)
    if len(frames) != 1:
        raise ProtocolError(f"the server's answer has {len(frames) + 1} frames instead of 2")
    return wire.parse_json(frames[0], "STATUS_REPLY")
