import re
import shutil
import subprocess
import urllib.request
from typing import Any, Final

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from safetyd.client import SyncSafety
from tests.checkout import ROOT
from tests.conftest import StartDaemon

ALERTS: Final = ROOT / "config" / "alerts.yml"
UNIT_TESTS: Final = ROOT / "config" / "alerts_test.yml"
# What the language of expressions brings itself, and what every scrape does.
NO_METRICS: Final = {
    *("absent", "and", "max_over_time", "min_over_time", "or", "round", "time", "up"),
}


def promtool(*arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    here = ROOT / ".venv" / "bin" / "promtool"
    command = shutil.which("promtool") or (str(here) if here.exists() else None)
    if command is None:
        pytest.fail("promtool is missing; run: ./tests/system-packages")
    return subprocess.run(
        [command, *arguments], capture_output=True, text=True, check=False, input=typed
    )


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def metrics_in(expression: str) -> set[str]:
    """Return the metrics that an expression names."""
    bare = re.sub(r"\{.*?\}|\[.*?\]", "", expression)
    return set(re.findall(r"[a-z_]+", bare)) - NO_METRICS


def test_prometheus_finds_nothing_wrong_with_the_rules() -> None:
    checked = promtool("check", "rules", str(ALERTS))

    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.req("S0.22")
@pytest.mark.req("S2.43")
def test_each_alert_fires_when_it_should_and_not_just_below() -> None:
    tested = promtool("test", "rules", str(UNIT_TESTS))

    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.parametrize("alert", [rule["alert"] for rule in rules()])
def test_alert_is_tried_both_ways(alert: str) -> None:
    tests = yaml.safe_load(UNIT_TESTS.read_text())["tests"]
    tried = [t for test in tests for t in test["promql_expr_test"] if f'"{alert}"' in t["expr"]]

    assert {bool(one["exp_samples"]) for one in tried} == {True, False}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_alert_says_what_to_type(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert rule["annotations"]["summary"]
    assert re.search(r"`(safetyd|systemctl) ", rule["annotations"]["description"])


def test_every_metric_that_an_alert_names_is_exported(start_daemon: StartDaemon) -> None:
    outlet = '[outlets.postgres]\ndsn_file = "nowhere"\n'
    daemon = start_daemon(f"[notifications.desktop]\nhelper = true\n{outlet}")
    with SyncSafety("code", url=daemon.endpoint.bus) as safety:
        decision = safety.propose("read_file", dependency="db")
        safety.report(decision.id, ok=True)
    with urllib.request.urlopen(f"{daemon.endpoint.web}/metrics") as page:
        families = text_string_to_metric_families(page.read().decode())
        exported = {sample.name for family in families for sample in family.samples}

    named = {name for rule in rules() for name in metrics_in(rule["expr"])}

    assert "autonomy_safe_mode_active" in named
    assert named <= exported


def test_promtool_finds_nothing_wrong_with_the_metrics(start_daemon: StartDaemon) -> None:
    daemon = start_daemon()
    with SyncSafety("code", data_dir=daemon.data_dir) as safety:
        safety.propose("read_file")
    with urllib.request.urlopen(f"{daemon.endpoint.web}/metrics") as answer:
        scraped = answer.read().decode()

    checked = promtool("check", "metrics", typed=scraped)

    assert "safetyd_repeated_actions" in scraped
    assert checked.returncode == 0, checked.stdout + checked.stderr
