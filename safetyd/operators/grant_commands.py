"""Making and revoking grants: directly, or together with an approval."""

import difflib
import hashlib
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from safetyd.core.action_types import Kind, Kinds
from safetyd.core.approvals.approved_shapes import MONTH, USES, GrantSuggestion
from safetyd.core.approvals.grant_hints import is_exact, may_be_named
from safetyd.core.approvals.grants import LIFTABLE, MAX_GRANTS, PLACED, unknown_program
from safetyd.core.approvals.request import UNPAUSE, Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.events.request_events import Granted, GrantRevoked
from safetyd.core.guards.gate.own_config import OWN
from safetyd.core.messages.binding import Seen, binding, shown_by, shown_paths
from safetyd.core.messages.proposal import is_token
from safetyd.core.shell.shape import in_words
from safetyd.core.text import patterns
from safetyd.core.text.path_globs import Globs, from_folder
from safetyd.core.text.proposal_patches import patch_of
from safetyd.journal.mailbox import Carried, Plan
from safetyd.operators.contract.grant_contract import (
    GrantCommand,
    GrantMade,
    GrantOver,
    RequestGrantTerms,
    RevokeCommand,
    SuggestionCommand,
)
from safetyd.operators.replies import Refusal, refused

LONGEST: Final = timedelta(days=7)
LONGEST_NAMED: Final = timedelta(days=1)  # for a grant that names a rule to lift
MOST_NAMED: Final = 20  # maximum number of uses of a grant that names a rule to lift
SEEN_CHARS: Final = 200  # characters of the granted text, stored for display
AT_A_SCREEN: Final = frozenset({"cli", "tui", "web"})  # not links, messages or SMS


def grant_add(by: str, command: GrantCommand) -> Plan[GrantMade | Refusal]:
    def plan(state: EngineState, moment: Moment) -> Carried[GrantMade | Refusal]:
        kind = None if command.type is None else _kinds(state).named(command.type)
        granted = Granted(
            at=moment.at,
            t=moment.t,
            id=_new_id(state, command.agent),
            agent=command.agent,
            by=by,
            via=command.via,
            reason=command.reason.strip(),
            uses=command.uses,
            until=command.until,
            type=None if kind is None else kind.type,
            rules=() if command.rule is None else (command.rule,),
            text=command.text,
            paths=command.paths,
            max_usd=command.max_usd,
            keyed=not state.keys.keyless(command.agent),
        )
        for problem in (*_of_type(state, command.type, kind), *_problems(state, granted, kind)):
            return Carried((), refused("not_grantable", problem))
        return Carried((granted,), GrantMade(ok=True, id=granted.id, until=granted.until))

    return plan


def suggestion_apply(by: str, command: SuggestionCommand) -> Plan[GrantMade | Refusal]:
    def plan(state: EngineState, moment: Moment) -> Carried[GrantMade | Refusal]:
        found = state.approved_shapes.find(command.id, moment.at)
        if found is None:
            error = f"{command.id!r} is no longer suggested; see `safetyd suggestions`"
            return Carried((), refused("not_found", error))
        granted = from_suggestion(state, moment, found, by, command.via)
        for problem in _problems(state, granted, _kinds(state).named(found.approvals.type)):
            return Carried((), refused("not_grantable", problem))
        return Carried((granted,), GrantMade(ok=True, id=granted.id, until=granted.until))

    return plan


def grant_revoke(by: str, command: RevokeCommand) -> Plan[GrantOver | Refusal]:
    def plan(state: EngineState, moment: Moment) -> Carried[GrantOver | Refusal]:
        grant = state.grants.find(command.id)
        if grant is None:
            error = f"no grant {command.id!r} is in force; `safetyd grants` lists them"
            return Carried((), refused("not_found", error))
        revoked = GrantRevoked(
            at=moment.at,
            t=moment.t,
            grant=command.id,
            agent=grant.made.agent,
            by=by,
            reason=command.reason,
        )
        return Carried((revoked,), GrantOver(ok=True, id=command.id, left=grant.left))

    return plan


def from_request(
    state: EngineState,
    moment: Moment,
    request: Request,
    terms: RequestGrantTerms,
    by: str,
    via: str,
) -> Granted | str:
    """Return a grant for the action of a request, or why it cannot be granted.

    The grant lifts only the rules that the operator saw, and only for exactly the action that was
    shown. A text pattern extends the grant to all matching texts. A rule about paths stays limited
    to the shown paths.
    """
    asked, kind = request.asked, _kinds(state).of(request.asked.proposal)
    shown = [v for v in asked.verdicts if v.guard in LIFTABLE]
    rules = tuple(dict.fromkeys(rule for v in shown for rule in (v.rule, *v.also)))
    program = unknown_program(request.asked) if terms.program else ""
    if terms.program and not program:
        return "a program can be granted only from a request for one unknown program"
    granted = Granted(
        at=moment.at,
        t=moment.t,
        id=_new_id(state, request.agent),
        agent=request.agent,
        by=by,
        via=via,
        reason=f"approved with {request.id}",
        uses=terms.uses,
        until=terms.until,
        request_id=request.id,
        type=asked.type,
        project=request.shown.project,
        rules=rules,
        text=terms.text,
        paths=_touched(request, kind) if PLACED & set(rules) else (),
        max_usd=terms.max_usd,
        keyed=not asked.keyless,
        seen=_seen(state, request, kind) if terms.text is None and not program else None,
        program=program,
        session=asked.proposal.session if terms.session else None,
    )
    return next(_problems(state, granted, kind), "") or granted


def from_suggestion(
    state: EngineState, moment: Moment, found: GrantSuggestion, by: str, via: str
) -> Granted:
    """Return the grant of a suggestion. Like the approvals, it lifts only the rules shown."""
    known = found.approvals
    return Granted(
        at=moment.at,
        t=moment.t,
        id=_new_id(state, known.agent),
        agent=known.agent,
        by=by,
        via=via,
        reason=f"approved {len(known.approved)} times since {known.approved[0]:%d %b}",
        uses=USES,
        until=moment.at + MONTH,
        request_id=known.request_id,
        type=known.type,
        project=known.project,
        rules=known.rules,
        text=found.text,
        keyed=known.keyed,
        seen=known.seen,
        learned=found.learned,
    )


def _touched(request: Request, kind: Kind) -> tuple[str, ...]:
    """Return the paths that the operator saw, their targets, and the paths of a patch."""
    asked, cwd = request.asked, request.shown.cwd
    patched = (file.path for file in patch_of(asked.proposal, edits=kind.edits).files)
    shown = shown_paths(asked.proposal) if asked.permission else asked.proposal.paths
    given = (from_folder(path, cwd) for path in (*shown, *patched))
    return tuple(dict.fromkeys((*given, *asked.resolved)))


def _seen(state: EngineState, request: Request, kind: Kind) -> Seen:
    """Return the scope of a grant: the shape of the action that was shown."""
    asked, proposal = request.asked, request.shown
    shaped = state.reader.shaped(proposal)
    action = request.action
    if asked.permission or shaped is not proposal:
        action = binding(asked.agent, kind.type, shaped, asked.resolved)
    return Seen(
        action=action,
        words=in_words(shaped.text or proposal.description)[:SEEN_CHARS],
        cost_usd=proposal.cost_usd,
        tokens=proposal.tokens,
        shape=shaped is not proposal,
        shown=shown_by(shaped) if asked.permission else None,
        resolved=asked.resolved if asked.permission else (),
    )


def _problems(state: EngineState, granted: Granted, kind: Kind | None) -> Iterator[str]:
    """Yield the reasons why this grant cannot be made."""
    if not is_token(granted.agent):
        yield f"{granted.agent!r} is not a valid agent name"
    if not granted.reason.strip(" .…"):
        yield "a grant needs a reason"
    if granted.via not in AT_A_SCREEN:
        yield "grants can be made only on the command line or in the control room"
    if state.grants.full:
        yield f"there are already {MAX_GRANTS} grants; revoke some first"
    yield from _of_kind(granted, kind)
    yield from _of_rules(granted)
    yield from _of_time(granted)
    yield from _of_patterns(granted)


def _of_type(state: EngineState, named: str | None, kind: Kind | None) -> Iterator[str]:
    """Reject an unknown type, for which a grant would be useless, and suggest similar names."""
    if kind is None or kind.known:
        return
    near = difflib.get_close_matches(kind.type, sorted(_kinds(state).known), n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else "`safetyd types` lists all types."
    yield f'Unknown action type "{named}". {hint}'


def _of_kind(granted: Granted, kind: Kind | None) -> Iterator[str]:
    if kind is None:
        return
    named = bool(granted.rules) and not granted.request_id
    if kind.human:
        yield f"{kind.type} sends a message to a person, which always needs approval"
    if "prohibited" in {kind.risk, kind.tier} and not named:
        yield f"{kind.type} is prohibited; only `safetyd grant add --rule` can lift that"
    elif kind.raised:
        yield f"the agent rates this {kind.type} as riskier than usual for its type"


def _of_rules(granted: Granted) -> Iterator[str]:
    if granted.request_id:
        if not granted.rules or granted.type == UNPAUSE:
            yield "no grant can lift the rules of this request"
        return
    for rule in granted.rules:
        if not may_be_named(rule):
            yield (
                f"no grant can lift {rule}: grants lift only rules of classify, rules of the "
                f"gate's blocklist, and {OWN}"
            )
        if granted.text is None and not granted.paths:
            yield "a grant that lifts a rule needs a text or path pattern"
        elif rule == OWN and not is_exact(granted.text or ""):
            yield f"a grant lifts {OWN} only for one exact text, such as --text '^safetyd watch$'"
        if granted.uses > MOST_NAMED:
            yield f"a grant that lifts a rule can have at most {MOST_NAMED} uses"


def _of_time(granted: Granted) -> Iterator[str]:
    named = bool(granted.rules) and not granted.request_id
    if granted.until <= granted.at:
        yield "the end of the grant is in the past"
    elif granted.learned is None and granted.until - granted.at > (
        LONGEST_NAMED if named else LONGEST
    ):
        yield (
            "a grant that lifts a rule can last at most 24 hours"
            if named
            else "a grant can last at most 7 days"
        )


def _of_patterns(granted: Granted) -> Iterator[str]:
    for _, why in patterns.problems(() if granted.text is None else (granted.text,)):
        yield f"the text {why}"
    if granted.request_id and any(set("*?") & set(path) for path in granted.paths):
        yield "the paths of the request contain wildcards; use `safetyd grant add --path`"
    try:
        Globs(granted.paths)
    except ValueError as exc:
        yield str(exc)


def _kinds(state: EngineState) -> Kinds:
    return Kinds(state.policy.types, state.policy.profile)


def _new_id(state: EngineState, agent: str) -> str:
    name = f"{agent}\0{state.seq + 1}".encode()
    return f"grt_{hashlib.sha256(name).hexdigest()[:12]}"
