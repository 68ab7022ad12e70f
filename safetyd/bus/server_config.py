"""The configuration of nats-server: accounts with explicit permissions.

Agents, operators, relays and anonymous agents have separate accounts. Only the exports below reach
the daemon's account. No reply subject, header or stream request of an agent can reach that account.
"""

import json
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Final, Self

import msgspec

from safetyd.bus.agent_tokens import Hashes
from safetyd.bus.keyring import LOCAL_OPERATOR, OldKey, OldKeys, Role
from safetyd.bus.question_limits import relay_sender
from safetyd.bus.subjects import (
    AGENT_VERBS,
    OBSERVER_VERBS,
    OPERATOR_VERBS,
    RELAY_VERBS,
    Subjects,
)

MAX_STORE_BYTES: Final = 1024**3
MAX_JOURNAL_BYTES: Final = 768 * 1024**2
# Limits of every server.
LIMITS: Final = (
    "max_payload: 256KB",
    "max_control_line: 1024",
    "max_connections: 4096",
    "max_subscriptions: 64",  # per connection
    'ping_interval: "5s"',
    "ping_max: 2",
)
# How long the server remembers where a reply goes. Each unanswered message uses 0.6 KB for that
# long; agents that wait for an answer propose again every minute.
RESPONSE: Final = "2m"
ASK: Final = "query"
SERVICE_VERBS: Final = ("PING", "INFO", "STATS")
# Maximum connections per account.
MAX_AGENTS: Final = 2048
MAX_PEOPLE: Final = 256
MAX_RELAYS: Final = 256
MAX_KEYLESS: Final = 128
KEYLESS: Final = "open"  # the user of anonymous agents
# Subjects to monitor and close connections.
CONNECTED: Final = "$SYS.ACCOUNT.*.CONNECT"
CONNECTIONS: Final = "$SYS.REQ.SERVER.PING.CONNZ"
ENDING: Final = "$SYS.REQ.SERVER.*.KICK"


class Users(msgspec.Struct, frozen=True, kw_only=True):
    """Public keys by name."""

    daemons: tuple[str, ...]
    agents: Mapping[str, str]
    operators: Mapping[str, str]
    observers: Mapping[str, str]
    other_locals: tuple[str, ...] = ()  # the local operators of other daemons
    open_agents: bool
    relays: Mapping[str, str] = {}
    old_keys: OldKeys = {}  # replaced keys that are still trusted
    shut: frozenset[str] = frozenset()  # operators that are shut out from queries, and relays
    shut_agents: frozenset[str] = frozenset()  # agents with a key that are shut out
    door_open: bool = True  # False: anonymous agents are shut out
    tokens: Mapping[str, Hashes] = {}  # for agents over HTTP; not used by nats-server

    def newest(self, role: Role) -> Mapping[str, str]:
        by_name: Mapping[str, str] = getattr(self, role)
        return by_name

    def trusted(self, role: Role) -> Iterator[tuple[str, str]]:
        """Yield names and trusted keys of a role, including replaced keys."""
        yield from self.newest(role).items()
        for name, old in self.old_keys.get(role, ()):
            yield name, old.public
        if role == "operators":
            yield from ((LOCAL_OPERATOR, key) for key in self.other_locals)

    def without(self, ended: Container[OldKey]) -> Self:
        """Return the users without these old keys."""
        left: OldKeys = {
            role: tuple((name, old) for name, old in keys if old not in ended)
            for role, keys in self.old_keys.items()
        }
        return msgspec.structs.replace(self, old_keys=left)


class Listen(msgspec.Struct, frozen=True, kw_only=True):
    """Where the embedded server listens and stores its files."""

    port: int
    store: str
    log_file: str
    pid_file: str
    monitor: str  # the public key of the user that monitors connections


def embedded(listen: Listen, users: Users, subjects: Subjects) -> str:
    """Return the configuration file of the embedded server."""
    return "\n".join(
        (
            "# Written by safetyd at every start and whenever keys change; edits are lost.",
            f"listen: {_quoted(f'127.0.0.1:{listen.port}')}",
            f"log_file: {_quoted(listen.log_file)}",
            "logfile_size_limit: 8MB",
            "logfile_max_num: 3",
            f"pid_file: {_quoted(listen.pid_file)}",
            *LIMITS,
            'write_deadline: "2s"',
            "jetstream {",
            f"  store_dir: {_quoted(listen.store)}",
            f"  max_file: {MAX_STORE_BYTES}",
            "  max_mem: 64MB",
            "  sync_interval: always",
            "}",
            accounts(users, subjects, listen.monitor),
        )
    )


def accounts(users: Users, subjects: Subjects, monitor: str = "", replicas: int = 1) -> str:
    """Return the accounts, which an external cluster needs too.

    The server counts every replica of a stream against the account's limit.
    """
    room = replicas * MAX_STORE_BYTES
    blocks = [_safety(users, subjects, room), _agents(users, subjects), _humans(users, subjects)]
    blocks.append(_relays(users, subjects))
    if users.open_agents:
        blocks.append(_open(subjects, door_open=users.door_open))
    lines = ["accounts {", *(_indented(block) for block in blocks), _sys(monitor), "}"]
    lines.append("system_account: SYS")
    if users.open_agents:
        lines.append(f"no_auth_user: {KEYLESS}")
    return "\n".join(lines) + "\n"


def _safety(users: Users, subjects: Subjects, room: int) -> str:
    heard_by = "[AGENTS, HUMANS, OPEN]" if users.open_agents else "[AGENTS, HUMANS]"
    exports = [
        *(_export("service", subjects.of(verb, "*"), "[AGENTS]") for verb in AGENT_VERBS),
        *(_export("service", subjects.of(verb, "*"), "[HUMANS]") for verb in OPERATOR_VERBS),
        *(_export("service", subject, "[HUMANS]") for subject in _micro()),
        *(_export("service", subjects.of(verb, "*"), "[RELAYS]") for verb in RELAY_VERBS),
        _export("stream", subjects.of("decision", ">"), "[AGENTS]"),
        _export("stream", subjects.of("event", ">"), "[HUMANS]"),
        _export("stream", subjects.of("state", ">"), heard_by),
    ]
    if users.open_agents:
        exports += [
            *(_export("service", subjects.keyless(verb, "*"), "[OPEN]") for verb in AGENT_VERBS),
            _export("stream", subjects.keyless("decision", ">"), "[OPEN]"),
        ]
    return _block(
        "SAFETY",
        "# daemons only; JetStream is enabled only here",
        f"jetstream {{ max_file: {room}, max_mem: 32MB }}",
        _users([f"{{ nkey: {key} }}" for key in users.daemons]),
        exports,
        "exports",
    )


def _agents(users: Users, subjects: Subjects) -> str:
    imports = [
        *(_import("service", subjects.of(verb, "*")) for verb in AGENT_VERBS),
        _import("stream", subjects.of("decision", ">")),
        _import("stream", subjects.of("state", ">")),
    ]
    people = [
        _user(
            key,
            publish=[subjects.of(verb, name) for verb in AGENT_VERBS],
            subscribe=[
                subjects.of("decision", name, "*"),
                subjects.of("state", "*"),
                f"_INBOX.agent.{name}.>",
            ],
        )
        for name, key in users.trusted("agents")
        if name not in users.shut_agents
    ]
    return _block(
        "AGENTS",
        "# a key each",
        f"limits {{ max_connections: {MAX_AGENTS} }}",
        _users(people),
        imports,
    )


def _humans(users: Users, subjects: Subjects) -> str:
    imports = [
        *(_import("service", subjects.of(verb, "*")) for verb in OPERATOR_VERBS),
        *(_import("service", subject) for subject in _micro()),
        _import("stream", subjects.of("event", ">")),
        _import("stream", subjects.of("state", ">")),
    ]
    hears = [subjects.of("event", ">"), subjects.of("state", ">")]
    operators = [
        _user(
            key,
            publish=[
                *(
                    subjects.of(v, name)
                    for v in OPERATOR_VERBS
                    if v != ASK or name not in users.shut
                ),
                *_micro(),
            ],
            subscribe=[*hears, f"_INBOX.op.{name}.>"],
        )
        for name, key in users.trusted("operators")
    ]
    observers = [
        _user(
            key,
            publish=[subjects.of(v, name) for v in OBSERVER_VERBS],
            subscribe=[*hears, f"_INBOX.op.{name}.>"],
        )
        for name, key in users.trusted("observers")
        if name not in users.shut
    ]
    return _block(
        "HUMANS",
        "# operators and observers",
        f"limits {{ max_connections: {MAX_PEOPLE} }}",
        _users([*operators, *observers]),
        imports,
    )


def _relays(users: Users, subjects: Subjects) -> str:
    # In the account of operators, a relay could send answers to the inbox of an operator.
    relays = [
        _user(
            key,
            publish=[subjects.of(verb, name) for verb in RELAY_VERBS],
            subscribe=[f"_INBOX.relay.{name}.>"],
        )
        for name, key in users.trusted("relays")
        if relay_sender(name) not in users.shut
    ]
    return _block(
        "RELAYS",
        "# relays for links",
        f"limits {{ max_connections: {MAX_RELAYS} }}",
        _users(relays),
        [_import("service", subjects.of(verb, "*")) for verb in RELAY_VERBS],
    )


def _open(subjects: Subjects, *, door_open: bool) -> str:
    imports = [
        *(
            _import("service", subjects.keyless(verb, "*"), subjects.of(verb, "*"))
            for verb in AGENT_VERBS
        ),
        _import("stream", subjects.keyless("decision", ">"), subjects.of("decision", ">")),
        _import("stream", subjects.of("state", ">")),
    ]
    publish = [subjects.of(verb, "*") for verb in AGENT_VERBS]
    subscribe = [subjects.of("decision", ">"), subjects.of("state", "*"), "_INBOX.>"]
    # A reload cannot remove this user, but it can limit the user to WebSocket, which is disabled.
    how = "" if door_open else 'allowed_connection_types: ["WEBSOCKET"], '
    user = f'{{ user: {KEYLESS}, password: "", {how}{_permissions(publish, subscribe)} }}'
    return _block(
        "OPEN",
        "# anonymous agents: they can read each other's messages",
        f"limits {{ max_connections: {MAX_KEYLESS}, max_subscriptions: 1000 }}",
        _users([user]),
        imports,
    )


def _sys(monitor: str) -> str:
    if not monitor:
        return "  SYS {}"
    hears = [CONNECTED, "_INBOX.daemon.>"]
    user = _user(monitor, publish=[CONNECTIONS, ENDING], subscribe=hears)
    return f"  SYS {{ users: [ {user} ] }}"


def _micro() -> Iterable[str]:
    for verb in SERVICE_VERBS:
        yield f"$SRV.{verb}"
        yield f"$SRV.{verb}.safetyd"


def _block(
    name: str, why: str, limits: str, users: str, joins: list[str], kind: str = "imports"
) -> str:
    denied = 'default_permissions { publish: { deny: [">"] }, subscribe: { deny: [">"] } }'
    lines = [f"{name} {{", f"  {why}", f"  {limits}"]
    if kind == "imports":
        lines.append(f"  {denied}")
    lines += [f"  {users}", f"  {kind}: [", *(f"    {join}" for join in joins), "  ]", "}"]
    return "\n".join(lines)


def _users(users: list[str]) -> str:
    return "users: [\n" + "\n".join(f"    {user}" for user in users) + "\n  ]"


def _user(key: str, publish: list[str], subscribe: list[str]) -> str:
    return f"{{ nkey: {key}, {_permissions(publish, subscribe)} }}"


def _permissions(publish: list[str], subscribe: list[str]) -> str:
    return (
        f"permissions: {{ publish: {{ allow: {json.dumps(publish)} }}, "
        f"subscribe: {{ allow: {json.dumps(subscribe)} }} }}"
    )


def _export(kind: str, subject: str, to: str) -> str:
    known = f", response_threshold: {_quoted(RESPONSE)}" if kind == "service" else ""
    return f"{{ {kind}: {_quoted(subject)}, accounts: {to}{known} }}"


def _import(kind: str, subject: str, to: str = "") -> str:
    rename = f", to: {_quoted(to)}" if to else ""
    return f"{{ {kind}: {{ account: SAFETY, subject: {_quoted(subject)} }}{rename} }}"


def _indented(block: str) -> str:
    return "\n".join(f"  {line}" for line in block.splitlines())


def _quoted(text: str) -> str:
    return json.dumps(text)
