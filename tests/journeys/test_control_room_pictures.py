"""The pictures of the control room in README and its guide are made here.

`SAFETYD_PICTURES=1 pytest tests/journeys/test_control_room_pictures.py` makes those in docs anew.
"""

import os
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.async_api import Browser

from tests.checkout import ROOT
from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon
from tests.journeys.asking_agent import Asker
from tests.journeys.control_room import ON_A_PHONE, Room

pytestmark = pytest.mark.journey

DOCS: Final = ROOT / "docs/control-room"
KEPT: Final = "SAFETYD_PICTURES"
MOST_BYTES: Final = 150_000
DESK: Final = {"width": 1280, "height": 800}
LOOKS: Final[dict[str, dict[str, Any]]] = {
    "light": {"viewport": DESK},
    "dark": {"viewport": DESK, "color_scheme": "dark"},
    "phone": {"viewport": ON_A_PHONE},
}
DIFF: Final = """\
--- a/app/settings.py
+++ b/app/settings.py
@@ -10,3 +10,3 @@
 TIMEOUT_S = 30
-RETRIES = 2
+RETRIES = 5
"""
DONE: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("builder", {"type": "read_file", "text": "", "paths": ["src/app.py"], "cwd": "/srv/shop"}),
    ("builder", {"type": "run_tests", "text": "pytest -q"}),
    ("docs-writer", {"type": "run_shell", "text": "ls docs"}),
    ("builder", {"type": "run_shell", "text": "rm -rf /"}),
    ("docs-writer", {"type": "web_fetch", "text": "https://docs.python.org/3/"}),
)
ASKED: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    (
        "builder",
        {
            "type": "push",
            "text": "git push origin release-1.4",
            "rationale": "All tests pass, and the release branch is up to date.",
            "rollback": "git push origin :release-1.4",
            "context": {"diff": DIFF},
        },
    ),
    ("shop", {"type": "deploy", "text": "deploy web to staging"}),
    ("docs-writer", {"type": "send_email", "text": "The new guide is online."}),
)


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon(UNLIMITED)


@pytest.fixture(scope="module")
def first(daemon: RunningDaemon) -> str:
    """Let a few agents propose things; return the request in the pictures."""
    asked = []
    for number, (name, proposal) in enumerate((*DONE, *ASKED)):
        with Asker(daemon, name) as agent:
            asked.append(agent.ask("propose", {"id": f"p-{number}", **proposal}))
    return str(asked[len(DONE)]["request_id"])


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", ["overview", "requests", "feed", "agents", "money", "report"])
async def test_picture_of_a_page(
    daemon: RunningDaemon, browser: Browser, first: str, name: str, look: str, tmp_path: Path
) -> None:
    path = {"requests": f"/requests/{first}", "overview": "/"}.get(name, f"/{name}")
    folder = DOCS if os.environ.get(KEPT) else tmp_path
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}-{look}.png"

    async with Room(daemon, browser).visit(path, **LOOKS[look]) as page:
        await page.locator("#beat:not(:empty)").wait_for(state="attached")
        await page.screenshot(path=file)

    assert 5_000 < file.stat().st_size < MOST_BYTES


def test_every_picture_that_documents_show_is_there() -> None:
    wanted = {f"{name}-{look}.png" for name in ("overview", "requests", "feed") for look in LOOKS}

    assert wanted <= {path.name for path in DOCS.glob("*.png")}
