"""Every verdict of `classify`, and the sentence that a person reads."""

import json
import re
from typing import Final

from safetyd.core.action_types import Kind, Kinds
from safetyd.core.guards.rules import RuleCase, RulesConfig
from safetyd.core.messages.verdict import Severity, Verdict, all_of
from safetyd.core.similar_types import like
from safetyd.core.text.patches import PatchedFile
from safetyd.core.text.path_globs import PathTarget

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
    name = _key(kind)
    near = like(kind.type, kinds.known)
    known = f" (the nearest is {near})" if near else ", nor plainly like one"
    line = f'same_as = "{near}"' if near else 'tier = "requires_permission"'
    reason = f"{name} is not a known type{known}: to make it one, add [types.{name}] {line}"
    return _asks("classify.unknown_type", reason)


def human(case: RuleCase, config: RulesConfig) -> Verdict:
    remedy = speaking(case, config)
    if config.allow_human_communication:
        name = case.proposal.target.name if case.proposal.target else ""
        whom = f"{_shown(name)} is not" if name else "target.name gives nobody who is"
        return _asks("rules.known_contacts", f"{whom} one of the known contacts", remedy)
    reason = f"{case.kind.type} speaks to a person, and allow_human_communication is off"
    return _asks("classify.human", reason, remedy)


def outside(place: PathTarget, root: str) -> Verdict:
    leads = "may lead outside" if place.opaque else "is outside"
    reason = f"{_where(place)} {leads} the project's {root}"
    return _asks("classify.outside_project", reason, f"with paths inside {root}")


def sensitive(place: PathTarget, glob: str) -> Verdict:
    reason = f"{_where(place)} may hold secrets: its name matches {glob}"
    return _asks("classify.sensitive_path", reason, f"without {_shown(place.given)}")


def unfollowed(count: int) -> Verdict:
    reason = f"Nobody could follow all of its {count} paths to where they lead"
    return _asks("classify.unfollowed_paths", reason, "with fewer or shorter paths")


def sensitive_word(word: str, glob: str) -> Verdict:
    reason = f"{_in_text(word)} may hold secrets: its name matches {glob}"
    return _asks("classify.sensitive_path", reason, f"without {_in_text(word)}")


def protected(place: PathTarget, glob: str) -> Verdict:
    reason = f"{_where(place)} is obeyed by other programs, so only reading it passes: {glob}"
    return _asks("classify.protected_path", reason, f"without {_shown(place.given)}")


def protected_word(word: str, glob: str) -> Verdict:
    reason = f"{_in_text(word)} is obeyed by other programs, and this may change it: {glob}"
    return _asks("classify.protected_path", reason, f"without {_in_text(word)}")


def patched_outside(file: PatchedFile, root: str) -> Verdict:
    reason = f"{_shown(file.path)} is outside the project's {root}, and {_deed(file)}"
    return _asks("classify.outside_project", reason, f"with a patch of files inside {root}")


def patched_sensitive(file: PatchedFile, glob: str) -> Verdict:
    reason = f"{_shown(file.path)} may hold secrets, and {_deed(file)}: its name matches {glob}"
    return _asks("classify.sensitive_path", reason, _unpatched(file))


def patched_protected(file: PatchedFile, glob: str) -> Verdict:
    reason = f"{_shown(file.path)} is obeyed by other programs, and {_deed(file)}: {glob}"
    return _asks("classify.protected_path", reason, _unpatched(file))


def patched_executable(file: PatchedFile) -> Verdict:
    reason = f"The patch makes {_shown(file.path)} executable"
    return _asks("classify.executable_bit", reason, f"without that mode of {_shown(file.path)}")


def patched_link(file: PatchedFile) -> Verdict:
    reason = f"The patch makes {_shown(file.path)} a symbolic link, which may lead anywhere"
    return _asks("classify.symlink", reason, _unpatched(file))


def said_executable(path: str) -> Verdict:
    reason = f"Its context says that {_shown(path)} becomes executable"
    return _asks("classify.executable_bit", reason, f"without that mode of {_shown(path)}")


def unreadable_patch(why: str) -> Verdict:
    reason = f"The patch cannot be read, so nobody knows which files it touches: {why}"
    return _asks("classify.unreadable_patch", reason, "with a patch that is whole")


def _deed(file: PatchedFile) -> str:
    return "the patch moves it away" if file.deed == "moves" else f"the patch {file.deed} it"


def _unpatched(file: PatchedFile) -> str:
    return f"without {_shown(file.path)} in the patch"


def _where(place: PathTarget) -> str:
    return (
        f"{_shown(place.given)}, to which a link leads," if place.reached else _shown(place.given)
    )


def _in_text(word: str) -> str:
    return f"{_shown(word)} in its text" if word else "a path in its text"


def memory_cap(agent: str, used: float, cap: int, sessions: int) -> Verdict:
    has = f"{cap} a session, in at most {sessions} sessions at once"
    remedy = f"once one of its {sessions} sessions ended"
    if used < float("inf"):
        elsewhere = "in a new session, or " if cap else ""
        remedy = f"{elsewhere}with memory_per_session = {used + 1:.0f}"
    reason = f"{agent} has used up its memory operations: {has}"
    return _asks("classify.memory_cap", reason, remedy)


def broken_file(project: str, file: str, why: str) -> Verdict:
    reason = f"The rules of project {project} in {file} cannot be used, so all is asked: {why}"
    return _asks("classify.project_file", reason, f"once {file} can be used")


def tamer() -> str:
    """Say how a kind that the agent's own words raised is no longer that."""
    return "without the risk and reversibility that it gives itself"


def typed(kind: Kind) -> str:
    """Say how the table would let a type pass that it prohibits or does not know."""
    risk = ' and risk = "medium"' if kind.known else ""
    return f'with [types.{_key(kind)}] tier = "auto_allowed"{risk}'


def listed(kind: Kind) -> str:
    """Say how rules would let a type pass that the table asks about."""
    return f"with {kind.type} in rules.allow_without_permission"


def speaking(case: RuleCase, config: RulesConfig) -> str:
    """Say how it might speak to its person; empty if it may, or speaks to nobody."""
    if not case.kind.human:
        return ""
    name = case.proposal.target.name if case.proposal.target else ""
    ways = []
    if not config.allow_human_communication:
        ways.append("with allow_human_communication = true")
    if config.known_contacts and name not in config.known_contacts:
        ways.append("with a target.name that is one of known_contacts")
    return all_of(ways)


def _asks(rule: str, reason: str, remedy: str = "") -> Verdict:
    return Verdict("classify", Severity.ASK, rule, reason, remedy=remedy)


def _key(kind: Kind) -> str:
    return kind.type if _is_bare(kind.type) else json.dumps(kind.type)


def _shown(words: str) -> str:
    """Return an agent's words so that they cannot pass for ours."""
    return repr(words[:_SHOWN_CHARS])
