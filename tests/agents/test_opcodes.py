"""A decision does not become more expensive unnoticed."""

import sys
from pathlib import Path
from typing import Final

from tests.agents.opcode_counts import Decisions

# The most opcodes and Python calls of each decision; anomaly detection needs ten opcodes more or
# fewer, because it looks at the clock. Lower them when a change makes a decision cheaper. A change
# that needs more says why in its commit.
CEILINGS: Final = {
    "edit": (7250, 286),
    "read": (6796, 275),
    "command": (6866, 291),
    "hook call": (11594, 476),
    "model call": (7063, 299),
}


def test_a_decision_costs_no_more_opcodes_and_calls_than_before(tmp_path: Path) -> None:
    costs = Decisions(tmp_path).costs()

    assert costs.keys() == CEILINGS.keys()
    for name, cost in costs.items():
        print(f"{name}: {cost.opcodes} opcodes, {cost.calls} calls")
        if sys.version_info[:2] == (3, 11):  # other versions have other opcodes
            within = cost.opcodes <= CEILINGS[name][0] and cost.calls <= CEILINGS[name][1]
            assert within, f"{name}, at most {CEILINGS[name]}:\n{cost.table()}"
