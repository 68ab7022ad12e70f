"""What a grant that is made from a request would cover, and would have covered before."""

from datetime import timedelta
from typing import Final

import msgspec

from safetyd.core.approvals.grants import unknown_program
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine import Engine
from safetyd.core.shell.shape import in_words

LOOKED_BACK: Final = timedelta(days=7)
MOST_LOOKED_AT: Final = 200  # answers
WORDS_CHARS: Final = 200


class GrantOffer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What may be granted with an approval, in words. The counts are of the last week."""

    shape: str  # the command, with blanks for what may differ
    approved: int = 0  # requests of this shape
    denied: int = 0
    program: str = ""  # nobody knows it: it may be granted with its verb, whatever else it is given


def offered(engine: Engine, known: Request) -> GrantOffer | None:
    """Return what a grant would cover, if the request is about a command that is read."""
    proposal = known.asked.proposal
    shaped = engine.reader.shaped(proposal)
    if shaped is proposal:
        return None
    since = known.asked.at - LOOKED_BACK
    alike = [
        other
        for other in engine.approvals.answered()[:MOST_LOOKED_AT]
        if other.agent == known.agent
        and other.answer is not None
        and other.answer.at >= since
        and other.asked.proposal.project == proposal.project
        and engine.reader.shaped(other.asked.proposal).text == shaped.text
    ]
    return GrantOffer(
        shape=in_words(shaped.text)[:WORDS_CHARS],
        approved=sum(other.state == "approved" for other in alike),
        denied=sum(other.state == "denied" for other in alike),
        program=unknown_program(known.asked),
    )
