"""Turns a decision into an answer for a host: what the hook prints, and its exit code."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from safetyd.core.messages.decision import Decision
from safetyd.hosts.call_lock import TOOLS, unlocking
from safetyd.hosts.hook_event import Dialect, HookEvent


class HookAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a hook prints, and its exit code."""

    stdout: str = ""
    stderr: str = ""
    exit: int = 0


EXIT_REFUSED: Final = 2
LOOK: Final = 75  # instead of an exit code: the hook looks where the paths in its output lead
# Part of the refusal for an agent without a token.
NEEDS_TOKEN: Final = "needs a token, which an operator creates"  # noqa: S105

# What a model should know about safetyd, at most 40 words.
SESSION_CONTEXT: Final = (
    "Tool calls are checked by safetyd. If a call is refused, do not try another way: tell the "
    "user. If it waits for approval, continue with other work and repeat exactly the same call "
    "later."
)
# The hosts that pass context to their models with an allowed call, and at the start of a session.
TAKES_CONTEXT: Final[frozenset[Dialect]] = frozenset({"claude", "codex"})

_NOTHING = HookAnswer()
_encode = msgspec.json.Encoder().encode


def look_at(paths: Sequence[str]) -> HookAnswer:
    """Return the question to the hook itself where these paths lead."""
    return HookAnswer(stdout="\0".join(paths), exit=LOOK)


def answer_to(dialect: Dialect, decision: Decision, news: str = "") -> HookAnswer:
    """Return the answer to a tool call, with news about earlier calls.

    If a call is allowed without an operator's approval, the hook prints no decision, so that the
    host's own permissions still apply. With an approval, hosts that can skip their own question do.
    """
    if not decision.allowed:
        words = " ".join(filter(None, (words_for(decision), news)))
        return refusal(dialect, words, stop=decision.cause == "stopped")
    context = {"additionalContext": news} if news and dialect in TAKES_CONTEXT else {}
    if decision.request_id is not None and dialect in {"claude", "copilot"}:
        return _approved(dialect, context)
    return _printed(_hook_output("PreToolUse", context)) if context else _NOTHING


def unlocked(answer: HookAnswer, event: HookEvent, lock: str) -> HookAnswer:
    """Return the answer of Gemini CLI to a call that may run, with the key that unlocks it."""
    arguments = unlocking(event.tool_name, event.tool_input, lock)
    locked = event.tool_name in TOOLS
    return _printed(_hook_output("BeforeTool", {"tool_input": arguments})) if locked else answer


def greeting(dialect: Dialect) -> HookAnswer:
    """Return what a host passes to its model at the start of a session."""
    if dialect not in TAKES_CONTEXT:
        return _NOTHING
    return _printed(_hook_output("SessionStart", {"additionalContext": SESSION_CONTEXT}))


def refusal(dialect: Dialect, words: str, *, stop: bool = False) -> HookAnswer:
    """Return the answer that makes a host skip the call and pass the words to its model."""
    match dialect:
        case "claude" | "codex":
            return _printed(_hook_output("PreToolUse", _permission("deny", words)))
        case "gemini":
            deny: dict[str, object] = {"decision": "deny", "reason": words}
            return _printed({**deny, "continue": False} if stop else deny)
        case "copilot":
            return _printed({"permissionDecision": "deny", "permissionDecisionReason": words})
        case "opencode":
            return HookAnswer(stderr=words, exit=2)


def is_refusal(stdout: str, stderr: str, code: int) -> bool:
    """Return whether every host skips the call after this answer of a hook."""
    if code == EXIT_REFUSED:
        return bool(stderr.strip())
    try:
        said = msgspec.json.decode(stdout or "{}", type=dict[str, object])
    except msgspec.DecodeError:
        return False
    match said:
        case {"hookSpecificOutput": {"permissionDecision": "deny"}}:
            return True
        case {"permissionDecision": "deny"} | {"decision": "deny"}:
            return True
    return False


def words_for(decision: Decision) -> str:
    """Return what the model receives instead of a result. It never contains a command to type."""
    if decision.status == "pending":
        until = f", open until {decision.expires_at:%d %b %H:%M} UTC" if decision.expires_at else ""
        request = f"An operator was asked for approval ({decision.request_id}{until})."
        if decision.reachable_from:
            request += f" Nobody can be notified before {decision.reachable_from:%d %b %H:%M} UTC."
        if decision.cause == "budget":  # other calls would fail, too
            used_up = for_agents(decision.reason)
            return f"safetyd: not now: {used_up}. {request} Tell the user, and end your turn."
        return (
            f"safetyd: not now. {request} "
            "Continue with other work, and make exactly the same call again later: it runs once it "
            "is approved. Do not try another way."
        )
    if decision.cause == "stopped":
        return f"safetyd: {for_agents(decision.reason)}. End your turn."
    rule = decision.triggered_rules[0] if decision.triggered_rules else decision.cause
    then = "Do not try another way to do the same. Tell the user if it is needed."
    if decision.retry_after_s:
        then = f"Try again in {max(1, round(decision.retry_after_s))} s."
    return f"safetyd: not allowed: {for_agents(decision.reason)} [{rule}]. {then}"


def for_agents(reason: str) -> str:
    """Return a reason without sentences that name a command for operators: a model would try it."""
    sentences = re.split(r"(?<=[.:;]) ", reason)
    return " ".join(part for part in sentences if "`safetyd " not in part).rstrip(".:; ")


def _approved(dialect: Dialect, context: dict[str, str]) -> HookAnswer:
    """Return an explicit allow, which Codex, Gemini and OpenCode would not accept."""
    if dialect == "copilot":
        return _printed({"permissionDecision": "allow"})
    allow = _permission("allow", "approved by an operator of safetyd")
    return _printed(_hook_output("PreToolUse", {**allow, **context}))


def _permission(decision: str, words: str) -> dict[str, str]:
    return {"permissionDecision": decision, "permissionDecisionReason": words}


def _hook_output(event: str, fields: Mapping[str, object]) -> dict[str, object]:
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


def _printed(content: dict[str, object]) -> HookAnswer:
    return HookAnswer(stdout=_encode(content).decode())
