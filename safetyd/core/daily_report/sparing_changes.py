"""The changes that would have spared operators the most requests or messages.

Each is an exact command or piece of configuration. None is made automatically.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Final, Literal

import msgspec

from safetyd.core.action_types import Kinds
from safetyd.core.approvals.suggestions import toml_quoted
from safetyd.core.daily_report.day_numbers import DayNumbers, Question
from safetyd.core.daily_report.spared_questions import REPEATED, spared_by
from safetyd.core.policy import Policy
from safetyd.core.recipients import QuietHours
from safetyd.core.shell.shape import in_words

SHOWN: Final = 3
WORDS_CHARS: Final = 60

Change = Literal["check", "grant", "rule", "setting"]
Spared = Literal["requests", "messages"]


class SparingChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change, and how many requests or messages of the day it would have spared."""

    kind: Change  # What to change.
    spares: int  # How many requests or messages it would have spared.
    of: Spared  # What it spares.
    what: str  # The change in words.
    change: str  # A command, or lines for the configuration.

    @property
    def says(self) -> str:
        return f"{self.what} ({self.spares:,} {self.of if self.spares > 1 else self.of[:-1]})"


def changes(numbers: DayNumbers, policy: Policy) -> tuple[SparingChange, ...]:
    """Return the most effective changes, at most `SHOWN`."""
    kinds = Kinds(policy.types, policy.profile)
    found = [*_checks(numbers, policy), *_answers(numbers, kinds), *_settings(numbers, policy)]
    found.sort(key=lambda one: (-one.spares, one.kind, one.change))
    return tuple(found[:SHOWN])


def _checks(numbers: DayNumbers, policy: Policy) -> Iterator[SparingChange]:
    """Yield one change for each check of a project. All its requests were about the same tool."""
    listed = [one for one in numbers.questions.values() if _is_checked(one)]
    listed.sort(key=_check_of)
    for (project, check), found in groupby(listed, _check_of):
        asked = sum(one.asked for one in found)
        known = policy.projects.get(project)
        if asked < REPEATED or known is None:
            continue
        checks = ", ".join(toml_quoted(one) for one in (*(known.checks or ()), check))
        yield SparingChange(
            kind="check",
            spares=asked,
            of="requests",
            what=f"Declare {check} as a check of {project}",
            change=f"[projects.{toml_quoted(project)}]\nchecks = [{checks}]",
        )


def _answers(numbers: DayNumbers, kinds: Kinds) -> Iterator[SparingChange]:
    """Yield a grant for what was always approved, and a rule for what was always denied."""
    for question in numbers.questions.values():
        if _is_checked(question):
            continue
        by, change = spared_by(question, kinds)
        if by not in {"grant", "rule"} or max(question.asked, question.again) < REPEATED:
            continue
        verb = "Forbid" if question.denied else "Allow"
        text = f": {in_words(question.text)[:WORDS_CHARS]}" if question.text else ""
        yield SparingChange(
            kind="grant" if by == "grant" else "rule",
            spares=question.asked,
            of="requests",
            what=f"{verb} {question.type} by {question.agent}{text}",
            change=change,
        )


def _settings(numbers: DayNumbers, policy: Policy) -> Iterator[SparingChange]:
    """Yield changes of [notifications] and of the rota."""
    people, telling = numbers.people, policy.telling
    echoes = sum(one.echoes for one in people.values())
    if echoes and telling.strategy == "all":
        yield _setting(
            echoes,
            "Use a further channel only if the first one fails",
            '[notifications]\nstrategy = "sequential"',
        )
    summaries = sum(one.only_summaries for one in people.values())
    if summaries and telling.summaries == "each":
        yield _setting(
            summaries,
            "Send summaries only of sessions that need a review",
            '[notifications]\nsummaries = "review"',
        )
    woken = {name: one.at_night for name, one in people.items() if one.at_night}
    if len(woken) > 1 and not (policy.rota and policy.rota.in_use):
        first = max(woken, key=lambda name: (woken[name], name))
        known = {one.name: one.quiet for one in telling.recipients}
        quiet = known.get(first, QuietHours())  # the recipient may have been removed since
        yield _setting(
            sum(woken.values()) - woken[first],
            "Let one person at a time be on call at night",
            f"[[people.rota.shifts]]\nwho = {toml_quoted(first)}\n"
            f"from = {toml_quoted(quiet.start)}\nto = {toml_quoted(quiet.end)}",
        )


def _setting(spares: int, what: str, change: str) -> SparingChange:
    return SparingChange(kind="setting", spares=spares, of="messages", what=what, change=change)


def _is_checked(question: Question) -> bool:
    return bool(question.check) and not question.denied


def _check_of(question: Question) -> tuple[str, str]:
    return question.project or "", question.check
