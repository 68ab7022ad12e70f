"""The story in docs/notifications.md is played."""

import json
import re
from pathlib import Path

from tests.checkout import ROOT
from tests.console.console_rig import here
from tests.days.test_rehearsal import CONFIG


def test_the_documented_story_plays(tmp_path: Path) -> None:
    text = (ROOT / "docs/notifications.md").read_text()
    found = re.search(r"<!-- story -->\n```toml\n(.*?)```", text, re.DOTALL)
    assert found is not None
    (tmp_path / "safetyd.toml").write_text(CONFIG)
    story = tmp_path / "evening.story.toml"
    story.write_text(found[1])
    said = here("notify", "rehearse", str(story), "--json")
    day = json.loads(said.stdout)
    assert day["proposals"] > 10
    assert any(row["kind"] == "approved" and row["who"] == "alice" for row in day["timeline"])
    assert any(
        row["who"] == "email" and row["what"].startswith("is down") for row in day["timeline"]
    )
