"""The cost of the gate, compared with other work in the same run."""

import random
import string
from collections.abc import Callable

import pytest

from safetyd.core.guards.gate.gate import Gate
from safetyd.core.guards.gate.gate_config import ConfidenceConfig, GateConfig
from safetyd.core.messages.proposal import MAX_TEXT_BYTES, Target
from tests.core.guards.gate.gate_rig import kinds
from tests.cost import ratio, reading
from tests.story import propose

chance = random.Random(4)


def full(text: str) -> str:
    """Repeat `text` up to the maximum length."""
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


PLAIN = full("make the tests pass and say what was wrong ")
ROUNDS = 9


def look(profile: str, text: str) -> Callable[[], object]:
    """Return a check of a text that differs each time, so that nothing is cached."""
    gate = Gate(GateConfig(), ConfidenceConfig(), profile, {})
    kind = kinds(profile).of(propose(0, type="run_shell").proposal)
    ends = string.ascii_lowercase[:ROUNDS]
    turns = iter([propose(0, type="run_shell", text=text[:-1] + end) for end in ends])
    return lambda: gate.check(next(turns), kind)


@pytest.mark.parametrize("profile", ["strict", "coding"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_costs_no_more_than_some_plain_ones_of_its_length(
    name: str, profile: str
) -> None:
    times = ratio(look(profile, HOSTILE[name]), look(profile, PLAIN), rounds=ROUNDS)

    assert times < 80


@pytest.mark.req("S4.7")
def test_a_look_at_a_plain_proposal_costs_about_as_much_as_to_read_it() -> None:
    gate = Gate(GateConfig(), ConfidenceConfig(), "strict", {})
    proposed = propose(0, type="run_shell", text="make test")
    kind = kinds().of(proposed.proposal)

    assert ratio(lambda: gate.check(proposed, kind), reading, times=100) < 4


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

    times = ratio(
        lambda: many.check(proposed, kind), lambda: few.check(proposed, kind), times=100, rounds=45
    )

    assert times < 1.5
