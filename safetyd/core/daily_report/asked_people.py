"""Counts requests, answers, answer times and repeated questions."""

import json
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from safetyd.core.action_types import Kinds
from safetyd.core.approvals.assurance import says_all
from safetyd.core.approvals.grants import unknown_program
from safetyd.core.approvals.request import UNPAUSE, request_id
from safetyd.core.approvals.resolution import DENIED_BEFORE
from safetyd.core.approvals.suggestions import TEXT_CHARS
from safetyd.core.daily_report.day_numbers import (
    DayNumbers,
    Latest,
    Most,
    PersonNumbers,
    Question,
    count,
    entry,
)
from safetyd.core.daily_report.recent_entries import RecentEntries
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.guard_events import Paused
from safetyd.core.events.request_events import Answered, Cancelled, Expired, Superseded
from safetyd.core.messages.verdict import Verdict, all_of
from safetyd.core.policy import Policy
from safetyd.core.shell.command_reader import CommandReader

KEPT_FOR: Final = timedelta(days=7)  # older requests do not count as pending
SPANS_S: Final = (60, 300, 900, 3600, 14_400, 86_400)  # upper limits of the spans of answer times


class AskedRequest(NamedTuple):
    """The data of a request that is needed when it is answered."""

    at: datetime
    question: Question  # with all counts 0
    confidence: float | None = None


class AskedPeople:
    """Counts requests and answers. Tracks the pending requests of the last week."""

    def __init__(self) -> None:
        self._open: RecentEntries[str, AskedRequest] = RecentEntries(KEPT_FOR)
        self._reader: CommandReader | None = None
        self._kinds: Kinds | None = None
        self._policy = Policy()

    def configured(self, policy: Policy) -> None:
        """Use a new policy to parse commands from now on."""
        if policy != self._policy:
            self._policy, self._kinds, self._reader = policy, None, None

    def asked(self, event: Decided, day: DayNumbers) -> None:
        """Record a request that a decision opens."""
        if event.asks is None:
            return
        if event.asks.joins:
            day.joined += 1
            return
        stated = event.proposal.confidence
        asked = AskedRequest(event.at, self._question(event), stated)
        self._opened(event.asks.request_id, asked, day)

    def paused(self, event: Paused, day: DayNumbers) -> None:
        """Record the request to unpause an agent."""
        question = Question(agent=event.agent, type=UNPAUSE, human=True)
        asked = AskedRequest(event.at, question)
        self._opened(request_id(event.agent, UNPAUSE, event.seq), asked, day)

    def answered(self, event: Answered, day: DayNumbers) -> None:
        asked = self._end(event.request_id, event.at, day)
        yes = event.answer == "approved"
        day.yes, day.no = day.yes + yes, day.no + (not yes)
        if asked is None:
            return
        took = max(event.at - asked.at, timedelta())
        took_ms = took // timedelta(milliseconds=1)
        day.timed, day.took_ms = day.timed + 1, day.took_ms + took_ms
        day.longest_ms += Most(took_ms)
        count(day.within, span_of(took.total_seconds()))
        person = entry(day.people, event.by, PersonNumbers)
        person.answers, person.took_ms = person.answers + 1, person.took_ms + took_ms
        question = _counted(asked, day)
        question.approved, question.denied = question.approved + yes, question.denied + (not yes)
        if (stated := day.stated_by(asked.question.agent, asked.confidence)) is not None:
            stated.approved, stated.denied = stated.approved + yes, stated.denied + (not yes)

    def blocked(self, event: Decided, day: DayNumbers) -> None:
        """Count a proposal that was denied like an earlier one, without a new request."""
        if any(verdict.rule == DENIED_BEFORE for verdict in event.verdicts):
            _counted(AskedRequest(event.at, self._question(event)), day).again += 1

    def expired(self, event: Expired, day: DayNumbers) -> None:
        for id_ in event.request_ids:
            day.expired += 1
            if (asked := self._end(id_, event.at, day)) is not None:
                _counted(asked, day).unanswered += 1

    def withdrawn(self, event: Cancelled | Superseded, day: DayNumbers) -> None:
        day.withdrawn += 1
        self._end(event.request_id, event.at, day)

    def look(self, at: datetime, day: DayNumbers) -> None:
        """Record the number of pending requests and the age of the oldest."""
        day.waiting = Latest(self._open.count(at))
        oldest = self._open.oldest(at)
        day.oldest_s = Latest(0 if oldest is None else int((at - oldest.at).total_seconds()))

    def _opened(self, id_: str, asked: AskedRequest, day: DayNumbers) -> None:
        self._open.put(id_, asked, asked.at)
        day.opened += 1
        self.look(asked.at, day)
        _counted(asked, day).asked += 1

    def _end(self, id_: str, at: datetime, day: DayNumbers) -> AskedRequest | None:
        asked = self._open.pop(id_, at)
        self.look(at, day)
        return asked

    def _question(self, event: Decided) -> Question:
        """Return the question that a request asks. Commands of one shape ask the same question."""
        proposal = event.proposal
        if self._kinds is None:
            self._kinds = Kinds(self._policy.types, self._policy.profile)
        kind = self._kinds.of(proposal)
        text = None
        if says_all(proposal) and len(proposal.text) <= TEXT_CHARS:
            text = self._commands(self._kinds).shaped(proposal).text
        lifted = [each for each in event.verdicts if each.rule != DENIED_BEFORE]
        return Question(
            agent=event.agent,
            type=event.type,
            project=proposal.project,
            text=text,
            program=unknown_program(event),
            rules=tuple(sorted({rule for each in lifted for rule in _rules(each)})),
            remedy=all_of(each.remedy for each in lifted),
            human=kind.human,
            raised=kind.raised,
            check=self._commands(self._kinds).check_for(proposal),
        )

    def _commands(self, kinds: Kinds) -> CommandReader:
        """Return the command reader. Create it on first use."""
        if self._reader is None:
            self._reader = self._policy.reader(kinds)
        return self._reader


def span_of(seconds: float) -> int:
    """Return the index of the time span that contains an answer time."""
    return sum(seconds >= limit for limit in SPANS_S)


def _counted(asked: AskedRequest, day: DayNumbers) -> Question:
    """Return the day's entry for a question. Create it if needed."""
    known = asked.question
    key = json.dumps((known.agent, known.type, known.project, known.text, known.rules))
    return entry(day.questions, key, lambda: msgspec.structs.replace(known))


def _rules(verdict: Verdict) -> tuple[str, ...]:
    return (verdict.rule, *verdict.also)
