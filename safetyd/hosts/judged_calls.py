"""Calls that safetyd has allowed and that have not ended yet.

Some hosts ask their user before such a call runs. The question has no id, and its remarks differ
from those of the call, so the call is found by the content of the proposal.
"""

import hashlib
import json
from collections import OrderedDict
from typing import Final

from safetyd.hosts.tool_call import Fields

MAX_CALLS: Final = 512
RECENT_S: Final = 600.0

_Kind = tuple[str, str]  # the agent, and a hash of the content
_CONTENT: Final = ("session", "type", "text", "paths", "target", "cwd")
_CONTEXT: Final = ("tool", "diff", "diff_sha256", "arguments_sha256")


class JudgedCalls:
    """The last call with each content, until its report arrives. `now` is a time in seconds."""

    def __init__(self) -> None:
        self._calls: OrderedDict[_Kind, tuple[float, Fields]] = OrderedDict()

    def add(self, agent: str, fields: Fields, id_: str, now: float) -> None:
        """Remember the proposal of a call that may run."""
        kind = _kind(agent, fields)
        self._calls.pop(kind, None)
        self._calls[kind] = now, {**fields, "id": id_}
        if len(self._calls) > MAX_CALLS:
            self._calls.popitem(last=False)

    def find(self, agent: str, fields: Fields, now: float) -> Fields | None:
        """Return the proposal with the same content, if it is recent.

        Proposed again with its id, it gets the same decision, unless a stop or pause came later.
        """
        at, found = self._calls.get(_kind(agent, fields), (0.0, None))
        return found if found is not None and now - at <= RECENT_S else None

    def end(self, agent: str, fields: Fields) -> None:
        """Forget a call that has ended, so that its approval answers no further question."""
        self._calls.pop(_kind(agent, fields), None)


def _kind(agent: str, fields: Fields) -> _Kind:
    context = fields.get("context")
    said = context if isinstance(context, dict) else {}
    content = [*map(fields.get, _CONTENT), *map(said.get, _CONTEXT)]
    return agent, hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
