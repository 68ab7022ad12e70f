"""What shells complete: asked as a shell asks, and by the script in a real bash."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from safetyd.console.cli import commands
from safetyd.console.completion import TABLE, following, table
from tests.conftest import environment
from tests.console.console_rig import here

HEAVY = ("nats", "anyio", "asyncio", "textual", "safetyd.bus", "safetyd.core.engine")


def offered(*words: str) -> list[str]:
    """Return what a shell offers after these words; the last is not finished."""
    found = following(json.loads(TABLE.read_text()), words[:-1], words[-1])
    return [item.value if item.type == "plain" else f"<{item.type}>" for item in found]


def test_table_says_what_the_commands_say():
    assert TABLE.read_text() == table(commands), "run `python docs/generate.py`"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("sta",), ["status"]),
        (("sa",), ["safe-mode"]),
        (("safe-mode", "e"), ["enter", "exit"]),
        (("safe-mode", "exit", "--f"), ["--force"]),
        (("grant", "a"), ["add"]),
        (("grant", "add", "--us"), ["--uses"]),
        (("status", "--key-file", ""), ["<file>"]),
        (("status", "--url", ""), []),
        (("status", "--url", "nats://b", "--j"), ["--json"]),
        (("status", "--json", "--u"), ["--url"]),
        (("status", ""), []),
        (("status", "--frobnicate", "--js"), ["--json"]),
        (("completion", ""), ["bash", "zsh", "fish"]),
        (("pause", "code", ""), []),
        (("-",), ["--version", "-h", "--help"]),
    ],
)
def test_what_can_follow_is_offered(words, shown):
    assert offered(*words) == shown


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_asks_safetyd_by_the_variable_that_it_listens_to(shell):
    said = here("completion", shell)

    assert said.returncode == 0
    assert f"_SAFETYD_COMPLETE={shell}_complete" in said.stdout


def test_other_shells_are_wrong_usage():
    assert here("completion", "tcsh").returncode == 2


def test_bash_completes_what_is_typed(tmp_path: Path):
    script = here("completion", "bash").stdout
    typed = (
        "COMP_WORDS=(safetyd status --js); COMP_CWORD=2; _safetyd_completion safetyd --js status"
    )
    (tmp_path / "script").write_text(f'{script}\n{typed}\necho "${{COMPREPLY[@]}}"\n')
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    said = subprocess.run(
        ["bash", "--norc", str(tmp_path / "script")],
        capture_output=True,
        text=True,
        check=True,
        env=environment(PATH=path),
    )

    assert said.stdout == "--json\n"


def test_nothing_heavy_is_imported_while_a_shell_waits():
    probe = (
        "import sys; sys.argv = ['safetyd']\n"
        "from safetyd.console.cli import main\n"
        "try: main()\n"
        f"except SystemExit: print([m for m in {HEAVY} if m in sys.modules])"
    )
    asked = {"_SAFETYD_COMPLETE": "zsh_complete", "COMP_WORDS": "safetyd grant ", "COMP_CWORD": "2"}

    said = subprocess.run(
        [sys.executable, "-c", probe],
        capture_output=True,
        text=True,
        check=True,
        env=environment(**asked),
    )

    assert "add" in said.stdout
    assert said.stdout.splitlines()[-1] == "[]"
