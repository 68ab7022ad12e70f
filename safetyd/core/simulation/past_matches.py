"""Matches requests and messages of the record with those of a simulation.

Two requests match if the same proposal opened or joined them. A simulated request without a match
gets the answer to another recorded request for the same action, or for an action of the same shape.
The answer arrives after the recorded delay. If there is no such answer, nobody answers the request.
"""

from typing import NamedTuple

from safetyd.core.approvals.request import UNPAUSE, Request, request_id
from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.guard_events import Paused
from safetyd.core.events.notification_events import Due
from safetyd.core.events.request_events import Answered
from safetyd.core.messages.binding import binding

ActionKey = tuple[str, bytes]  # an agent, and the hash of an action or of its shape


class PastAnswer(NamedTuple):
    answer: Answered
    took_s: float


class PastQuestion(NamedTuple):
    actions: tuple[ActionKey, ...]  # keys of the exact action, then of its shape
    asked_t: float


class PastAnswers:
    """Maps the recorded requests to those of the simulation, and finds past answers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._asked: dict[str, PastQuestion] = {}
        self._standing: dict[str, str] = {}  # recorded id -> simulated id
        self._pauses: dict[str, str] = {}  # recorded id of a request to end a pause -> agent
        self._answers: dict[ActionKey, PastAnswer] = {}
        # Requests that exist only in the simulation and are unanswered.
        self._unasked: dict[ActionKey, list[str]] = {}

    def was_asked(self, was: Decided, made: Decided | None) -> None:
        """Add a recorded request, and the simulated request that matches it, if any."""
        if was.asks is None:
            return
        known = was.asks.request_id
        if known not in self._asked:
            self._asked[known] = PastQuestion(self._actions(was), was.t)
        if made is not None and made.asks is not None:
            self._standing.setdefault(known, made.asks.request_id)

    def was_paused(self, event: Paused) -> None:
        """Add a recorded request to end a pause."""
        self._pauses[request_id(event.agent, UNPAUSE, event.seq)] = event.agent

    def is_asked(self, made: Decided, id_: str) -> PastAnswer | None:
        """Add a request that is not in the record. Return a past answer to a similar request."""
        actions = self._actions(made)
        found = next((self._answers[key] for key in actions if key in self._answers), None)
        if found is None:
            self._unasked.setdefault(actions[-1], []).append(id_)
        return found

    def was_answered(self, event: Answered) -> list[tuple[str, PastAnswer]]:
        """Store an answer for similar requests. Return the requests that already wait for it."""
        asked = self._asked.get(event.request_id)
        if asked is None:
            return []
        past = PastAnswer(event, event.t - asked.asked_t)
        self._answers.update(dict.fromkeys(asked.actions, past))
        return [(id_, past) for id_ in self._unasked.pop(asked.actions[-1], ())]

    def find(self, recorded: str) -> Request | None:
        """Return the simulated request that matches a recorded one, or None."""
        approvals = self._engine.approvals
        if (standing := self._standing.get(recorded)) is not None:
            return approvals.find(standing)
        if (agent := self._pauses.get(recorded)) is not None:
            return next((one for one in approvals.pending(agent) if one.own), None)
        # A request that is older than the simulation has the same id in both.
        return None if recorded in self._asked else approvals.find(recorded)

    def _actions(self, asked: Decided) -> tuple[ActionKey, ...]:
        exact = b"" if asked.asks is None else asked.asks.action
        shaped = self._engine.reader.shaped(asked.proposal)
        alike = binding(asked.agent, asked.type, shaped, asked.resolved)
        return tuple(dict.fromkeys(((asked.agent, exact), (asked.agent, alike))))


class PastDeliveries:
    """Maps recorded messages to simulated ones.

    Messages match if they are due at the same time to the same recipient on the same channel.
    """

    def __init__(self) -> None:
        self._unmatched: list[Due] = []
        self._standing: dict[str, str] = {}  # recorded id -> simulated id, or empty if none matches

    def made(self, event: Due) -> None:
        """Add a message of the simulation."""
        self._unmatched.append(event)

    def was_due(self, event: Due) -> None:
        """Add a recorded message, right after the event that caused it."""
        where = event.recipient, event.channel
        found = next((d for d in self._unmatched if (d.recipient, d.channel) == where), None)
        self._standing[event.delivery] = "" if found is None else found.delivery
        if found is not None:
            self._unmatched.remove(found)

    @property
    def pending(self) -> bool:
        """True if a simulated message has no match in the record yet."""
        return bool(self._unmatched)

    def unmatched(self) -> list[Due]:
        """Return the messages that are not in the record, each once."""
        found, self._unmatched = self._unmatched, []
        return found

    def find(self, recorded: str) -> str:
        """Return the id of the simulated message that matches a recorded one. Empty if none."""
        return self._standing.get(recorded, recorded)  # older messages have the same id in both
