"""The dashboard: Grafana can load it, and every number that it draws is one that a daemon tells."""

import json
import re
import urllib.request
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from safetyd.client import SyncSafety
from tests.checkout import ROOT
from tests.conftest import RunningDaemon, StartDaemon
from tests.documents.test_prometheus_alerts import promtool
from tests.journeys.agents import until
from tests.journeys.delivery_targets import targets

DASHBOARD: Final[dict[str, Any]] = json.loads(
    (ROOT / "config" / "grafana" / "safetyd.json").read_text(encoding="utf-8")
)
ROWS: Final = [
    "State",
    "Decisions",
    "Latency",
    "Spending",
    "Breakers",
    "Anomalies",
    "Messages",
    "Bus and journal",
    "Disk",
]
WIDTH: Final = 24
# What Grafana puts there, and the label that every scrape brings.
FILLED_IN: Final = {"$__rate_interval": "5m", "$instance": ".*"}
BY_PROMETHEUS: Final = {"instance"}
SELECTOR: Final = re.compile(r"\b((?:safetyd|autonomy)_\w+)(?:\{(.*?)\})?")
LABEL: Final = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")


class Drawn(NamedTuple):
    """One expression of a panel, and how its series are called."""

    panel: str
    expression: str
    legend: str

    @property
    def promql(self) -> str:
        text = self.expression
        for name, value in FILLED_IN.items():
            text = text.replace(name, value)
        return text

    @property
    def selectors(self) -> list[tuple[str, set[str]]]:
        """Return each metric with the labels that it is chosen by."""
        found = SELECTOR.findall(self.expression)
        return [(name, set(LABEL.findall(inner)) - BY_PROMETHEUS) for name, inner in found]

    @property
    def labels(self) -> set[str]:
        """Return the labels by which series are told apart or called."""
        by = re.findall(r"\bby \((.*?)\)", self.expression)
        names = {name.strip() for names in by for name in names.split(",")}
        return names | set(re.findall(r"\{\{(\w+)\}\}", self.legend))


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DASHBOARD["panels"]
    return found


def drawn() -> Iterator[Drawn]:
    for panel in panels():
        for target in panel.get("targets", ()):
            yield Drawn(panel["title"], target["expr"], target["legendFormat"])


def busy(daemon: RunningDaemon) -> None:
    """Let there be one of everything that is counted by a label."""
    with SyncSafety("code", url=daemon.endpoint.bus) as safety:
        decision = safety.propose("read_file", dependency="db", cost_usd=0.5)
        safety.report(decision.id, ok=True, cost_usd=0.5)
        for _ in range(30):  # a loop without a pause is an anomaly
            safety.propose("read_file", text="again")
        assert not safety.propose("run_shell", text="rm -rf /").allowed
    assert daemon.safetyd("notify", "test", "webhook").returncode == 0


def told(daemon: RunningDaemon) -> dict[str, set[str]]:
    """Return the labels of each metric of which the daemon tells."""
    with urllib.request.urlopen(f"{daemon.endpoint.web}/metrics") as page:
        families = text_string_to_metric_families(page.read().decode())
        return {sample.name: set(sample.labels) for family in families for sample in family.samples}


@pytest.mark.journey
def test_every_metric_and_label_that_a_panel_draws_is_told_by_a_daemon(
    start_daemon: StartDaemon, tmp_path: Path
) -> None:
    with targets() as everywhere:
        daemon = start_daemon(everywhere.configure(tmp_path))
        busy(daemon)
        wanted = {name for one in drawn() for name, _ in one.selectors}
        until(lambda: wanted <= told(daemon).keys())
        exported = told(daemon)

    for one in drawn():
        assert one.selectors, one
        for name, chosen_by in one.selectors:
            assert chosen_by <= exported[name], (one, exported[name])
        known = set.union(*(exported[name] for name, _ in one.selectors))
        assert one.labels <= known, (one, known)


def test_prometheus_can_read_every_expression(tmp_path: Path) -> None:
    rules = [
        {"record": f"dashboard:drawn:{number}", "expr": one.promql}
        for number, one in enumerate(drawn())
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))

    checked = promtool("check", "rules", str(file))

    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(rules)} rules found" in checked.stdout


def test_panels_have_ids_of_their_own_and_places_that_do_not_overlap() -> None:
    ids = [panel["id"] for panel in panels()]
    assert len(set(ids)) == len(ids)

    for panel in panels():
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= WIDTH
    for one, other in combinations((panel["gridPos"] for panel in panels()), 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)


def test_every_panel_asks_the_data_source_that_its_reader_chose() -> None:
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    asked = [panel["datasource"] for panel in panels() if panel["type"] != "row"]
    asked += [target["datasource"] for panel in panels() for target in panel.get("targets", ())]
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}

    assert asked
    assert all(source == chosen for source in asked)
    assert variables["datasource"]["query"] == "prometheus"
    assert set(variables) == {"datasource", "instance"}
    assert DASHBOARD["uid"] == "safetyd"


def test_the_rows_are_those_that_an_operator_looks_for() -> None:
    assert [panel["title"] for panel in panels() if panel["type"] == "row"] == ROWS
