import pytest

from safetyd.bus.bus_nodes import BusNode
from safetyd.bus.stream_replicas import ReplicaPeer, StreamReplicas
from safetyd.console.doctor.replica_checks import replicas
from safetyd.operators.contract.cluster_contract import ReplicasAnswer

JOURNAL = "SAFETY_JOURNAL"


def peer(name: str, *, current: bool = True, offline: bool = False, lag: int = 0) -> ReplicaPeer:
    return ReplicaPeer(name=name, current=current, offline=offline, lag=lag, silent_s=0.0)


def found(
    nodes: int, *peers: ReplicaPeer, wanted: int = 1, leader: str = "a"
) -> list[tuple[str, str]]:
    """Return what is found about a stream that one node leads and others follow."""
    stream = StreamReplicas(
        name=JOURNAL,
        replicas=bool(leader) + len(peers),
        wanted=wanted,
        leader=leader,
        peers=peers,
    )
    names = "abcde"[:nodes]
    answer = ReplicasAnswer(
        ok=True,
        nodes=tuple(BusNode(name=name, version="2.15.1") for name in names),
        streams=(stream,),
    )
    return [(finding.level, finding.text) for finding in replicas(answer)]


@pytest.mark.parametrize(
    ("said", "level", "word"),
    [
        (found(1), "ok", "1 replica"),
        (found(3, peer("b"), peer("c"), wanted=3), "ok", "3 replicas"),
        (found(3), "wrong", "journal.replicas = 3"),
        (found(3, wanted=3), "wrong", "Restart the daemon"),
        (found(5, peer("b"), peer("c"), wanted=3), "note", "5 nodes"),
        (found(3, leader=""), "wrong", "no node leads"),
        (found(2, peer("b"), peer("c", offline=True), wanted=3), "wrong", "on node c is offline"),
        (found(3, peer("b", current=False, lag=7), peer("c")), "wrong", "behind by 7 messages"),
    ],
)
def test_stream_is_judged_by_its_replicas_the_setting_and_the_nodes(
    said: list[tuple[str, str]], level: str, word: str
) -> None:
    [(judged, text)] = said

    assert judged == level
    assert JOURNAL in text
    assert word in text


def test_a_bus_of_the_daemon_itself_has_nothing_to_find() -> None:
    assert list(replicas(ReplicasAnswer(ok=True, nodes=(), streams=()))) == []
