"""The analysis is imported before the first decision, and only where it is used."""

import subprocess
import sys

DECISION = """
import sys
import safetyd.console.subcommands.run_daemon
from safetyd.core.engine.engine import Engine
from safetyd.core.policy import Policy
from tests.story import ask, propose

engine = Engine(Policy(profile="coding"))
before = set(sys.modules)
text = "cd src && python3 -c 'print(1)' | sed -n 1p; psql -c 'select 1'"
ask(engine, propose(0, type="run_shell", text=text))
print(*(set(sys.modules) - before))
"""
HELP = """
import sys
from contextlib import suppress
from safetyd.console.cli import main

sys.argv = ["safetyd", "--help"]
with suppress(SystemExit):
    main()
print(*(name for name in sys.modules if name.startswith("tree_sitter")))
"""


def last_line(code: str) -> str:
    command = (sys.executable, "-c", code)
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")[
        -2
    ]


def test_the_first_decision_about_a_command_imports_no_module() -> None:
    assert last_line(DECISION) == ""


def test_the_help_of_the_console_does_not_import_the_parser() -> None:
    assert last_line(HELP) == ""
