"""Repeated requests, and the grant or rule that would have avoided them.

The report only suggests these grants and rules. None is applied automatically.
"""

import shlex
from typing import Final, Literal

import msgspec

from safetyd.core.action_types import Kinds
from safetyd.core.approvals.grant_hints import may_be_named
from safetyd.core.approvals.suggestions import TABLE, Count, suggestion_of
from safetyd.core.daily_report.day_numbers import DayNumbers, Question, shown, times
from safetyd.core.shell.shape import in_words, pattern

REPEATED: Final = 2
SHOWN: Final = 10
MAX_USES: Final = 20  # number of uses of a suggested grant

SparedBy = Literal["grant", "rule", "remedy", ""]
_SPARED: Final = {
    "grant": "this grant would have avoided it",
    "rule": "this rule would have avoided it",
    "remedy": "it would have been allowed",
}


class RepeatedQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A repeated request. `spared` is a command or setting that would have avoided it.

    If there is none, `spared` is the guard's remedy, or empty.
    """

    agent: str
    type: str
    project: str = ""
    text: str = ""
    rules: tuple[str, ...]
    asked: int
    approved: int
    denied: int
    unanswered: int
    spared_by: SparedBy = ""
    spared: str = ""

    @property
    def what(self) -> str:
        where = f" in {self.project}" if self.project else ""
        text = f": {self.text}" if self.text else ""
        return f"{self.type} by {self.agent}{where}{text}"

    @property
    def outcome(self) -> str:
        """The answers, and how the request could have been avoided."""
        answers = (
            (self.approved, "approved"),
            (self.denied, "denied"),
            (self.unanswered, "expired"),
        )
        ended = ", ".join(f"{number:,} {how}" for number, how in answers if number)
        said = f"requested {times(self.asked)}: {ended or 'not answered yet'}"
        return f"{said}; {_SPARED[self.spared_by]}:" if self.spared_by else said


def repeated(numbers: DayNumbers, kinds: Kinds) -> tuple[RepeatedQuestion, ...]:
    """Return the most frequent requests, at most `SHOWN`."""
    often = [each for each in numbers.questions.values() if each.asked >= REPEATED]
    often.sort(key=lambda each: (-each.asked, each.agent, each.type, each.text or ""))
    return tuple(_shown(each, kinds) for each in often[:SHOWN])


def _shown(question: Question, kinds: Kinds) -> RepeatedQuestion:
    by, spared = _spared(question, kinds)
    return shown(
        RepeatedQuestion,
        question,
        project=question.project or "",
        text=in_words(question.text or ""),
        spared_by=by,
        spared=spared,
    )


def _spared(question: Question, kinds: Kinds) -> tuple[SparedBy, str]:
    if question.human:
        return "", ""
    if (suggested := _suggested(question, kinds)) is not None:
        return "rule", suggested
    if question.denied == 0 and (command := _grant(question)):
        return "grant", command
    return ("remedy", question.remedy) if question.remedy else ("", "")


def _suggested(question: Question, kinds: Kinds) -> str | None:
    """Return the rule that the answers suggest, if all of them agree.

    A rule that blocks covers a kind of action. A rule that allows covers a text or a program.
    """
    denied = bool(question.denied)
    counted = Count(
        question.agent,
        question.type,
        question.project,
        None if denied else question.text,
        approved=question.approved,
        by_table=question.approved if _by_table(question) else 0,
        denied=question.denied,
        program=msgspec.UNSET if denied or not question.program else question.program,
    )
    found = suggestion_of(counted, kinds.named(question.type))
    return None if found is None else found.toml


def _by_table(question: Question) -> bool:
    return not question.raised and set(question.rules) <= TABLE


def _grant(question: Question) -> str:
    """Return the command for a one-day grant that covers the question, or an empty string."""
    if question.text is None or question.raised:
        return ""
    named = [rule for rule in question.rules if rule not in TABLE]
    if len(named) > 1 or not all(map(may_be_named, named)):
        return ""
    given = ["safetyd", "grant", "add", "--agent", question.agent, "--type", question.type]
    given += ["--rule", *named] if named else []
    uses = min(question.asked, MAX_USES)
    given += ["--text", pattern(question.text), "--uses", str(uses), "--for", "24h"]
    return f"{shlex.join(given)} --reason '...'"
