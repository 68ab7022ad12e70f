import json
from typing import Any

from tests.conftest import RunningDaemon


def last_decision(daemon: RunningDaemon, agent: str) -> dict[str, Any]:
    """Return the explanation of an agent's last proposal."""
    listed = daemon.safetyd("decisions", "--agent", agent, "--limit", "1", "--json")
    (row,) = json.loads(listed.stdout)["rows"]
    explained: dict[str, Any] = json.loads(daemon.safetyd("explain", row["id"], "--json").stdout)
    return explained


def last_outcomes(daemon: RunningDaemon, agent: str) -> list[Any]:
    """Return the outcomes of an agent's last proposal. Close its client first."""
    return list(last_decision(daemon, agent)["outcomes"])
