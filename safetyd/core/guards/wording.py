"""Every verdict of `classify`, and the sentence that a person reads."""

import difflib
import json
import re
from typing import Final

from safetyd.core.guards.rules import Case, RulesConfig
from safetyd.core.kinds import Kind, Kinds
from safetyd.core.paths import Place
from safetyd.core.verdict import Severity, Verdict

_SHOWN_CHARS: Final = 200

_is_bare = re.compile(r"[A-Za-z0-9_-]+\Z").match


def prohibited(kind: Kind, means: Severity, *, by_type: bool) -> Verdict:
    who = f"{kind.type} is" if by_type else f"The agent itself says that this {kind.type} is"
    reason = f"{who} prohibited"
    return Verdict("classify", means, "classify.prohibited", reason, cause="prohibited")


def high(kind: Kind) -> Verdict:
    return _asks("classify.high", f"{_why(kind)}, so a person must permit it")


def _why(kind: Kind) -> str:
    if kind.raised:
        return f"The agent itself says that this {kind.type} is {_worst(kind)}"
    if kind.human:
        return f"{kind.type} speaks to a person"
    if kind.reversibility == "irreversible":
        return f"{kind.type} cannot be undone"
    if kind.reversibility == "unknown":
        return f"Nobody has checked what this {kind.type} would do"
    if kind.risk == "high":
        return f"{kind.type} is of high risk"
    return f"{kind.type} has the tier {kind.tier}"


def _worst(kind: Kind) -> str:
    return "irreversible" if kind.reversibility == "irreversible" else f"of {kind.risk} risk"


def unknown(kind: Kind, kinds: Kinds) -> Verdict:
    name = kind.type if _is_bare(kind.type) else json.dumps(kind.type)
    near = difflib.get_close_matches(kind.type, kinds.known, n=3)
    like = f" (the nearest are {', '.join(near)})" if near else ", nor like one"
    line = f'same_as = "{near[0]}"' if near else 'tier = "requires_permission"'
    reason = f"{name} is not a known type{like}: to make it one, add [types.{name}] {line}"
    return _asks("classify.unknown_type", reason)


def required(kind: Kind) -> Verdict:
    reason = f"{kind.type} is listed in require_permission, so a person must permit it"
    return _asks("rules.require_permission", reason)


def human(case: Case, config: RulesConfig) -> Verdict:
    if config.allow_human_communication:
        name = case.proposal.target.name if case.proposal.target else ""
        whom = f"{_shown(name)} is not" if name else "target.name gives nobody who is"
        return _asks("rules.known_contacts", f"{whom} one of the known contacts")
    reason = f"{case.kind.type} speaks to a person, and allow_human_communication is off"
    return _asks("classify.human", reason)


def outside(place: Place, root: str) -> Verdict:
    leads = "may lead outside" if place.opaque else "is outside"
    return _asks("classify.outside_project", f"{_shown(place.given)} {leads} the project's {root}")


def sensitive(place: Place, glob: str) -> Verdict:
    reason = f"{_shown(place.given)} may hold secrets: its name matches {glob}"
    return _asks("classify.sensitive_path", reason)


def memory_cap(agent: str, cap: int, sessions: int) -> Verdict:
    has = f"{cap} a session, in at most {sessions} sessions at once"
    return _asks("classify.memory_cap", f"{agent} has used up its memory operations: {has}")


def broken_file(project: str, file: str, why: str) -> Verdict:
    reason = f"The rules of project {project} in {file} cannot be used, so all is asked: {why}"
    return _asks("classify.project_file", reason)


def _asks(rule: str, reason: str) -> Verdict:
    return Verdict("classify", Severity.ASK, rule, reason)


def _shown(words: str) -> str:
    """Return an agent's words so that they cannot pass for ours."""
    return repr(words[:_SHOWN_CHARS])
