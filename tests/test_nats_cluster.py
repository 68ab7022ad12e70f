import json
from pathlib import Path

from tests.nats_cluster import running_cluster

STREAM = "TRIED"


def test_cluster_replaces_a_leader_that_is_cut_off_frozen_or_dead(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        config = {"name": STREAM, "subjects": ["tried"], "num_replicas": 3, "storage": "file"}
        cluster.ask_jetstream(f"STREAM.CREATE.{STREAM}", "a", json.dumps(config).encode())
        cluster.wait_until_current(STREAM)

        lost = cluster.leader_of(STREAM)
        cluster.cut(lost)
        found = cluster.leader_of(STREAM)
        assert found != lost
        assert cluster.seen_by(lost, STREAM).get("leader") != found
        cluster.heal(lost)
        cluster.wait_until_current(STREAM)

        lost = cluster.leader_of(STREAM)
        cluster.freeze(lost)
        assert cluster.leader_of(STREAM) != lost
        cluster.thaw(lost)
        cluster.wait_until_current(STREAM)

        lost = cluster.leader_of(STREAM)
        cluster.kill(lost)
        assert cluster.leader_of(STREAM) != lost
        cluster.start(lost)
        cluster.wait_until_current(STREAM)

        lost = cluster.leader_of(STREAM)
        assert cluster.step_down(STREAM) != lost
        cluster.restart(lost)
        cluster.wait_until_current(STREAM)
