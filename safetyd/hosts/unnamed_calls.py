"""Gives ids to calls of hosts that send none, so that a report can be matched to its call.

Gemini CLI and Copilot CLI report the tool and the arguments of a call, but no id. A report belongs
to the oldest allowed call of the same session, tool and arguments that has no report yet.
"""

import hashlib
import json
import secrets
from collections import OrderedDict, deque
from typing import Final

from safetyd.hosts.hook_event import HookEvent

MAX_OPEN: Final = 4096  # calls without a report; beyond that, the oldest kind is forgotten

_Kind = tuple[str, str, str]  # agent, session, and a hash of the tool and its arguments


class UnnamedCalls:
    """The allowed calls without an id of their host, until their reports arrive."""

    def __init__(self) -> None:
        self._open: OrderedDict[_Kind, deque[str]] = OrderedDict()
        self._count = 0

    def name(self, event: HookEvent) -> bool:
        """Give a call an id if its host gave it none, and return whether this was needed.

        The id is random: a repeated id would repeat the earlier decision.
        """
        if event.tool_use_id:
            return False
        event.tool_use_id = f"unnamed-{secrets.token_hex(12)}"
        return True

    def add(self, agent: str, event: HookEvent) -> None:
        """Expect the report of a call that may run."""
        self._open.setdefault(_kind(agent, event), deque()).append(event.tool_use_id)
        self._count += 1
        while self._count > MAX_OPEN:
            self._count -= len(self._open.popitem(last=False)[1])

    def match(self, agent: str, event: HookEvent) -> None:
        """Give a report without an id the id of its call, if there is one."""
        if event.tool_use_id or (calls := self._open.get(kind := _kind(agent, event))) is None:
            return
        event.tool_use_id = calls.popleft()
        self._count -= 1
        if not calls:
            del self._open[kind]

    def end(self, agent: str, session: str) -> None:
        """Forget the calls of a session that has ended."""
        for kind in [kind for kind in self._open if kind[:2] == (agent, session)]:
            self._count -= len(self._open.pop(kind))


def _kind(agent: str, event: HookEvent) -> _Kind:
    said = json.dumps([event.tool_name, event.tool_input], sort_keys=True).encode()
    return agent, event.session_id, hashlib.sha256(said).hexdigest()
