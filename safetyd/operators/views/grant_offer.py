"""Computes the scope of a grant made from a request, and its effect on past requests."""

from datetime import timedelta
from typing import Final

from safetyd.cards.request_details import GrantOffer
from safetyd.core.approvals.grants import unknown_program
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.events.request_events import Granted
from safetyd.core.shell.shape import in_words
from safetyd.core.simulation.trials import GrantCoverage, GrantTrial, PastRequest, counted
from safetyd.operators.contract.grant_contract import RequestGrantTerms
from safetyd.operators.grant_commands import from_request

LOOKED_BACK: Final = timedelta(days=7)
MOST_LOOKED_AT: Final = 200  # answers
WORDS_CHARS: Final = 200


class OfferedGrants:
    """Computes grant offers for requests; past answers are read once."""

    def __init__(self, state: EngineState) -> None:
        self._state = state
        self._answered = state.approvals.answered()[:MOST_LOOKED_AT]

    def __call__(self, known: Request) -> GrantOffer | None:
        """Return the scope of a grant, if the request is for a command that can be analysed."""
        proposal = known.shown
        shaped = self._state.reader.shaped(proposal)
        if shaped is proposal:
            return None
        covered = self._covered(known)
        return GrantOffer(
            shape=in_words(shaped.text)[:WORDS_CHARS],
            approved=covered.approved,
            denied=covered.denied,
            program=unknown_program(known.asked),
        )

    def _covered(self, known: Request) -> GrantCoverage:
        """Return which requests of the last week the grant would have covered."""
        granted = offered(self._state, known)
        if granted is None:
            return GrantCoverage()
        since = known.asked.at - LOOKED_BACK
        past = (
            PastRequest(other.asked, other.state)
            for other in self._answered
            if other.agent == known.agent and other.answer is not None and other.answer.at >= since
        )
        return counted(GrantTrial(self._state, granted).covered(past))


def offered(state: EngineState, known: Request) -> Granted | None:
    """Return the grant that could be made with an approval, if any."""
    asked = known.asked
    terms = RequestGrantTerms(uses=1, until=asked.at + LOOKED_BACK)
    granted = from_request(state, Moment(asked.at, asked.t), known, terms, "safetyd", "cli")
    return None if isinstance(granted, str) else granted
