"""What can go wrong, each with a sentence that says what to do."""
from __future__ import annotations

from typing import Optional


class TureenError(Exception):
    """The base of every error that this package raises on its own account."""


def bare(error: TureenError) -> TureenError:
    """The same without its traceback and what it came from, both of which hold on to frames."""
    return type(error)(*error.args)


class NoServer(TureenError):
    """No server answered at the endpoint in time."""


class ServeFailed(TureenError):
    """No server could be started, or the one that is there can not serve what was asked for."""


class NotLetIn(NoServer):
    """A server is there, and refuses the handshake with this client: one has keys and the other not, or it is
    another server."""


class KeyRefused(NotLetIn):
    """The server does not know this client's key (or, at ipc://, its user), or has revoked it."""


class NotTrusted(NotLetIn):
    """What listens at an ipc:// endpoint is another user's, or may be: this client does not let it in."""


class KeyUnusable(TureenError):
    """A key that was given cannot be used: its file is missing or damaged, others may read it, or its
    counterpart is missing."""


class RequestRefused(TureenError):
    """The server understood, and said no.  `code` is one of the protocol's words, `message` the server's
    sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class JobEnded(TureenError):
    """The server ended the job.  `reason` is one of the protocol's words."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(reason, message)
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return f"{self.message} ({self.reason})"


class ServerStopped(JobEnded):
    """The server ended in good order.  Every batch that it had delivered was handed out before this is
    raised."""


class ServerGone(TureenError):
    """The server died, or no longer knows this job."""


class ProtocolError(TureenError):
    """The server sent what docs/protocol.md does not allow."""


class StateError(TureenError):
    """A state cannot be gone on from: it is damaged, or of a loader with other arguments."""


class LoaderClosed(TureenError):
    """The loader was closed, or is being iterated again: this iterator has no job any more."""


class MapFailed(TureenError):
    """A function that was given as map or map_batch raised, or its process died again and again.  `id` is the
    sample's, of map_batch the first one's; None where it was no sample's fault.  The exception itself is
    __cause__, or, where it cannot leave its process, a stand-in of its name and text.  Asked
    for the next batch, the loader tries the same one again."""

    def __init__(self, message: str, id: Optional[int] = None) -> None:
        super().__init__(message, id)
        self.message = message
        self.id = id

    def __str__(self) -> str:
        return self.message


class SourceError(TureenError):
    """A source that cannot be packed (tureen.pack), or a row of it: says which, and what to do."""


class ForkedProcess(TureenError):
    """A loader was used in a forked child of the process that had used it before."""


class TureenWarning(UserWarning):
    """What the user of a job should know that goes on."""


class UnreadableWarning(TureenWarning):
    """Samples of the job's data cannot be read, and are left out."""
