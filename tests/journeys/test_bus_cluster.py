"""A daemon on a real NATS cluster."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from safetyd.bus.subjects import STREAM
from safetyd.journal.checkpoint_bucket import BUCKET
from tests.conftest import RunningDaemon, StartDaemon
from tests.journeys.agents import UNBOUNDED, Agent, History, until
from tests.nats_cluster import NAMES, NatsCluster, running_cluster

STREAMS = (STREAM, f"OBJ_{BUCKET}")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[NatsCluster]:
    with running_cluster(tmp_path) as cluster:
        yield cluster


def config(cluster: NatsCluster, replicas: int) -> str:
    bus = f'[bus]\nurl = "{cluster.url}"\nkey_file = "{cluster.keys.daemon}"\n'
    return f"{UNBOUNDED}{bus}[journal]\nreplicas = {replicas}\n"


def replicas(daemon: RunningDaemon, cluster: NatsCluster) -> list[dict[str, str]]:
    """Return what `safetyd doctor` says about replicas."""
    key = ("--key-file", str(cluster.operator), "--operator", "local")
    said = daemon.safetyd("doctor", "--json", "--url", cluster.url, *key)
    findings = json.loads(said.stdout)["findings"]
    return [finding for finding in findings if finding["check"] == "replicas"]


def levels(daemon: RunningDaemon, cluster: NatsCluster) -> list[str]:
    return [finding["level"] for finding in replicas(daemon, cluster)]


@pytest.mark.journey
def test_daemon_adds_replicas_and_doctor_names_what_is_missing_until_all_is_well(
    start_daemon: StartDaemon, cluster: NatsCluster
) -> None:
    daemon = start_daemon(config(cluster, 1))
    alone = replicas(daemon, cluster)
    daemon.config_path.write_text(
        daemon.config_path.read_text().replace("replicas = 1", "replicas = 3")
    )
    daemon.restart()
    for stream in STREAMS:
        cluster.wait_until_current(stream)
    good = replicas(daemon, cluster)
    down = next(name for name in NAMES if name not in map(cluster.leader_of, STREAMS))

    cluster.kill(down)
    until(lambda: levels(daemon, cluster) == ["wrong", "wrong"])
    bad = replicas(daemon, cluster)
    agent = Agent("code", cluster.url, history := History(), cluster.agent)
    with agent.at_work():
        history.until_allowed()
    cluster.start(down)

    assert [finding["level"] for finding in alone] == ["wrong", "wrong"]
    assert all("journal.replicas = 3" in finding["text"] for finding in alone)
    assert [finding["level"] for finding in good] == ["ok", "ok"]
    assert all(f"on node {down} is offline" in finding["text"] for finding in bad)
    assert {stream for stream in STREAMS for f in bad if stream in f["text"]} == set(STREAMS)
    until(lambda: levels(daemon, cluster) == ["ok", "ok"])


@pytest.mark.journey
def test_daemon_keeps_deciding_when_the_node_that_it_uses_is_lost(
    start_daemon: StartDaemon, cluster: NatsCluster
) -> None:
    daemon = start_daemon(config(cluster, 3))
    agent = Agent("code", cluster.url, history := History(), cluster.agent)

    with agent.at_work():
        history.until_allowed()
        for name in NAMES:
            cluster.kill(name)
            history.until_allowed()
            cluster.start(name)
            cluster.wait_until_current(STREAM)

    assert daemon.stop() == 0
