"""`safetyd simulate`: other rules, or a grant, tried on audit files."""

import json
import re
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from safetyd.console.time_input import since as read_since
from safetyd.core.policy import Policy
from safetyd.daemon.config import parse
from safetyd.daemon.settings import policy_of
from safetyd.journal.audit import files
from tests.console.console_rig import Said, at_a_terminal, here
from tests.console.simulation.recorded_files import configured, written
from tests.core.simulation.recorded_story import RecordedStory
from tests.story import at

CODING = 'profile = "coding"\n'
ASKS = f'{CODING}[rules]\nrequire_permission = ["create_file"]\n'
HELLO = f'{CODING}[[rules.custom]]\nname = "hello"\nwhen = {{ text = "hello" }}\nthen = "block"\n'


def policy(text: str, place: Path) -> Policy:
    return policy_of(parse(text, "test"), place)


def simulate(place: Path, *arguments: str) -> Said:
    return here("simulate", *arguments, SAFETYD_DATA_DIR=str(place), TZ="UTC")


def found(said: Said) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(said.stdout)
    return answer


@pytest.fixture
def worked(tmp_path: Path) -> Path:
    """A day on which files were written, under rules that let them be."""
    story = RecordedStory(policy(CODING, tmp_path))
    for number in range(40):
        story.propose("code", "create_file", f"hello {number}")
        story.outcome("code", f"p{number + 1}", usd=0.25)
        story.wait(60)
    return written(story, tmp_path)


def test_the_same_rules_would_have_changed_nothing(worked: Path):
    options = configured(worked, CODING)

    said = simulate(worked, *options)
    document = found(simulate(worked, *options, "--json"))

    assert len(files(worked / "audit")) > 1
    assert said.returncode == 0
    assert "All decisions would be the same." in said.stdout
    assert said.stderr == ""
    assert (document["ok"], document["same"]) == (True, True)
    assert document["report"]["decisions"] == 40


def test_what_would_differ_is_told_by_rule_with_examples(worked: Path):
    said = simulate(worked, *configured(worked, ASKS))

    assert said.returncode == 0
    lines = said.stdout.splitlines()
    assert lines[0].startswith("Simulated 40 decisions from 2026-03-01 12:00:00Z to ")
    head = "40 allowed, would be sent for approval by rules.require_permission (code 40)"
    assert head in lines
    example = lines[lines.index(head) + 1]
    assert example == "  2026-03-01 12:00:00Z  code: create_file hello 0  [p1]"
    assert "Requests for approval: 40 instead of 0" in lines
    assert "  at 12h 40 instead of 0 (UTC)" in lines
    assert any(line.startswith("  40 would have no answer") for line in lines)
    assert "Spending: $0.00 instead of $10.00" in lines


def test_what_was_blocked_and_would_be_allowed_ends_with_three(tmp_path: Path):
    story = RecordedStory(policy(HELLO, tmp_path))
    story.propose("code", "create_file", "hello")

    said = simulate(written(story, tmp_path), *configured(tmp_path, CODING))

    assert said.returncode == 3
    assert "WARNING: 1 action " in said.stdout
    assert "1 blocked by rules.hello, would be allowed (code 1)" in said.stdout


def test_an_allow_that_comes_of_an_earlier_approval_is_said_to_come_of_it(tmp_path: Path):
    story = RecordedStory(policy(CODING, tmp_path))
    story.answer(story.ask("push", "git push"))
    story.wait(120)
    story.propose("code", "push", "git push")
    story.wait(1800)
    story.answer(story.ask("push", "git push"), "denied")
    stricter = """
[[rules.custom]]
name = "quiet"
when = { types = ["push"], hours = "12:01-12:10" }
then = "block"
"""

    said = simulate(written(story, tmp_path), *configured(tmp_path, CODING + stricter))

    assert said.returncode == 3
    assert "1 of these would use an approval" in said.stdout


def test_only_what_came_since_then_is_decided_again_with_all_that_was_known_by_then(worked: Path):
    begin = at(20 * 60).isoformat()

    document = found(simulate(worked, *configured(worked, CODING), "--since", begin, "--json"))

    assert (document["report"]["decisions"], document["same"]) == (20, True)
    assert document["before"] > 40
    assert read_since("1d", at(0)) == at(0) - timedelta(days=1)


def test_a_time_after_everything_leaves_nothing_to_decide(worked: Path):
    begin = at(4000).isoformat()

    said = simulate(worked, *configured(worked, CODING), "--since", begin)

    assert said.returncode == 0
    assert said.stdout.startswith("No events ")


def test_the_file_that_the_daemon_was_started_with_is_tried_if_none_is_named(tmp_path: Path):
    place, file = tmp_path / "data", tmp_path / "elsewhere.toml"
    file.write_text(CODING)
    story = RecordedStory(policy_of(parse(CODING, "test"), place, file))
    story.propose("code", "create_file", "hello")
    written(story, place)
    configured(place, CODING, "safetyd.toml")
    file.write_text(ASKS)

    assert "Requests for approval: 1 instead of 0" in simulate(place).stdout

    copy = shutil.copytree(place, tmp_path / "copy")
    assert "All decisions would be the same." in simulate(copy).stdout


def test_the_daemons_own_file_is_tried_if_none_is_named(worked: Path):
    assert simulate(worked).returncode == 2
    configured(worked, ASKS, "safetyd.toml")

    assert "40 would differ" in simulate(worked).stdout


def test_mistakes_in_the_rules_are_named_as_config_check_names_them(worked: Path):
    options = configured(worked, "mode = 1\n[gate]\nx = 2\n")

    said = simulate(worked, *options, "--json")

    assert said.returncode == 1
    checked = here("config", "check", options[1], "--json")
    assert found(said)["errors"] == json.loads(checked.stdout)["errors"]


def test_without_files_there_is_nothing_to_try_rules_on(tmp_path: Path):
    said = simulate(tmp_path, *configured(tmp_path, CODING))

    assert said.returncode == 1
    assert "no audit files" in said.stderr


@pytest.mark.parametrize(
    "options",
    [
        ("--grant", "--grant-request", "req_1"),
        ("--agent", "code"),
        ("--path", "x"),
        ("--grant",),
        ("--grant-request", "req_1", "--agent", "code"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(worked: Path, options: tuple[str, ...]):
    configured(worked, CODING, "safetyd.toml")

    assert simulate(worked, *options).returncode == 2


def test_what_is_missing_or_damaged_is_said(worked: Path):
    first, second, *_ = files(worked / "audit")
    first.unlink()
    lines = second.read_bytes().splitlines(keepends=True)
    damaged = lines[5].replace(b'"agent"', b'"agent')
    second.write_bytes(b"".join((*lines[:5], damaged, *lines[6:10], *lines[14:])))

    said = simulate(worked, *configured(worked, CODING))
    since = simulate(worked, *configured(worked, CODING), "--since", at(2000).isoformat())

    assert "do not go back to the first event" in said.stdout
    assert "Missing in the audit files: 4 events." in said.stdout
    assert "Damaged: 1 line" in said.stdout
    assert since.returncode == 0


def test_at_a_terminal_it_shows_how_far_it_is(tmp_path: Path):
    story = RecordedStory(policy(CODING, tmp_path))
    for number in range(500):
        story.propose("code", "read_file", f"{number}", id=f"r{number}")
        story.outcome("code", f"r{number}")
        story.wait(0.5)
    options = configured(written(story, tmp_path, 10_000_000), CODING)

    shown = at_a_terminal("simulate", *options, SAFETYD_DATA_DIR=str(tmp_path))

    assert re.search(r"\r\x1b\[K *\d+%  \d+ decisions", shown)
    assert shown.rstrip().endswith("Spending: $0.00, unchanged")


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    """A day of pushes, of which one was denied and one is not answered."""
    story = RecordedStory(policy(HELLO, tmp_path))
    for text, answer in (("a", "approved"), ("b", "denied"), ("c", "approved"), ("d", "")):
        request = story.ask("push", text)
        story.wait(10)
        if answer:
            story.answer(request, answer)  # type: ignore[arg-type]
    story.propose("ops", "push", "e")
    story.propose("code", "create_file", "hello")
    return written(story, tmp_path)


def test_a_grant_is_tried_on_what_was_asked(asked: Path):
    begin = ("--since", at(-10).isoformat())
    trial = ("--grant", "--agent", "code", "--type", "push", *begin)

    said = simulate(asked, *trial, "--uses", "2")
    document = found(simulate(asked, *trial, "--json"))

    assert said.returncode == 0
    lines = said.stdout.splitlines()
    assert lines[0] == (
        "Since 2026-03-01 11:59:50Z the grant would have covered 4 proposals of code: "
        "2 approved, 1 denied, 1 not answered."
    )
    assert lines[1] == "Its 2 uses would have run out at 2026-03-01 12:00:10Z."
    assert lines[-1] == "  2026-03-01 12:00:30Z  not answered: push d"
    assert document["covered"] == {"approved": 2, "denied": 1, "unanswered": 1}
    assert document["spent_at"] is None


def test_a_grant_that_names_a_rule_is_tried_on_what_was_blocked(asked: Path):
    terms = ("--rule", "rules.hello", "--text", "^hello$", "--since", at(-10).isoformat())

    document = found(simulate(asked, "--grant", "--agent", "code", *terms, "--json"))

    assert document["covered"] == {"blocked": 1}


def test_a_grant_for_nothing_that_was_asked_would_have_covered_nothing(asked: Path):
    said = simulate(asked, "--grant", "--agent", "nobody")

    assert said.stdout.endswith("the grant would have covered no proposals of nobody.\n")


def test_a_grant_that_could_not_be_made_is_refused_as_it_would_be(asked: Path):
    for terms in (("--rule", "stop.operator", "--text", "x"), ("--for", "9d")):
        said = simulate(asked, "--grant", "--agent", "code", *terms)
        assert said.returncode == 1


def test_the_grant_of_a_request_is_tried(asked: Path):
    lines = [line for path in files(asked / "audit") for line in path.read_text().splitlines()]
    ids = [json.loads(line)["asks"]["request_id"] for line in lines if '"asks"' in line]

    document = found(simulate(asked, "--grant-request", ids[0][:10], "--json"))

    assert document["agent"] == "code"
    assert document["covered"] == {"approved": 1}


def test_a_request_that_is_not_known_or_cannot_be_granted_is_named(asked: Path):
    assert "req_x" in simulate(asked, "--grant-request", "req_x").stderr
    assert "req_" in simulate(asked, "--grant-request", "req_").stderr
    said = simulate(asked, "--grant-request", "req_", "--text", "(")
    assert said.returncode == 1
