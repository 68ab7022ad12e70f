"""What a look of the gate may cost. The figures are in the report of a run with `-rP`."""

import random
import string
import sys
import time
from collections.abc import Callable

import pytest

from safetyd.core.guards.gate.gate import ConfidenceConfig, Gate, GateConfig
from safetyd.core.messages.proposal import MAX_TEXT_BYTES, Target
from tests.core.guards.gate.gate_rig import kinds
from tests.story import propose

pytestmark = pytest.mark.alone

chance = random.Random(4)


def best_s(work: Callable[[], object], times: int, rounds: int = 9) -> float:
    """Return the time of one call in the best round, which other processes disturbed least."""
    fastest = float("inf")
    traced = sys.gettrace()
    sys.settrace(None)  # a tool that counts lines would be measured as well
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(times):
            work()
        fastest = min(fastest, (time.perf_counter() - began) / times)
    sys.settrace(traced)
    return fastest


def full(text: str) -> str:
    """Repeat `text` to the longest that is let in."""
    data = (text * (MAX_TEXT_BYTES // len(text) + 1)).encode()
    return data[:MAX_TEXT_BYTES].decode(errors="ignore")


def letters(*codes: int) -> str:
    return "".join(map(chr, chance.choices(codes, k=MAX_TEXT_BYTES)))


HOSTILE = {
    "near matches": full("clos closing close unsave rm -r sudo r dele drop  tabl "),
    "endless wildcards": full("close curl find rm - "),
    "matches": full("delete submit rm -rf sudo rm close unsaved "),
    "noise": full("".join(chance.choices(string.printable, k=MAX_TEXT_BYTES))),
    "marks": full("a" + "\u0315\u0300" * 2000),
    "marks on every letter": full("a\u0301\u0315\u0300"),
    "expanding": full("\ufdfb\ufb03\u2177" * 600 + "e\u0301"),
    "two bytes": full(letters(*range(0x80, 0x800))),
    "three bytes": full(letters(*range(0x800, 0xD800))),
    "four bytes": full(letters(*range(0x10000, 0x20000))),
    "zero width": full("d\u200be\u200bl\u200b"),
    "Cyrillic": full("бв \u0430 "),
    "tags": full("\U0001f3f4\U000e0067"),
}


@pytest.mark.parametrize("profile", ["strict", "coding"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_takes_less_than_two_milliseconds(name: str, profile: str) -> None:
    gate = Gate(GateConfig(), ConfidenceConfig(), profile, {})
    kind = kinds(profile).of(propose(0, type="run_shell").proposal)
    # Another last character each time, so that nothing is remembered of the text.
    proposals = [
        propose(0, type="run_shell", text=HOSTILE[name][:-1] + end) for end in "abcdefghijkl"
    ]
    turns = iter(proposals)

    took_s = best_s(lambda: gate.check(next(turns), kind), times=1, rounds=len(proposals))

    print(f"{name}, {profile}: {took_s * 1000:.2f} ms")
    assert took_s < 0.002


@pytest.mark.req("S4.7")
def test_a_plain_proposal_takes_microseconds() -> None:
    gate = Gate(GateConfig(), ConfidenceConfig(), "strict", {})
    proposed = propose(0, type="run_shell", text="make test")
    kind = kinds().of(proposed.proposal)

    took_s = best_s(lambda: gate.check(proposed, kind), times=2000)

    print(f"plain: {took_s * 1e6:.1f} µs")
    assert took_s < 0.000_02


def test_a_thousand_patterns_cost_hardly_more_than_ten() -> None:
    words = ["".join(chance.choices(string.ascii_lowercase, k=8)) for _ in range(1000)]
    patterns = tuple(rf"\b{word}\b" for word in words)
    few, many = (
        Gate(GateConfig(blocklist_patterns=patterns[:count]), ConfidenceConfig(), "strict", {})
        for count in (10, 1000)
    )
    proposed = propose(
        0, type="click", text="git commit -m 'Fix the build'", target=Target(label="OK")
    )
    kind = kinds().of(proposed.proposal)

    ratios = []
    for _ in range(5):
        few_s = best_s(lambda: few.check(proposed, kind), times=500)
        ratios.append(best_s(lambda: many.check(proposed, kind), times=500) / few_s)

    print(f"1000 patterns: {min(ratios):.2f} times the cost of 10")
    assert min(ratios) < 1.3
