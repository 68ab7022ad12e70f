"""All verdicts of `classify`, with their sentences."""

import json
import re
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from safetyd.core.action_types import Kind, Kinds
from safetyd.core.guards.rules import RuleCase, RulesConfig
from safetyd.core.messages.verdict import Severity, Verdict, all_of
from safetyd.core.similar_types import like
from safetyd.core.text.patches import PatchedFile
from safetyd.core.text.path_globs import PathTarget
from safetyd.core.text.visible_text import quoted

TAMER: Final = "without the agent's own risk and reversibility ratings"

MAX_NAMES: Final = 5
NO_FOLDER: Final = "classify.no_folder"

_is_bare = re.compile(r"[A-Za-z0-9_-]+\Z").match


class NamedPath(NamedTuple):
    """A path in words: how it is shown, the remedy, and what a patch does to it."""

    shown: str
    remedy: str
    deed: str = ""


def in_paths(place: PathTarget) -> NamedPath:
    shown = quoted(place.given)
    return NamedPath(
        f"{shown} (the target of a link)" if place.reached else shown, f"without {shown}"
    )


def in_text(word: str) -> NamedPath:
    """Name a path in the text of a command. If `word` is empty, the path is not shown."""
    if not word:
        return NamedPath("A path in the text", "without that path in the text")
    shown = f"{quoted(word)} in the text"
    return NamedPath(shown, f"without {shown}")


def in_patch(file: PatchedFile) -> NamedPath:
    shown, deed = quoted(file.path), "moves it away" if file.deed == "moves" else f"{file.deed} it"
    return NamedPath(shown, f"without {shown} in the patch", f"the patch {deed}")


def outside(path: NamedPath, root: str, *, surely: bool = True) -> Verdict:
    reason = f"{path.shown} {'is' if surely else 'may be'} outside the project folder {root}"
    return _asks("classify.outside_project", _with_deed(reason, path), f"with paths inside {root}")


def sensitive(path: NamedPath, glob: str) -> Verdict:
    reason = _with_deed(f"{path.shown} may contain secrets (it matches {glob})", path)
    return _asks("classify.sensitive_path", reason, path.remedy)


def protected(path: NamedPath, glob: str) -> Verdict:
    deed = path.deed or "this action may change it"
    reason = f"{path.shown} controls how other programs behave (it matches {glob}), and {deed}"
    return _asks("classify.protected_path", reason, path.remedy)


def unfollowed() -> Verdict:
    reason = "Some of the paths could not be followed: they are hidden from safetyd, or too many"
    return _asks("classify.unfollowed_paths", reason, "with fewer paths, or where safetyd can look")


def no_folder(path: str, cwd: str | None) -> Verdict:
    missing = (
        f"the folder {quoted(cwd)} (cwd) is relative too" if cwd else "no folder (cwd) is given"
    )
    reason = f"{quoted(path)} is a relative path, and {missing}, so the file is unknown"
    return _asks(NO_FOLDER, reason, "with the absolute working directory in the field cwd")


def patched_executable(file: PatchedFile) -> Verdict:
    return _executable(f"The patch makes {quoted(file.path)} executable", file.path)


def said_executable(path: str) -> Verdict:
    return _executable(f"The context says that {quoted(path)} becomes executable", path)


def patched_link(file: PatchedFile) -> Verdict:
    reason = f"The patch makes {quoted(file.path)} a symbolic link, which may point anywhere"
    return _asks("classify.symlink", reason, in_patch(file).remedy)


def unreadable_patch(why: str) -> Verdict:
    reason = f"The patch cannot be parsed, so the files it changes are unknown: {why}"
    return _asks("classify.unreadable_patch", reason, "with a complete patch")


def prohibited(kind: Kind, means: Severity, *, by_type: bool) -> Verdict:
    reason = f"{kind.type} is a prohibited action type"
    if not by_type:
        reason = f"The agent itself rated this {kind.type} as prohibited"
    return Verdict("classify", means, "classify.prohibited", reason, cause="prohibited")


def high(kind: Kind) -> Verdict:
    return _asks("classify.high", f"{_why(kind)}, so it needs approval")


def _why(kind: Kind) -> str:
    irreversible = kind.reversibility == "irreversible"
    if kind.raised:
        rated = "irreversible" if irreversible else f"{kind.risk} risk"
        return f"The agent itself rated this {kind.type} as {rated}"
    if kind.human:
        return f"{kind.type} contacts a person"
    if irreversible:
        return f"{kind.type} cannot be undone"
    if kind.reversibility == "unknown":
        return f"The effect of this {kind.type} is unknown"
    if kind.risk == "high":
        return f"{kind.type} is high risk"
    return f"{kind.type} is in tier {kind.tier}"


def unknown(kind: Kind, kinds: Kinds) -> Verdict:
    table = f"[types.{_key(kind)}]"
    advice = f"Describe it under {table} in the configuration."
    if near := like(kind.type, kinds.known):
        advice = f'If it means {near}, add {table} same_as = "{near}" to the configuration.'
    reason = f"Unknown action type {json.dumps(kind.type, ensure_ascii=False)}. {advice}"
    return _asks("classify.unknown_type", reason)


def unknown_project(name: str, known: AbstractSet[str]) -> Verdict:
    names = ", ".join(sorted(known)[:MAX_NAMES]) + (", …" if len(known) > MAX_NAMES else "")
    reason = f"Unknown project {quoted(name)}. The configured projects are: {names}"
    return _asks("classify.unknown_project", reason, "with a configured project, or without one")


def no_command(kind: Kind) -> Verdict:
    reason = f"The text of this {kind.type} is empty, so its command could not be analysed"
    return _asks("classify.no_command", reason, "with the command in the text field")


def human(case: RuleCase, config: RulesConfig) -> Verdict:
    remedy = speaking(case, config)
    if config.allow_human_communication:
        name = case.proposal.target.name if case.proposal.target else ""
        reason = f"{quoted(name)} is not listed in rules.known_contacts"
        if not name:
            reason = "target.name is empty, and only rules.known_contacts may be contacted"
        return _asks("rules.known_contacts", reason, remedy)
    reason = f"{case.kind.type} contacts a person, and allow_human_communication is off"
    return _asks("classify.human", reason, remedy)


def memory_cap(agent: str, used: float, cap: int, sessions: int) -> Verdict:
    remedy = f"after one of its {sessions} sessions ends"
    if used < float("inf"):
        elsewhere = "in a new session, or " if cap else ""
        remedy = f"{elsewhere}with memory_per_session = {used + 1:.0f}"
    most = f"{cap} per session, in at most {sessions} sessions"
    reason = f"{agent} has used all its memory operations ({most})"
    return _asks("classify.memory_cap", reason, remedy)


def broken_file(project: str, file: str, why: str) -> Verdict:
    reason = (
        f"The rules of project {project} in {file} cannot be used, "
        f"so every action needs approval: {why}"
    )
    return _asks("classify.project_file", reason, f"after {file} is fixed")


def typed(kind: Kind) -> str:
    """Return the setting that allows a type that is prohibited or unknown."""
    risk = ' and risk = "medium"' if kind.known else ""
    return f'with [types.{_key(kind)}] tier = "auto_allowed"{risk}'


def listed(kind: Kind) -> str:
    """Return the setting that allows a type that needs approval."""
    return f"with {kind.type} in rules.allow_without_permission"


def speaking(case: RuleCase, config: RulesConfig) -> str:
    """Return the settings that would let an action contact a person. Empty if none is missing."""
    if not case.kind.human:
        return ""
    name = case.proposal.target.name if case.proposal.target else ""
    ways = []
    if not config.allow_human_communication:
        ways.append("with allow_human_communication = true")
    if config.known_contacts and name not in config.known_contacts:
        ways.append("with a target.name listed in known_contacts")
    return all_of(ways)


def _executable(reason: str, path: str) -> Verdict:
    return _asks("classify.executable_bit", reason, f"if {quoted(path)} does not become executable")


def _with_deed(reason: str, path: NamedPath) -> str:
    return f"{reason}, and {path.deed}" if path.deed else reason


def _asks(rule: str, reason: str, remedy: str = "") -> Verdict:
    return Verdict("classify", Severity.ASK, rule, reason, remedy=remedy)


def _key(kind: Kind) -> str:
    return kind.type if _is_bare(kind.type) else json.dumps(kind.type)
