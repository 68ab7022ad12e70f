"""Explains why an id does not identify exactly one request."""

from collections.abc import Sequence

from safetyd.core.approvals.request import Request
from safetyd.core.approvals.request_index import PREFIX, SHORTEST
from safetyd.core.engine.engine_state import EngineState


def unnamed(state: EngineState, named: str, found: Sequence[Request]) -> str:
    """Return why `named` does not identify one request. `found` are requests with this prefix."""
    if found:
        return f"ambiguous: {len(found)} requests start with this id"
    if asked := [request.id for request in state.approvals.with_proposal(named)]:
        return f"this is the id of a proposal; its request is {', '.join(asked)}"
    if len(named) < SHORTEST and named.startswith(PREFIX[: len(named)]):
        return f"this id is too short; give at least {SHORTEST} characters"
    return "no such request"
