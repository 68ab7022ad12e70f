"""A project with a file history, and an agent that edits a file in it."""

from pathlib import Path
from typing import Any, Final

from tests.conftest import RunningDaemon
from tests.journeys.agents import until
from tests.journeys.asking_agent import Asker
from tests.journeys.people import query

CONFIG: Final = """
profile = "coding"
[safe_mode]
max_consecutive_errors = 100
"""
PROJECT: Final = """
[projects.{name}]
root = "{root}/{name}"
agents = ["{name}-coder"]
history = "shadow"
errors_in_a_row = 2
"""


class Project:
    """A project and the agent that edits a file in it and reports the outcome."""

    def __init__(self, daemon: RunningDaemon, root: Path, name: str) -> None:
        self.daemon = daemon
        self.name = name
        self.agent = f"{name}-coder"
        self.root = root / name
        self.file = self.root / "cart.py"

    def writes(self, id_: str, text: str, *, ok: bool = True, path: str = "cart.py") -> None:
        file = self.root / path
        action = {"type": "edit_file", "paths": [str(file)], "text": text, "id": id_}
        with Asker(self.daemon, self.agent) as agent:
            decision = agent.ask("propose", {**action, "description": f"write {id_}"})
            assert decision["decision"] == "allow", decision
            file.write_text(text)
            agent.ask("telemetry", {"type": "outcome", "id": id_, "ok": ok})

    def commits(self, count: int = 0) -> list[dict[str, Any]]:
        """Wait for this many commits of actions and return them, newest first."""
        until(lambda: len(self._of_actions()) >= count)
        return self._of_actions()

    def _of_actions(self) -> list[dict[str, Any]]:
        """Return the commits made before or after an action, without the very first commit."""
        return [row for row in self.rows() if row["id"]]

    def rows(self) -> list[dict[str, Any]]:
        """Return all commits, newest first."""
        rows: list[dict[str, Any]] = query(self.daemon, "commits", project=self.name)["commits"]
        return rows
