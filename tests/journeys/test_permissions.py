"""Permissions on the bus, cell by cell, and attacks that the accounts prevent."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from safetyd.bus.keyring import Keyring
from tests.bus.peer import Message, Peer, Refused, hpub
from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon
from tests.journeys.agents import until
from tests.journeys.people import control
from tests.nats_process import NatsProcess

pytestmark = pytest.mark.journey

FREE: Final = UNLIMITED
GOOD: Final = b'{"type":"read_file","text":"notes.txt"}'

# P publish accepted, S subscribe accepted, . denied, - not possible.
# `code` and `ops` are agents with a key, `open` is any agent without, `local` is the operator,
# `wall` an observer, `edge` a relay; `agent?` and `human?` have keys without permissions.
TABLE: Final = """
subject                                 daemon code ops open local wall agent? human? edge
safety.v1.propose.code                    PS    P.   ..  P.   ..    ..    ..     ..     ..
safety.v1.propose.ops                     PS    ..   P.  P.   ..    ..    ..     ..     ..
safety.v1.propose.free                    PS    ..   ..  P.   ..    ..    ..     ..     ..
safety.v1.permission.code                 PS    P.   ..  P.   ..    ..    ..     ..     ..
safety.v1.permission.ops                  PS    ..   P.  P.   ..    ..    ..     ..     ..
safety.v1.claim.code                      PS    P.   ..  P.   ..    ..    ..     ..     ..
safety.v1.claim.ops                       PS    ..   P.  P.   ..    ..    ..     ..     ..
safety.v1.telemetry.code                  PS    P.   ..  P.   ..    ..    ..     ..     ..
safety.v1.telemetry.ops                   PS    ..   P.  P.   ..    ..    ..     ..     ..
safety.v1.review.local                    PS    ..   ..  ..   P.    ..    ..     ..     ..
safety.v1.review.wall                     PS    ..   ..  ..   ..    ..    ..     ..     ..
safety.v1.control.local                   PS    ..   ..  ..   P.    ..    ..     ..     ..
safety.v1.control.wall                    PS    ..   ..  ..   ..    ..    ..     ..     ..
safety.v1.query.local                     PS    ..   ..  ..   P.    ..    ..     ..     ..
safety.v1.query.wall                      PS    ..   ..  ..   ..    P.    ..     ..     ..
safety.v1.link.edge                       PS    ..   ..  ..   ..    ..    ..     ..     P.
safety.v1.link.local                      PS    ..   ..  ..   ..    ..    ..     ..     ..
safety.v1.decision.code.x                 PS    .S   ..  .S   ..    ..    ..     ..     ..
safety.v1.decision.ops.x                  PS    ..   .S  .S   ..    ..    ..     ..     ..
safety.v1.decision.*.x                    -S    -.   -.  -S   -.    -.    -.     -.     -.
safety.v1.event.ACTION_BLOCKED            PS    ..   ..  ..   .S    .S    ..     ..     ..
safety.v1.state.stop                      PS    .S   .S  .S   .S    .S    ..     ..     ..
safety.v1.state.safe_mode                 PS    .S   .S  .S   .S    .S    ..     ..     ..
safety.v1.state.mode                      PS    .S   .S  .S   .S    .S    ..     ..     ..
safety.v1.journal.0                       PS    ..   ..  ..   ..    ..    ..     ..     ..
safety.v1.internal.writer                 PS    ..   ..  ..   ..    ..    ..     ..     ..
safety.v1.canary.x                        PS    ..   ..  ..   ..    ..    ..     ..     ..
safety.v1.open.propose.code               PS    ..   ..  ..   ..    ..    ..     ..     ..
safety.v1.open.decision.free.x            PS    ..   ..  ..   ..    ..    ..     ..     ..
$SRV.PING                                 PS    ..   ..  ..   P.    ..    ..     ..     ..
$SRV.INFO.safetyd                         PS    ..   ..  ..   P.    ..    ..     ..     ..
$SRV.STATS.safetyd                        PS    ..   ..  ..   P.    ..    ..     ..     ..
$JS.API.INFO                              PS    ..   ..  ..   ..    ..    ..     ..     ..
$JS.API.STREAM.DELETE.SAFETY_JOURNAL      PS    ..   ..  ..   ..    ..    ..     ..     ..
$JS.API.STREAM.MSG.GET.SAFETY_JOURNAL     PS    ..   ..  ..   ..    ..    ..     ..     ..
$JS.ACK.SAFETY_JOURNAL.x                  PS    ..   ..  ..   ..    ..    ..     ..     ..
$KV.safety.stop                           PS    ..   ..  ..   ..    ..    ..     ..     ..
$SYS.REQ.SERVER.PING                      PS    ..   ..  ..   ..    ..    ..     ..     ..
_INBOX.agent.code.x                       PS    .S   ..  .S   ..    ..    ..     ..     ..
_INBOX.agent.ops.x                        PS    ..   .S  .S   ..    ..    ..     ..     ..
_INBOX.op.local.x                         PS    ..   ..  .S   .S    ..    ..     ..     ..
_INBOX.op.wall.x                          PS    ..   ..  .S   ..    .S    ..     ..     ..
_INBOX.relay.edge.x                       PS    ..   ..  .S   ..    ..    ..     ..     .S
_INBOX.relay.other.x                      PS    ..   ..  .S   ..    ..    ..     ..     ..
_INBOX.daemon.x                           PS    ..   ..  .S   ..    ..    ..     ..     ..
_INBOX.>                                  -S    -.   -.  -S   -.    -.    -.     -.     -.
_R_.x                                     PS    ..   ..  ..   ..    ..    ..     ..     ..
safety.v1.>                               -S    -.   -.  -.   -.    -.    -.     -.     -.
>                                         -S    -.   -.  -.   -.    -.    -.     -.     -.
"""

CHOSEN_REPLIES: Final = [
    "safety.v1.control.local",
    "safety.v1.query.local",
    "safety.v1.state.stop",
    "safety.v1.event.EMERGENCY_RESUME",
    "safety.v1.journal.0",
    "safety.v1.internal.writer",
    "$JS.API.STREAM.DELETE.SAFETY_JOURNAL",
    "$JS.API.STREAM.PURGE.SAFETY_JOURNAL",
    "$KV.safety.stop",
    "_INBOX.daemon.x",
    "_R_.x",
]

HEADERS: Final = [
    "Nats-Msg-Id: 1",
    "Nats-Rollup: all",
    "Nats-Rollup: sub",
    "Nats-Expected-Last-Sequence: 0",
    "Nats-Expected-Last-Subject-Sequence: 0",
    "Nats-Schedule: @every 1s",
    "Nats-Schedule-Target: safety.v1.control.local",
    "Nats-TTL: 1s",
    "Nats-Batch-Id: x",
    "Nats-Incr: +1",
    'Nats-Request-Info: {"acc":"SAFETY"}',
    "Nats-Pin-Id: x",
    "Status: 503",
]


class User(NamedTuple):
    url: str
    seed: Path | None
    inbox: str = "_INBOX.raw"

    def connect(self) -> Peer:
        return Peer(self.url, self.seed, self.inbox)


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    daemon = start_module_daemon(FREE)
    keyring = Keyring(daemon.data_dir / "keys")
    keyring.add("agents", "code")
    keyring.add("agents", "ops")
    keyring.add("observers", "wall")
    keyring.add("relays", "edge")
    daemon.restart()
    return daemon


@pytest.fixture(scope="module")
def users(
    daemon: RunningDaemon, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, User]]:
    """All users in the table's order; the daemon itself on a copy of the server."""
    url, keys = daemon.endpoint.bus, daemon.data_dir / "keys"
    directory = tmp_path_factory.mktemp("copy")
    forgotten = Keyring(directory)
    text = (daemon.data_dir / "nats" / "nats.conf").read_text()
    seeds = {name: forgotten.add("agents", name) for name in ("agent", "human")}
    copy = NatsProcess(directory, copied(text, directory, dict(forgotten.public("agents"))))
    yield {
        "daemon": User(copy.url, keys / "daemon.nk"),
        "code": User(url, keys / "agents" / "code.nk", "_INBOX.agent.code"),
        "ops": User(url, keys / "agents" / "ops.nk", "_INBOX.agent.ops"),
        "open": User(url, None),
        "local": User(url, keys / "operator.nk", "_INBOX.op.local"),
        "wall": User(url, keys / "observers" / "wall.nk", "_INBOX.op.wall"),
        "agent?": User(copy.url, seeds["agent"]),
        "human?": User(copy.url, seeds["human"]),
        "edge": User(url, keys / "relays" / "edge.nk", "_INBOX.relay.edge"),
    }
    copy.stop()


@pytest.fixture
def spy(daemon: RunningDaemon) -> Iterator[Peer]:
    """A subscriber to everything in the daemon's own account."""
    with Peer(daemon.endpoint.bus, daemon.data_dir / "keys" / "daemon.nk", "_INBOX.spy") as peer:
        peer.subscribe(">")
        peer.settle()
        yield peer


def copied(text: str, directory: Path, forgotten: dict[str, str]) -> str:
    """Return the server configuration with two more users that have no permissions."""
    text = re.sub(r"^(listen|log_file|pid_file|logfile_\w+): .*$", "", text, flags=re.MULTILINE)
    text = re.sub(r'store_dir: ".*"', f'store_dir: "{directory / "store"}"', text)
    for account, name in (("AGENTS", "agent"), ("HUMANS", "human")):
        first_user = rf"(  {account} {{.*?users: \[)"
        text = re.sub(first_user, rf"\1\n{{ nkey: {forgotten[name]} }}", text, flags=re.DOTALL)
    return text


def cell(peer: Peer, subject: str) -> str:
    """Try to publish and to subscribe; return what was accepted."""
    said = "-" if {"*", ">"} & set(subject.split(".")) else "P"
    if said == "P":
        peer.publish(subject)
        said = "." if denied(peer, "Publish") else "P"
    peer.subscribe(subject)
    return said + ("." if denied(peer, "Subscription") else "S")


def expected_of(user: str) -> dict[str, str]:
    """Return the cells of a user in the table, by subject."""
    header, *rows = TABLE.strip().splitlines()
    column = header.split().index(user)
    return {row.split()[0]: row.split()[column] for row in rows}


def denied(peer: Peer, what: str) -> bool:
    before = len(peer.errors)
    peer.settle()
    errors = peer.errors[before:]
    assert all(f"Permissions Violation for {what}" in error for error in errors), errors
    return bool(errors)


def ask(user: User, agent: str, payload: bytes = GOOD) -> dict[str, object]:
    with user.connect() as peer:
        return peer.ask(f"safety.v1.propose.{agent}", payload).fields


def journal(peer: Peer) -> dict[str, int]:
    """Return the state of the journal's stream."""
    state: dict[str, int] = peer.ask("$JS.API.STREAM.INFO.SAFETY_JOURNAL", b"").fields["state"]
    return state


def test_every_user_has_exactly_the_permissions_in_the_table(users: dict[str, User]) -> None:
    header, *rows = TABLE.strip().splitlines()
    expected = {(row.split()[0], *row.split()[1:]) for row in rows}
    subjects = [row.split()[0] for row in rows]
    columns = []
    for user in users.values():
        with user.connect() as peer:
            columns.append([cell(peer, subject) for subject in subjects])

    found = set(zip(subjects, *columns, strict=True))

    assert header.split()[1:] == list(users)
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("reply", CHOSEN_REPLIES)
@pytest.mark.parametrize("who", ["code", "open"])
def test_no_reply_subject_reaches_the_daemons_account(
    users: dict[str, User], spy: Peer, who: str, reply: str
) -> None:
    agent = "code" if who == "code" else "free"
    before = journal(spy)
    with users[who].connect() as peer:
        peer.publish(f"safety.v1.propose.{agent}", GOOD, reply)
        allowed = peer.ask(f"safety.v1.propose.{agent}", GOOD).fields

    heard = spy.settle()
    after = journal(spy)

    assert allowed["decision"] == "allow"
    assert reply not in {message.subject.decode() for message in heard if _is_decision(message)}
    assert after["first_seq"] == before["first_seq"]
    assert after["last_seq"] > before["last_seq"]


@pytest.mark.parametrize("reply", [*CHOSEN_REPLIES, "_INBOX.op.local.x", "safety.v1.event.x"])
def test_no_reply_subject_of_a_relay_reaches_the_daemon_or_an_operator(
    users: dict[str, User], spy: Peer, reply: str
) -> None:
    with users["local"].connect() as operator, users["edge"].connect() as attacker:
        operator.subscribe("_INBOX.op.local.>")
        operator.subscribe("safety.v1.event.>")
        operator.settle()
        attacker.publish("safety.v1.link.edge", b'{"do":"ping"}', reply)
        answer = attacker.ask("safety.v1.link.edge", b'{"do":"ping"}').fields

        heard = [*operator.settle(), *spy.settle()]

    assert answer == {"is": "here", "problem": ""}
    here = [one.subject.decode() for one in heard if b'"here"' in one.payload]
    assert all(subject.startswith("_R_.") for subject in here)


def test_an_answer_redirected_to_another_agent_names_its_recipient(users: dict[str, User]) -> None:
    with users["ops"].connect() as victim, users["code"].connect() as attacker:
        sids = [
            victim.subscribe("safety.v1.decision.ops.*"),
            victim.subscribe("_INBOX.agent.ops.x"),
        ]
        victim.settle()

        for reply in ("safety.v1.decision.ops.x", "_INBOX.agent.ops.x"):
            attacker.publish("safety.v1.propose.code", GOOD, reply)

        assert {victim.heard(sid).fields["agent"] for sid in sids} == {"code"}


@pytest.mark.parametrize("header", HEADERS)
def test_no_header_changes_the_effect_of_a_message(
    users: dict[str, User], spy: Peer, header: str
) -> None:
    before = journal(spy)
    with users["code"].connect() as peer:
        sid = peer.subscribe("_INBOX.agent.code.x")
        headers = f"NATS/1.0\r\n{header}\r\n\r\n".encode()
        for _ in range(2):
            peer.send(hpub(b"safety.v1.propose.code", headers, GOOD, b"_INBOX.agent.code.x"))

        answers = [peer.heard(sid).fields for _ in range(2)]

    heard = spy.settle()
    after = journal(spy)
    assert [answer["decision"] for answer in answers] == ["allow", "allow"]
    assert {m.subject for m in heard if b"control" in m.subject} == set()
    assert after["first_seq"] == before["first_seq"]


def test_a_trace_cannot_be_sent_to_a_forbidden_subject(users: dict[str, User], spy: Peer) -> None:
    headers = b"NATS/1.0\r\nNats-Trace-Dest: safety.v1.control.local\r\n\r\n"
    with users["code"].connect() as peer:
        peer.send(hpub(b"safety.v1.propose.code", headers, GOOD))
        peer.settle()
        errors = peer.errors

    assert len(errors) == 1
    assert "Permissions Violation" in errors[0]
    assert {m.subject for m in spy.settle() if b"control" in m.subject} == set()


@pytest.mark.parametrize("who", ["code", "open", "local", "wall", "edge"])
def test_only_the_daemon_reaches_the_journal(users: dict[str, User], who: str) -> None:
    with users[who].connect() as peer:
        sid = peer.subscribe(f"{users[who].inbox}.x")
        for api in (
            "INFO",
            "STREAM.NAMES",
            "STREAM.PURGE.SAFETY_JOURNAL",
            "DIRECT.GET.SAFETY_JOURNAL",
        ):
            peer.publish(f"$JS.API.{api}", b"", f"{users[who].inbox}.x")

        answers = [message for message in peer.settle() if message.sid == sid]

        assert answers == []
        assert len(peer.errors) == 4


@pytest.mark.parametrize("subject", ["_INBOX.agent.ops.>", "safety.v1.decision.ops.*", "_INBOX.>"])
@pytest.mark.parametrize("queue", ["", "workers"])
def test_an_agent_cannot_subscribe_to_another_agents_subjects(
    users: dict[str, User], subject: str, queue: str
) -> None:
    with users["code"].connect() as spying:
        spying.subscribe(subject, queue)
        errors = denied(spying, "Subscription")
        ask(users["ops"], "ops")

        assert errors
        assert spying.settle() == []


def test_an_anonymous_agent_receives_nothing_meant_for_agents_with_keys(
    users: dict[str, User],
) -> None:
    with users["open"].connect() as spying:
        spying.subscribe("safety.v1.decision.>")
        spying.subscribe("_INBOX.>")
        spying.settle()
        ask(users["code"], "code")
        free = ask(users["open"], "free")

        heard = spying.settle()

    assert {message.fields["id"] for message in heard} == {free["id"]}


def test_an_anonymous_agent_cannot_use_the_name_of_an_agent_with_a_key(
    users: dict[str, User],
) -> None:
    decision = ask(users["open"], "code")
    with users["open"].connect() as peer:
        noted = peer.ask("safety.v1.telemetry.code", b'{"type":"heartbeat"}').fields

    assert (decision["decision"], decision["cause"]) == ("block", "malformed")
    assert "the name code is reserved" in str(decision["reason"])
    assert (noted["ok"], noted["code"]) == (False, "malformed")


def test_an_anonymous_agent_cannot_spend_the_budget_of_an_agent_with_a_key(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon("[rate]\nattempts_per_second = 1\n")
    seed = Keyring(daemon.data_dir / "keys").add("agents", "code")
    assert control(daemon, "reload")["ok"]
    keyed = User(daemon.endpoint.bus, seed, "_INBOX.agent.code")
    until(lambda: _lets_in(keyed))

    impostor = User(daemon.endpoint.bus, None)
    causes = [ask(impostor, "code")["cause"] for _ in range(10)]

    assert set(causes) == {"malformed", "rate_limit"}
    assert ask(keyed, "code")["decision"] == "allow"


def test_a_revoked_key_is_disconnected_and_rejected(
    daemon: RunningDaemon, users: dict[str, User], tmp_path: Path
) -> None:
    keyring = Keyring(daemon.data_dir / "keys")
    seed = Path(shutil.copy(keyring.add("agents", "leaving"), tmp_path))
    user = User(daemon.endpoint.bus, seed, "_INBOX.agent.leaving")
    assert control(daemon, "reload")["ok"]
    until(lambda: _lets_in(user))

    with user.connect() as peer:
        keyring.revoke("agents", "leaving")
        assert control(daemon, "reload")["ok"]
        assert peer.closed()

    assert not _lets_in(user)
    assert ask(users["ops"], "ops")["decision"] == "allow"


def test_an_unknown_key_is_rejected(daemon: RunningDaemon, tmp_path: Path) -> None:
    stranger = Keyring(tmp_path).add("agents", "code")

    assert not _lets_in(User(daemon.endpoint.bus, stranger))


def _lets_in(user: User) -> bool:
    try:
        user.connect().close()
    except Refused:
        return False
    return True


def _is_decision(message: Message) -> bool:
    return b'"triggered_rules"' in message.payload and message.payload[:1] == b"{"
