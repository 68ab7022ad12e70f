"""`safetyd test`: tests of rules in TOML."""

import json
from pathlib import Path

import pytest

from tests.console.console_rig import Said, here

SHIPPED = sorted((Path(__file__).parents[3] / "config" / "policy_tests").glob("*.toml"))
RULES = """
profile = "coding"
[[rules.custom]]
name = "office"
when = { types = ["create_file"], hours = "09:00-17:00" }
then = "require_confirmation"
[[rules.custom]]
name = "stock"
when = { agents = ["shopper"], text = "stock" }
then = "block"
[projects.shop]
agents = ["shopper"]
"""


def run(tmp_path: Path, text: str, *options: str, rules: str = RULES) -> Said:
    tests, config = tmp_path / "tests.toml", tmp_path / "rules.toml"
    tests.write_text(text)
    config.write_text(rules)
    return here("test", str(tests), *options, SAFETYD_DATA_DIR=str(tmp_path), TZ="UTC")


def case(fields: str, name: str = "a test") -> str:
    return f'config = "rules.toml"\n[[test]]\nname = "{name}"\n{fields}\n'


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_shipped_configurations_do_what_their_tests_say(path: Path):
    said = here("test", str(path))

    assert said.returncode == 0, said.stdout
    assert len(SHIPPED) == 3
    assert said.stdout.endswith(" passed, 0 failed.\n")


def test_a_test_that_fails_shows_what_was_expected_and_found_and_why(tmp_path: Path):
    said = run(
        tmp_path,
        case('proposal = { type = "push", text = "main" }\nexpect = "block"\nrule = "gate"')
        + '[[test]]\nname = "reads"\nproposal = { type = "read_file" }\nexpect = "allow"\n',
    )

    assert said.returncode == 1
    assert said.stdout == (
        "FAIL  a test\n"
        "      expected  block by gate\n"
        "      found     require_confirmation by classify.high\n"
        "      reason    push cannot be undone, so it needs approval\n"
        "ok    reads\n"
        "1 passed, 1 failed.\n"
    )


def test_the_right_decision_by_another_rule_fails(tmp_path: Path):
    asked = 'proposal = { type = "push" }\nexpect = "require_confirmation"\nrule = '

    assert run(tmp_path, case(asked + '"classify"')).returncode == 0
    assert run(tmp_path, case(asked + '"rules.x"')).returncode == 1


def test_programs_read_json(tmp_path: Path):
    text = case('proposal = { type = "read_file" }\nexpect = "block"')

    said = json.loads(run(tmp_path, text, "--json").stdout)

    assert (said["ok"], said["passed"], said["failed"]) == (False, 0, 1)
    (test,) = said["tests"]
    assert (test["name"], test["expected"], test["found"]) == ("a test", "block", "allow")


@pytest.mark.parametrize(
    ("at", "code"),
    [("", 0), ("at = 2026-03-02T20:00:00", 1), ("at = 2026-03-02T10:00:00Z", 0)],
)
def test_a_test_is_at_noon_unless_it_names_a_time(tmp_path: Path, at: str, code: int):
    fields = 'proposal = { type = "create_file" }\nexpect = "require_confirmation"'
    zoned = f'{RULES}\n[notifications]\ntimezone = "UTC"\n'

    assert run(tmp_path, case(f"{fields}\n{at}"), rules=zoned).returncode == code


def test_a_proposal_in_a_project_is_of_one_of_its_agents_unless_it_names_another(tmp_path: Path):
    mine = 'proposal = { type = "read_file", text = "stock", project = "shop" }\n'
    other = mine.replace(" }", ', agent = "x" }')

    assert run(tmp_path, case(mine + 'expect = "block"\nrule = "rules.stock"')).returncode == 0
    assert run(tmp_path, case(other + 'expect = "allow"')).returncode == 0


def test_other_rules_than_the_file_names_may_be_given(tmp_path: Path):
    text = case('proposal = { type = "run_shell", text = "make" }\nexpect = "allow"')
    strict = tmp_path / "strict.toml"
    strict.write_text('profile = "strict"\n')

    assert run(tmp_path, text).returncode == 0
    assert run(tmp_path, text, "--config", str(strict)).returncode == 1


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("x = ", "tests.toml: Invalid value"),
        ("test = []", "has no [[test]]"),
        (case('expect = "allow"'), "missing required field `proposal`"),
        (case('proposal = { type = "x" }\nexpect = "maybe"'), "Invalid enum value 'maybe'"),
        (
            case('proposal = { type = "x", agent = "a b" }\nexpect = "allow"'),
            "not a valid agent name",
        ),
        (case('proposal = { typ = "x" }\nexpect = "allow"'), "test 'a test': "),
        (
            case('proposal = { type = "x" }\nearlier = [{ type = "y", ok = 1 }]\nexpect = "allow"'),
            "ok is 1. It must be true or false",
        ),
        (
            case('proposal = { type = "x", after_s = -1 }\nexpect = "allow"'),
            "after_s is -1. It must be a number of seconds",
        ),
        ('config = "none.toml"\n[[test]]\nname="a"\nproposal={}\nexpect="allow"', "none.toml"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_what_is_wrong(tmp_path: Path, text: str, error: str):
    said = run(tmp_path, text)

    assert said.returncode == 1
    assert error in said.stderr


def test_a_file_that_is_not_there_is_named():
    said = here("test", "/nowhere/tests.toml")

    assert said.returncode == 1
    assert "cannot read /nowhere/tests.toml" in said.stderr
