"""The configuration and keys in force, replaced as a whole."""

import hashlib
import logging
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

from msgspec.structs import replace

from safetyd.agents.intake import BOUNDS, Intake
from safetyd.agents.pricing import price_list
from safetyd.agents.sender_accounts import MAX_CONNECTIONS, SenderAccounts
from safetyd.bus.agent_tokens import AgentTokens, TokenBook
from safetyd.bus.flood_gate import FloodGate, KeylessGate
from safetyd.bus.keyring import LOCAL_OPERATOR, ROLES, Keyring, public_key, seed_in
from safetyd.bus.question_limits import QuestionLimits
from safetyd.bus.server_config import Users
from safetyd.bus.telemetry_tokens import TelemetryTokens, read_tokens
from safetyd.client.discovery import servers
from safetyd.clock import Clock
from safetyd.core.guards.gate.own_config import OwnConfig
from safetyd.core.guards.rules import ProjectRules, RulesConfig
from safetyd.core.policy import Policy
from safetyd.daemon.config import Config, load_to_run
from safetyd.daemon.project_files import with_files
from safetyd.daemon.rota_source import rota_of
from safetyd.host import THIS_MACHINE, netloc, open_files, own_config, system_zone
from safetyd.notify.address_book import Tables, telling, warnings
from safetyd.operators.contract.question import Role

# Changes of these sections take effect only at the next start.
BUILT_ONCE: Final = ("bus", "journal", "web", "audit", "stop", "outlets")

# Names that no anonymous agent can use, besides those with a key.
RESERVED: Final = ("safetyd", "operator", LOCAL_OPERATOR)

AnyRules = TypeVar("AnyRules", RulesConfig, ProjectRules)

NAME_CHARS: Final = 32
OWN_FILES: Final = 256  # descriptors that no sender can use up
MIN_CONNECTIONS: Final = 64
log = logging.getLogger("safetyd.settings")


def policy_of(
    config: Config, data_dir: Path, path: Path | None = None, serving: Sequence[str] = ()
) -> Policy:
    """Read project files and return the policy of a daemon with this data directory.

    `serving` are the URLs at which it listens.
    """
    for warning in warnings(config.tables):
        log.warning("%s", warning)
    policy = replace(_telling(config), own=_own(config, data_dir, path, serving))
    policy = with_files(_guarding(policy))
    for name, project in policy.projects.items():
        if project.file_broken:
            log.warning(
                "every action in project %r needs approval: %s: %r",
                name,
                project.file,
                project.file_broken,
            )
    return policy


def _telling(config: Config) -> Policy:
    """Return the policy with recipients, and with the system's time zone if none is configured."""
    policy, zone = config.policy(), system_zone()
    told = telling(config.tables, zone=zone)
    return replace(policy, timezone=policy.timezone or zone, telling=told, rota=rota_of(config))


def _own(config: Config, data_dir: Path, path: Path | None, serving: Sequence[str]) -> OwnConfig:
    """Return the daemon's own files and addresses, under all names that agents may use."""
    files = [data_dir / name for name in config.stop.files]
    files += [Path(config.bus.key_file)] if config.bus.key_file else []
    return OwnConfig(
        directories=_named(data_dir),
        files=tuple(dict.fromkeys(name for file in files for name in _named(file))),
        settings=_named(path) if path else (),
        addresses=tuple(dict.fromkeys((*_addresses(config), *_listening(serving)))),
        prefix=config.bus.prefix,
    )


def _named(path: Path) -> tuple[str, ...]:
    """Return the absolute path, and its target if it contains a link."""
    given = os.path.abspath(path)  # noqa: PTH100 - agents may go by the name of a link
    return tuple(dict.fromkeys((given, str(path.resolve()))))


def _addresses(config: Config) -> Iterator[str]:
    web = config.web
    for host, port in ((web.host, web.first_port), (web.links_host, web.links_port)):
        if port:
            names = dict.fromkeys((host, *web.names, *THIS_MACHINE))
            yield from (netloc(name, port) for name in names)
    if config.bus.url:
        yield from (urlsplit(url).netloc.rpartition("@")[2] for url in servers(config.bus.url))


def _listening(urls: Sequence[str]) -> Iterator[str]:
    """Yield the addresses of URLs at which this daemon listens, under all names of the machine."""
    for url in filter(None, urls):
        parts = urlsplit(url)
        if parts.port and parts.hostname:
            names = dict.fromkeys((parts.hostname, *THIS_MACHINE))
            yield from (netloc(name, parts.port) for name in names)


def _guarding(policy: Policy) -> Policy:
    """Return the policy with the daemon's own files as sensitive paths."""
    ours = tuple(f"{path}/**" for path in policy.own.directories)
    projects = {
        name: replace(project, rules=_with_paths(project.rules, ours))
        if project.rules.sensitive_paths is not None
        else project
        for name, project in policy.projects.items()
    }
    return replace(policy, rules=_with_paths(policy.rules, ours), projects=projects)


def _with_paths(rules: AnyRules, paths: tuple[str, ...]) -> AnyRules:
    every = dict.fromkeys((*(rules.sensitive_paths or ()), *paths))
    return replace(rules, sensitive_paths=tuple(every))


class Settings:
    """The configuration and the keys that are in force."""

    def __init__(self, config: Config, path: Path | None, data_dir: Path) -> None:
        self.config = config
        self.data_dir = data_dir
        self.keyring = Keyring(data_dir / "keys")
        for_others = min(MAX_CONNECTIONS, open_files() - OWN_FILES)
        self.accounts = SenderAccounts(most_connections=max(for_others, MIN_CONNECTIONS))
        self.intake = Intake(config.rate.attempts_per_second, self.accounts.report)
        self.prices = price_list(config.prices)
        self.path = path and path.absolute()  # absolute, because other processes read it
        self._serving: tuple[str, ...] = ()  # the URLs at which this daemon listens
        self.policy = policy_of(config, data_dir, self.path)
        self.keyless_gate = KeylessGate()
        self.question_limits = QuestionLimits(
            heard=lambda: self.intake.heard,
            is_operator=lambda name: self.role_of(name) == "operator",
        )
        self.flood_gate = FloodGate(BOUNDS)  # only for agents with a key
        self.tokens = TokenBook()
        self.telemetry: TelemetryTokens | None = None  # set by `users`
        self._keyed: frozenset[str] = frozenset()
        self._operators: frozenset[str] = frozenset()
        self._observers: frozenset[str] = frozenset()
        self.relays: frozenset[str] = frozenset()
        self._reserved: frozenset[str] = frozenset()
        self._names: dict[str, str] = {}
        self.next_start: tuple[str, ...] = ()  # changed sections that need a restart

    @property
    def daemon_name(self) -> str:
        """Return the name of this daemon among several on one bus."""
        if self.config.bus.name:
            return self.config.bus.name
        machine = "".join(c if c.isalnum() and c.isascii() else "-" for c in socket.gethostname())
        place = hashlib.sha256(str(self.data_dir.resolve()).encode()).hexdigest()
        return f"{machine[:NAME_CHARS]}-{place[:4]}"

    @property
    def shares_keys(self) -> bool:
        """Return True if this daemon shares keys with others, and so knows all of them."""
        return bool(self.config.bus.daemons)

    @property
    def stop_files(self) -> tuple[Path, ...]:
        return tuple(self.data_dir / name for name in self.config.stop.files)

    @property
    def tables(self) -> Tables:
        """Return the settings of notifications."""
        return self.config.tables

    @property
    def channels(self) -> tuple[str, ...]:
        """Return the notification channels."""
        return tuple(self.policy.telling.channels)

    @property
    def keys(self) -> int:
        """Return how many agents have a key or a token."""
        return len(self._keyed)

    @property
    def keyed(self) -> frozenset[str]:
        """Return the agents whose names need a key or token."""
        return self._keyed

    def has_key(self, agent: str) -> bool:
        """Return True if anonymous agents cannot use this name.

        These are the names of safetyd, of operators, and of agents with a key or token. Case is
        ignored, because people may confuse such names.
        """
        return agent.casefold() in self._reserved

    def role_of(self, name: str) -> Role | None:
        """Return the role of an operator, or None if the name has no key."""
        if name in self._operators:
            return "operator"
        return "observer" if name in self._observers else None

    def is_refused(self, agent: str) -> bool:
        """Return True if an agent on the bus has no key here.

        The bus itself may still accept a revoked key. Without shared keys, only the bus decides.
        """
        return self.shares_keys and agent not in self._keyed

    def may_send(self, name: str, *, command: bool) -> bool:
        """Return True if an operator on the bus may send commands, or else queries."""
        role = self.role_of(name)
        return not self.shares_keys or role == "operator" or (role is not None and not command)

    def name_of(self, key: str) -> str:
        """Return the name for a public key."""
        return self._names.get(key, key)

    def seed(self) -> str:
        """Return the daemon's own nkey seed."""
        key_file = self.config.bus.key_file
        return seed_in(Path(key_file) if key_file else self.keyring.daemon)

    def users(self) -> Users:
        """Read the current keys, and finish interrupted rotations."""
        now = Clock().now().at
        with suppress(OSError):  # keys can be read even if this fails
            self.keyring.settle(now)
        agents = dict(self.keyring.public("agents"))
        operators = dict(self.keyring.public("operators"))
        observers = dict(self.keyring.public("observers"))
        tokens = AgentTokens(self.data_dir / "keys").hashes()
        relays = dict(self.keyring.public("relays"))
        self._operators, self._observers = frozenset(operators), frozenset(observers)
        self.relays = frozenset(relays)
        users = Users(
            daemons=tuple(
                dict.fromkeys((public_key(self.keyring.daemon), *self.config.bus.daemons))
            ),
            agents=agents,
            operators=operators,
            observers=observers,
            other_locals=self.keyring.other_locals(now),
            relays=relays,
            open_agents=self.config.bus.keyless,
            old_keys=self.keyring.old_keys(now),
            door_open=self.keyless_gate.open,
            shut=self.question_limits.flood_gate.shut,
            shut_agents=self.flood_gate.shut,
            tokens=tokens,
        )
        self.telemetry = read_tokens(self.keyring.telemetry_key)
        self.tokens.take_on(tokens, now)
        self._keyed = frozenset(agents) | self.tokens.agents
        named = (*self._keyed, *operators, *observers, *RESERVED)
        self._reserved = frozenset(map(str.casefold, named))
        self._names = {key: name for role in ROLES for name, key in users.trusted(role)}
        return users

    def read(self) -> Config:
        """Return the configuration in the file, without applying it.

        If there was no file at the start, use safetyd.toml in the data directory, if it exists now.
        """
        return load_to_run(self._file)

    @property
    def _file(self) -> Path | None:
        return self.path or own_config(self.data_dir)

    def adopt(self, fresh: Config) -> None:
        """Apply a configuration, except for sections that need a restart."""
        self.path = self._file
        self.next_start = self._kept_back(fresh)
        for name in self.next_start:
            log.warning("changes of [%s] take effect at the next start", name)
        kept = {name: getattr(self.config, name) for name in BUILT_ONCE}
        self.config = replace(fresh, **kept)
        self.intake = Intake(fresh.rate.attempts_per_second, self.accounts.report)
        self.prices = price_list(fresh.prices)
        self.policy = policy_of(self.config, self.data_dir, self.path, self._serving)

    def serves_at(self, *urls: str) -> None:
        """Protect the addresses at which this daemon listens: it may have chosen a free port."""
        self._serving = urls
        own = _own(self.config, self.data_dir, self.path, urls)
        self.policy = replace(self.policy, own=own)

    def _kept_back(self, fresh: Config) -> tuple[str, ...]:
        return tuple(n for n in BUILT_ONCE if getattr(fresh, n) != getattr(self.config, n))
