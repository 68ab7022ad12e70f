"""The sentence about several daemons names the worst problem and what to do."""

from typing import Any

from safetyd.bus.stream_replicas import StreamReplicas
from safetyd.operators.contract.cluster_contract import ClusterDaemon, DaemonState
from safetyd.operators.views.cluster_view import LAG_EVENTS, ClusterFacts, alone, cluster, summary
from tests.story import at


def fields(name: str, role: str, **more: Any) -> dict[str, Any]:
    said = {"version": "1", "machine": f"m-{name}", "web": f"http://{name}:8787", "term": 3}
    return {"name": name, "role": role, **said, "seq": 9, "stream_seq": 4, **more}


def peer(name: str, role: str = "standby", **more: Any) -> ClusterDaemon:
    return ClusterDaemon(**fields(name, role, **more), heard_s=0.5)


def facts(*peers: ClusterDaemon, here: dict[str, Any] | None = None, **more: Any) -> ClusterFacts:
    known = {"writer": "a", "since": at(0), "term": 3, "takeovers": 0, "twin": False}
    own = DaemonState(**(here or fields("a", "writer")))
    return ClusterFacts(at=at(1), here=own, peers=peers, **{**known, **more})


def test_all_is_well_with_a_writer_and_a_standby() -> None:
    answer = cluster(facts(peer("c"), peer("b")))

    assert (answer.state, answer.problems, answer.fix) == ("good", (), "")
    assert [each.name for each in answer.daemons] == ["a", "b", "c"]
    assert (answer.writer, answer.deciding, answer.answered_by) == ("a", True, "a")


def test_without_a_writer_the_answer_is_bad_and_names_who_takes_over() -> None:
    standby = fields("b", "standby")
    able = cluster(facts(here=standby))
    unable = cluster(facts(here={**standby, "problem": "an unknown event"}))

    assert (able.state, able.deciding, able.writer) == ("bad", False, "a")
    assert "b" in able.fix
    assert "b" not in unable.fix.split()
    assert [each.state for each in unable.problems] == ["bad", "warn"]


def test_a_writer_of_an_older_term_does_not_decide() -> None:
    found = facts(peer("a", "writer", term=2), here=fields("b", "standby"))

    assert not cluster(found).deciding


def test_a_writer_that_cannot_write_is_the_worst_problem() -> None:
    stuck = fields("a", "writer", problem="the journal's server does not answer")
    answer = cluster(facts(peer("b", version="2"), here=stuck))

    assert answer.state == "bad"
    assert "the journal's server does not answer" in answer.says
    assert len(answer.problems) == 2


def test_each_problem_is_named_with_its_fix() -> None:
    stream = StreamReplicas(name="SAFETY_JOURNAL", replicas=1, wanted=3, leader="n1", peers=())
    answer = cluster(
        facts(
            peer("b", lag=LAG_EVENTS + 1, version="2"),
            peer("c", problem="an unknown event"),
            takeovers=3,
            twin=True,
            streams=(stream,),
        )
    )
    said = " ".join(each.says for each in answer.problems)

    assert answer.state == "warn"
    assert len(answer.problems) == 6
    assert all(each.fix for each in answer.problems)
    for fact in (
        "1001 events",
        "c cannot take over",
        "1, 2",
        "named a",
        "1 of 3 replicas",
        "3 takeovers",
    ):
        assert fact in said


def test_a_writer_without_a_standby_is_a_problem() -> None:
    answer = cluster(facts())

    assert (answer.state, answer.deciding) == ("warn", True)
    assert answer.fix


def test_one_daemon_with_an_embedded_bus_is_well() -> None:
    answer = alone(at(1))

    assert (answer.state, answer.embedded, answer.daemons) == ("good", True, ())
    assert answer.fix


def test_the_address_of_a_control_room_is_shown_only_where_it_leads_there() -> None:
    here = fields("b", "standby", machine="m-b")
    local = peer("a", "writer", web="http://127.0.0.1:8787")
    near = facts(local, here={**here, "machine": "m-a"})
    far = facts(local, here=here)
    named = facts(peer("a", "writer"), here=here)

    assert [summary(each).writer_web for each in (near, far, named)] == [
        "http://127.0.0.1:8787",
        "",
        "http://a:8787",
    ]
    assert summary(far).writer_machine == "m-a"
    assert summary(far).standbys == ("b",)
    assert summary(facts(here=here)).writer_web == ""
