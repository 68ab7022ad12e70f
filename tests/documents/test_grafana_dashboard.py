"""Grafana can load the dashboard, and a daemon exports every metric of it and of the alerts."""

import json
import re
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import combinations
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from safetyd.client import SyncSafety
from tests.checkout import ROOT
from tests.conftest import RunningDaemon, StartDaemon
from tests.documents.test_prometheus_alerts import metrics_in_alerts, promtool
from tests.journeys.agents import until
from tests.journeys.delivery_targets import targets
from tests.journeys.test_second_daemon import Shared

DASHBOARD: Final[dict[str, Any]] = json.loads(
    (ROOT / "config" / "grafana" / "safetyd.json").read_text(encoding="utf-8")
)
WIDTH: Final = 24
# Values that Grafana fills in, and the label of every scrape.
FILLED_IN: Final = {"$__rate_interval": "5m", "$instance": ".*"}
BY_PROMETHEUS: Final = {"instance"}
SELECTOR: Final = re.compile(r"\b((?:safetyd|autonomy)_\w+)(?:\{(.*?)\})?")
LABEL: Final = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")


class Drawn(NamedTuple):
    """An expression of a panel, and the legend of its series."""

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
        """Return each metric with the labels in its selector."""
        found = SELECTOR.findall(self.expression)
        return [(name, set(LABEL.findall(inner)) - BY_PROMETHEUS) for name, inner in found]

    @property
    def labels(self) -> set[str]:
        """Return the labels in groupings and legends."""
        by = re.findall(r"\bby \((.*?)\)", self.expression)
        names = {name.strip() for names in by for name in names.split(",")}
        return (names | set(re.findall(r"\{\{(\w+)\}\}", self.legend))) - BY_PROMETHEUS


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DASHBOARD["panels"]
    return found


def drawn() -> Iterator[Drawn]:
    for panel in panels():
        for target in panel.get("targets", ()):
            yield Drawn(panel["title"], target["expr"], target["legendFormat"])


def busy(daemon: RunningDaemon, shared: Shared) -> None:
    """Cause at least one sample of every metric with labels."""
    with SyncSafety("code", url=daemon.endpoint.bus, key_file=shared.agent) as safety:
        decision = safety.propose("read_file", dependency="db", cost_usd=0.5)
        safety.report(decision.id, ok=True, cost_usd=0.5)
        for _ in range(30):  # a loop without a pause is an anomaly
            safety.propose("read_file", text="again")
        assert not safety.propose("run_shell", text="rm -rf /").allowed
    key = {"SAFETYD_KEY_FILE": str(shared.operator)}
    assert daemon.safetyd("notify", "test", "webhook", **key).returncode == 0


def scraped(daemon: RunningDaemon) -> str:
    with urllib.request.urlopen(f"{daemon.endpoint.web}/metrics") as page:
        return str(page.read().decode())


def labels_of_metrics(page: str) -> dict[str, set[str]]:
    families = text_string_to_metric_families(page)
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}


@pytest.mark.journey
def test_a_daemon_exports_every_metric_and_label_of_the_dashboard_and_the_alerts(
    start_daemon: StartDaemon, tmp_path: Path
) -> None:
    shared = Shared(tmp_path)
    with targets() as everywhere, ExitStack() as stack:
        stack.callback(shared.bus.stop)
        outlet = '\n[outlets.postgres]\ndsn_file = "nowhere"\n'
        config = shared.bus_config + everywhere.configure(tmp_path) + outlet
        daemon = start_daemon(config)
        start_daemon(config)  # a standby
        busy(daemon, shared)
        wanted = {name for one in drawn() for name, _ in one.selectors} | metrics_in_alerts()
        until(lambda: wanted <= labels_of_metrics(scraped(daemon)).keys())
        page = scraped(daemon)

    exported = labels_of_metrics(page)
    for one in drawn():
        assert one.selectors, one
        for name, chosen_by in one.selectors:
            assert chosen_by <= exported[name], (one, exported[name])
        known = set.union(*(exported[name] for name, _ in one.selectors))
        assert one.labels <= known, (one, known)
    linted = promtool("check", "metrics", typed=page)
    assert linted.returncode == 0, linted.stdout + linted.stderr


def test_prometheus_accepts_every_expression(tmp_path: Path) -> None:
    rules = [
        {"record": f"dashboard:drawn:{number}", "expr": one.promql}
        for number, one in enumerate(drawn())
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))

    checked = promtool("check", "rules", str(file))

    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(rules)} rules found" in checked.stdout


def test_panels_have_unique_ids_and_do_not_overlap() -> None:
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


def test_every_panel_uses_the_selected_data_source() -> None:
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    asked = [panel["datasource"] for panel in panels() if panel["type"] != "row"]
    asked += [target["datasource"] for panel in panels() for target in panel.get("targets", ())]
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}

    assert asked
    assert all(source == chosen for source in asked)
    assert variables["datasource"]["query"] == "prometheus"
    assert set(variables) == {"datasource", "instance"}
    assert DASHBOARD["uid"] == "safetyd"
