import logging
from pathlib import Path

import pytest
from msgspec.structs import replace

from safetyd.agents.emergency_stop import StopConfig
from safetyd.bus.connections import BusConfig
from safetyd.bus.keyring import KEY_BYTES, Keyring, KeyUnusable, new_pair, public_key
from safetyd.bus.telemetry_tokens import TelemetryTokens
from safetyd.core.guards.gate.own_config import OwnConfig
from safetyd.core.guards.projects import ProjectTable
from safetyd.core.guards.rules import ProjectRules, RulesConfig
from safetyd.daemon.config import Config, ConfigError, load
from safetyd.daemon.settings import Settings
from safetyd.web.web_config import WebConfig


def settings_from(tmp_path: Path, toml: str = "") -> Settings:
    path = tmp_path / "safetyd.toml"
    path.write_text(toml)
    Keyring(tmp_path / "keys").make_own()
    return Settings(load(path), path, tmp_path)


def test_stop_files_are_in_the_data_dir_unless_they_say_where(tmp_path: Path) -> None:
    config = Config(stop=StopConfig(files=("STOP", "/run/stop")))

    assert Settings(config, None, tmp_path).stop_files == (tmp_path / "STOP", Path("/run/stop"))


def test_the_file_is_known_by_a_path_that_holds_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert Settings(Config(), Path("a.toml"), tmp_path).path == tmp_path / "a.toml"


def test_seed_is_the_daemons_own(tmp_path: Path) -> None:
    settings = settings_from(tmp_path)

    assert settings.seed() == (tmp_path / "keys" / "daemon.nk").read_text().strip()


def test_seed_for_an_external_bus_is_where_the_configuration_says(tmp_path: Path) -> None:
    seed = "SU" + "A" * 56
    (tmp_path / "seed").write_text(f"{seed}\n")
    bus = BusConfig(url="nats://bus:4222", key_file=str(tmp_path / "seed"))

    assert Settings(Config(bus=bus), None, tmp_path).seed() == seed


def test_seed_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "seed").write_text("garbage\n")
    bus = BusConfig(url="nats://bus:4222", key_file=str(tmp_path / "seed"))

    with pytest.raises(KeyUnusable, match="seed does not contain an nkey"):
        Settings(Config(bus=bus), None, tmp_path).seed()


def test_users_are_the_keys_as_they_are_now(tmp_path: Path) -> None:
    settings = settings_from(tmp_path)
    before = settings.users()
    seed = settings.keyring.add("agents", "code")

    after = settings.users()

    assert before.agents == {}
    assert after.agents == {"code": public_key(seed)}
    assert after.daemons == (public_key(settings.keyring.daemon),)
    assert after.operators == {"local": public_key(settings.keyring.operator)}
    assert after.open_agents


def test_agent_has_a_key_once_the_keys_are_read(tmp_path: Path) -> None:
    settings = settings_from(tmp_path)
    settings.keyring.add("agents", "code")
    before = settings.has_key("code"), settings.keys

    settings.users()

    assert before == (False, 0)
    assert (settings.has_key("code"), settings.keys) == (True, 1)
    assert not settings.has_key("ops")


def test_telemetry_tokens_are_those_of_the_key_as_it_is_now(tmp_path: Path) -> None:
    settings = Settings(Config(), None, tmp_path)
    settings.keyring.make_own()
    key = "ab" * KEY_BYTES
    settings.users()
    assert settings.telemetry is not None
    assert settings.telemetry.agent_of(TelemetryTokens(key).token("code")) == ""

    settings.keyring.telemetry_key.write_text(key)
    settings.users()

    assert settings.telemetry.agent_of(TelemetryTokens(key).token("code")) == "code"


def test_only_shared_keys_decide_who_may_send(tmp_path: Path) -> None:
    public = new_pair()[1].decode()
    bus = BusConfig(url="nats://bus:4222", key_file="/k", daemons=(public,))
    shares, shares_not = (
        Settings(Config(bus=each), None, tmp_path) for each in (bus, replace(bus, daemons=()))
    )
    shares.keyring.make_own()
    shares.keyring.add("agents", "code")
    shares.keyring.add("observers", "wall")
    shares.users()
    shares_not.users()

    assert [shares.is_refused(name) for name in ("code", "gone")] == [False, True]
    assert not shares_not.is_refused("gone")
    names = ("local", "wall", "gone")
    assert [shares.may_send(name, command=True) for name in names] == [True, False, False]
    assert [shares.may_send(name, command=False) for name in names] == [True, True, False]
    assert shares_not.may_send("gone", command=True)


def test_what_a_persons_key_permits_is_as_the_keys_are_now(tmp_path: Path) -> None:
    settings = settings_from(tmp_path)
    settings.keyring.add("operators", "alice")
    settings.keyring.add("observers", "eve")
    settings.keyring.add("agents", "code")
    names = ("local", "alice", "eve", "code", "nobody")
    before = [settings.role_of(name) for name in names]
    settings.users()
    roles = [settings.role_of(name) for name in names]
    settings.keyring.revoke("operators", "alice")
    settings.users()

    assert before == [None] * 5
    assert roles == ["operator", "operator", "observer", None, None]
    assert settings.role_of("alice") is None


def test_reload_takes_on_the_file_as_it_is_now(tmp_path: Path) -> None:
    settings = settings_from(tmp_path)
    intake = settings.intake
    (tmp_path / "safetyd.toml").write_text('mode = "development"\n')

    settings.adopt(settings.read())

    assert settings.config.mode == "development"
    assert settings.intake is not intake


def test_reload_finds_a_file_that_was_written_since_a_start_without_one(tmp_path: Path) -> None:
    settings = Settings(load(None), None, tmp_path)
    (tmp_path / "safetyd.toml").write_text('mode = "development"\n')

    settings.adopt(settings.read())

    assert (settings.policy.mode, settings.path) == ("development", tmp_path / "safetyd.toml")


def test_wrong_file_changes_nothing(tmp_path: Path) -> None:
    settings = settings_from(tmp_path, 'mode = "development"\n')
    config, intake = settings.config, settings.intake
    (tmp_path / "safetyd.toml").write_text('mode = "off"\nnonsense = 1\n')

    with pytest.raises(ConfigError) as caught:
        settings.adopt(settings.read())

    assert len(caught.value.errors) == 2
    assert settings.config is config
    assert settings.intake is intake


def test_what_is_built_once_waits_for_the_next_start_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_from(tmp_path)
    (tmp_path / "safetyd.toml").write_text('mode = "hybrid"\n[web]\nport = 1\n')

    with caplog.at_level(logging.WARNING):
        settings.adopt(settings.read())

    assert settings.config.mode == "hybrid"
    assert settings.config.web.port == Config().web.port
    assert "[web]" in caplog.text


def test_without_a_file_reload_keeps_the_defaults(tmp_path: Path) -> None:
    settings = Settings(Config(), None, tmp_path)

    settings.adopt(settings.read())

    assert settings.config == Config()


def test_the_data_dir_is_always_sensitive(tmp_path: Path) -> None:
    there, link = tmp_path / "there", tmp_path / "link"
    there.mkdir()
    link.symlink_to(there)
    rules = RulesConfig(sensitive_paths=("/x",))
    projects = {
        "web": ProjectTable(rules=ProjectRules(sensitive_paths=())),
        "api": ProjectTable(),
    }

    policy = Settings(Config(rules=rules, projects=projects), None, link).policy

    ours = (f"{link}/**", f"{there.resolve()}/**")
    assert policy.rules.sensitive_paths == ("/x", *ours)
    assert policy.projects["web"].rules.sensitive_paths == ours
    assert policy.projects["api"].rules.sensitive_paths is None


def test_the_daemon_says_what_is_its_own(tmp_path: Path) -> None:
    there, link = tmp_path / "there", tmp_path / "link"
    there.mkdir()
    link.symlink_to(there)
    config = Config(
        stop=StopConfig(files=("EMERGENCY_STOP", "/run/halt")),
        bus=BusConfig(url="nats://me@bus:4222,tls://other:1", key_file="/etc/k.nk", prefix="a.b"),
        web=WebConfig(host="0.0.0.0", port=80, links_port=0, names=("box",)),
    )

    own = Settings(config, tmp_path / "my.toml", link).policy.own

    assert own == OwnConfig(
        directories=(str(link), str(there.resolve())),
        files=(
            f"{link}/EMERGENCY_STOP",
            f"{there.resolve()}/EMERGENCY_STOP",
            "/run/halt",
            "/etc/k.nk",
        ),
        settings=(f"{tmp_path}/my.toml",),
        addresses=(
            *("0.0.0.0:80", "box:80", "127.0.0.1:80", "localhost:80", "[::1]:80"),
            *("bus:4222", "other:1"),
        ),
        prefix="a.b",
    )


def test_the_data_dir_is_named_from_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    policy = Settings(Config(), None, Path("data")).policy

    assert f"{tmp_path}/data/**" in policy.rules.sensitive_paths


def test_files_of_projects_are_read_at_start_and_at_reload(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "web.toml"
    file.write_text("[budget]\nchain_usd = 1\n")
    settings = settings_from(tmp_path, f'[projects.web]\nfile = "{file}"\n')
    before = settings.policy.projects["web"]
    file.write_text("[budget]\nchain = 1\n")

    with caplog.at_level(logging.WARNING):
        settings.adopt(settings.read())

    assert before.from_file is not None
    assert settings.policy.projects["web"].from_file is None
    (message,) = caplog.messages
    assert f"project 'web' needs approval: {file}: " in message
    assert "budget.chain is not a setting; did you mean chain_usd?" in message


@pytest.mark.req("S3.31")
@pytest.mark.parametrize("session", [False, True])
def test_people_are_told_on_a_desktop_if_there_is_one_and_in_the_machines_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, session: bool
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/none" if session else "")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)

    policy = settings_from(tmp_path).policy

    told = policy.telling.recipients
    assert policy.timezone == "Asia/Tokyo"
    assert policy.telling.channels == ({"desktop": "desktop"} if session else {})
    assert [person.quiet.timezone for person in told] == (["Asia/Tokyo"] if session else [])


def test_a_zone_in_the_file_comes_before_the_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    table = '[notifications]\ntimezone = "Europe/Berlin"\n'
    helper = "[notifications.desktop]\nhelper = true\n"

    policy = settings_from(tmp_path, table + helper).policy

    assert [person.quiet.timezone for person in policy.telling.recipients] == ["Europe/Berlin"]
