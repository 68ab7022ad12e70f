"""Policy tests in TOML: a proposal, optional earlier ones, and the expected decision."""

import tomllib
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from safetyd.bus.codec import Malformed, read_proposal
from safetyd.console.failure import Failure, using_file
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.proposal import is_token
from safetyd.core.messages.verdict import Severity
from safetyd.core.policy import Policy
from safetyd.core.simulation.trials import APART_S, TrialStep, decided

NOBODY: Final = "unknown"  # the agent of a proposal that names neither an agent nor a project
MONDAY: Final = datetime(2026, 3, 2, 12)  # noqa: DTZ001 - noon in the time zone of the rules

Table = dict[str, object]


class PolicyTest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[test]]`. Proposals in `earlier` can have `ok` (their outcome) and `after_s`."""

    name: str
    proposal: Table
    expect: Severity
    rule: str = ""  # the expected rule, or a prefix of it
    earlier: tuple[Table, ...] = ()
    at: datetime | None = None  # time of the first proposal; None means noon on a Monday


class PolicyTests(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of tests. `config` is the configuration file, relative to this file."""

    test: tuple[PolicyTest, ...]
    config: str = ""


class TrialResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a test."""

    name: str
    ok: bool
    expected: Severity
    expected_rule: str
    found: Severity
    rules: tuple[str, ...]
    reason: str


def load_tests(path: Path) -> PolicyTests:
    """Read a file of tests. Raise `Failure` if it is invalid."""
    try:
        with using_file(path, "read"):
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        tests = msgspec.convert(table, PolicyTests)
    except (ValueError, msgspec.ValidationError) as exc:
        raise Failure(f"{path}: {exc}", "tests") from exc
    if not tests.test:
        raise Failure(f"{path} has no [[test]]", "tests")
    return tests


def run_tests(tests: Sequence[PolicyTest], policy: Policy) -> Iterator[TrialResult]:
    """Run each test independently, starting from an empty state."""
    for test in tests:
        try:
            steps = [
                _step(table, n, policy) for n, table in enumerate((*test.earlier, test.proposal))
            ]
        except Malformed as exc:
            raise Failure(f"test {test.name!r}: {exc}", "tests") from exc
        begin = test.at or MONDAY
        begin = begin if begin.tzinfo else begin.replace(tzinfo=policy.zone)
        yield _result(test, decided(policy, steps, begin))


def _step(table: Table, number: int, policy: Policy) -> TrialStep:
    said = dict(table)
    ok, after_s = said.pop("ok", None), said.pop("after_s", APART_S)
    agent = said.get("agent") or _agent_of(said.get("project"), policy)
    if not isinstance(agent, str) or not is_token(agent):
        raise Malformed(f"{agent!r} is not a valid agent name. Use 1 to 64 of A-Z a-z 0-9 _ -")
    if not isinstance(ok, bool | None):
        raise Malformed(f"ok is {ok!r}. It must be true or false")
    if not isinstance(after_s, int | float) or isinstance(after_s, bool) or after_s < 0:
        raise Malformed(f"after_s is {after_s!r}. It must be a number of seconds")
    proposal, digest = read_proposal(agent, msgspec.json.encode(said), f"test-{number}")
    return TrialStep(agent=agent, proposal=proposal, digest=digest, ok=ok, after_s=after_s)


def _agent_of(project: object, policy: Policy) -> str:
    known = policy.projects.get(project) if isinstance(project, str) else None
    return known.agents[0] if known is not None and known.agents else NOBODY


def _result(test: PolicyTest, decision: Decision) -> TrialResult:
    rules = decision.triggered_rules
    by_rule = not test.rule or any(rule.startswith(test.rule) for rule in rules)
    return TrialResult(
        name=test.name,
        ok=decision.decision is test.expect and by_rule,
        expected=test.expect,
        expected_rule=test.rule,
        found=decision.decision,
        rules=rules,
        reason=decision.reason,
    )
