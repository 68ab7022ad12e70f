"""What an action costs: its model and tokens, or the price of what it buys.

A price is not model spending. It counts in accounts of its own, so that no purchase uses up what
models may cost.
"""

from typing import Final

from safetyd.core.action_types import PURCHASES
from safetyd.core.events.decision_events import Decided, Proposed, Settled
from safetyd.core.messages.money import nano

MODEL_TYPES: Final = frozenset({"model_call", "dispatch"})  # types that need model money


def larger_cost(said_usd: float | None, priced_nano: int | None, neither: int) -> int:
    """Return the larger of what the agent says and what its tokens cost, as far as given."""
    if said_usd is None:
        return neither if priced_nano is None else priced_nano
    return max(nano(said_usd), priced_nano or 0)


def estimates(event: Proposed | Decided, type_: str, default: int) -> tuple[int, int]:
    """Return what a proposal would cost in model money, and the price of what it buys."""
    said_usd, priced_nano = event.proposal.cost_usd, event.priced_nano
    if type_ in PURCHASES:
        return priced_nano or 0, larger_cost(said_usd, None, default)
    if said_usd is None and priced_nano is None:
        return default, 0
    return larger_cost(said_usd, priced_nano, default), 0


def costs(event: Settled, reserved: int, price: int) -> tuple[int, int]:
    """Return the same of an outcome; what it does not say is what was expected."""
    if event.type in PURCHASES:
        tokens = reserved if event.priced_nano is None else event.priced_nano
        return tokens, larger_cost(event.cost_usd, None, price)
    return larger_cost(event.cost_usd, event.priced_nano, reserved), 0
