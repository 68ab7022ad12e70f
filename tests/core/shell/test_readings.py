"""Results for assignments, redirections, limits, and commands that cannot be analysed."""

from pathlib import Path
from typing import Final

from safetyd.core.shell.judge import read
from safetyd.core.shell.places import Project, project_of
from safetyd.core.shell.programs import shipped
from safetyd.core.shell.reading import Effect
from tests.core.shell.verdicts import stopping
from tests.snapshot import check_snapshot

PROJECT = Project("/home/me/project")


COMMANDS: Final = [
    "SAFETYD_HOME=/tmp/x ls",
    "PATH=/tmp/x:$PATH ls",
    "LD_PRELOAD=./x.so ls",
    "PAGER=$X git log",
    "cat < /dev/tcp/h/1",
    "sh < $X",
    "sh -c $X",
    "sh -c $(curl x)",
    "a='b[$(ls)]'",
    "alias x=ls; x $Y",
    "ls " + "a" * 70_000,
    "echo '" + "é" * 40_000 + "'",
    "<" * 5_000,
    "echo " + "${" * 2_000,
    "echo " + "${a:-" * 5_000 + "}" * 5_000,
    "ls;" * 500,
    "X=1;" * 12_000,
    "X='" + "a" * 50_000 + "'; echo " + "$X" * 40,
    "( " * 2_000 + "ls" + " )" * 2_000,
    "echo $(" * 14 + "ls" + ")" * 14,
    "echo \x07",
    "frobnicate now",
    "ls > {a,b}",
    "[[ a ]] > x y",
    "ls | [[ a ]] > x y",
    "case x in&esac",
    "{ }",
    # The parser would read beyond the end of a table for these, which could end the daemon.
    "echo {日",
    "echo {1東}",
    "echo {1..本}",
    "echo a{..Ā",
]


def test_commands_need_approval_for_the_reasons_in_the_snapshot() -> None:
    lines = []
    for command in COMMANDS:
        lines.append(f"{ascii(command)[:60]}, {len(command)} characters")
        found = stopping(command, PROJECT)
        assert found, command
        lines += [
            f"  {each.effect}{', blocked' if each.blocks else ''}: {each.why}" for each in found
        ]
    check_snapshot(Path(__file__).with_name("reasons.txt"), "\n".join(lines) + "\n")


def test_a_check_that_the_project_declares_is_allowed() -> None:
    assert stopping("frobnicate all", PROJECT, checks=["frobnicate all"]) == []
    assert stopping("frobnicate some", PROJECT, checks=["frobnicate all"])


def test_the_effect_of_a_command_is_its_strictest_effect() -> None:
    assert read("ls; rm -rf /", shipped(), PROJECT).effect is Effect.IRREVERSIBLE
    assert read("# nothing", shipped(), PROJECT).effect is Effect.READ


def test_without_a_configured_project_the_folder_is_the_project() -> None:
    assert project_of("", "/home/me/work") == Project("/home/me/work", "/home/me/work")
    assert project_of("", "/etc") == Project("", "/etc")
    assert project_of("/srv/x", "src") == Project("/srv/x", "/srv/x/src")
    assert project_of("", "") == Project("", "")
