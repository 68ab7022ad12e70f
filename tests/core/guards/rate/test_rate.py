import sys
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.guards.rate import sliding_window as minute
from safetyd.core.guards.rate.rate import RateConfig, RateLimiter, Taker
from safetyd.core.guards.rate.rate_limits import BucketConfig, ModeRates
from safetyd.core.messages.verdict import ALLOWED, Severity, Verdict
from tests.core.guards.guard_rig import (
    OTHER_ASKS,
    OTHER_BLOCKS,
    assert_retold,
    decided,
    look,
    nobody,
    propose_to,
    rules,
    somebody,
    stories,
)
from tests.story import propose, tick

ALWAYS = {"tokens_per_minute": 1_000_000, "burst": 1_000_000}


def limiter(**rates: dict[str, int]) -> RateLimiter:
    """Limit only at the levels that are given."""
    return RateLimiter(config_of(rates), "production", {}, nobody)


def reserving(**rates: dict[str, int]) -> RateLimiter:
    """Limit in the same way, where others have keys."""
    return RateLimiter(config_of(rates), "production", {}, somebody)


def config_of(rates: dict[str, dict[str, int]]) -> RateConfig:
    tables = {"global": ALWAYS, "agent": ALWAYS, "model": ALWAYS} | rates
    return msgspec.convert({"production": tables}, RateConfig)


def rate(tokens_per_minute: int, burst: int) -> dict[str, int]:
    return {"tokens_per_minute": tokens_per_minute, "burst": burst}


def asks(guard: RateLimiter, t: float, agent: str = "code", model: str | None = None) -> Verdict:
    return propose_to(guard, propose(t, agent, model=model))


def spend(guard: RateLimiter, t: float, agent: str, times: int) -> None:
    assert [asks(guard, t, agent) for _ in range(times)] == [ALLOWED] * times


@pytest.mark.req("S1.13")
@pytest.mark.req("S1.15")
def test_an_agent_that_used_up_its_burst_waits_for_a_token() -> None:
    guard = limiter(agent=rate(30, 3))

    verdicts = [asks(guard, 10) for _ in range(4)]

    assert verdicts[:3] == [ALLOWED] * 3
    assert verdicts[3].decision is Severity.BLOCK
    assert (verdicts[3].rule, verdicts[3].cause) == ("rate.agent", "rate_limit")
    assert (verdicts[3].limit_id, verdicts[3].retry_after_s) == ("rate.agent:code", 2)
    assert asks(guard, 11).retry_after_s == 1
    assert asks(guard, 12) is ALLOWED


@pytest.mark.req("S1.13")
def test_a_model_has_a_bucket_for_all_agents() -> None:
    guard = limiter(model=rate(60, 2))
    asks(guard, 0, "code", "gpt-5.2")
    asks(guard, 0, "ops", "gpt-5.2")

    verdict = asks(guard, 0, "shop", "gpt-5.2")

    assert (verdict.rule, verdict.limit_id) == ("rate.model", "rate.model:gpt-5.2")
    assert asks(guard, 0, "shop", "llama") is ALLOWED
    assert asks(guard, 0, "shop") is ALLOWED


@pytest.mark.req("S1.13")
def test_all_agents_share_the_global_bucket() -> None:
    guard = limiter(**{"global": rate(60, 2)})
    asks(guard, 0, "code")
    asks(guard, 0, "ops")

    verdict = asks(guard, 0, "shop")

    assert (verdict.rule, verdict.limit_id, verdict.retry_after_s) == (
        "rate.global",
        "rate.global",
        1,
    )


def test_the_level_that_takes_longest_gives_the_reason() -> None:
    guard = limiter(agent=rate(60, 1), model=rate(6, 1), **{"global": rate(600, 1)})
    asks(guard, 0, model="m")

    verdict = asks(guard, 0, model="m")

    assert rules(verdict) == ("rate.model", "rate.global", "rate.agent")
    assert (verdict.limit_id, verdict.retry_after_s) == ("rate.model:m", 10)


def test_a_proposal_takes_all_its_tokens_or_none() -> None:
    guard = limiter(agent=rate(60, 5), model=rate(60, 1))
    asks(guard, 0, model="m")

    for _ in range(9):
        assert asks(guard, 0, model="m").rule == "rate.model"

    assert guard.agent_bucket("code", 0).tokens == 4
    assert guard.model_bucket("m", 0).tokens == 0


def test_a_blocked_proposal_takes_no_token_and_a_pending_one_takes_one() -> None:
    guard = limiter(agent=rate(60, 5))

    guard.observe(decided(propose(0, model="m"), OTHER_BLOCKS))
    assert guard.agent_bucket("code", 0).tokens == 5
    guard.observe(decided(propose(0, model="m"), OTHER_ASKS))
    assert guard.agent_bucket("code", 0).tokens == 4


def test_a_dry_run_or_a_repeated_id_costs_nothing() -> None:
    guard = limiter(agent=rate(60, 5))

    guard.observe(decided(propose(0), ALLOWED, first=False))
    guard.observe(tick(0))

    assert guard.save()() == limiter().save()()


def test_a_name_that_was_one_too_many_is_not_remembered() -> None:
    guard = limiter()
    too_many = Verdict("keys", Severity.BLOCK, "keys.agents", "no more names", "rate_limit")

    guard.observe(decided(propose(0, "stranger"), too_many))

    assert guard.save()() == limiter().save()()


def test_an_allow_of_other_rules_leaves_no_debt() -> None:
    guard = limiter(agent=rate(60, 1))

    for _ in range(3):
        guard.observe(decided(propose(0), ALLOWED))

    assert guard.agent_bucket("code", 0).tokens == 0


def test_an_agent_can_have_a_bucket_of_its_own() -> None:
    own = {"nightly": BucketConfig(tokens_per_minute=600, burst=200)}
    guard = RateLimiter(RateConfig(), "production", own, nobody)

    assert guard.agent_bucket("nightly", 0).tokens == 200
    assert guard.agent_bucket("Nightly", 0).tokens == 120
    spend(guard, 0, "nightly", 200)
    verdict = asks(guard, 0, "nightly")
    assert verdict.retry_after_s == pytest.approx(0.1)
    assert "600 proposals" in verdict.reason


@pytest.mark.req("S1.14")
@pytest.mark.req("S1.15")
@pytest.mark.parametrize(
    ("mode", "buckets"),
    [
        ("development", {"agent": (60, 60), "model": (120, 120), "global": (240, 240)}),
        ("production", {"agent": (300, 120), "model": (1200, 400), "global": (6000, 1500)}),
        ("hybrid", {"agent": (300, 120), "model": (1200, 400), "global": (6000, 1500)}),
    ],
)
def test_each_mode_has_its_rates(mode: str, buckets: dict[str, tuple[int, int]]) -> None:
    assert numbers(RateConfig().of(mode)) == buckets


def test_a_table_with_one_number_keeps_the_others() -> None:
    table = {"hybrid": {"global": {"burst": 7}}, "development": {"agent": {"burst": 8}}}

    config = msgspec.convert(table, RateConfig)

    assert numbers(config.hybrid)["global"] == (6000, 7)
    assert numbers(config.development)["agent"] == (60, 8)
    assert numbers(config.hybrid)["agent"] == (300, 120)
    assert config.production == RateConfig().production


def numbers(rates: ModeRates) -> dict[str, tuple[int, int]]:
    named = {"agent": rates.agent, "model": rates.model, "global": rates.global_}
    return {name: (bucket.tokens_per_minute, bucket.burst) for name, bucket in named.items()}


@pytest.mark.req("S1.16")
def test_when_the_bucket_is_low_an_agent_that_used_its_share_waits() -> None:
    guard = limiter(**{"global": rate(60, 50)})
    spend(guard, 0, "noisy", 39)
    spend(guard, 0, "quiet", 1)

    verdict = asks(guard, 0, "noisy")

    assert (verdict.rule, verdict.limit_id) == ("rate.fairness", "rate.global")
    assert verdict.retry_after_s == 1
    assert all(said in verdict.reason for said in ("noisy", "39 ", "2 agents"))
    assert asks(guard, 0, "quiet") is ALLOWED
    assert asks(guard, 0, "new") is ALLOWED


def test_above_a_fifth_no_share_applies() -> None:
    guard = limiter(**{"global": rate(60, 50)})
    spend(guard, 0, "quiet", 1)

    spend(guard, 0, "noisy", 39)

    assert guard.common_bucket(0).tokens == 10
    assert asks(guard, 0, "noisy").rule == "rate.fairness"


def test_a_share_is_the_minutes_tokens_by_the_agents_that_proposed() -> None:
    guard = limiter(**{"global": rate(60, 60)})
    spend(guard, 0, "a", 29)
    spend(guard, 0, "b", 20)

    assert asks(guard, 0, "a") is ALLOWED
    assert asks(guard, 0, "a").rule == "rate.fairness"
    guard.observe(decided(propose(0, "blocked"), OTHER_BLOCKS))
    assert asks(guard, 0, "b").rule == "rate.fairness"


def test_alone_an_agent_may_use_it_up() -> None:
    guard = limiter(**{"global": rate(600, 50)})

    spend(guard, 0, "alone", 50)

    assert rules(asks(guard, 0, "alone")) == ("rate.global",)


def test_what_was_taken_a_minute_ago_is_forgotten() -> None:
    guard = limiter(**{"global": rate(60, 60)})
    spend(guard, 0, "noisy", 40)
    for t in range(1, 60):
        asks(guard, t, "other")
    spend(guard, 59, "other", 8)

    assert rules(asks(guard, 59, "noisy")) == ("rate.fairness",)
    assert asks(guard, 60, "noisy") is ALLOWED


def test_an_agent_that_fell_silent_leaves_its_share_to_the_others() -> None:
    guard = limiter(**{"global": rate(60, 60)})
    for name in ("a", "b", "c"):
        asks(guard, 0, name)
    asks(guard, 30, "a")
    spend(guard, 64, "a", 47)
    assert asks(guard, 64, "a") is ALLOWED

    guard.observe(decided(propose(64, "b"), OTHER_BLOCKS))

    assert asks(guard, 64, "a").rule == "rate.fairness"


def keyless(guard: RateLimiter, t: float, agent: str, model: str | None = None) -> Verdict:
    return propose_to(guard, propose(t, agent, model=model, keyless=True))


@pytest.mark.parametrize("level", ["global", "model"])
def test_names_without_a_key_leave_half_of_what_is_shared_to_agents_with_one(level: str) -> None:
    guard = reserving(**{level: rate(60, 20)})

    answers = [keyless(guard, 0, f"k{number}", "m") for number in range(50)]

    assert answers[:10] == [ALLOWED] * 10
    assert {verdict.rule for verdict in answers[10:]} == {f"rate.{level}"}
    assert answers[10].retry_after_s == 1.0
    assert [asks(guard, 0, "code", "m") for _ in range(10)] == [ALLOWED] * 10
    assert keyless(guard, 10.9, "k0", "m") is not ALLOWED
    assert keyless(guard, 11, "k0", "m") is ALLOWED


def test_without_any_keys_anonymous_agents_may_use_the_whole_bucket() -> None:
    guard = limiter(**{"global": rate(60, 20)})

    answers = [keyless(guard, 0, f"k{number}") for number in range(21)]

    assert answers[:20] == [ALLOWED] * 20
    assert answers[20].rule == "rate.global"


def test_a_bucket_of_one_has_no_half_to_leave() -> None:
    guard = reserving(**{"global": rate(60, 1)})

    assert keyless(guard, 0, "k0") is ALLOWED


def test_names_without_a_key_make_nobodys_share_smaller() -> None:
    guard = reserving(**{"global": rate(60, 100)})
    for number in range(30):
        keyless(guard, 0, f"k{number}")

    spend(guard, 0, "code", 60)

    assert asks(guard, 0, "code").rule == "rate.fairness"


def test_an_agent_that_gets_a_key_counts_among_agents_with_keys() -> None:
    guard = reserving(**{"global": rate(60, 100)})
    keyless(guard, 0, "code")

    spend(guard, 6, "code", 1)

    assert (sum(guard._state.keyless), sum(guard._state.proposing)) == (0, 1)


def test_an_agent_costs_less_than_three_hundred_bytes() -> None:
    agents = {f"agent-{number}": Taker(tokens=1.5, t=2.5) for number in range(10_000)}

    each = sys.getsizeof(agents) / len(agents) + sum(
        map(sys.getsizeof, (Taker(), 1.5, 2.5, minute.empty()))
    )

    assert each < 300


names = st.sampled_from(["code", "ops", "own"])
models = st.sampled_from([None, "", "m", "n"])
proposals = st.builds(propose, st.just(0), agent=names, model=models, keyless=st.booleans())
quarters = st.sampled_from([0, 0, 0, 1, 2, 20, 100, 400]).map(lambda n: n / 4)


def small() -> RateLimiter:
    tables = {"global": rate(40, 10), "agent": rate(20, 4), "model": rate(30, 6)}
    config = msgspec.convert({"production": tables}, RateConfig)
    own = {"own": BucketConfig(tokens_per_minute=60, burst=8)}
    return RateLimiter(config, "production", own, somebody)


@given(stories(proposals, most=80), proposals)
def test_a_replayed_limiter_is_the_same_limiter(story, last) -> None:
    assert_retold(small, story, last)


@pytest.mark.req("S1.13")
@given(st.lists(st.tuples(quarters, names, models), max_size=80))
def test_buckets_never_exceed_their_rate_in_any_window_and_never_go_negative(story) -> None:
    guard, t = small(), 0.0
    taken: dict[tuple[int, int, str], list[float]] = {}
    for gap, agent, model in story:
        t += gap
        if asks(guard, t, agent, model) is ALLOWED:
            mine = (60, 8, agent) if agent == "own" else (20, 4, agent)
            for bucket in ((40, 10, ""), mine, *([(30, 6, model)] if model else [])):
                taken.setdefault(bucket, []).append(t)
        levels = (
            guard.common_bucket(t).tokens,
            guard.agent_bucket(agent, t).tokens,
            guard.model_bucket("m", t).tokens,
        )
        assert min(levels) >= 0

    for (per_minute, burst, _), times in taken.items():
        for first, begin in enumerate(times):
            for last, end in enumerate(times[first:], 1):
                assert last <= burst + (end - begin) * per_minute / 60 + 1e-6


@given(st.lists(st.tuples(quarters, names, models), max_size=80))
def test_waiting_retry_after_s_yields_a_token_unless_others_took_it(story) -> None:
    guard, t = small(), 0.0
    for gap, agent, model in story:
        t += gap
        verdict = asks(guard, t, agent, model)
        if verdict is not ALLOWED and "rate.fairness" not in rules(verdict):
            later = t + (verdict.retry_after_s or 0) + 1e-6
            again = look(guard, propose(later, agent, model=model))
            assert again is ALLOWED or rules(again) == ("rate.fairness",)


@given(st.lists(st.tuples(st.floats(0, 30), st.booleans()), min_size=1, max_size=60))
def test_a_ring_has_what_was_counted_in_its_slots_and_nothing_older(story) -> None:
    ring, newest, t = minute.empty(), 0, 0.0
    counted: list[int] = []
    for gap, counts in story:
        t += gap
        slot = minute.slot_at(t)
        minute.roll(ring, newest, slot)
        newest = slot
        if counts:
            minute.add(ring, slot, 1)
            counted.append(slot)

    totals = [minute.total(ring, newest, newest + later) for later in range(minute.SLOTS + 2)]

    for later, total in enumerate(totals):
        assert total == sum(slot > newest + later - minute.SLOTS for slot in counted)
    assert all(before >= after for before, after in pairwise(totals))
