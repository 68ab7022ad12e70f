"""Files that agents may write: none of them keeps safetyd from starting."""

import os
from pathlib import Path

import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.guards.projects import ProjectBudget, ProjectConfig, ProjectTable
from safetyd.core.messages.verdict import Severity
from safetyd.core.policy import Policy
from safetyd.daemon.config import Config
from safetyd.daemon.project_files import MAX_BYTES, MAX_DOTS, SHOWN_CHARS, with_files
from tests.cost import ratio
from tests.story import ask, propose

GOOD = """
[rules]
require_permission = ["edit_file"]
[gate]
expected_app = "Firefox"
[confidence]
low = 0.9
[budget]
chain_usd = 1
"""


def policy(*files: Path) -> Policy:
    tables = {f"p{number}": ProjectTable(file=str(file)) for number, file in enumerate(files)}
    return with_files(Config(projects=tables).policy())


def project(file: Path) -> ProjectConfig:
    return policy(file).projects["p0"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / ".safetyd.toml"


@pytest.mark.req("S3.60")
def test_a_file_may_hold_all_that_a_project_may(file: Path) -> None:
    file.write_text(GOOD)

    read = project(file).from_file

    assert read is not None
    assert read.rules.require_permission == ("edit_file",)
    assert (read.gate.expected_app, read.confidence.low) == ("Firefox", 0.9)
    assert read.budget == ProjectBudget(chain_usd=1)
    assert project(file).file_broken == ""


def test_what_was_read_is_in_force_and_is_replayed_without_reading_again(file: Path) -> None:
    file.write_text(GOOD)
    read = policy(file)
    file.unlink()

    decision = ask(Engine(read), propose(0, type="edit_file", project="p0"))

    assert decision.decision is Severity.ASK


@pytest.mark.req("S3.60")
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"rules = ", "not TOML: Invalid value (at end of document)"),
        (b"\xff", "it is not UTF-8: invalid start byte at byte 0"),
        (b"nonsense = 1", "nonsense is not a setting; known are budget, confidence, gate, rules"),
        (b"agents = ['ops']", "agents is not a setting; known are budget, confidence, gate, rules"),
        (b"gate = 3", "gate is 3; it must be a table"),
        (b"[gate]\nloop_counts = 'states'", "gate.loop_counts is not a setting; known are"),
        (b"[budget]\nday_usd = 1", "budget.day_usd is not a setting; did you mean"),
        (b"[confidence]\nlow = 2", "confidence.low is 2; it must be a number, at least 0"),
        (b"[gate]\nshell_patterns = ['(']", "gate.shell_patterns[0]: pattern custom_1, '('"),
        (b"[rules]\nsensitive_paths = ['~/x']", "rules.sensitive_paths: '~/x' "),
        (b"a=1\nb=1\nc=1\nd=1\ne=1", "; and 2 more"),
        (b"x = " + b"[" * 30_000, "it is nested too deeply"),
        (b"x = " + b"9" * 5_000, "not TOML: Exceeds the limit"),
        (b"gate.expected_app" + b".a" * 3_000 + b" = 1", f"a line has more than {MAX_DOTS} dots"),
        (b"#" * (MAX_BYTES + 1), f"it is larger than {MAX_BYTES} bytes"),
    ],
)
def test_a_broken_file_says_what_is_wrong_and_everything_is_asked(
    file: Path, content: bytes, why: str
) -> None:
    file.write_bytes(content)

    broken = policy(file)

    assert why in broken.projects["p0"].file_broken
    decision = ask(Engine(broken), propose(0, type="read_file", project="p0"))
    assert decision.decision is Severity.ASK
    assert str(file) in decision.reason
    assert broken.projects["p0"].file_broken in decision.reason


def test_what_is_no_regular_file_is_not_read(file: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.toml").write_text("password = 'hunter2'")
    (tmp_path / "link").symlink_to(tmp_path / "secret.toml")
    os.mkfifo(file)

    assert project(file).file_broken == "it is not a regular file"
    assert project(tmp_path).file_broken == "it is not a regular file"
    assert project(tmp_path / "none").file_broken == ("cannot read it: No such file or directory")
    assert project(tmp_path / "link").file_broken == (
        "cannot read it: Too many levels of symbolic links"
    )


def test_what_a_reason_repeats_is_short_and_can_be_seen(file: Path) -> None:
    file.write_text('"\\u001b[2J\\u202e' + "x" * 2_000 + '" = 1')

    why = project(file).file_broken

    assert why.startswith("?[2J?xxx")
    assert len(why) == SHOWN_CHARS + 1


def test_files_that_are_too_much_for_one_line_of_the_journal_are_not_used(tmp_path: Path) -> None:
    files = [tmp_path / name for name in "abc"]
    for path in files:
        path.write_text(f"[rules]\nrequire_permission = ['{'x' * 60_000}']")
    blown_up = tmp_path / "d"
    blown_up.write_text(
        "".join(f"[[rules.custom]]\nname='{n}'\nthen='allow'\n" for n in range(900))
    )

    read = policy(*files).projects.values()

    assert [bool(each.file_broken) for each in read] == [False, True, True]
    assert "bytes, but only" in project(blown_up).file_broken


def test_the_slowest_file_takes_no_longer_than_its_lines_do(file: Path, tmp_path: Path) -> None:
    line, few = ".".join(["a"] * (MAX_DOTS + 1)), tmp_path / "few.toml"
    for path, lines in ((file, 300), (few, 50)):
        path.write_text("".join(f"{n}.{line[4:]} = 1\n" for n in range(lines)))

    assert "0 is not a setting" in project(file).file_broken
    assert ratio(lambda: project(file), lambda: project(few), rounds=3) < 15


def test_a_policy_without_files_is_left_as_it_is() -> None:
    plain = Config(projects={"web": ProjectTable(root="/srv/web")}).policy()

    assert with_files(plain) is plain
    assert policy(Path("/nowhere/x")).projects["p0"].file == "/nowhere/x"


def test_projects_beside_one_with_a_file_stay_as_they_are(file: Path) -> None:
    file.write_text(GOOD)
    tables = {"web": ProjectTable(root="/srv/web"), "api": ProjectTable(file=str(file))}

    projects = with_files(Config(projects=tables).policy()).projects

    assert projects["web"] == ProjectConfig(root="/srv/web")
    assert projects["api"].from_file is not None
