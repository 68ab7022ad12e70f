"""Checks `[rules]` and `[projects]`. Each problem names the full key and a fix."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from safetyd.core.action_types import Kinds
from safetyd.core.guards.projects import ProjectFields
from safetyd.core.guards.rules import (
    WEEKDAYS,
    CustomRule,
    ProjectRules,
    RuleLists,
    RulesConfig,
    When,
    hours,
)
from safetyd.core.messages.verdict import Severity
from safetyd.core.text import patterns
from safetyd.core.text.path_globs import EXCEPT, Globs
from safetyd.core.text.patterns import PatternConfig

Problem = tuple[str, str]

_TAKEN: Final = frozenset({"require_permission", "known_contacts"})  # built-in rule ids
_LET_PEOPLE: Final = "To allow contact with people, set allow_human_communication = true"

_is_name = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z").match


def problems(
    rules: RulesConfig, projects: Mapping[str, ProjectFields], kinds: Kinds
) -> list[Problem]:
    """Return every problem in the configuration, except in a project's `file`."""
    wrong = [*_table_problems("rules", rules), *_list_problems("rules", rules, kinds)]
    if not rules.allow_human_communication:
        wrong += [*_type_problems(kinds), *_human_problems("rules", rules, kinds)]
    for name, project in projects.items():
        wrong += _project_problems(f"projects.{name}", project, rules, kinds)
    return wrong


def file_problems(rules: ProjectRules) -> list[Problem]:
    """Return the problems of the rules in a project's `file`."""
    return list(_table_problems("rules", rules))


def _project_problems(
    path: str, project: ProjectFields, base: RulesConfig, kinds: Kinds
) -> Iterator[Problem]:
    if project.root and not project.root.startswith("/"):
        yield f"{path}.root", f"{project.root!r} must be an absolute path"
    if project.file and not project.file.startswith("/"):
        yield f"{path}.file", f"{project.file!r} must be an absolute path"
    yield from _table_problems(f"{path}.rules", project.rules)
    yield from _list_problems(f"{path}.rules", project.rules, kinds)
    speaks = project.rules.allow_human_communication
    if not (base.allow_human_communication if speaks is None else speaks):
        yield from _human_problems(f"{path}.rules", project.rules, kinds)


def _list_problems(path: str, rules: RuleLists, kinds: Kinds) -> Iterator[Problem]:
    required = {kinds.named(name).type for name in rules.require_permission}
    for name in rules.allow_without_permission:
        kind = kinds.named(name)
        if kind.type in required:
            why = f"{name} is also in require_permission. Remove it from one of the lists"
            yield f"{path}.allow_without_permission", why
        if "prohibited" in {kind.tier, kind.risk}:
            why = f"{name} is prohibited. To allow it with approval, add it to require_permission"
            yield f"{path}.allow_without_permission", why


def _type_problems(kinds: Kinds) -> Iterator[Problem]:
    for name, kind in kinds.known.items():
        if kind.human and kind.tier == "auto_allowed" and kind.risk in {"low", "medium"}:
            yield (
                f"types.{name}",
                f"it contacts a person and would be allowed without approval. {_LET_PEOPLE}",
            )


def _human_problems(path: str, rules: RuleLists, kinds: Kinds) -> Iterator[Problem]:
    for name in rules.allow_without_permission:
        if kinds.named(name).human:
            yield f"{path}.allow_without_permission", f"{name} contacts a person. {_LET_PEOPLE}"
    if rules.allow_push_to and kinds.named("push").human:
        yield f"{path}.allow_push_to", f"push contacts a person. {_LET_PEOPLE}"
    for number, rule in enumerate(rules.custom):
        if rule.then is Severity.ALLOW and (why := _lets_speak(rule, kinds)):
            yield f"{path}.custom[{number}]", f"rule {rule.name} {why}. {_LET_PEOPLE}"


def _lets_speak(rule: CustomRule, kinds: Kinds) -> str:
    if not rule.when.types:
        return "also allows types that contact a person. List its types in when.types"
    speaking = [name for name in rule.when.types if kinds.named(name).human]
    return f"allows {speaking[0]}, which contacts a person" if speaking else ""


def _table_problems(path: str, rules: RulesConfig | ProjectRules) -> Iterator[Problem]:
    for why in _glob_problems(rules.sensitive_paths or ()):
        yield f"{path}.sensitive_paths", why
    for why in _glob_problems(rules.protected_paths or ()):
        yield f"{path}.protected_paths", why
    taken = set(_TAKEN)
    for number, rule in enumerate(rules.custom):
        here = f"{path}.custom[{number}]"
        if not _is_name(rule.name):
            yield (
                f"{here}.name",
                f"{rule.name!r} is not a valid name. Use up to 64 characters of A-Z a-z 0-9 _ . -",
            )
        if rule.name in taken:
            yield f"{here}.name", f"another rule is already called {rule.name}"
        taken.add(rule.name)
        yield from ((f"{here}.when.{key}", why) for key, why in _when_problems(rule.when))


def _when_problems(when: When) -> Iterator[Problem]:
    if when.text is not None:
        text = PatternConfig(name="text", pattern=when.text)
        yield from (("text", why) for _, why in patterns.problems((text,)))
    yield from (("paths", why) for why in _glob_problems(when.paths))
    if when.hours is not None:
        try:
            hours(when.hours)
        except ValueError as exc:
            yield "hours", str(exc)
    for day in when.weekdays:
        if day not in WEEKDAYS:
            yield "weekdays", f"{day!r} is not a weekday. Use {', '.join(WEEKDAYS)}"


def _glob_problems(globs: Sequence[str]) -> Iterator[str]:
    for glob in globs:
        if glob.removeprefix(EXCEPT).startswith("~") or "$" in glob:
            yield f"{glob!r} depends on who runs the agent. Write a full path, or begin with **/"
    try:
        Globs(globs, ignore_case=True)  # globs that ignore case need the most memory
    except ValueError as exc:
        yield str(exc)
