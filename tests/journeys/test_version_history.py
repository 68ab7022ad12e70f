"""Changes of agents are committed, shown and rolled back, with a whole daemon."""

import json
import re
from pathlib import Path
from typing import Final

import anyio.to_thread
import pytest

from safetyd.bus.keyring import Keyring
from safetyd.client import Safety, SyncSafety
from tests.bus.peer import Peer
from tests.conftest import RunningDaemon, StartDaemon
from tests.journeys.agents import until
from tests.journeys.asking_agent import Asker, review
from tests.journeys.edited_project import CONFIG, PROJECT, Project
from tests.journeys.people import Listener, control, query
from tests.journeys.slow_git import SlowGit
from tests.schemas import validator

pytestmark = pytest.mark.journey

NAMES: Final = ("shop", "deploy", "held", "told")


class Shop:
    """A daemon with one project per test, and an observer."""

    def __init__(self, daemon: RunningDaemon, root: Path) -> None:
        self.daemon = daemon
        self._root = root

    def project(self, name: str) -> Project:
        return Project(self.daemon, self._root, name)


@pytest.fixture(scope="module")
def shop(start_module_daemon: StartDaemon, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    root = tmp_path_factory.mktemp("projects")
    config = CONFIG
    for name in NAMES:
        (root / name).mkdir()
        (root / name / "cart.py").write_text("begun\n")
        config += PROJECT.format(name=name, root=root)
        config += "before_irreversible = true\n" if name == "deploy" else ""
    daemon = start_module_daemon(config)
    keyring = Keyring(daemon.data_dir / "keys")
    keyring.add("observers", "wall")
    keyring.add("agents", "keyed")
    assert daemon.safetyd("reload").returncode == 0
    return Shop(daemon, root)


def _report(daemon: RunningDaemon) -> str:
    return daemon.safetyd("report").stdout


@pytest.mark.req("S2.20")
@pytest.mark.req("S2.22")
@pytest.mark.req("S2.47")
def test_changes_of_an_agent_are_listed_shown_and_rolled_back(shop: Shop) -> None:
    project, daemon = shop.project("shop"), shop.daemon
    project.writes("p1", "two\n")
    project.commits(1)
    project.writes("p2", "three\n")

    newest, first = project.commits(2)
    assert (newest["id"], newest["agent"], newest["action"]) == ("p2", "shop-coder", "edit_file")
    assert (newest["files"], newest["added"], newest["removed"]) == (1, 1, 1)
    listed = daemon.safetyd("history", "--project", "shop").stdout
    assert newest["commit"][:12] in listed
    assert "write p2" in listed
    shown = daemon.safetyd("history", "diff", newest["commit"][:12]).stdout
    assert "-two" in shown
    assert "+three" in shown
    said = json.loads(daemon.safetyd("history", "show", newest["commit"], "--json").stdout)
    assert f"Safetyd-Decision: {newest['decision']}" in said["message"]
    validator("query_commit_reply", closed=True).validate(said)

    with Listener(daemon) as person:
        done = daemon.safetyd("rollback", first["commit"][:12], "--soft", "--reason", "wrong way")
        told = person.hear("ROLLED_BACK", None)
    assert done.returncode == 0, done.stderr
    assert project.file.read_text() == "two\n"
    assert (told["reason"], told["metadata"]["agents"]) == ("wrong way", "shop-coder")
    assert "notified: shop-coder." in done.stdout

    assert re.search(r"RED 1 rollback: \d\d:\d\d shop by local: wrong way\n", _report(daemon))
    undo = done.stdout.split("safetyd rollback ")[1].split()[0]
    again = control(daemon, "rollback", commit=undo, kind="soft", reason="it was right")
    validator("control_rollback_reply", closed=True).validate(again)
    assert project.file.read_text() == "three\n"
    project.writes("p3", "four\n")  # no agent is paused any more


@pytest.mark.req("S2.40")
def test_an_approved_irreversible_action_is_preceded_by_a_commit_naming_the_approver(
    shop: Shop,
) -> None:
    project = shop.project("deploy")
    project.file.write_text("not committed by anybody\n")
    with Asker(shop.daemon, project.agent) as agent:
        fields = {"type": "push", "text": "git push origin main", "project": "deploy", "id": "d1"}
        asked = agent.ask("propose", {**fields, "reversibility": "irreversible"})
        assert asked["status"] == "pending", asked
        assert review(shop.daemon, "approve", asked["request_id"])["ok"]
        allowed = agent.ask("propose", {**fields, "reversibility": "irreversible", "id": "d2"})
        rows = project.commits()

    assert allowed["decision"] == "allow", allowed
    (row,) = rows
    assert (row["id"], row["approver"], row["decision"]) == ("d2", "local", allowed["seq"])
    message = query(shop.daemon, "commit", commit=row["commit"])["message"]
    assert "Safetyd-Approver: local" in message


def test_only_operators_can_roll_back(shop: Shop) -> None:
    project, daemon = shop.project("held"), shop.daemon
    project.writes("h1", "one\n")
    first = project.commits(1)[0]["commit"]
    order = json.dumps({"command": "rollback", "commit": first, "kind": "soft", "reason": "r"})
    keys = daemon.data_dir / "keys"
    for name, seed in (("op.wall", "observers/wall.nk"), ("agent.keyed", "agents/keyed.nk")):
        with Peer(daemon.endpoint.bus, keys / seed, f"_INBOX.{name}") as peer:
            peer.publish(f"safety.v1.control.{name.partition('.')[2]}", order.encode())
            peer.publish("safety.v1.control.local", order.encode())
            peer.settle()
            assert len([error for error in peer.errors if "Publish" in error]) == 2
    asked = query(daemon, "rollback", commit=first, kind="soft", reason="r")
    assert asked["code"] == "unknown_command", "a question changes nothing"


def test_agents_with_and_without_a_key_are_notified_of_a_rollback(shop: Shop) -> None:
    project, daemon = shop.project("held"), shop.daemon
    project.writes("k0", "right\n")
    until(lambda: [row["id"] for row in project.commits()][:1] == ["k0"])
    first = project.commits()[0]["commit"]
    project.writes("k1", "left\n")
    keyed = daemon.data_dir / "keys/agents/keyed.nk"
    with (
        Peer(daemon.endpoint.bus, keyed, "_INBOX.agent.keyed") as one,
        Peer(daemon.endpoint.bus, None, "_INBOX.other") as other,
    ):
        heard = [(peer, peer.subscribe("safety.v1.state.rollback")) for peer in (one, other)]
        for peer, _ in heard:
            peer.settle()
        order = {"commit": first, "kind": "soft", "project": "held", "reason": "wrong way"}
        done = control(daemon, "rollback", **order)
        notices = [peer.heard(sid).fields for peer, sid in heard]

    assert done["ok"], done
    assert notices[0] == notices[1]
    validator("state_rollback", closed=True).validate(notices[0])
    assert (notices[0]["project"], notices[0]["agents"]) == ("held", ["held-coder"])
    assert notices[0]["reason"] == "wrong way"


def test_a_commit_missed_by_a_killed_daemon_is_made_and_agents_wait_for_a_rollback(
    start_daemon: StartDaemon, tmp_path: Path
) -> None:
    git = SlowGit(tmp_path)
    (tmp_path / "shop").mkdir()
    config = CONFIG + PROJECT.format(name="shop", root=tmp_path)
    daemon = start_daemon(config, git.variables)
    project = Project(daemon, tmp_path, "shop")
    git.hold()
    project.writes("p1", "one\n")
    daemon.kill()
    git.let_go()
    daemon.start()

    (row,) = project.commits(1)
    assert row["id"] == "p1"

    project.writes("p2", "two\n")
    project.commits(2)
    git.hold()
    key = daemon.data_dir / "keys/operator.nk"
    order = {"command": "rollback", "commit": row["commit"], "kind": "soft", "reason": "back"}
    order["project"] = "shop"
    with (
        Listener(daemon) as person,
        Peer(daemon.endpoint.bus, key, "_INBOX.op.local") as operator,
        Asker(daemon, project.agent) as agent,
    ):
        operator.publish("safety.v1.control.local", json.dumps(order).encode())
        person.hear("AGENT_PAUSED", project.agent)
        meanwhile = agent.ask("propose", {"type": "read_file", "paths": ["/a"], "id": "p3"})
        git.let_go()
        person.hear("ROLLED_BACK", None)
        afterwards = agent.ask("propose", {"type": "read_file", "paths": ["/a"], "id": "p4"})

    assert (meanwhile["decision"], meanwhile["cause"]) == ("block", "paused")
    assert "project shop is being rolled back: back" in meanwhile["reason"]
    assert afterwards["decision"] == "allow"
    assert project.file.read_text() == "one\n"


async def test_the_client_receives_rollback_notices_and_fetches_missed_ones(
    shop: Shop,
) -> None:
    project, daemon = shop.project("told"), shop.daemon
    project.writes("t1", "one\n")
    first = project.commits(1)[-1]["commit"]
    project.writes("t2", "two\n")
    project.commits(2)
    order = {"commit": first, "kind": "soft", "project": "told", "reason": "wrong way"}
    bus = daemon.endpoint.bus

    async with Safety(project.agent, url=bus) as safety, Safety("other", url=bus) as other:
        before = [await one.rolled_back(timeout_s=0.5) for one in (safety, other)]
        done = await anyio.to_thread.run_sync(lambda: control(daemon, "rollback", **order))
        assert done["ok"], done
        heard = await safety.rolled_back(timeout_s=20)
        unheard = await other.rolled_back(timeout_s=0.2)

    assert before == [None, None]
    assert heard is not None
    assert (heard.project, heard.commit, heard.reason) == ("told", first, "wrong way")
    assert unheard is None, "it does not work there"
    with SyncSafety(project.agent, url=bus) as script:
        assert script.last_rollbacks() == (heard,)
        assert script.rolled_back(timeout_s=0.2) is None
    with SyncSafety("other", url=bus) as script:
        assert script.last_rollbacks() == ()


@pytest.mark.parametrize("how", ["restart", "reload"])
def test_a_file_history_enabled_later_begins_with_the_existing_files(
    start_daemon: StartDaemon, tmp_path: Path, how: str
) -> None:
    daemon = start_daemon(CONFIG)
    late = Project(daemon, tmp_path, "late")
    late.root.mkdir()
    late.file.write_text("precious")
    with daemon.config_path.open("a") as file:
        file.write(PROJECT.format(name="late", root=tmp_path))

    daemon.restart() if how == "restart" else daemon.safetyd("reload")
    late.writes("p1", "overwritten")

    (changed,) = late.commits(1)
    undone = daemon.safetyd("rollback", changed["commit"], "--revert", "--reason", "wrong way")
    assert undone.returncode == 0, undone.stderr
    assert late.file.read_text() == "precious"
