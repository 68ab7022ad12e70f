"""The alert rules, checked by Prometheus itself."""

import re
import shutil
import subprocess
from typing import Any, Final

import pytest
import yaml

from tests.checkout import ROOT

ALERTS: Final = ROOT / "config" / "alerts.yml"
UNIT_TESTS: Final = ROOT / "config" / "alerts_test.yml"


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
    """Return the metrics of safetyd in an expression."""
    return set(re.findall(r"\b(?:safetyd|autonomy)_\w+", expression))


def metrics_in_alerts() -> set[str]:
    return {name for rule in rules() for name in metrics_in(rule["expr"])}


def test_prometheus_accepts_the_rules() -> None:
    checked = promtool("check", "rules", str(ALERTS))

    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.req("S0.22")
@pytest.mark.req("S2.43")
def test_each_alert_fires_when_it_should_and_not_just_below() -> None:
    tested = promtool("test", "rules", str(UNIT_TESTS))

    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.parametrize("alert", [rule["alert"] for rule in rules()])
def test_every_alert_is_tested_both_ways(alert: str) -> None:
    tests = yaml.safe_load(UNIT_TESTS.read_text())["tests"]
    tried = [t for test in tests for t in test["promql_expr_test"] if f'"{alert}"' in t["expr"]]

    assert {bool(one["exp_samples"]) for one in tried} == {True, False}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_every_alert_says_which_command_to_run(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert rule["annotations"]["summary"]
    assert re.search(r"`(safetyd|systemctl) ", rule["annotations"]["description"])
