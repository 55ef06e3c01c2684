"""The errors of the handset: one tree, three causes.

``UsageError`` is ours: a call in the wrong state, a setting that can't work. ``PeerError``
is the edge's, or the way to it. ``DeviceError`` is a device that is gone or does not do
what it was asked. Each message names the thing, the value, and what to do.

Bytes that are no message are not in the tree: they are
:class:`handset.core.packets.Malformed`, are counted and answered, and stop nothing.
"""

from __future__ import annotations


class HandsetError(Exception):
    """Anything the handset reports to the person who runs it."""


class UsageError(HandsetError):
    """Our own misuse, or a setting that can't work. Nothing was changed."""


class StoreTooNew(UsageError):
    """The store on disk was written by a newer handset."""


class PeerError(HandsetError):
    """The edge refused, misbehaved or can't be reached. ``permanent``: trying again with
    the same settings is of no use."""

    permanent = False


class EdgeUnreachable(PeerError):
    """No answer: refused connection, unknown host, time-out. Trying later is right."""


class EdgeRefused(PeerError):
    """The edge answered, and the answer is no. ``status`` is the HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class CredentialRefused(EdgeRefused):
    """The edge does not take this credential. Trying again with the same one is wrong."""

    permanent = True


class FingerprintMismatch(PeerError):
    """The edge's certificate is not the one that was enrolled. Never connect."""

    permanent = True


class ProtocolMismatch(PeerError):
    """No version of the protocol, or no answer, that both ends understand."""

    permanent = True


class DeviceError(HandsetError):
    """A device was lost, or does not do what it was asked."""
