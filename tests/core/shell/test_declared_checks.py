"""The checks of a project cover natural calls of the same tools, and nothing else."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.action_types import Kinds
from safetyd.core.messages.proposal import Proposal
from safetyd.core.shell.command_reader import CheckedProject, CommandReader, ShellConfig
from safetyd.core.shell.judge import read
from safetyd.core.shell.places import Project
from safetyd.core.shell.programs import Row, shipped
from safetyd.core.shell.reading import Effect

PROJECT: Final = Project("/srv/web", "/srv/web")
CHECKS: Final = (
    *("pytest", "ruff check", "mypy", "npm test", "npm run lint"),
    *("make test", "cargo test", "go test", "./gradlew test"),
)
CORPUS: Final = Path(__file__).parents[2] / "corpus" / "checks"
COVERED: Final = (CORPUS / "covered.txt").read_text(encoding="utf-8").splitlines()
NOT_COVERED: Final = (CORPUS / "not_covered.txt").read_text(encoding="utf-8").splitlines()

# Words that run other code, write elsewhere or leave the project, in some tool.
DANGEROUS: Final = """
--rootdir=/tmp
-c evil
--config=evil
--config evil
-o a=b
--basetemp=src
--import-mode=importlib
@args
/etc/passwd
../x
~/x
--fix
--prefix /tmp
--script-shell=evil
--node-options=-r=evil
-f evil.mk
-C /tmp
--eval=evil
SHELL=evil
--manifest-path=/tmp/x
--target-dir=/tmp
-exec evil
--exec=evil
-toolexec=evil
-overlay=evil
--init-script=evil
-I evil
-Dx=evil
-Px=evil
--require=evil
--plugin evil
--globalSetup=evil
--logfile=x
-Z evil
+evil
*
$(evil)
`evil`
"$EVIL"
$EVIL
<(evil)
> /etc/x
>> ~/.x
2>/x
< evil
; evil
&& evil
|| evil
& evil
| evil
| tee /etc/x
""".strip().splitlines()
PREFIXES: Final = (
    *("A=b ", "PATH=. ", "sudo ", "ssh h ", "xargs ", "env A=b ", "env -C / ", "cd / && "),
    *("cd .. ; ", "evil | ", "echo x | ", "export A=b; ", "evil && ", "exec evil ", ". ./evil; "),
    *("docker exec x ", "find . -exec ", "parallel ", "nohup evil ", "! evil ", "eval evil; "),
    *(f"{name}() {{ evil; }}; " for name in ("pytest", "ruff", "mypy", "npm", "make", "cargo")),
    *(f"alias {name}=evil; " for name in ("pytest", "ruff", "mypy", "npm", "make", "cargo")),
)
# Calls without quotes, operators and wrappers: every place in them belongs to the check.
SIMPLE: Final = [
    command
    for command in COVERED
    if set("'\"|&();").isdisjoint(command) and any(map(command.startswith, CHECKS))
]


def is_covered(command: str, checks: Sequence[str] = CHECKS, project: Project = PROJECT) -> bool:
    """Return True if a command counts as reading only, as a declared check does."""
    return read(command, shipped(), project, checks).effect is Effect.READ


@pytest.mark.parametrize("command", COVERED)
def test_nine_checks_cover_what_agents_run(command: str) -> None:
    assert is_covered(command)


@pytest.mark.parametrize("command", NOT_COVERED)
def test_checks_do_not_cover_attacks(command: str) -> None:
    assert not is_covered(command)


@pytest.mark.parametrize("dangerous", DANGEROUS)
@given(st.sampled_from(SIMPLE), st.data())
def test_a_dangerous_word_is_covered_in_no_place(
    dangerous: str, command: str, data: st.DataObject
) -> None:
    words = command.split(" ")
    places = list(range(1, len(words) + 1))
    if dangerous[0] in "+@S":  # as the value of an option that takes any text, it is harmless
        places = [at for at in places if words[at - 1][0] != "-"]
    # The value of `-bench` is a pattern for names of functions, whatever it looks like.
    at = data.draw(st.sampled_from([at for at in places if words[at - 1] != "-bench"]))

    assert not is_covered(" ".join((*words[:at], dangerous, *words[at:])))


@given(st.sampled_from(SIMPLE), st.sampled_from(PREFIXES))
def test_nothing_before_a_check_may_change_what_it_runs(command: str, prefix: str) -> None:
    assert not is_covered(f"{prefix}{command}")


def test_a_check_that_the_table_does_not_know_covers_itself_and_files() -> None:
    checks = ["./scripts/test.sh", "frob check", "docker compose run --rm test", "npm", "make"]

    for command in (*checks, "./scripts/test.sh -v tests/a.txt", "frob check --quiet src/x.c"):
        assert is_covered(command, checks)
    for command in (
        "./scripts/test.sh --target=prod",
        "./scripts/test.sh deploy",
        "frob check deploy",
        "frob push",
        "docker compose run --rm test sh/x",
        "npm publish",
        "make deploy",
    ):
        assert not is_covered(command, checks)


def test_a_check_takes_the_arguments_of_the_tool_that_it_runs() -> None:
    checks = ["uv run pytest", "python -m mypy", "npx jest", "pytest -q", "pytest -c"]

    for command in (
        "uv run pytest -x tests/a.py",
        "python -m mypy --strict src",
        "npx jest --coverage src/a.test.ts",
        "pytest -q -x",
    ):
        assert is_covered(command, checks)
    for command in ("uv run pytest -p evil", "uv run --with evil pytest", "pytest -c evil.ini"):
        assert not is_covered(command, checks)


def test_placeholders_stand_for_paths_of_the_project_and_numbers() -> None:
    checks = ["python scripts/bench.py <path> <number>"]

    assert is_covered("python scripts/bench.py data/a.csv 10", checks)
    for command in (
        "python scripts/bench.py /etc/passwd 10",
        "python scripts/bench.py ../data 10",
        "python scripts/bench.py data/a.csv ten",
        "python scripts/bench.py data/a.csv",
    ):
        assert not is_covered(command, checks)


def test_an_operators_pattern_with_open_quotes_or_globs_covers_only_itself() -> None:
    checks = ["echo 'open", "prettier --check src/*.ts", ""]

    assert is_covered("prettier --check src/*.ts", checks)
    assert not is_covered("prettier --check lib/*.ts", checks)
    assert not is_covered("frobnicate", checks)


def test_checks_hold_in_the_project_only() -> None:
    assert is_covered("make test", project=Project("/srv/web", "/srv/web/api"))
    for cwd in ("/srv", "/tmp", "/srv/web2"):
        assert not is_covered("make test", project=Project("/srv/web", cwd))


def test_a_folder_that_an_agent_chose_is_not_a_project_with_checks() -> None:
    kinds = Kinds({}, "strict")
    reader = CommandReader(kinds, ShellConfig(), {"web": CheckedProject("", CHECKS)})

    def tier(cwd: str | None) -> str:
        proposal = Proposal(type="run_shell", text="make test", project="web", cwd=cwd)
        return reader.kind(proposal, kinds.of(proposal)).tier

    assert (tier(None), tier("api")) == ("auto_allowed", "auto_allowed")
    assert "auto_allowed" not in {tier("/home/me/evil"), tier("/etc"), tier("../evil")}


def test_a_secret_file_after_a_check_is_still_named() -> None:
    findings = read("ruff check .env", shipped(), PROJECT, CHECKS).findings

    assert any(touch.path.endswith("/.env") for each in findings for touch in each.touches)


def test_a_row_of_the_operator_that_asks_is_stronger_than_what_may_follow_a_check() -> None:
    table = shipped().with_rows({"pytest": Row(effect=Effect.LEAVES, why="uses the cluster")})

    assert read("pytest", table, PROJECT, CHECKS).effect is Effect.READ
    assert read("pytest -q", table, PROJECT, CHECKS).effect is Effect.LEAVES
