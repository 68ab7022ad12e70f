"""Reports, file history and simulation after a takeover."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from safetyd.client import SyncSafety
from tests.conftest import RunningDaemon, StartDaemon
from tests.journeys.agents import until
from tests.journeys.edited_project import CONFIG, PROJECT
from tests.journeys.people import query
from tests.journeys.test_second_daemon import Shared, stands_by

pytestmark = pytest.mark.journey


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    shared = Shared(tmp_path)
    yield shared
    shared.bus.stop()


def edit(shared: Shared, file: Path, text: str) -> None:
    """Let an agent change a file."""
    with SyncSafety("code", url=shared.bus.url, key_file=shared.agent, deadline_s=30) as safety:
        decision = safety.propose("edit_file", paths=[str(file)], text=text, id=text)
        assert decision.allowed, decision
        file.write_text(text)
        safety.report(text, ok=True)


def commits(daemon: RunningDaemon, shared: Shared) -> list[dict[str, Any]]:
    return list(query(daemon, "commits", key=shared.operator, project="shop")["commits"])


def test_a_daemon_that_takes_over_reports_and_simulates_everything_and_makes_commits(
    start_daemon: StartDaemon, shared: Shared, tmp_path: Path
) -> None:
    (tmp_path / "shop").mkdir()
    (file := tmp_path / "shop" / "cart.py").write_text("begun")
    project = PROJECT.format(name="shop", root=tmp_path).replace("shop-coder", "code")
    config = f"{CONFIG}{project}{shared.bus_config}"
    first = start_daemon(config)
    edit(shared, file, "one")
    until(lambda: any(commit["id"] == "one" for commit in commits(first, shared)))
    second = start_daemon(config)
    until(lambda: stands_by(second))

    first.kill()
    until(lambda: not stands_by(second))
    edit(shared, file, "two")

    key = {"SAFETYD_KEY_FILE": str(shared.operator)}
    until(lambda: "two" in {commit["id"] for commit in commits(second, shared)})
    key = {"SAFETYD_KEY_FILE": str(shared.operator)}
    report = json.loads(second.safetyd("report", "--json", **key).stdout)["report"]
    simulated = json.loads(second.safetyd("simulate", "--json").stdout)

    assert (report["scores"]["executed"], report["versions"]["commits"]) == (2, 2)
    assert (simulated["report"]["decisions"], simulated["same"]) == (2, True)
    # The commits of the daemon before are on its machine.
    assert "one" not in {commit["id"] for commit in commits(second, shared)}
