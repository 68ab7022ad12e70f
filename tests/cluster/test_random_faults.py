"""Random faults under load, with daemons whose clocks differ. `make chaos` runs many more."""

from collections.abc import Iterator

import pytest

from tests.cluster.chaos import skewed_fleet, survive
from tests.cluster.fleet import Fleet
from tests.cluster.invariants import check

pytestmark = [pytest.mark.journey, pytest.mark.alone]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with skewed_fleet(tmp_path_factory.mktemp("skewed")) as fleet:
        yield fleet


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_random_faults_lose_nothing_and_double_nothing(fleet: Fleet, seed: int) -> None:
    survive(fleet, seed)


def test_daemons_with_different_clocks_keep_the_same_limits_and_state(fleet: Fleet) -> None:
    fleet.hand_over()

    fleet.limited.history.until_allowed()
    check(fleet)


def test_the_load_reaches_every_limit_that_is_checked(fleet: Fleet) -> None:
    causes = {agent.name: {h.decision.cause for h in agent.history.heard} for agent in fleet.agents}

    assert "budget" in causes["spender"]
    assert "rate_limit" in causes["limited"]
    assert fleet.stops
    assert fleet.asker.granted
    assert fleet.postgres is not None
    [(exported,)] = fleet.postgres.execute("SELECT count(*) FROM safetyd.events")
    assert exported > 0
