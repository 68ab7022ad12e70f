"""The command line itself: help, usage, and what happens without a daemon."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import click
import pytest

from safetyd.console.cli import commands
from safetyd.console.command_table import COMMANDS, GROUPS
from safetyd.console.completion import TABLE
from tests.conftest import environment, safetyd
from tests.console.console_rig import here

SEED = "SUAMLK2ZNL35WSMW37E7UD4VZ7ELPKW7DHC3BWBSD2GCZ7IUQQXZIORRBU\n"
LIGHT = ("nats", "aiohttp", "anyio", "safetyd.daemon", "safetyd.client", "asyncio")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_says_of_itself(name):
    command = commands.get_command(click.Context(commands), name)

    assert command is not None
    assert (
        (command.help or "")
        .partition("\n")[0]
        .startswith(json.loads(TABLE.read_text())["commands"][name]["help"])
    )


@pytest.mark.parametrize("arguments", [(), ("--help",)])
def test_help_lists_the_commands(arguments):
    said = safetyd(*arguments)

    assert said.returncode == 0
    assert all(f"  {name} " in said.stdout for name in COMMANDS)


def test_help_puts_every_command_under_one_heading():
    said = here("--help").stdout
    headings = [f"\n{title}:\n" for title in GROUPS]

    assert all(heading in said for heading in headings)
    assert said.index(headings[0]) < said.index("\n  run ") < said.index(headings[1])
    assert sum(map(len, GROUPS.values())) == len(COMMANDS)


def test_help_imports_nothing_heavy():
    script = (
        "import sys; sys.argv = ['safetyd', '--help']\n"
        "from safetyd.console.cli import main\n"
        "try: main()\n"
        f"except SystemExit: print([m for m in {LIGHT} if m in sys.modules])"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert said.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "command", ["status", "list", "agents", "stop x", "approve req_1", "deny req_1", "pause x"]
)
def test_a_command_in_a_hurry_loads_no_guard(command: str, tmp_path: Path) -> None:
    arguments = ["safetyd", *command.split(), "--data-dir", str(tmp_path)]
    script = (
        f"import sys; sys.argv = {arguments}\n"
        "from safetyd.console.cli import main\n"
        "try: main()\n"
        "except SystemExit: print([m for m in sys.modules if m in {*"
        "('safetyd.core.policy', 'safetyd.core.shell.words', 'safetyd.core.guards.gate.gate')}])"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert said.stdout.splitlines()[-1] == "[]"


def test_help_takes_little_more_than_the_interpreter(monkeypatch):
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)

    def work_s(*command: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *command], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    rounds = [(work_s("-m", "safetyd", "--help"), work_s("-c", "import click")) for _ in range(5)]

    ours, bare = (min(column) for column in zip(*rounds, strict=True))
    assert ours < 2 * bare


def test_an_unknown_command_is_wrong_usage():
    said = here("frobnicate")

    assert said.returncode == 2
    assert "No such command 'frobnicate'.\n" in said.stderr


def test_a_slip_of_the_pen_is_answered_with_the_nearest_command():
    assert "No such command 'chekc'. Did you mean check?" in here("chekc").stderr


def test_wrong_usage_is_json_for_programs():
    said = here("status", "--json", "--frobnicate")

    assert said.returncode == 2
    assert json.loads(said.stdout)["code"] == "usage"
    assert said.stderr == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("status",),
        ("agents",),
        ("explain", "x"),
        ("watch",),
        ("reset", "code"),
        ("reload",),
        ("resume",),
        ("stop", "--agent", "code"),
    ],
)
def test_without_a_daemon_the_exit_code_is_4_and_the_way_to_start_one_is_told(arguments, tmp_path):
    said = here(*arguments, SAFETYD_DATA_DIR=str(tmp_path))

    assert said.returncode == 4
    assert str(tmp_path) in said.stderr
    assert f"`safetyd run --data-dir {tmp_path}`" in said.stderr
    assert "--data-dir" in said.stderr
    assert "Traceback" not in said.stderr


def test_an_address_where_nobody_listens_is_named(tmp_path):
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/operator.nk").write_text(SEED)

    said = here("status", "--json", "--url", "nats://127.0.0.1:1", SAFETYD_DATA_DIR=str(tmp_path))

    assert said.returncode == 4
    assert json.loads(said.stdout)["code"] == "not_reachable"
    assert "nats://127.0.0.1:1" in json.loads(said.stdout)["error"]
    assert json.loads(said.stdout)["error"].endswith("`safetyd run`")


def test_a_missing_key_is_named(tmp_path):
    said = here("status", "--url", "nats://127.0.0.1:1", SAFETYD_DATA_DIR=str(tmp_path))

    assert said.returncode == 1
    assert str(tmp_path / "keys/operator.nk") in said.stderr


@pytest.mark.parametrize("content", ["", "garbled\n", "\udcff", "SUAMLK2ZNL35WSMW37E7UD4V\n"])
@pytest.mark.parametrize("command", ["status", "doctor", "watch"])
def test_a_garbled_key_is_named(command, content, tmp_path):
    (tmp_path / "keys").mkdir()
    key = tmp_path / "keys/operator.nk"
    key.write_text(content, errors="surrogateescape")

    said = here(command, "--url", "nats://127.0.0.1:1", SAFETYD_DATA_DIR=str(tmp_path))

    assert said.returncode == 1
    assert f"{key} does not contain an nkey" in said.stdout + said.stderr


def test_a_key_that_is_a_directory_is_named(tmp_path):
    (tmp_path / "keys/operator.nk").mkdir(parents=True)

    said = here("status", "--url", "nats://127.0.0.1:1", SAFETYD_DATA_DIR=str(tmp_path))

    assert said.returncode == 1
    assert "Is a directory" in said.stderr


@pytest.mark.parametrize("url", ["127.0.0.1:4222", "http://127.0.0.1:4222", "nats://", "a b"])
def test_what_is_no_address_of_a_bus_is_wrong_usage(url, tmp_path):
    said = here("status", "--json", SAFETYD_URL=url, SAFETYD_DATA_DIR=str(tmp_path))

    answer = json.loads(said.stdout)
    assert (said.returncode, answer["code"]) == (2, "usage")
    assert "nats://127.0.0.1:4222" in answer["error"]


def test_a_port_that_is_none_is_told(tmp_path):
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/operator.nk").write_text(SEED)

    said = here("status", "--url", "nats://127.0.0.1:x", SAFETYD_DATA_DIR=str(tmp_path))

    assert said.returncode == 4
    assert "nats://127.0.0.1:x" in said.stderr


# Root reads everything unless it gives that up.
UNPRIVILEGED = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()


@pytest.mark.parametrize(
    ("command", "exit_code"),
    [("status", 4), ("stop", 4), ("resume", 4), ("explain x", 4), ("doctor", 1), ("agent list", 1)],
)
def test_a_closed_data_dir_is_named_and_nothing_breaks(command, exit_code, tmp_path):
    closed = tmp_path / "closed"
    (closed / "keys").mkdir(parents=True)
    closed.chmod(0)

    said = subprocess.run(
        [*UNPRIVILEGED, sys.executable, "-m", "safetyd", *command.split()],
        capture_output=True,
        text=True,
        check=False,
        env=environment(SAFETYD_DATA_DIR=str(closed)),
    )

    closed.chmod(0o700)
    assert said.returncode == exit_code
    assert f"{closed}" in said.stdout + said.stderr
    assert "Traceback" not in said.stderr


def test_version_names_what_is_at_work():
    said = here("version", "--json")

    assert json.loads(said.stdout).keys() == {"ok", "safetyd", "python", "nats-py", "nats-server"}
    assert safetyd("version").stdout.startswith("safetyd ")


@pytest.mark.parametrize(
    "arguments", [("config", "show"), ("--help",), ("explain", "x", "--json"), ("doctor",)]
)
def test_a_closed_pipe_is_no_error(arguments, tmp_path):
    with subprocess.Popen(
        [sys.executable, "-m", "safetyd", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(SAFETYD_DATA_DIR=str(tmp_path)),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()

        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.parametrize(
    "given", [("stop", "--reason", b"\xff"), ("config", "check", b"/tmp/\xff")]
)
def test_what_is_not_utf_8_is_refused_in_words(given: tuple[str | bytes, ...]) -> None:
    command = [sys.executable, "-m", "safetyd", *given]
    said = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())

    assert said.returncode == 2
    assert "is not valid UTF-8" in said.stderr
    assert "Traceback" not in said.stderr
