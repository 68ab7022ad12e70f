"""Turns a decision into the answer to a question that a host would otherwise ask its user.

If safetyd does not answer, the user does. Without a terminal, the host then refuses the call.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from safetyd.core.messages.decision import Decision
from safetyd.hosts.hook_answer import HookAnswer, words_for
from safetyd.hosts.hook_event import Dialect, HookEvent
from safetyd.hosts.hosts_config import AnswerPrompts
from safetyd.hosts.tool_call import Fields

ASKING_HOSTS: Final[frozenset[Dialect]] = frozenset({"claude", "codex", "copilot"})
UNANSWERED: Final = HookAnswer()

_NETWORK: Final = "network-access "  # Codex names a server, which safetyd has not judged
_encode = msgspec.json.Encoder().encode


def is_for_user(dialect: Dialect, event: HookEvent, fields: Fields) -> bool:
    """Return whether only the user can answer: questions of the model, plans, network access."""
    if dialect not in ASKING_HOSTS or fields.get("type") == "plan":
        return True
    said = (event.tool_input.get(name) for name in ("command", "description"))
    return any(isinstance(text, str) and text.startswith(_NETWORK) for text in said)


def prompt_answer(
    dialect: Dialect, event: HookEvent, decision: Decision, answers: AnswerPrompts
) -> HookAnswer:
    """Return no if safetyd does not allow the call, and yes only if the setting permits it."""
    if not decision.allowed:
        return _printed(dialect, {"behavior": "deny", "message": words_for(decision)})
    approved = decision.request_id is not None
    # In plan mode, a rule alone does not answer yes.
    by_rule = answers == "all" and event.permission_mode != "plan"
    if answers != "none" and (approved or by_rule):
        return _printed(dialect, {"behavior": "allow"})
    return UNANSWERED


def _printed(dialect: Dialect, decision: Mapping[str, object]) -> HookAnswer:
    if dialect == "copilot":
        return HookAnswer(stdout=_encode(decision).decode())
    said = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}
    return HookAnswer(stdout=_encode(said).decode())
