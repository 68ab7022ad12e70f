"""Reads the configuration from TOML. The struct of each section is next to the code that uses it.

A file with errors is rejected as a whole. Every error names the file, the key, its value and the
allowed values. Secrets are never printed.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Final, TypeVar, get_args, get_origin
from zoneinfo import available_timezones

import msgspec
import msgspec.inspect as mi

from safetyd.agents.emergency_stop import StopConfig
from safetyd.agents.pricing import PricesConfig
from safetyd.bus.connections import BusConfig
from safetyd.bus.key_entry import verify_key
from safetyd.core.action_types import Kinds, Mode, Profile, TypeConfig
from safetyd.core.approvals.request import ApprovalsConfig
from safetyd.core.decision_cache import DecisionsConfig
from safetyd.core.file_commits import share
from safetyd.core.guards.anomaly.agent_profile import AnomalyConfig
from safetyd.core.guards.anomaly.presence import HumanConfig
from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.guards.circuit import BreakerConfig
from safetyd.core.guards.classify import rule_checks
from safetyd.core.guards.cooldown import CooldownConfig
from safetyd.core.guards.gate.gate_config import ConfidenceConfig, GateConfig, problems
from safetyd.core.guards.iterations import IterationsConfig
from safetyd.core.guards.mode import ModesConfig
from safetyd.core.guards.projects import ProjectSettings, ProjectTable, in_force
from safetyd.core.guards.rate.rate import RateConfig
from safetyd.core.guards.rules import RulesConfig
from safetyd.core.guards.safe_mode import SafeModeConfig
from safetyd.core.guards.scores import ScoresConfig
from safetyd.core.policy import AgentConfig, Policy
from safetyd.core.rota import RotaConfig
from safetyd.core.sessions import SessionsConfig
from safetyd.core.shell import programs
from safetyd.core.shell.command_reader import ShellConfig
from safetyd.core.text.near_names import meant
from safetyd.daemon.disk_space import DiskConfig
from safetyd.extras.backup.history_config import HistoryConfig
from safetyd.extras.postgres.postgres_config import ExportersConfig, exporter_problems
from safetyd.extras.rota.rota_checks import rota_problems, wake_problems
from safetyd.hosts.hosts_config import HostsConfig
from safetyd.journal.audit import AuditConfig
from safetyd.journal.replication import JournalConfig
from safetyd.notify import address_book
from safetyd.notify.address_book import Tables
from safetyd.notify.channel_config import NotificationsConfig, RecipientConfig
from safetyd.web.web_config import WebConfig, web_problems

_SHOWN_CHARS: Final = 80
# An nkey seed, or the credentials in a URL.
_SECRET: Final = re.compile(r"\bS[A-Z][A-Z2-7]{56}\b|(?<=//)[^/@\s]+(?=@)")

_NOUNS: Final[dict[type[mi.Type], str]] = {
    mi.IntType: "a whole number",
    mi.FloatType: "a number",
    mi.StrType: "a text",
    mi.BoolType: "true or false",
    mi.VarTupleType: "a list",
}

Table = Mapping[str, object]
AnyStruct = TypeVar("AnyStruct", bound=msgspec.Struct)


class ConfigError(Exception):
    """The configuration is invalid. `errors` has one line for each error."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = errors


class PeopleConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings about recipients that are not only about one of them."""

    rota: RotaConfig = RotaConfig()


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings."""

    mode: Mode = "production"
    profile: Profile = "strict"
    bus: BusConfig = BusConfig()
    journal: JournalConfig = JournalConfig()
    web: WebConfig = WebConfig()
    hosts: HostsConfig = HostsConfig()
    audit: AuditConfig = AuditConfig()
    disk: DiskConfig = DiskConfig()
    history: HistoryConfig = HistoryConfig()
    stop: StopConfig = StopConfig()
    notifications: NotificationsConfig = NotificationsConfig()
    recipients: tuple[RecipientConfig, ...] = ()
    people: PeopleConfig = PeopleConfig()
    types: dict[str, TypeConfig] = {}
    rules: RulesConfig = RulesConfig()
    projects: dict[str, ProjectTable] = {}
    modes: ModesConfig = ModesConfig()
    safe_mode: SafeModeConfig = SafeModeConfig()
    gate: GateConfig = GateConfig()
    confidence: ConfidenceConfig = ConfidenceConfig()
    scores: ScoresConfig = ScoresConfig()
    iterations: IterationsConfig = IterationsConfig()
    cooldown: CooldownConfig = CooldownConfig()
    rate: RateConfig = RateConfig()
    budget: BudgetConfig = BudgetConfig()
    prices: PricesConfig = PricesConfig()
    breaker: BreakerConfig = BreakerConfig()
    anomaly: AnomalyConfig = AnomalyConfig()
    human: HumanConfig = HumanConfig()
    agents: dict[str, AgentConfig] = {}
    approvals: ApprovalsConfig = ApprovalsConfig()
    decisions: DecisionsConfig = DecisionsConfig()
    sessions: SessionsConfig = SessionsConfig()
    shell: ShellConfig = ShellConfig()
    outlets: ExportersConfig = ExportersConfig()

    @property
    def tables(self) -> Tables:
        """Return the settings of notifications."""
        return Tables(self.notifications, self.recipients)

    def policy(self) -> Policy:
        """Return the part of the policy that this file defines."""
        same = {name: getattr(self, name) for name in _SHARED}
        default = (name for name, table in self.projects.items() if table.default)
        return Policy(
            timezone=self.notifications.timezone,
            max_agents=self.bus.max_agents,
            projects={name: in_force(table) for name, table in self.projects.items()},
            shell=self.shell.dated(),
            default_project=next(default, msgspec.UNSET),
            hosts=self.hosts.rules(),
            **same,
        )


_SHARED: Final = tuple(
    name
    for name in Policy.__struct_fields__
    if name in Config.__struct_fields__ and name not in {"projects", "shell", "hosts"}
)


def load(path: Path | None) -> Config:
    """Read a configuration file. If `path` is None, return the defaults."""
    if path is None:
        return Config()
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as exc:
        raise ConfigError([f"{path}: cannot read the file: {exc.strerror}"]) from exc
    except UnicodeDecodeError as exc:
        raise ConfigError([f"{path}: not UTF-8: {exc.reason} at byte {exc.start}"]) from exc
    return parse(text, str(path))


def load_to_run(path: Path | None) -> Config:
    """Read the configuration of a daemon on this machine.

    In addition to `load`, reject channels whose packages are not installed here.
    """
    config = load(path)
    if missing := list(config.notifications.missing_packages()):
        raise ConfigError([f"{path}: [{key}] is enabled, but {why}" for key, why in missing])
    return config


def parse(text: str, name: str) -> Config:
    """Parse a configuration. `name` is the file name in errors."""
    try:
        return _parsed(text)
    except ConfigError as exc:
        raise ConfigError([f"{name}: {error}" for error in exc.errors]) from exc


def _parsed(text: str) -> Config:
    table = _toml(text)
    errors = list(_errors(table))
    if errors:
        raise ConfigError(errors)
    return msgspec.convert(table, Config)


def parse_table(text: str, kind: type[AnyStruct]) -> AnyStruct:
    """Parse TOML as a struct. Raise `ConfigError` with every wrong key and value."""
    table = _toml(text)
    if errors := list(_struct_errors(kind, table, "")):
        raise ConfigError(errors)
    return msgspec.convert(table, kind)


def parse_project(text: str) -> ProjectSettings:
    """Parse a project file. Errors do not contain its name."""
    table = _toml(text)
    errors = list(_struct_errors(ProjectSettings, table, ""))
    if not errors:
        settings = msgspec.convert(table, ProjectSettings)
        errors = [f"{key}: {why}" for key, why in rule_checks.file_problems(settings.rules)]
        errors += [f"gate.{key}: {why}" for key, why in problems(settings.gate)]
    if errors:
        raise ConfigError(errors)
    return settings


def _toml(text: str) -> Table:
    try:
        return tomllib.loads(text)
    except ValueError as exc:  # also raised for a number with thousands of digits
        raise ConfigError([f"not TOML: {exc}"]) from exc


def _errors(table: Table) -> Iterator[str]:
    """Yield wrong keys and values. In correct sections, yield contradictory settings."""
    sound: dict[str, object] = {}
    for key, value in table.items():
        wrong = list(_struct_errors(Config, {key: value}, ""))
        yield from wrong
        if not wrong:
            sound[key] = value
    yield from _meaning_errors(msgspec.convert(sound, Config))


def _project_errors(projects: Mapping[str, ProjectTable]) -> Iterator[str]:
    for name, project in projects.items():
        for key, problem in problems(project.gate):
            yield f"projects.{name}.gate.{key}: {problem}"
        if project.history == "branch":
            yield (
                f'projects.{name}.history is "branch", which is no longer supported; set '
                'history = "shadow" (see `safetyd docs history`)'
            )
        if project.committed and not project.root.startswith("/"):
            shown = _shown(project.root)
            must = "with file history it must be an absolute path"
            yield f"projects.{name}.root is {shown}; {must}"
    defaults = [name for name, project in projects.items() if project.default]
    if len(defaults) > 1:
        yield (
            f"projects.{defaults[0]}.default and projects.{defaults[1]}.default are both true; "
            "only one project can be the default"
        )
    for (name, one), (other, two) in combinations(projects.items(), 2):
        if one.committed and two.committed and share(one.root, two.root):
            yield (
                f"projects.{name}.root and projects.{other}.root overlap, and both have file "
                'history; set history = "off" in one of them'
            )


def _meaning_errors(config: Config) -> Iterator[str]:
    for key, problem in problems(config.gate):
        yield f"gate.{key}: {problem}"
    yield from _project_errors(config.projects)
    try:
        kinds = Kinds(config.types, config.profile)
    except ValueError as exc:
        yield str(exc)
    else:
        for key, problem in rule_checks.problems(config.rules, config.projects, kinds):
            yield f"{key}: {problem}"
        yield from wake_problems({one.name: one.wake_for for one in config.recipients}, kinds)
    for key, problem in programs.problems(config.shell.programs):
        yield f"shell.programs.{key}: {problem}"
    if config.shell.table:
        yield "shell.table is not a setting"
    yield from web_problems(config.web)
    yield from exporter_problems(config.outlets)
    yield from _telling_errors(config)
    yield from _bus_errors(config.bus, config.journal)


def _telling_errors(config: Config) -> Iterator[str]:
    for key, problem in address_book.problems(config.tables):
        yield f"{key} {problem}"
    yield from rota_problems(config.people.rota, list(address_book.addresses(config.tables)))
    if config.notifications.timezone not in {"", *available_timezones()}:
        shown = _shown(config.notifications.timezone)
        yield f"notifications.timezone is {shown}; it must be an IANA name such as Europe/Berlin"


def _bus_errors(bus: BusConfig, journal: JournalConfig) -> Iterator[str]:
    if bus.url and not bus.key_file:
        yield "bus.key_file is empty; with bus.url it must be the path of the daemon's nkey seed"
    if bus.key_file and not bus.url:
        shown = _shown(bus.key_file)
        why = "the embedded server has its own key"
        yield f"bus.key_file is {shown}; without bus.url it must be empty: {why}"
    if journal.replicas > 1 and not bus.url:
        why = "the embedded server is not a cluster"
        yield f"journal.replicas is {journal.replicas}; without bus.url it must be 1: {why}"
    if bus.daemons and not bus.url:
        yield "bus.daemons is for daemons that share a bus; without bus.url it must be empty"
    for public in bus.daemons:
        try:
            verify_key(public)
        except ValueError:
            hint = "copy it from keys/daemon.pub"
            yield f"bus.daemons: {_shown(public)} is not a public key (wrong checksum): {hint}"


def _struct_errors(kind: type[msgspec.Struct], value: object, path: str) -> Iterator[str]:
    if not isinstance(value, Mapping):
        switch = isinstance(value, bool) and "enabled" in kind.__struct_fields__
        hint = f": write `enabled = {_shown(value)}` under [{path}]" if switch else ""
        yield f"{path} is {_shown(value)}; it must be a table{hint}"
        return
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for key, inner in value.items():
        if key in fields:
            yield from _value_errors(fields[key].type, inner, _joined(path, key))
        else:
            yield f"{_joined(path, key)} is not a setting; {meant(key, fields)}"
    for key, field in fields.items():
        if field.required and key not in value:
            yield f"{_joined(path, key)} is missing; it must be {_words(mi.type_info(field.type))}"


def _value_errors(kind: object, value: object, path: str) -> Iterator[str]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield from _struct_errors(kind, value, path)
    elif get_origin(kind) is dict and isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _value_errors(get_args(kind)[1], inner, _joined(path, key))
    elif get_origin(kind) is tuple and isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _value_errors(get_args(kind)[0], inner, f"{path}[{number}]")
    elif get_origin(kind) is tuple and isinstance(value, Mapping) and _table_of(kind):
        yield f"{path} is one table; it must be a list of tables: write [[{path}]]"
    elif isinstance(value, Mapping) and (table := _table_of(kind)):
        yield from _struct_errors(table, value, path)
    elif not _fits(value, kind):
        yield f"{path} is {_shown(value)}; it must be {_words(mi.type_info(kind))}"


def _table_of(kind: object) -> type[msgspec.Struct] | None:
    """Return the struct of a union such as `str | PatternConfig`."""
    structs = (k for k in get_args(kind) if isinstance(k, type) and issubclass(k, msgspec.Struct))
    return next(structs, None)


def _fits(value: object, kind: object) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _words(kind: mi.Type) -> str:
    """Describe the allowed values."""
    match kind:
        case mi.Metadata(type=inner, extra_json_schema=extra):
            return str((extra or {}).get("description") or _words(inner))
        case mi.UnionType(types=types):
            return " or ".join(_words(t) for t in types if not isinstance(t, mi.NoneType))
        case mi.LiteralType(values=values):
            return f"one of {', '.join(map(str, values))}"
        case mi.EnumType(cls=cls):
            return f"one of {', '.join(str(member.value) for member in cls)}"
        case _:
            return _NOUNS.get(type(kind), "a table") + _bounds(kind)


def _bounds(kind: mi.Type) -> str:
    if isinstance(kind, mi.StrType):
        return " that is not empty" if kind.min_length else ""
    if not isinstance(kind, mi.IntType | mi.FloatType):
        return ""
    limits = (("at least", kind.ge), ("above", kind.gt), ("at most", kind.le), ("below", kind.lt))
    said = " and ".join(f"{words} {limit}" for words, limit in limits if limit is not None)
    return f", {said}" if said else ""


def _joined(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _shown(value: object) -> str:
    """Return a value as TOML, shortened."""
    text = _SECRET.sub("***", json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"
