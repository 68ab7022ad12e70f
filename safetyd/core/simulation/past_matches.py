"""Requests and messages of the record, matched with those of a simulation.

Two requests stand for each other if the same proposal opened or joined them. Where nobody was asked
then, an answer to the same action serves, or to one of the same shape; it comes after as long as it
took then. Where there is none, nobody answers.
"""

from typing import NamedTuple

from safetyd.core.approvals.request import UNPAUSE, Request, request_id
from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.guard_events import Paused
from safetyd.core.events.notification_events import Due
from safetyd.core.events.request_events import Answered
from safetyd.core.messages.binding import binding

ActionKey = tuple[str, bytes]  # an agent, and what it would do


class PastAnswer(NamedTuple):
    answer: Answered
    took_s: float


class PastQuestion(NamedTuple):
    actions: tuple[ActionKey, ...]  # the exact one first, then its shape
    asked_t: float


class PastAnswers:
    """Knows the requests of the record by their ids, and finds those of the engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._asked: dict[str, PastQuestion] = {}
        self._standing: dict[str, str] = {}  # recorded id -> simulated id
        self._pauses: dict[str, str] = {}  # recorded id of a question about a pause -> agent
        self._answers: dict[ActionKey, PastAnswer] = {}
        self._unasked: dict[ActionKey, list[str]] = {}  # of the simulation alone, and unanswered

    def was_asked(self, was: Decided, made: Decided | None) -> None:
        """Record a question of the record, and of the one that stands for it, if any."""
        if was.asks is None:
            return
        known = was.asks.request_id
        if known not in self._asked:
            self._asked[known] = PastQuestion(self._actions(was), was.t)
        if made is not None and made.asks is not None:
            self._standing.setdefault(known, made.asks.request_id)

    def was_paused(self, event: Paused) -> None:
        """Record that people were asked to end a pause."""
        self._pauses[request_id(event.agent, UNPAUSE, event.seq)] = event.agent

    def is_asked(self, made: Decided, id_: str) -> PastAnswer | None:
        """Record a question that nobody was asked then; return an answer to such a one."""
        actions = self._actions(made)
        found = next((self._answers[key] for key in actions if key in self._answers), None)
        if found is None:
            self._unasked.setdefault(actions[-1], []).append(id_)
        return found

    def was_answered(self, event: Answered) -> list[tuple[str, PastAnswer]]:
        """Keep an answer for the same action at other times; return which requests it serves."""
        asked = self._asked.get(event.request_id)
        if asked is None:
            return []
        past = PastAnswer(event, event.t - asked.asked_t)
        self._answers.update(dict.fromkeys(asked.actions, past))
        return [(id_, past) for id_ in self._unasked.pop(asked.actions[-1], ())]

    def find(self, recorded: str) -> Request | None:
        """Return the request of the simulation that stands for one of the record, if one does."""
        approvals = self._engine.approvals
        if (standing := self._standing.get(recorded)) is not None:
            return approvals.find(standing)
        if (agent := self._pauses.get(recorded)) is not None:
            return next((one for one in approvals.pending(agent) if one.own), None)
        # One from before the simulation stands for itself.
        return None if recorded in self._asked else approvals.find(recorded)

    def _actions(self, asked: Decided) -> tuple[ActionKey, ...]:
        exact = b"" if asked.asks is None else asked.asks.action
        shaped = self._engine.reader.shaped(asked.proposal)
        alike = binding(asked.agent, asked.type, shaped, asked.resolved)
        return tuple(dict.fromkeys(((asked.agent, exact), (asked.agent, alike))))


class PastDeliveries:
    """Which message of a simulation stands for which of the record.

    Those that are due at the same time to the same recipient on the same channel do.
    """

    def __init__(self) -> None:
        self._unmatched: list[Due] = []
        self._standing: dict[str, str] = {}  # recorded id -> simulated id; empty: none

    def made(self, event: Due) -> None:
        """Record a message that a simulation makes."""
        self._unmatched.append(event)

    def was_due(self, event: Due) -> None:
        """Record a message of the record, right after what brought it about."""
        where = event.recipient, event.channel
        found = next((d for d in self._unmatched if (d.recipient, d.channel) == where), None)
        self._standing[event.delivery] = "" if found is None else found.delivery
        if found is not None:
            self._unmatched.remove(found)

    @property
    def pending(self) -> bool:
        """Whether a message was made that the record has not shown."""
        return bool(self._unmatched)

    def unmatched(self) -> list[Due]:
        """Return the messages that the record does not have, each once."""
        found, self._unmatched = self._unmatched, []
        return found

    def find(self, recorded: str) -> str:
        """Return the message that stands for one of the record, or nothing."""
        return self._standing.get(recorded, recorded)  # from before the simulation: itself
