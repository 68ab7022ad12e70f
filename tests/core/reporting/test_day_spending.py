from datetime import timedelta

from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import Reported
from safetyd.core.events.event import Event
from safetyd.core.messages.money import NANO
from safetyd.core.messages.telemetry import Outcome, Unreported
from safetyd.core.policy import Policy
from tests.cost import ratio, reading
from tests.story import at, play, propose, report

QUARTER = 900  # seconds
NOON = 48  # quarters since midnight


def spent(t: float, usd: float, agent: str = "code") -> Reported:
    return report(t, Outcome(ok=True, cost_usd=usd), agent)


def cents(engine: Engine, t: float) -> list[int]:
    return [nano * 100 // NANO for nano in engine.records.spending.series(at(t))]


def told(*story: Event) -> Engine:
    engine = Engine(Policy())
    play(engine, propose(0), *story)
    return engine


def test_the_series_grows_by_quarters_of_an_hour_and_is_flat_where_nothing_is_spent() -> None:
    engine = told(
        spent(1, 0.25), spent(2, 0.25), spent(QUARTER, 0.5), spent(4 * QUARTER, 1.0), spent(5, 0)
    )

    assert cents(engine, 5 * QUARTER) == [*[0] * NOON, 50, 100, 100, 100, 200, 200]


def test_a_day_on_which_nothing_was_spent_is_flat() -> None:
    assert cents(Engine(Policy()), 0) == [0] * (NOON + 1)


def test_the_series_begins_anew_at_midnight() -> None:
    engine = told(spent(1, 0.5))
    midnight = 12 * 3600

    assert cents(engine, midnight + 1) == [0]
    play(engine, spent(midnight + QUARTER, 0.25))
    assert cents(engine, midnight + QUARTER) == [0, 25]


def test_a_clock_that_goes_back_takes_nothing_out_of_the_series() -> None:
    engine = told(spent(0, 0.5))
    yesterday = Reported(
        at=at(0) - timedelta(days=1), t=1.0, agent="code", telemetry=Outcome(ok=True, cost_usd=0.25)
    )
    play(engine, yesterday)

    assert cents(engine, 0) == [*[0] * NOON, 75]
    assert engine.records.spending.series(at(-86_400))[-1] == 75 * NANO // 100


def test_what_is_spent_because_no_outcome_came_counts_as_well() -> None:
    engine = told(propose(1, id="p2", cost_usd=0.5))

    play(engine, report(2, Unreported(id="p2")))

    assert cents(engine, 3)[-1] == 50


def test_an_outcome_costs_a_small_part_of_what_reading_a_proposal_does() -> None:
    engine = told(spent(0, 0.5))
    spending = engine.records.spending
    settled = next(event for event in play(engine, spent(1, 0.5)) if type(event) in spending.hears)
    note = spending.hears[type(settled)]

    assert ratio(lambda: note(settled), reading, times=1000) < 0.5
