"""Shell commands in the gate: rules by type, patterns, safetyd's resources, and profiles."""

from typing import Any

import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import Decided
from safetyd.core.guards.gate.gate_config import GateConfig
from safetyd.core.guards.gate.own_config import OwnConfig
from safetyd.core.guards.projects import ProjectConfig
from safetyd.core.guards.rules import CustomRule, ProjectRules, RulesConfig, When
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.proposal import Target
from safetyd.core.messages.verdict import Severity
from safetyd.core.policy import Policy
from safetyd.core.shell.command_reader import MAX_CACHED, ShellConfig
from safetyd.core.shell.programs import Row
from safetyd.core.shell.reading import Effect
from tests.story import propose

ALLOW, ASK, BLOCK = Severity.ALLOW, Severity.ASK, Severity.BLOCK


def decide(text: str, policy: Policy | None = None, **fields: Any) -> Decision:
    engine = Engine(policy or Policy(profile="coding"))
    decision, _ = engine.decide(propose(0, type="run_shell", id="p1", text=text, **fields))
    return decision


def test_the_reason_names_the_part_and_how_many_more() -> None:
    decision = decide("git push; rm -rf ~/music")

    assert decision.reason.startswith("`rm -rf ~/music` ")
    assert decision.reason.endswith(", and 1 more")
    assert decision.triggered_rules[0] == "gate.shell:irreversible"
    assert {"gate.shell:leaves", "shell.rm", "shell.git_push"} <= set(decision.triggered_rules)


def test_the_journal_has_every_part_and_its_position() -> None:
    engine = Engine(Policy(profile="coding"))
    _, events = engine.decide(
        propose(0, type="run_shell", id="p1", text="git push; rm -rf ~/music")
    )

    (verdict,) = next(event.verdicts for event in events if isinstance(event, Decided))
    assert [part.shown for part in verdict.parts] == ["rm -rf ~/music", "git push"]
    assert [(part.start, part.end) for part in verdict.parts] == [(10, 24), (0, 8)]


@pytest.mark.parametrize(
    ("rules", "text", "decision"),
    [
        (RulesConfig(allow_push_to=("origin",)), "git push origin main", ALLOW),
        (RulesConfig(allow_push_to=("origin",)), "git push other main", ASK),
        (RulesConfig(allow_without_permission=("install_package",)), "pip install x", ALLOW),
        (RulesConfig(require_permission=("git_commit",)), "git commit -m x", ASK),
        (
            RulesConfig(custom=(CustomRule(name="no", when=When(types=("push",)), then=BLOCK),)),
            "git push origin main",
            BLOCK,
        ),
        (RulesConfig(allow_without_permission=("delete_file_outside",)), "rm -rf ~/a", ALLOW),
        (RulesConfig(allow_without_permission=("delete_file_outside",)), "rm -rf /etc/a", BLOCK),
        # Who speaks to a person is not let through by a rule for others.
        (
            RulesConfig(
                allow_human_communication=True,
                known_contacts=("x",),
                allow_without_permission=("send_email",),
            ),
            "mail -s hi bob@example.com < a.txt",
            ASK,
        ),
    ],
)
def test_rules_by_type_hold_for_commands(rules: RulesConfig, text: str, decision: Severity) -> None:
    assert decide(text, Policy(profile="coding", rules=rules)).decision is decision


def test_a_project_has_rules_of_its_own_for_commands() -> None:
    project = ProjectConfig(agents=("code",), rules=ProjectRules(allow_push_to=("origin",)))
    policy = Policy(profile="coding", projects={"web": project})

    assert decide("git push origin main", policy, project="web").allowed
    assert decide("git push origin main", policy).decision is ASK


def test_what_only_looks_and_declared_checks_pass_in_strict() -> None:
    project = ProjectConfig(root="/srv/web", agents=("code",), checks=("make test",))
    policy = Policy(projects={"web": project})

    assert decide("git log | head -5", policy).allowed
    assert decide("make test 2>&1 | tail -5", policy, project="web").allowed
    assert decide("make all", policy, project="web").decision is ASK
    assert decide("rm -rf build", policy).triggered_rules[1] == "gate.blocklist:rm_rf"
    assert decide("rm -rf /", policy).decision is BLOCK
    assert decide("git log", policy, risk="high").decision is ASK


def test_words_that_the_operator_added_are_looked_for_in_the_raw_text() -> None:
    gate = GateConfig(
        blocklist_patterns=("atlantis",),
        irreversible_patterns=("lemuria",),
        shell_patterns=("mu_land",),
    )
    policy = Policy(profile="coding", gate=gate)

    assert decide("echo atlantis", policy).decision is BLOCK
    assert decide("echo lemuria", policy).decision is ASK
    assert decide("echo mu_land", policy).decision is ASK
    assert decide("echo 'rm -rf /'", policy).allowed


def test_patterns_are_searched_for_as_before_if_the_operator_says_so() -> None:
    policy = Policy(profile="coding", gate=GateConfig(shell="patterns"))

    assert decide("echo 'git push'", policy).triggered_rules == ("gate.shell:git_push",)


def test_an_operator_describes_a_program() -> None:
    rows = ShellConfig(programs={"acmectl": Row(work=("lint",))})
    policy = Policy(profile="coding", shell=rows)

    assert decide("acmectl lint src", policy).allowed
    assert decide("acmectl burn src", policy).decision is ASK
    assert rows.dated().table.startswith("sha256:")


def test_what_is_safetyds_own_is_what_a_command_acts_on() -> None:
    own = OwnConfig(directories=("/var/lib/guard",), addresses=("127.0.0.1:8787",))
    policy = Policy(profile="coding", own=own)

    for text in (
        "safetyd approve req_1",
        "pkill safetyd",
        "cat /var/lib/guard/state",
        "curl http://127.0.0.1:8787/x",
        "sh -c 's=safety; ${s}d approve req_1'",
        "SAFETYD_ENABLED=false make",
    ):
        decision = decide(text, policy)
        assert (decision.decision, "gate.own" in decision.triggered_rules) == (BLOCK, True), text
    for text in ('echo "safetyd approve"', "safetyd status", "git commit -m 'mend safetyd'"):
        assert decide(text, policy).allowed, text
    assert decide("sh -c '${s}d approve'", policy).decision is ASK
    assert decide("ls", policy, cwd="/var/lib/guard").decision is BLOCK


def test_readings_are_remembered_and_forgotten() -> None:
    engine = Engine(Policy(profile="coding"))

    for number in range(MAX_CACHED + 2):
        decision, _ = engine.decide(
            propose(0, type="run_shell", id=f"p{number}", text=f"echo {number}")
        )
        assert decision.decision in {ALLOW, BLOCK}  # a rate may hold the later ones

    assert engine.reader.reading(propose(0, text="echo 1").proposal).effect is Effect.READ


def test_a_target_is_looked_at_beside_a_command() -> None:
    assert decide("ls", target=Target(label="delete all")).decision is ASK
    assert decide("ls", target=Target(label="submit")).decision is ASK
