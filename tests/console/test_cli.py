"""The command line itself: help, usage, and what happens without a daemon."""

import json
import resource
import subprocess
import sys

import click
import pytest

from safetyd.console.cli import COMMANDS, commands
from tests.conftest import environment, safetyd

LIGHT = ("nats", "aiohttp", "anyio", "safetyd.daemon", "safetyd.client", "asyncio")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_says_of_itself(name):
    command = commands.get_command(click.Context(commands), name)

    assert command is not None
    assert (command.help or "").partition("\n")[0].startswith(COMMANDS[name].summary)


@pytest.mark.parametrize("arguments", [(), ("--help",)])
def test_help_lists_the_commands(arguments):
    said = safetyd(*arguments)

    assert said.returncode == 0
    assert all(f"  {name} " in said.stdout for name in COMMANDS)


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


def test_help_is_quick():
    def work_s() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        safetyd("--help")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(work_s() for _ in range(5)) < 0.15


def test_an_unknown_command_is_wrong_usage():
    said = safetyd("frobnicate")

    assert said.returncode == 2
    assert "No such command 'frobnicate'" in said.stderr


def test_wrong_usage_is_json_for_programs():
    said = safetyd("status", "--json", "--frobnicate")

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
    said = safetyd(*arguments, SAFETYD_DATA_DIR=str(tmp_path))

    assert said.returncode == 4
    assert str(tmp_path) in said.stderr
    assert "`safetyd run`" in said.stderr
    assert "Traceback" not in said.stderr


def test_an_address_where_nobody_listens_is_named(tmp_path):
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/operator.nk").write_text(
        "SUAMLK2ZNL35WSMW37E7UD4VZ7ELPKW7DHC3BWBSD2GCZ7IUQQXZIORRBU\n"
    )

    said = safetyd(
        "status", "--json", "--url", "nats://127.0.0.1:1", SAFETYD_DATA_DIR=str(tmp_path)
    )

    assert said.returncode == 4
    assert json.loads(said.stdout)["code"] == "not_reachable"
    assert "nats://127.0.0.1:1" in json.loads(said.stdout)["error"]


def test_a_missing_key_is_named(tmp_path):
    said = safetyd("status", "--url", "nats://127.0.0.1:1", SAFETYD_DATA_DIR=str(tmp_path))

    assert said.returncode == 1
    assert str(tmp_path / "keys/operator.nk") in said.stderr


def test_version_names_what_is_at_work():
    said = safetyd("version", "--json")

    assert json.loads(said.stdout).keys() == {"ok", "safetyd", "python", "nats-py", "nats-server"}
    assert safetyd("version").stdout.startswith("safetyd ")


def test_a_closed_pipe_ends_without_a_traceback():
    with subprocess.Popen(
        [sys.executable, "-m", "safetyd", "config", "show"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()

        assert b"Traceback" not in process.stderr.read()
