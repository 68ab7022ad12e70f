"""Reasons for assignments, redirections, limits, and commands that cannot be analysed."""

import pytest

from safetyd.core.shell.judge import read
from safetyd.core.shell.places import Project, project_of
from safetyd.core.shell.programs import shipped
from safetyd.core.shell.reading import Effect
from tests.core.shell.verdicts import stopping

PROJECT = Project("/home/me/project")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SAFETYD_HOME=/tmp/x ls", "sets SAFETYD_HOME, which belongs to safetyd"),
        ("PATH=/tmp/x:$PATH ls", "changes PATH, so other programs may run"),
        ("LD_PRELOAD=./x.so ls", "sets LD_PRELOAD, which makes programs load"),
        ("PAGER=$X git log", "sets PAGER, which other programs run, to a value only known"),
        ("cat < /dev/tcp/h/1", "opens a connection to another machine"),
        ("sh < $X", "runs the output of another command that is only known"),
        ("sh -c $X", "runs a command that is only known at run time"),
        ("sh -c $(curl x)", "downloaded"),
        ("a='b[$(ls)]'", "assigns a text that runs a command when it is used in arithmetic"),
        ("alias x=ls; x $Y", "the alias x has arguments that are only known at run time"),
        ("ls " + "a" * 70_000, "cannot be analysed: it is longer than 64 KiB"),
        ("echo '" + "é" * 40_000 + "'", "cannot be analysed: it is longer than 64 KiB"),
        ("<" * 5_000, "its syntax is too complex"),
        ("echo " + "${" * 2_000, "its syntax is too complex"),
        ("echo " + "${a:-" * 5_000 + "}" * 5_000, "its syntax is too complex"),
        ("ls;" * 500, "has more than 400 commands"),
        ("X=1;" * 12_000, "its loops or functions are too long"),
        ("X='" + "a" * 50_000 + "'; echo " + "$X" * 40, "its variables become too long"),
        ("( " * 2_000 + "ls" + " )" * 2_000, "it is nested too deeply"),
        ("echo $(" * 14 + "ls" + ")" * 14, "is nested more than 12 levels deep"),
        ("echo \x07", "control character U+0007"),
        ("frobnicate now", "which is not in the table of programs"),
        ("ls > {a,b}", "it redirects to several files at once"),
        ("[[ a ]] > x y", "it has words in an unexpected place"),
        ("ls | [[ a ]] > x y", "it has words in an unexpected place"),
        ("case x in&esac", "cannot be analysed: it has an expansion"),
        ("{ }", "cannot be analysed: it has empty brackets"),
        # The parser would look for these beyond the end of a table, and could end the daemon.
        *(
            (f"echo {brace}", "a letter that is not Latin follows a brace")
            for brace in ("{日", "{1東}", "{1..本}", "a{..Ā")
        ),
    ],
)
def test_reasons_say_what_the_command_does(text: str, why: str) -> None:
    assert why in " / ".join(found.why for found in stopping(text, PROJECT))


def test_a_check_that_the_project_declares_passes() -> None:
    assert stopping("frobnicate all", PROJECT, checks=["frobnicate all"]) == []
    assert stopping("frobnicate some", PROJECT, checks=["frobnicate all"])


def test_the_strictest_effect_is_that_of_the_command() -> None:
    assert read("ls; rm -rf /", shipped(), PROJECT).effect is Effect.IRREVERSIBLE
    assert read("# nothing", shipped(), PROJECT).effect is Effect.READ


def test_without_a_configured_project_the_folder_is_the_project() -> None:
    assert project_of("", "/home/me/work") == Project("/home/me/work", "/home/me/work")
    assert project_of("", "/etc") == Project("", "/etc")
    assert project_of("/srv/x", "src") == Project("/srv/x", "/srv/x/src")
    assert project_of("", "") == Project("", "")


@pytest.mark.parametrize(
    ("text", "cwd"),
    [
        ("make test", "/opt/other"),
        ("git commit -am x", "/opt/other"),
        ("npm install", "/etc"),
        ("cd /opt/other && make test", ""),
        ("git -C /opt/other commit -am x", ""),
    ],
)
def test_work_in_a_folder_outside_the_project_needs_approval(text: str, cwd: str) -> None:
    (found,) = stopping(text, project_of(PROJECT.root, cwd))

    assert "outside the project" in found.why


@pytest.mark.parametrize(
    ("text", "cwd"),
    [
        ("make test", "/home/me/project/src"),
        ("cd src && make test", ""),
        ("cd /home/me/project && make test", "/opt/other"),
        ("cd /tmp/x && make", ""),
        ("git status; cat x", "/opt/other"),
    ],
)
def test_work_in_the_project_and_reading_elsewhere_pass(text: str, cwd: str) -> None:
    assert stopping(text, project_of(PROJECT.root, cwd)) == []
