"""Money is stored in whole nano-dollars, and shown to operators and agents in US dollars."""

from typing import Final

NANO: Final = 10**9  # nano-dollars in a dollar
# Amounts are capped, so that sums fit into the 64 bits of a checkpoint.
MAX_USD: Final = 1e9
MAX_NANO: Final = 10**18
MAX_SUM: Final = 2**62

_CENT: Final = NANO // 100


def nano(usd: float) -> int:
    """Convert dollars to nano-dollars, rounded to the nearest."""
    return round(min(usd, MAX_USD) * NANO)


def usd(amount: int) -> float:
    return amount / NANO


def cents_up(amount: int) -> int:
    """Return nano-dollars rounded up to a whole cent."""
    return -(-amount // _CENT) * _CENT


def cents_down(amount: int) -> int:
    """Return nano-dollars rounded down to a whole cent. Do not round amounts below one cent."""
    return amount // _CENT * _CENT or amount


def dollars(amount: int) -> str:
    """Format nano-dollars as dollars and cents, with more digits below one cent."""
    if amount == 0 or amount >= _CENT:
        return f"${amount / NANO:.2f}"
    return f"${amount / NANO:.9f}".rstrip("0")
