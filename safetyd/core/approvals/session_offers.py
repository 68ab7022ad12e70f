"""Grants that would have covered the approvals of one coding session.

After some approvals of one kind in a session, with no denial, a grant for that kind is offered. It
is never made automatically.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from safetyd.core.approvals.queue import Approvals
from safetyd.core.approvals.request import Request
from safetyd.core.shell.command_reader import CommandReader
from safetyd.core.shell.shape import in_words

ENOUGH: Final = 3  # approvals of one kind in a session
MOST_LOOKED_AT: Final = 200  # answers
WORDS_CHARS: Final = 200


class SessionOffer(msgspec.Struct, kw_only=True):
    """Requests of one kind in one session, and how they were answered."""

    newest: Request
    words: str  # the action, with blanks for parts that may differ
    approved: int = 0
    denied: int = 0

    @property
    def is_due(self) -> bool:
        return self.approved >= ENOUGH and not self.denied


def session_offers(approvals: Approvals, reader: CommandReader) -> list[SessionOffer]:
    """Return the kinds of requests that were approved often enough, the newest first."""
    kinds: dict[tuple[object, ...], SessionOffer] = {}
    for request in approvals.answered()[:MOST_LOOKED_AT]:
        if (kind := _kind(request, reader)) is not None:
            offer = kinds.setdefault(kind, SessionOffer(newest=request, words=_words(kind)))
            offer.approved += request.state == "approved"
            offer.denied += request.state == "denied"
    return [offer for offer in kinds.values() if offer.is_due]


def offered_to(request: Request, approvals: Approvals, reader: CommandReader) -> int:
    """Return how many requests of this kind were approved in its session, if enough."""
    kind = _kind(request, reader)
    offers = session_offers(approvals, reader) if kind is not None else ()
    return next((offer.approved for offer in offers if _kind(offer.newest, reader) == kind), 0)


def pending_like(
    offer: SessionOffer, approvals: Approvals, reader: CommandReader
) -> Iterator[Request]:
    """Yield the pending requests of the same kind."""
    kind = _kind(offer.newest, reader)
    return (one for one in approvals.pending(offer.newest.agent) if _kind(one, reader) == kind)


def _kind(request: Request, reader: CommandReader) -> tuple[object, ...] | None:
    """Return what similar requests of a coding session have in common; None for other requests."""
    asked, proposal = request.asked, request.asked.proposal
    if not asked.host or proposal.session is None or not proposal.text:
        return None
    shape = reader.shaped(proposal).text
    return asked.agent, proposal.session, asked.type, proposal.project, shape


def _words(kind: tuple[object, ...]) -> str:
    return in_words(str(kind[-1]))[:WORDS_CHARS]
