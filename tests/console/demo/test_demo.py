import re
import subprocess
from pathlib import Path

import pytest

from safetyd.console.demo.demo import CONFIG, FASTER
from safetyd.console.demo.scenes import SCENES, SECRET
from safetyd.console.demo.stage import Stage, play
from safetyd.console.locations import Location
from safetyd.daemon.config import Config, parse
from safetyd.journal.audit import verify
from safetyd.operators.contract.hold_contract import ResumeCommand, UnpauseCommand
from tests.checkout import ROOT
from tests.conftest import safetyd
from tests.console.console_rig import at_a_terminal, here

CONFIRM = re.compile(r"\bconfirm\(.*?\)", re.DOTALL)

pytestmark = pytest.mark.usefixtures("measured")

Said = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Said:
    directory = tmp_path_factory.mktemp("demo")
    return safetyd("demo", TMPDIR=str(directory), SAFETYD_URL="nats://127.0.0.1:1")


def scene(said: Said, agent: str) -> str:
    """Return the last scene in which an agent wants something."""
    scenes = re.split(r"^\d+\. ", said.stdout, flags=re.MULTILINE)
    return next(text for text in reversed(scenes) if f"   {agent} proposes: " in text)


def test_the_demo_plays_every_scene_as_expected_and_keeps_its_audit_file(said):
    assert said.returncode == 0, said.stdout + said.stderr
    assert all(title in said.stdout for title, _ in SCENES)
    assert "all as expected" in said.stdout
    assert "SURPRISE" not in said.stdout
    audit = re.search(r"^Audit file: (.+)$", said.stdout, re.MULTILINE)
    assert audit is not None
    path = Path(audit[1])
    assert said.stdout.endswith(f" {path.parent.parent}.\n")
    assert verify(path.parent).records > 0
    assert SECRET not in path.read_text()
    assert [entry.name for entry in path.parent.parent.iterdir()] == ["audit"]


def test_the_demo_divides_waiting_times_and_says_so(said):
    config, usual = parse(CONFIG, "demo"), Config()

    assert f"{FASTER} times shorter" in said.stdout.split("\n1. ")[0]
    assert config.safe_mode.cooldown_ms * FASTER == usual.safe_mode.cooldown_ms
    assert config.breaker.open_s * FASTER == usual.breaker.open_s
    assert config.breaker.probe_interval_s * FASTER == usual.breaker.probe_interval_s
    assert config.cooldown.dispatch_s * FASTER == usual.cooldown.dispatch_s


@pytest.mark.req("S0.1")
@pytest.mark.req("S0.7")
@pytest.mark.req("S0.8")
@pytest.mark.req("S0.11")
@pytest.mark.req("S0.12")
def test_an_agent_that_fails_three_times_only_reads_until_it_is_let_out(said):
    editor = scene(said, "editor")

    assert (
        "3 errors in a row. Only read-only actions are allowed, and this action changes something\n"
        in editor
    )
    assert "read_file README.md\n   -> allowed" in editor
    assert "-> refused: the cooldown ends in " in editor
    assert editor.rstrip().endswith("-> allowed")


@pytest.mark.req("S1.19")
@pytest.mark.req("S1.21")
@pytest.mark.req("S1.32")
def test_a_spender_is_warned_of_and_cut_off_before_the_limit(said):
    spender = scene(said, "spender")

    assert "COST_WARNING: chain budget book of spender, $4.00 of $5.00 used" in spender
    assert "$4.00 used, and this action needs about $1.50 [budget.chain:book]" in spender


@pytest.mark.req("S1.6")
@pytest.mark.req("S1.7")
@pytest.mark.req("S1.8")
@pytest.mark.req("S1.10")
@pytest.mark.req("S1.11")
def test_a_dependency_that_fails_is_left_alone_then_probed_then_trusted(said):
    caller = scene(said, "caller")

    assert "5 calls in a row failed. Try again in " in caller
    assert re.findall(r"^ +weather  (open|half open|closed) ", caller, re.MULTILINE) == [
        "open",
        "half open",
        "closed",
    ]


@pytest.mark.req("S1.13")
@pytest.mark.req("S1.16")
def test_a_burst_meets_its_own_limit_and_nobody_else_does(said):
    burster = scene(said, "burster")

    assert re.search(r"-> blocked: .+ \[rate\.agent:burster, retry after \d+\.\d s\]\n", burster)
    assert burster.split("reader proposes: ")[1].startswith("read_file README.md\n   -> allowed")


@pytest.mark.req("S1.22")
@pytest.mark.req("S2.35")
def test_a_severe_anomaly_pauses_its_agent_until_it_is_let_go_on(said):
    rogue = scene(said, "rogue")

    assert "-> blocked: Rapid identical requests: edit_file 5 times in 10 s" in rogue
    assert "AGENT_PAUSED: safetyd paused rogue: Rapid identical requests" in rogue
    assert "-> blocked: rogue was paused at " in rogue
    assert rogue.split("unpause rogue")[1].count("-> allowed") == 1


def test_without_a_terminal_the_demo_approves_what_waits_and_says_so(said):
    pusher = scene(said, "pusher")

    assert "  | git push origin main\n" in pusher
    assert "without a terminal" in pusher
    assert "answer: approve\n   -> allowed\n" in pusher
    assert re.search(r"req_\w+  \S+ \S+  approved  local  cli ", pusher)


async def test_whoever_plays_the_demo_may_say_no(start_daemon, capsys):
    location = Location(data_dir=start_daemon().data_dir)

    played = await play(location, {14: SCENES[13]}, answer=lambda: False)

    assert played.surprises == 0
    assert "answer: deny\n   -> blocked: denied by local" in capsys.readouterr().out


def test_enter_alone_approves_nothing(tmp_path):
    played = at_a_terminal("demo", "--scene", "14", typed="\n", TMPDIR=str(tmp_path))

    assert "Approve it? [y/N]" in played
    assert "answer: deny\n   -> blocked: denied by local" in played


def test_every_question_of_the_command_line_has_no_for_an_answer_by_default():
    console = ROOT / "safetyd/console"
    asked = [found for path in console.rglob("*.py") for found in CONFIRM.findall(path.read_text())]

    assert asked
    assert [found for found in asked if "default=False" not in found] == []


def test_one_scene_can_be_played_alone(tmp_path):
    alone = safetyd("demo", "--scene", "2", TMPDIR=str(tmp_path))

    assert alone.returncode == 0, alone.stdout + alone.stderr
    assert re.findall(r"^(\d+)\. ", alone.stdout, re.MULTILINE) == ["2"]
    assert "1 decision (1 blocked), all as expected." in alone.stdout


def test_a_scene_that_there_is_not_is_wrong_usage():
    assert here("demo", "--scene", str(len(SCENES) + 1)).returncode == 2


async def wrong(stage: Stage) -> None:
    await stage.wants("reader", "block", "read_file")
    await stage.wants("coder", "stopped", "run_shell", text="rm -rf /")
    await stage.does("coder", "run_shell", text="rm -rf /")
    await stage.operator(ResumeCommand(), refused="cooling_down")
    await stage.operator(UnpauseCommand(agent="no name"))
    await stage.shows("breakers", breaker="weather")
    await stage.hears("COST_WARNING", "reader")
    await stage.asks("reader", "read_file")


async def test_whatever_is_not_as_expected_is_a_surprise(start_daemon, capsys):
    location = Location(data_dir=start_daemon().data_dir)

    played = await play(location, {1: ("All wrong.", wrong)}, patience_s=0.0)

    assert played.surprises == capsys.readouterr().out.count("   SURPRISE: ") == 9
    assert played.summary == "4 decisions (2 allowed, 2 blocked), 9 SURPRISEs."


@pytest.mark.journey
def test_the_cluster_demo_loses_doubles_and_refuses_nothing_and_leaves_no_files(
    tmp_path: Path,
) -> None:
    said = safetyd("demo", "--cluster", TMPDIR=str(tmp_path))

    assert said.returncode == 0, said.stdout + said.stderr
    assert said.stdout.count("has taken over") == 2
    assert not list(tmp_path.iterdir())
