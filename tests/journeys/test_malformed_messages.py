"""Whatever bytes a peer sends, the next valid message is answered."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

import msgspec
import pytest

from safetyd.bus.keyring import Keyring
from safetyd.core.messages.proposal import MAX_MESSAGE_BYTES
from tests.bus.peer import Peer, hpub, pub
from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon

pytestmark = pytest.mark.journey

FREE: Final = UNLIMITED
GOOD: Final = b'{"type":"read_file","text":"notes.txt"}'
NOT_UTF8: Final = b"\xff\xfe"
DEEP: Final = 100_000

HEADERS: Final = {
    "status line": b"NATS/1.0 \xff\xff\xff\r\n\r\n",
    "description": b"NATS/1.0 503 \xff\xfe\r\n\r\n",
    "header key": b"NATS/1.0\r\n\xff\xfe: x\r\n\r\n",
    "header value": b"NATS/1.0\r\nkey: \xff\xfe\r\n\r\n",
    "headers without their last line end": b"NATS/1.0\r\nkey: value\r\n",
    "status without its last line end": b"NATS/1.0 503\r\n",
    "vertical tab in a header": b"NATS/1.0\r\nke\x0by: \x0c\r\n\r\n",
}

# A malformed message, and what its answer must name.
PAYLOADS: Final = {
    "nothing": (b"", "not a JSON object"),
    "not JSON": (b"rm -rf /", "not a JSON object"),
    "not an object": (b"[]", "got `array`"),
    "NaN": (b'{"type":"x","confidence":NaN}', "not a JSON object"),
    "infinite": (b'{"type":"x","cost_usd":1e999}', "1e999 is out of range"),
    "infinite where nobody looks": (b'{"type":"x","y":[-1e999]}', "-1e999 is out of range"),
    "NUL": (b'{"type":"x","text":"\\u0000"}', "the character NUL"),
    "raw NUL": (b'{"type":"x","text":"\x00"}', "not a JSON object"),
    "bad UTF-8": (b'{"type":"\xff"}', "not a JSON object"),
    "lone surrogate": (b'{"type":"x","\\udfff":1}', "not a JSON object"),
    "deep arrays": (b'{"type":"x","x":' + b"[" * DEEP, "bytes; the limit is 65536"),
    "deep objects": (b'{"a":' * 50_000, "bytes; the limit is 65536"),
    "deep but short": (b'{"type":"x","x":' + b"[" * 60_000, "nested deeper than 32 levels"),
    "33 levels": (b'{"type":"x","x":' + b"[" * 32 + b"]" * 32 + b"}", "deeper than 32 levels"),
    "too large": (b" " * (MAX_MESSAGE_BYTES + 1), "has 65537 bytes; the limit is 65536"),
    "numbers that grow": (b'{"type":"x","x":[' + b"1e15," * 12_000 + b"1]}", "written out"),
    "many empty lists": (b'{"x":[' + b"[]," * 21_000 + b"[]]}", "type is missing"),
    "long text": (b'{"type":"x","text":"%b"}' % (b"x" * 8193), "has 8193 bytes; the limit is 8192"),
    "wrong type": (b'{"type":5}', "type is 5; expected `str`"),
    "wrong word": (
        b'{"type":"x","urgency":"now"}',
        'urgency is "now"; it must be one of high, low',
    ),
    "negative": (b'{"type":"x","cost_usd":-1}', "cost_usd is -1; expected `float` >= 0"),
    "misnamed field": (
        b'{"type":"run_shell","cmd":"rm -rf /"}',
        'unknown field "cmd": did you mean "text"?',
    ),
    "another's name": (b'{"type":"x","agent":"other"}', "names agent 'other'"),
    "type that shows nothing": (b'{"type":"\\n\xe2\x80\x8b"}', "no visible character"),
    "same key twice": (b'{"type":"deploy","type":"read_file"}', 'the key "type" twice'),
    "same key spelt twice": (b'{"type":"deploy","\\u0074ype":"read_file"}', 'key "type" twice'),
    "same key twice inside": (
        b'{"type":"read_file","context":{"a":[{"\xc3\xa9":1, "\xc3\xa9" :1}]}}',
        'the key "\u00e9" twice',
    ),
    "same key twice behind colons": (
        b'{"type":"deploy","type":"read_file","text":"\\u003a"}',
        'the key "type" twice',
    ),
}

# Other messages of agents with a duplicate key, and what they would do if the last one counted.
TWICE: Final = {
    "permission": (b'{"action":"deploy","action":"read_file"}', "reason"),
    "claim": (b'{"id":"p1","digest":"a","digest":"b"}', "reason"),
    "telemetry": (b'{"type":"outcome","id":"p1","ok":false,"ok":true}', "error"),
}

OF_AGENTS = re.compile(r" safetyd: (ANOMALY_DETECTED|refused) agent=")


class Door(NamedTuple):
    """A subject of the daemon, and a valid request on it."""

    connect: Callable[[], Peer]
    inbox: str
    subject: bytes
    question: bytes
    is_good: Callable[[dict[str, Any]], bool]


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    daemon = start_module_daemon(FREE)
    Keyring(daemon.data_dir / "keys").add("agents", "keyed")
    daemon.restart()
    return daemon


@pytest.fixture(params=["keyless agent", "keyed agent", "control", "query"])
def door(daemon: RunningDaemon, request: pytest.FixtureRequest) -> Iterator[Door]:
    with ExitStack() as stack:
        yield way(daemon, request.param, stack)


@pytest.fixture(params=["keyless agent", "keyed agent"])
def agents_door(daemon: RunningDaemon, request: pytest.FixtureRequest) -> Iterator[Door]:
    with ExitStack() as stack:
        yield way(daemon, request.param, stack)


def way(daemon: RunningDaemon, who: str, stack: ExitStack) -> Door:
    keys, bus = daemon.data_dir / "keys", daemon.endpoint.bus

    def allowed(answer: dict[str, Any]) -> bool:
        return bool(answer["decision"] == "allow")

    def ok(answer: dict[str, Any]) -> bool:
        return bool(answer["ok"])

    seed, inbox, subject, question, good = {
        "keyless agent": (None, "_INBOX.raw", b"propose.raw", GOOD, allowed),
        "keyed agent": (
            keys / "agents" / "keyed.nk",
            "_INBOX.agent.keyed",
            b"propose.keyed",
            GOOD,
            allowed,
        ),
        "control": (
            keys / "operator.nk",
            "_INBOX.op.local",
            b"control.local",
            b'{"command":"reset","agent":"raw"}',
            ok,
        ),
        "query": (
            keys / "operator.nk",
            "_INBOX.op.local",
            b"query.local",
            b'{"command":"status"}',
            ok,
        ),
    }[who]
    return Door(
        lambda: stack.enter_context(Peer(bus, seed, inbox)),
        inbox,
        b"safety.v1." + subject,
        question,
        good,
    )


def assert_next_is_answered(door: Door, peer: Peer) -> None:
    """Send a valid request where the bad message went, and where it could do harm."""
    for asker in (peer, door.connect()):
        answer = asker.ask(door.subject.decode(), door.question)
        assert door.is_good(answer.fields), answer.fields


def assert_undisturbed(daemon: RunningDaemon, before: str) -> None:
    """Assert that it caused no warning and no lost connection.

    Findings about repeated proposals and counts of refusals are expected.
    """
    lines = daemon.log().removeprefix(before).splitlines()
    assert [line for line in lines if not OF_AGENTS.search(line)] == []


@pytest.mark.parametrize("poison", [b"\x0b", b"\x0c", NOT_UTF8], ids=["VT", "FF", "not UTF-8"])
def test_any_bytes_in_reply_and_subject_do_no_harm(
    daemon: RunningDaemon, door: Door, poison: bytes
) -> None:
    before, peer = daemon.log(), door.connect()

    peer.send(pub(door.subject, door.question, reply=b"_INBOX." + poison + b"1"))
    peer.send(pub(door.subject + poison, door.question, reply=door.inbox.encode() + b".x"))
    peer.send(pub(door.subject + poison + b"1", door.question))
    peer.settle()

    assert_next_is_answered(door, peer)
    assert_undisturbed(daemon, before)


@pytest.mark.parametrize("headers", HEADERS.values(), ids=HEADERS)
def test_any_bytes_in_headers_do_no_harm(daemon: RunningDaemon, door: Door, headers: bytes) -> None:
    before, peer = daemon.log(), door.connect()
    inbox = f"{door.inbox}.h"
    sid = peer.subscribe(inbox)

    peer.send(hpub(door.subject, headers, door.question, inbox.encode()))

    assert door.is_good(peer.heard(sid).fields)  # headers are ignored
    assert_next_is_answered(door, peer)
    assert_undisturbed(daemon, before)


@pytest.mark.parametrize(("payload", "reason"), PAYLOADS.values(), ids=PAYLOADS)
def test_a_malformed_proposal_is_blocked_with_the_reason(
    daemon: RunningDaemon, agents_door: Door, payload: bytes, reason: str
) -> None:
    before, peer = daemon.log(), agents_door.connect()

    decision = peer.ask(agents_door.subject.decode(), payload).fields

    assert (decision["decision"], decision["cause"]) == ("block", "malformed")
    assert decision["agent"] == agents_door.subject.decode().rpartition(".")[2]
    assert reason in decision["reason"]
    assert_next_is_answered(agents_door, peer)
    assert_undisturbed(daemon, before)


@pytest.mark.parametrize("who", ["control", "query", "keyless agent", "keyed agent"])
def test_malformed_commands_and_telemetry_are_refused_with_the_reason(
    daemon: RunningDaemon, who: str
) -> None:
    with ExitStack() as stack:
        door = way(daemon, who, stack)
        peer = door.connect()
        subject = door.subject.decode().replace("propose", "telemetry")

        for name, (payload, _) in PAYLOADS.items():
            answer = peer.ask(subject, payload).fields
            assert (answer["ok"], answer["code"]) == (False, "malformed"), name
            assert answer["error"], name

        assert_next_is_answered(door, peer)


@pytest.mark.parametrize("verb", ["control", "query"])
def test_a_message_with_two_commands_is_refused(daemon: RunningDaemon, verb: str) -> None:
    with ExitStack() as stack:
        door = way(daemon, verb, stack)
        twice = door.question.replace(b"{", b'{"command":"help",')

        answer = door.connect().ask(door.subject.decode(), twice).fields

        assert answer["code"] == "malformed"
        assert 'the key "command" twice' in answer["error"]


@pytest.mark.parametrize(("verb", "payload", "said_in"), [(v, *t) for v, t in TWICE.items()])
def test_a_duplicate_json_key_is_malformed_everywhere(
    agents_door: Door, verb: str, payload: bytes, said_in: str
) -> None:
    peer, subject = agents_door.connect(), agents_door.subject.decode()

    answer = peer.ask(subject.replace("propose", verb), payload).fields

    assert "malformed" in answer.values()
    assert "twice" in answer[said_in]


@pytest.mark.parametrize("name", ["a+b", "é", "x" * 65, "%00", "{}"])
def test_an_invalid_agent_name_is_blocked_with_the_rule_for_names(
    daemon: RunningDaemon, name: str
) -> None:
    with Peer(daemon.endpoint.bus) as peer:
        decision = peer.ask(f"safety.v1.propose.{name}", GOOD).fields

        assert (decision["cause"], decision["agent"]) == ("malformed", "unknown")
        assert "is not a valid agent name" in decision["reason"]
        assert peer.ask("safety.v1.propose.raw", GOOD).fields["decision"] == "allow"


def test_an_oversized_message_costs_the_sender_its_connection(door: Door) -> None:
    peer = door.connect()

    peer.send(b"PUB %b 262145\r\n" % door.subject)

    assert peer.closed()
    assert "Maximum Payload Violation" in peer.errors[0]
    assert_next_is_answered(door, door.connect())


@pytest.mark.parametrize(
    "poison",
    [
        b"\x00" * 1000,
        b"PUB\r\n",
        b"PUB a\r\n",
        b"HPUB a 5 2\r\nhi\r\n",
        b"CONNECT {\r\n",
        b"PUB " + b"x" * 5000,
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_a_protocol_violation_costs_the_sender_its_connection(door: Door, poison: bytes) -> None:
    peer = door.connect()

    peer.send(poison)

    assert peer.closed()
    assert_next_is_answered(door, door.connect())


def test_the_largest_valid_messages_are_answered(daemon: RunningDaemon) -> None:
    large = "x" * 64_000
    messages = {
        "propose.raw": {"type": "read_file", "context": {"diff": large}},
        "telemetry.raw": {"type": "outcome", "ok": True, "details": {"output": large}},
    }
    with ExitStack() as stack:
        door = way(daemon, "keyless agent", stack)
        peer = door.connect()
        sid = peer.subscribe("_INBOX.raw.large")
        for _ in range(30):
            for subject, fields in messages.items():
                payload = msgspec.json.encode(fields)
                peer.publish(f"safety.v1.{subject}", payload, "_INBOX.raw.large")

        answers = [peer.heard(sid).fields for _ in range(60)]

        assert [answer for answer in answers if not (answer.get("ok") or answer.get("seq"))] == []
        assert_next_is_answered(door, peer)


def test_the_longest_reasons_do_no_harm(daemon: RunningDaemon) -> None:
    with ExitStack() as stack:
        door = way(daemon, "control", stack)
        peer = door.connect()
        sid = peer.subscribe("_INBOX.op.local.long")
        for command in ("stop", "resume") * 5:
            fields = {"command": command, "agent": "raw", "reason": "x" * 64_000}
            peer.publish(
                "safety.v1.control.local", msgspec.json.encode(fields), f"{door.inbox}.long"
            )

        assert all(peer.heard(sid).fields["ok"] for _ in range(10))
        assert_next_is_answered(door, peer)
        assert_next_is_answered(way(daemon, "query", stack), peer)


@pytest.mark.parametrize("part", ["a=(日", "f()日", "[[ 日", "<<日 "])
def test_no_command_crashes_the_daemon(agents_door: Door, part: str) -> None:
    peer = agents_door.connect()

    command = {"type": "run_shell", "text": part * 600}
    answer = peer.ask(agents_door.subject.decode(), msgspec.json.encode(command))

    assert answer.fields["decision"] == "require_confirmation"
    assert_next_is_answered(agents_door, peer)
