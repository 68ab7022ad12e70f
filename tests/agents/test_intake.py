import pytest

from safetyd.agents.intake import (
    BURST_S,
    BYTES_PER_S,
    DRY_RUNS_PER_MINUTE,
    LINE_BYTES,
    MAX_BUCKETS,
    QUICK_S,
    Intake,
)

LARGE = 64 * 1024


def intake(per_second: int = 50) -> Intake:
    return Intake(per_second)


def admitted(intake: Intake, count: int, agent: str = "a", size: int = 0, t: float = 0.0) -> int:
    """Return how many of so many messages with a key are admitted at one moment."""
    return sum(not intake.admit(agent, size, t, keyless=False) for _ in range(count))


def admitted_keyless(intake: Intake, names: list[str], size: int = 0, t: float = 0.0) -> int:
    return sum(not intake.admit(name, size, t, keyless=True) for name in names)


def test_burst_passes_and_then_the_rate_holds() -> None:
    bound = intake()

    assert admitted(bound, 1000) == 200
    assert admitted(bound, 1000, t=1.0) == 50


def test_refusal_says_how_long_to_wait_and_that_is_enough() -> None:
    bound = intake()
    admitted(bound, 200)

    wait = bound.admit("a", 0, 0.0, keyless=False)

    assert wait == pytest.approx(1 / 50)
    assert bound.admit("a", 0, wait, keyless=False) == 0.0


def test_refused_message_costs_nothing() -> None:
    bound = intake()
    admitted(bound, 10_000)

    assert admitted(bound, 10, t=0.1) == 5


def test_bytes_are_limited_like_messages() -> None:
    bound = intake(100_000)
    burst = int(BYTES_PER_S * BURST_S / (LARGE + LINE_BYTES))

    assert admitted(bound, 100, size=LARGE) == burst
    assert bound.admit("a", LARGE, 0.0, keyless=False) > 0


def test_nothing_is_saved_up_beyond_the_burst() -> None:
    bound = intake()
    admitted(bound, 1)

    assert admitted(bound, 1000, t=3600.0) == 200


def test_agents_do_not_share_an_allowance() -> None:
    bound = intake()
    admitted(bound, 1000, "a")

    assert admitted(bound, 1000, "b") == 200


def test_agents_without_a_key_share_one_allowance_of_bytes() -> None:
    bound = intake()
    burst = int(BYTES_PER_S * BURST_S / (LARGE + LINE_BYTES))

    names = [f"a{number}" for number in range(100)]

    assert admitted_keyless(bound, names, LARGE) == burst
    assert bound.admit("another", 0, 0.0, keyless=True) == 0.0
    assert bound.admit("another", LARGE, 0.0, keyless=True) > 0


def test_agents_without_a_key_do_not_touch_those_with_one() -> None:
    bound = intake()
    admitted_keyless(bound, ["code"] * 10_000)

    assert admitted(bound, 1000, "code") == 200


def test_invented_names_cost_a_bounded_memory_and_share_what_is_left() -> None:
    bound = intake(1)
    admitted_keyless(bound, [f"a{number}" for number in range(MAX_BUCKETS + 100)])

    assert len(bound._keyless) == MAX_BUCKETS + 1
    assert admitted_keyless(bound, [f"b{number}" for number in range(10)], t=1000.0) == 4


def test_invented_names_do_not_crowd_out_a_name_with_a_key() -> None:
    bound = intake(1)
    admitted_keyless(bound, [f"a{number}" for number in range(MAX_BUCKETS + 100)])

    assert admitted(bound, 10, "late-comer") == 4


def test_zero_turns_it_off() -> None:
    bound = intake(0)

    assert admitted(bound, 10_000, size=LARGE) == 10_000
    assert bound.admit_dry_run("a", 0.0) == 0.0


def test_dry_runs_have_an_allowance_of_their_own() -> None:
    bound = intake()

    passed = sum(not bound.admit_dry_run("a", 0.0) for _ in range(2 * DRY_RUNS_PER_MINUTE))

    assert passed == DRY_RUNS_PER_MINUTE
    assert bound.admit_dry_run("a", 0.0) == pytest.approx(60 / DRY_RUNS_PER_MINUTE)
    assert bound.admit_dry_run("a", 60 / DRY_RUNS_PER_MINUTE) == 0.0
    assert bound.admit_dry_run("b", 0.0) == 0.0


def test_dry_runs_of_invented_names_cost_a_bounded_memory() -> None:
    bound = intake()

    for number in range(MAX_BUCKETS + 10):
        bound.admit_dry_run(f"a{number}", 0.0)

    assert len(bound._dry_runs) <= MAX_BUCKETS


@pytest.mark.parametrize("keyless", [True, False])
def test_time_of_slow_decisions_is_charged_to_their_agent(*, keyless: bool) -> None:
    bound = intake()
    assert bound.admit("slow", 0, 0.0, keyless=keyless) == 0.0

    bound.charge("slow", 0.5, keyless=keyless)

    wait = bound.overdrawn_s("slow", 0.0, keyless=keyless)
    assert wait == pytest.approx(1.0, abs=0.1), "half a second costs five, and a burst is four"
    assert bound.admit("slow", 0, 0.0, keyless=keyless) > wait
    assert bound.overdrawn_s("slow", wait + 0.01, keyless=keyless) == 0.0
    assert bound.admit("slow", 0, wait + 0.1, keyless=keyless) == 0.0
    assert bound.overdrawn_s("other", 0.0, keyless=False) == 0.0
    assert bound.admit("other", 0, 0.0, keyless=False) == 0.0


def test_agents_without_a_key_share_the_time_of_decisions() -> None:
    bound = intake()
    assert bound.admit("slow", 0, 0.0, keyless=True) == 0.0

    bound.charge("slow", 0.5, keyless=True)

    assert bound.overdrawn_s("other", 0.0, keyless=True) > 0


@pytest.mark.parametrize(("per_second", "busy_s"), [(50, QUICK_S), (0, 100.0)])
def test_quick_decisions_and_unlimited_agents_are_not_charged(
    per_second: int, busy_s: float
) -> None:
    bound = intake(per_second)
    bound.admit("a", 0, 0.0, keyless=False)
    before = bound._keyed.get("a")
    level = before.bytes.tokens if before else None

    bound.charge("a", busy_s, keyless=False)

    after = bound._keyed.get("a")
    assert (after.bytes.tokens if after else None) == level
    assert bound.overdrawn_s("a", 0.0, keyless=False) == 0.0
