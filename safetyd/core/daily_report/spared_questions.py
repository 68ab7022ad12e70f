"""Repeated requests, and the grant or rule that would have avoided them.

The report only suggests these grants and rules. None is applied automatically.
"""

import shlex
from typing import Final, Literal

import msgspec

from safetyd.core.action_types import Kinds
from safetyd.core.approvals.grant_hints import may_be_named
from safetyd.core.approvals.suggestions import TABLE, Count, forbidding, suggestion_of
from safetyd.core.daily_report.day_numbers import DayNumbers, Question, shown, times
from safetyd.core.shell.shape import in_words, pattern

REPEATED: Final = 2
DENIED_OFTEN: Final = 3  # denials, by operators or because of an earlier one
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
    again: int = 0  # Denied like an earlier request, without a new one.
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
        again = f", and {times(self.again)} again after a denial" if self.again else ""
        said = f"requested {times(self.asked)}: {ended or 'not answered yet'}{again}"
        return f"{said}; {_SPARED[self.spared_by]}:" if self.spared_by else said


def repeated(numbers: DayNumbers, kinds: Kinds) -> tuple[RepeatedQuestion, ...]:
    """Return the most frequent requests, at most `SHOWN`."""
    often = [each for each in numbers.questions.values() if each.asked + each.again >= REPEATED]
    often.sort(key=lambda each: (-each.asked - each.again, each.agent, each.type, each.text or ""))
    return tuple(_shown(each, kinds) for each in often[:SHOWN])


def _shown(question: Question, kinds: Kinds) -> RepeatedQuestion:
    by, spared = spared_by(question, kinds)
    return shown(
        RepeatedQuestion,
        question,
        project=question.project or "",
        text=in_words(question.text or ""),
        spared_by=by,
        spared=spared,
    )


def spared_by(question: Question, kinds: Kinds) -> tuple[SparedBy, str]:
    """Return how requests could have been avoided, and the command or setting for it."""
    if question.human:
        return "", ""
    if (suggested := _suggested(question, kinds)) is not None:
        return "rule", suggested
    if is_denied_often(question):
        return "rule", _forbidding(question)
    if question.denied == 0 and (command := _grant(question)):
        return "grant", command
    return ("remedy", question.remedy) if question.remedy else ("", "")


def is_denied_often(question: Question) -> bool:
    """Return whether a rule should forbid an action: it was denied often and never approved."""
    often = question.denied + question.again >= DENIED_OFTEN
    return often and not question.approved and not question.human


def _forbidding(question: Question) -> str:
    """Return a rule that blocks what was denied: the text if it is known, else the type."""
    asked = Count(question.agent, question.type, question.project, question.text)
    denied = question.denied + question.again
    return forbidding(asked, f"denied {times(denied)} and never approved").toml


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
