"""Commands of coding agents: force pushes, and programs into which Codex could type commands."""

from typing import Literal

import msgspec
import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import Decided
from safetyd.core.guards.gate.host_commands import OPEN_INPUT
from safetyd.core.guards.projects import ProjectConfig
from safetyd.core.guards.rules import ProjectRules, RulesConfig
from safetyd.core.host_rules import HostRules
from safetyd.core.messages.verdict import ALLOW, ASK, BLOCK
from safetyd.core.policy import Policy
from tests.story import propose

FORCED = (
    "git push --force origin main",
    "git push -f",
    "git push --force-with-lease origin main",
    "git push origin +main",
    "git push --mirror origin",
    "git push --delete origin old",
    "git push origin :old",
    "cd src && git push -f",
    "bash -c 'git push -f'",
)

# A shell, interpreter, debugger, build tool, database, terminal, container or remote client.
OPEN = """
bash
sh -s
python3
python -i tools/x.py
python3.12 -i -c 'x = 1'
python -m pdb tools/x.py
node
node --interactive -e 1
node inspect tools/x.js
perl -d tools/x.pl
iex -S mix
R --no-save
sbt
sbt console
lein repl
psql -d shop
sqlite3 a.db
redis-cli
mongosh
docker run -it ubuntu
docker run --tty ubuntu
docker exec -it web bash
tmux
tmux new -s work
screen
script
nix-shell
nix develop
less src/a.py
ssh build.example.org
some-unlisted-repl
""".strip().splitlines()

CLOSED = """
bash tools/x.sh
python tools/x.py -i
python3 -c 'print(1)'
echo 'print(1)' | python3
node tools/x.js
perl -i -pe s/a/b/ src/a.txt
R CMD build .
sbt test
psql -c 'select 1'
docker run --rm ubuntu
docker run -it node npm test
tmux new -d -s work make
nix-shell --run make
nix develop --command make
less src/a.py | head
python -i tools/x.py < tools/answers
""".strip().splitlines()


def decided(text: str, host: str = "codex", policy: Policy | None = None) -> Decided:
    engine = Engine(policy or Policy())
    proposed = propose(1, type="run_shell", text=text, cwd="/home/me/app")
    _, events = engine.decide(msgspec.structs.replace(proposed, host=host))
    (event,) = (event for event in events if isinstance(event, Decided))
    return event


def rules(event: Decided) -> set[str]:
    return {rule for verdict in event.verdicts for rule in (verdict.rule, *verdict.also)}


@pytest.mark.parametrize("command", FORCED)
@pytest.mark.parametrize(("setting", "decision"), [("block", BLOCK), ("ask", ASK)])
def test_a_force_push_is_blocked_or_needs_approval(
    command: str, setting: Literal["block", "ask"], decision: object
) -> None:
    policy = Policy(hosts=HostRules(force_push=setting))

    assert decided(command, "claude", policy).decision is decision


def test_other_agents_and_other_pushes_still_need_approval() -> None:
    assert decided("git push -f", host="").decision is ASK
    assert decided("git push origin main", "claude").decision is ASK
    assert decided("git push --dry-run -f", "claude").decision is ALLOW


def test_a_rule_that_allows_pushes_allows_no_force_push() -> None:
    policy = Policy(rules=RulesConfig(allow_push_to=("origin",)))

    assert decided("git push origin main", "claude", policy).decision is ALLOW
    assert decided("git push -f origin main", "claude", policy).decision is BLOCK


@pytest.mark.parametrize("command", OPEN)
def test_a_program_that_reads_commands_from_its_input_needs_approval_in_codex(command: str) -> None:
    codex, claude = decided(command), decided(command, "claude")

    assert codex.decision is ASK
    assert OPEN_INPUT in rules(codex)
    assert OPEN_INPUT not in rules(claude)


@pytest.mark.parametrize("command", CLOSED)
def test_a_program_with_its_own_commands_is_no_open_input(command: str) -> None:
    assert OPEN_INPUT not in rules(decided(command))


def test_rules_of_hosts_apply_in_projects_too() -> None:
    rules = ProjectRules(allow_push_to=("origin",))
    policy = Policy(projects={"app": ProjectConfig(root="/home/me/app", rules=rules)})
    engine = Engine(policy)
    proposed = propose(
        1, type="run_shell", text="git push -f origin", cwd="/home/me/app", project="app"
    )
    decision, _ = engine.decide(msgspec.structs.replace(proposed, host="claude"))
    assert decision.decision is BLOCK
