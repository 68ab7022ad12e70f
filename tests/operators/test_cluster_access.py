"""Who may hand over, and what a standby answers instead of carrying out a command."""

import pytest

from safetyd.core.guards.stop import daemon_of
from safetyd.operators.cluster_access import ClusterAccess, hand_over, is_gone
from safetyd.operators.replies import CommandRefused
from tests.operators.views.test_cluster_view import facts, fields, peer


class Cluster:
    """Several daemons, as one of them sees them. `asked` are the operators that hand over."""

    def __init__(self, *peers: str, role: str = "writer") -> None:
        known = facts(
            *(peer(name, "writer" if role == "standby" else "standby") for name in peers),
            here=fields("a", role),
        )
        self.asked: list[str] = []
        self.access = ClusterAccess(lambda: known, self.asked.append, {"gone"}.__contains__)


def refusal(cluster: Cluster | None, *, force: bool = False) -> str:
    with pytest.raises(CommandRefused) as refused:
        hand_over(cluster.access if cluster else None, "alice", force=force)
    return refused.value.code


def test_a_handover_needs_a_standby_or_force() -> None:
    alone, several = Cluster(), Cluster("b")

    done = hand_over(several.access, "alice", force=False)
    forced = hand_over(alone.access, "bob", force=True)

    assert (done.writer, done.term, done.standbys) == ("a", 3, ("b",))
    assert forced.standbys == ()
    assert (several.asked, alone.asked) == (["alice"], ["bob"])
    assert (refusal(Cluster()), refusal(None, force=True)) == ("no_standby", "embedded")


def test_only_a_standby_refuses_commands_and_it_names_the_writer_if_there_is_one() -> None:
    follows, lost = Cluster("b", role="standby").access, Cluster(role="standby").access

    assert Cluster("b").access.refusal == ""
    assert "b decides" in follows.refusal
    assert "http://b:8787" in follows.refusal
    assert lost.refusal
    assert "decides. Use" not in lost.refusal


@pytest.mark.parametrize(
    ("source", "daemon"),
    [
        ("file:/var/lib/safetyd/EMERGENCY_STOP on b", "b"),
        ("file:/srv/on call/EMERGENCY_STOP on b", "b"),
        ("environment:b", "b"),
        ("file:/var/lib/safetyd/EMERGENCY_STOP", ""),
        ("environment", ""),
        ("operator", ""),
        ("anomaly", ""),
    ],
)
def test_a_stop_of_one_daemon_has_its_name(source: str, daemon: str) -> None:
    assert daemon_of(source) == daemon


def test_no_daemon_is_gone_if_there_is_only_one() -> None:
    access = Cluster("b").access

    assert is_gone(access, "gone")
    assert not any((is_gone(access, "b"), is_gone(access, ""), is_gone(None, "gone")))
