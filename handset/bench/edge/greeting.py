"""The first exchange on a connection: who may have a session, and which."""

from __future__ import annotations

from dataclasses import dataclass, field

from handset.core.messages import Disclosure, Hello, Refused, Versions, Welcome
from handset.core.packets import Malformed

from .session import Session


@dataclass(slots=True)
class Greeted:
    """One connection. ``epoch`` is null until its hello was taken. ``backlog``: how many
    durable events come before audio; ``come``: those that did, by outbox and number."""

    epoch: int | None = None
    backlog: int = 0
    come: set[tuple[str, int]] = field(default_factory=set)
    attached: bool = False

    @property
    def settled(self) -> bool:
        return len(self.come) >= self.backlog


def refusal(hello: Hello, mine: Versions, sessions: dict[str, Session]) -> Refused | None:
    """Why this hello gets no session; ``Malformed`` when it makes no sense.

    A session is resumed with its newest token only: a token is good for one resumption.
    """
    theirs = hello.protocol
    if theirs.max < mine.min or theirs.min > mine.max or theirs.min > theirs.max:
        return Refused(
            code="protocol",
            reason=f"the handset speaks versions {theirs.min} to {theirs.max}, "
            f"this edge {mine.min} to {mine.max}",
            protocol=mine,
        )
    if hello.resume is None:
        return None
    session = sessions.get(hello.resume.session)
    if session is None or session.token != hello.resume.token or session.ended is not None:
        return Refused(
            code="forgotten",
            reason=f"session {hello.resume.session} can't be resumed; start a new one",
        )
    if hello.epoch <= session.epoch:
        raise Malformed(f"epoch {hello.epoch} after epoch {session.epoch}")
    return None


def welcome(
    hello: Hello, mine: Versions, session: Session, disclosure: Disclosure | None = None
) -> Welcome:
    """The answer to a hello that gets this session."""
    return Welcome(
        session=session.session_id,
        epoch=hello.epoch,
        protocol=min(hello.protocol.max, mine.max),
        resume_token=session.token,
        resumed=hello.resume is not None,
        require_manual=session.require_manual,
        require_consent=session.require_consent,
        disclosure=disclosure,
    )
