"""What the two sides of a connection hold of one job, and what goes from the one to the other."""
from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any, Mapping, NamedTuple, Optional, Tuple, Union

import zmq

from .errors import JobEnded
from .slots import Slots
from .waker import Waker
from .wire import NOTHING_UNREADABLE, BatchHead, Joined

if TYPE_CHECKING:
    from .mapping.memory import Shared
    from .mapping.results import Work


class Job:
    """One job at the server.  A connection that joins anew has another one; the batches of the one before
    keep theirs."""

    def __init__(self, joined: Joined, waker: Waker) -> None:
        self.joined = joined
        #  Of one epoch, as the server told last; and which of the job's data are left out, because they
        #  cannot be read.
        self.samples = joined.samples
        self.unreadable: Mapping[str, Any] = NOTHING_UNREADABLE
        self.slots = Slots(joined.slots, waker)
        #  The memory of its batches; None: they come inline, or it is not needed any more.
        self.memory: Optional[mmap.mmap] = None
        #  The same, for processes of this client (map=).
        self.shared: Optional[Shared] = None
        #  Why the server has ended the job, and may have emptied the memory.
        self.emptied: Optional[JobEnded] = None
        #  Batches that the user's loop was given: written by the user's threads, told by the connection's.
        self.consumed = 0
        #  The last PROGRESS.
        self.reported: Tuple[int, int, int] = (0, 0, 0)


class Arrival(NamedTuple):
    """A batch as it came: where it is in the job's ring, or its bytes."""
    job: Job
    head: BatchHead
    ids: bytes
    frame: Union[zmq.Frame, bytes, None]
    #  The ids of what is behind with it: of all ranks.
    step: bytes
    #  What becomes of it where the loader has a map.
    work: Optional[Work] = None


class EpochOver(NamedTuple):
    """All batches of this epoch are before it in the queue.  `samples`: of one of the epochs to come, as was
    told before it."""
    epoch: int
    samples: int


class Told(NamedTuple):
    """A notice that is given after the batches before it."""
    kind: str
    text: str


#  None: nothing follows.
Item = Union[Arrival, EpochOver, Told, None]
