"""When files are committed, and when a rollback is offered."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from safetyd.core import file_commits
from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import decode, encode
from safetyd.core.events.decision_events import Decided, Overdue, Reported
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import NameForgotten
from safetyd.core.events.history_events import (
    CommitDue,
    CommitFailed,
    Committed,
    RollbackBegun,
    RollbackCancelled,
    RollbackFailed,
    RollbackOffered,
    RolledBack,
)
from safetyd.core.file_commits import MAX_AGENTS
from safetyd.core.guards.projects import ProjectConfig, ProjectTable, in_force
from safetyd.core.guards.safe_mode import SafeModeConfig
from safetyd.core.messages.rollback import rollback_command
from safetyd.core.policy import Configured, Policy
from tests.core.approvals.queue_story import QueueStory
from tests.story import at, outcome, play, propose

SHOP: dict[str, Any] = {"root": "/srv/shop", "history": "shadow", "agents": ("code",)}


def engine(default: str = "", **fields: Any) -> Engine:
    projects = {
        "shop": ProjectConfig(**{**SHOP, **fields}),
        "api": ProjectConfig(root="/srv/shop/api", history="shadow"),
        "notes": ProjectConfig(root="/srv/notes"),
    }
    calm = SafeModeConfig(max_consecutive_errors=100)
    policy = Policy(profile="coding", projects=projects, safe_mode=calm)
    return Engine(msgspec.structs.replace(policy, default_project=default or msgspec.UNSET))


def edit(t: float, id_: str = "p1", **fields: Any) -> Event:
    said = {"type": "edit_file", "paths": ("/srv/shop/cart.py",), "text": "a", **fields}
    return propose(t, id=id_, **said)


def due(events: Sequence[Event]) -> list[CommitDue]:
    return [event for event in events if isinstance(event, CommitDue)]


def committed(t: float, cause: CommitDue, commit: str = "4f2a") -> Committed:
    return Committed(
        at=at(t), t=t, project=cause.project, commit=commit, why=cause.why, due=cause.seq
    )


@pytest.mark.req("S2.20")
@pytest.mark.req("S2.40")
def test_a_successful_action_in_a_project_is_committed() -> None:
    shop = engine()
    events = play(shop, edit(1, session="s", task="T-7", description="cart"), outcome(2))

    (found,) = due(events)
    decided = next(event for event in events if isinstance(event, Decided))
    assert (found.project, found.why, found.agent, found.id) == ("shop", "after", "code", "p1")
    assert (found.session, found.ticket, found.description) == ("s", "T-7", "cart")
    assert (found.type, found.decision, found.approver) == ("edit_file", decided.seq, "")
    assert shop.records.file_commits.due == (found,)


@pytest.mark.parametrize(
    "said",
    [
        {"type": "read_file"},
        {"project": "notes"},
        {"paths": ("/srv/notes/a",)},
        {"paths": ("/srv/shopping/a",)},
        {"project": "nobody's"},
    ],
    ids=str,
)
def test_reads_and_actions_outside_a_project_are_not_committed(said: dict[str, Any]) -> None:
    assert due(play(engine(), edit(1, **said), outcome(2))) == []


def test_files_are_committed_with_the_open_action_that_names_them() -> None:
    shop = engine()
    shell: dict[str, Any] = {"type": "run_shell", "cwd": "/srv/shop"}
    mine = edit(1, "edit", agent="code")
    events = play(
        shop,
        mine,
        propose(2, id="make", agent="night", text="make build", **shell),
        propose(3, id="test", agent="day", text="make test", **shell),
        propose(4, id="ask", agent="day", type="model_call", project="shop", paths=()),
        outcome(5, "make", agent="night"),
        outcome(6, "edit"),
        outcome(7, "test", agent="day"),
        outcome(8, "ask", agent="day"),
    )

    cart = ("/srv/shop/cart.py",)
    assert [(one.id, one.paths, one.apart, one.shared_with) for one in due(events)] == [
        ("make", (), cart, ("day",)),
        ("edit", cart, (), ()),
        ("test", (), (), ()),
    ]


def test_a_failed_action_is_committed_as_failed() -> None:
    (found,) = due(play(engine(), edit(1), outcome(2, ok=False)))

    assert (found.why, found.agent, found.id) == ("failed", "code", "p1")


def test_overdue_and_blocked_actions_are_not_committed() -> None:
    shop = engine()
    overdue = Overdue(at=at(4), t=4.0, agent="code", ids=("p2",))
    story = [edit(3, "p2", text="b"), overdue, outcome(5, "p2")]
    blocked = propose(6, id="p3", type="run_shell", text="rm -rf /", cwd="/srv/shop")

    assert due(play(shop, *story, blocked, outcome(7, "p3"))) == []


@pytest.mark.parametrize(
    ("said", "project"),
    [
        ({"paths": (), "cwd": "/srv/shop"}, "shop"),
        ({"paths": ("/srv/shop/api/a.py",)}, "api"),
        ({"paths": ("shop/a.py",), "cwd": "/srv"}, "shop"),
        ({"paths": (), "project": "shop"}, "shop"),
        ({"paths": ("/srv/shop/api/a.py",), "project": "shop"}, "shop"),
    ],
    ids=str,
)
def test_an_action_belongs_to_the_project_that_it_names_or_works_in(
    said: dict[str, Any], project: str
) -> None:
    (found,) = due(play(engine(), edit(1, **said), outcome(2)))

    assert found.project == project


def test_a_finished_or_failed_commit_is_no_longer_pending() -> None:
    shop = engine()
    history = shop.records.file_commits
    (first,) = due(play(shop, edit(1), outcome(2)))
    (second,) = due(play(shop, edit(3, "p2", text="b"), outcome(4, "p2")))
    assert history.due == (first, second)

    play(shop, committed(5, first))
    assert list(history.due) == [second]
    assert history.good("shop") == "4f2a"
    play(shop, CommitFailed(at=at(6), t=6.0, project="shop", error="no room", due=second.seq))
    assert list(history.due) == []
    assert (history.good("shop"), history.good("api")) == ("4f2a", "")


def test_a_commit_without_changes_is_no_rollback_target() -> None:
    shop = engine()
    (first,) = due(play(shop, edit(1), outcome(2)))
    play(shop, committed(3, first))
    (second,) = due(play(shop, edit(4, "p2", text="b"), outcome(5, "p2")))
    play(shop, committed(6, second, ""))

    assert shop.records.file_commits.good("shop") == "4f2a"


@pytest.mark.req("S2.41")
def test_errors_in_a_row_offer_a_rollback_once_and_again_after_one() -> None:
    shop = engine(errors_in_a_row=2)
    (first,) = due(play(shop, edit(1), outcome(2)))
    play(shop, committed(3, first))

    def fails(number: int) -> list[RollbackOffered]:
        id_ = f"f{number}"
        story = edit(10 * number, id_, text=id_), outcome(10 * number + 1, id_, ok=False)
        return [event for event in play(shop, *story) if isinstance(event, RollbackOffered)]

    assert fails(1) == []
    (offered,) = fails(2)
    assert (offered.project, offered.agent, offered.errors, offered.commit) == (
        "shop",
        "code",
        2,
        "4f2a",
    )
    assert fails(3) == []
    back = RolledBack(
        at=at(40), t=40.0, project="shop", kind="soft", commit="4f2a", kept="77ab", by="alice"
    )
    play(shop, back)
    assert fails(5) == []
    assert len(fails(6)) == 1


@pytest.mark.parametrize("keyless", [False, True])
def test_errors_of_unlisted_agents_offer_no_rollback(*, keyless: bool) -> None:
    shop = engine()
    (cause,) = due(play(shop, edit(0), outcome(1)))
    play(shop, committed(2, cause))
    said: dict[str, Any] = {"type": "edit_file", "project": "shop", "text": "x"}

    events: list[Event] = []
    for number in range(3):
        asked = propose(number, "stranger", f"s{number}", keyless=keyless, **said)
        failed = outcome(number, f"s{number}", ok=False, agent="stranger")
        events += play(shop, asked, keyless_or_not(failed, keyless=keyless))

    assert not [event for event in events if isinstance(event, RollbackOffered)]
    known = shop.records.file_commits.agents("shop")
    assert ("stranger" in known) is not keyless  # whoever has a key is paused while files go back


@pytest.mark.parametrize("before", [(), (False,), (True,)])
@pytest.mark.parametrize("keyless", [False, True])
def test_without_listed_agents_those_with_a_key_have_priority(
    before: tuple[bool, ...], *, keyless: bool
) -> None:
    shop = engine(agents=())
    (cause,) = due(play(shop, edit(0), keyless_or_not(outcome(1), keyless=True)))
    play(shop, committed(2, cause))
    for without in before:
        play(shop, edit(3, "b"), keyless_or_not(outcome(4, "b"), keyless=without))

    events: list[Event] = []
    for number in range(3):
        failed = keyless_or_not(outcome(number, f"s{number}", ok=False), keyless=keyless)
        events += play(shop, edit(number, f"s{number}"), failed)

    offered = [event.errors for event in events if isinstance(event, RollbackOffered)]
    assert offered == ([] if keyless and before == (False,) else [3])
    assert shop.records.file_commits.agents("shop") == ("code",)


def keyless_or_not(event: Reported, *, keyless: bool) -> Reported:
    return msgspec.structs.replace(event, keyless=keyless)


def test_without_a_commit_no_rollback_is_offered() -> None:
    shop = engine(errors_in_a_row=1)
    back = RolledBack(
        at=at(0), t=0.0, project="api", kind="soft", commit="4f2a", kept="77ab", by="alice"
    )
    events = play(shop, back, edit(1), outcome(2, ok=False))

    assert not [event for event in events if isinstance(event, RollbackOffered)]


def test_a_limited_number_of_agents_of_a_project_is_remembered() -> None:
    shop = engine()
    history = shop.records.file_commits
    for number in range(MAX_AGENTS + 1):
        agent = f"a{number}"
        said: dict[str, Any] = {"type": "edit_file", "project": "shop", "text": "x"}
        play(shop, propose(number, agent, "p1", **said), outcome(number + 0.5, agent=agent))

    assert len(history.agents("shop")) == MAX_AGENTS + 1  # and the one that is listed
    assert history.agents("shop")[0] == "code"
    assert "a0" not in history.agents("shop")
    assert history.agents("nobody's") == ()


def test_with_too_many_open_changes_the_oldest_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("safetyd.core.file_commits.MAX_CHANGES", 2)
    shop = engine()
    play(shop, *(edit(n, f"p{n}", text=f"{n}") for n in range(3)))

    assert due(play(shop, outcome(10, "p0"))) == []
    assert len(due(play(shop, outcome(11, "p1")))) == 1


def test_open_changes_of_a_forgotten_name_are_forgotten() -> None:
    shop = engine()
    play(shop, edit(1), NameForgotten(at=at(2), t=2.0, agent="code"))

    assert due(play(shop, outcome(3))) == []


def story_of(**fields: Any) -> QueueStory:
    projects = {"shop": ProjectConfig(**{**SHOP, **fields})}
    return QueueStory(Policy(profile="coding", projects=projects))


@pytest.mark.parametrize("before", [True, False])
def test_an_approved_action_that_cannot_be_undone_is_preceded_by_a_commit(*, before: bool) -> None:
    story = story_of(before_irreversible=before)
    said = {"project": "shop", "reversibility": "irreversible"}
    asked = story.asks(1, **said)
    story.answers(2, asked.request_id)
    story.asks(3, "p2", **said)
    history = story.engine.records.file_commits

    assert [(due.why, due.approver) for due in history.due] == [("before", "alice")] * before
    first = history.first("code", "p2")
    assert first is not None
    assert first.due == (history.due[0] if before else None)
    assert history.first("code", "p1") is None
    assert story.replayed().records.file_commits.due == history.due


def test_an_action_that_waited_for_approval_is_preceded_by_a_commit_too() -> None:
    story = story_of(before_irreversible=True)
    said = {"project": "shop", "reversibility": "irreversible"}
    asked = story.asks(1, wait=True, **said)
    story.answers(2, asked.request_id, waits=True)

    (found,) = story.engine.records.file_commits.due
    assert (found.why, found.id, found.approver) == ("before", "p1", "alice")
    assert story.replayed().records.file_commits.due == (found,)


def rolled_back(t: float, project: str, *agents: str) -> RolledBack:
    about: dict[str, Any] = {"commit": "4f2a", "kept": "77ab", "by": "alice", "reason": "r"}
    return RolledBack(at=at(t), t=t, project=project, kind="soft", agents=agents, **about)


def test_an_agent_gets_the_last_rollback_of_each_of_its_projects() -> None:
    story = story_of()
    story.happens(
        rolled_back(1, "shop", "code"),
        rolled_back(2, "api", "code", "other"),
        rolled_back(3, "shop", "code"),
        rolled_back(4, "theirs", "other"),
    )

    found = story.engine.records.file_commits.rollbacks("code")

    assert [(one.project, one.at) for one in found] == [("api", at(2)), ("shop", at(3))]
    assert story.replayed().records.file_commits.rollbacks("code") == found


@pytest.mark.parametrize(
    ("written", "waits_s"),
    [
        ({"before_irreversible": True}, 10.0),
        ({"before_irreversible": True, "commit_deadline_s": 30.0}, 30.0),
        ({"commit_deadline_s": 30.0}, 10.0),
    ],
)
def test_project_settings_survive_a_checkpoint(written: dict[str, Any], waits_s: float) -> None:
    project = in_force(ProjectTable(root="/srv/shop", **written))

    again = msgspec.msgpack.decode(msgspec.msgpack.encode(project), type=ProjectConfig)

    assert again == project
    assert again.commit_deadline_s == waits_s
    assert bool(again.before_irreversible) == ("before_irreversible" in written)


def test_changes_by_people_are_known_if_no_other_action_is_open() -> None:
    shop = engine()
    history = shop.records.file_commits
    play(shop, edit(1, paths=("cart.py", "/srv/shop/a.py"), cwd="/srv/shop"))
    first = history.first("code", "p1")
    assert first is not None
    assert first.change is not None
    assert (first.due, first.behind) == (None, False)
    assert first.change.paths == ("/srv/shop/cart.py", "/srv/shop/a.py")
    assert history.first("code", "p0") is None

    play(shop, edit(2, "p2", text="b", paths=("cart.py",), project="shop"))
    assert history.first("code", "p1") is None, "the other one may have begun"
    (failed,) = due(play(shop, outcome(3, "p1", ok=False)))
    behind = history.first("code", "p2")
    assert behind is not None
    assert behind.behind, "what the other one did is not committed yet"
    play(shop, committed(4, failed))
    alone = history.first("code", "p2")
    assert alone is not None
    assert alone.change is not None
    assert (alone.behind, alone.change.paths) == (False, ("/srv/shop/cart.py",))


def test_a_project_without_file_history_belongs_to_the_one_around_it() -> None:
    inner = ProjectConfig(root="/srv/shop/docs/", agents=("writer",))
    projects = {"shop": ProjectConfig(**SHOP), "docs": inner, "talk": ProjectConfig(agents=("x",))}
    shop = Engine(Policy(profile="coding", projects=projects))
    history = shop.records.file_commits

    (found,) = due(play(shop, edit(1, project="docs", paths=("a.md",)), outcome(2)))

    assert found.project == "shop"
    assert history.agents("shop") == ("code", "writer"), "both are paused by a rollback"
    assert history.agents("docs") == ()
    assert due(play(shop, edit(3, "p2", project="nowhere"), outcome(4, "p2"))) == []


ABOUT: dict[str, Any] = {"project": "shop", "commit": "4f2a", "by": "alice"}


def begun(t: float) -> RollbackBegun:
    return RollbackBegun(at=at(t), t=t, kind="soft", agents=("code",), **ABOUT)


def cancelled(t: float) -> RollbackCancelled:
    return RollbackCancelled(at=at(t), t=t, why="it is refused", **ABOUT)


def stopped(t: float, *, half: bool = True) -> RollbackFailed:
    return RollbackFailed(at=at(t), t=t, error="the disk is full", half=half, **ABOUT)


def done(t: float) -> RolledBack:
    return RolledBack(at=at(t), t=t, kind="soft", kept="77ab", **ABOUT)


def agent_commit(t: float) -> Committed:
    return Committed(at=at(t), t=t, project="shop", commit="99", why="after", decision=99)


def earlier_commit(t: float) -> Committed:
    return Committed(at=at(t), t=t, project="shop", commit="99", why="after")


def changing(t: float, kept: str = "77ab") -> RollbackBegun:
    return RollbackBegun(at=at(t), t=t, kind="soft", agents=("code",), kept=kept, **ABOUT)


@pytest.mark.parametrize(
    ("story", "error"),
    [
        ([begun(1)], ""),
        ([begun(1), cancelled(2)], None),
        ([begun(1), done(2)], None),
        ([begun(1), stopped(2)], "the disk is full"),
        ([begun(1), stopped(2), begun(3)], "the disk is full"),
        ([begun(1), stopped(2), begun(3), cancelled(4)], "the disk is full"),
        ([begun(1), stopped(2), begun(3), done(4)], None),
        ([begun(1), stopped(2), agent_commit(3)], None),
        ([begun(1), stopped(2), earlier_commit(3)], "the disk is full"),
        ([begun(1), changing(2)], ""),
        ([begun(1), stopped(2), begun(3), changing(4)], "the disk is full"),
        ([stopped(1, half=False)], None),
    ],
)
def test_a_rollback_is_unfinished_until_one_is_finished_or_agents_work_again(
    story: list[Event], error: str | None
) -> None:
    shop = engine()
    play(shop, *story)

    found = [one.rollback for one in shop.records.file_commits.trouble if one.rollback]

    assert [one.error for one in found] == ([] if error is None else [error])
    stopped = shop.records.file_commits.stopped_rollback("shop")
    assert (stopped is not None) == bool(error)


def test_failing_commits_need_an_operator() -> None:
    shop = engine()
    failed = CommitFailed(at=at(1), t=1.0, project="shop", error="the folder is gone")
    play(shop, failed)

    (trouble,) = shop.records.file_commits.trouble
    assert (trouble.project, trouble.commit_error) == ("shop", "the folder is gone")
    play(shop, agent_commit(2))
    assert shop.records.file_commits.trouble == ()


def test_a_failed_commit_is_retried_until_it_succeeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(file_commits, "MAX_FAILED", 2)
    shop = engine()
    history = shop.records.file_commits
    dues: list[CommitDue] = []
    for number in range(4):
        told = edit(number, f"p{number}", text=str(number)), outcome(number, f"p{number}")
        dues += due(play(shop, *told))

    for number, one in enumerate(dues):  # the first as in old journals
        about: dict[str, Any] = {"project": "shop", "error": "the disk is full"}
        play(shop, CommitFailed(at=at(7), t=7.0, due=one.seq, until_ns=number, **about))

    assert history.due == ()
    assert [(one.due.id, one.until_ns) for one in history.failed] == [("p2", 2), ("p3", 3)]
    play(shop, committed(8, dues[2]))
    assert history.trouble[0].commit_error == "the disk is full"
    play(shop, committed(9, dues[3]))
    assert (history.failed, history.trouble) == ((), ())


def test_journals_of_the_removed_branch_mode_still_load() -> None:
    policy = Policy(projects={"api": ProjectConfig(root="/srv/api", history="branch")})
    about: dict[str, Any] = {"digest": "d", "version": "0.1.0", "why": "start"}
    configured = Configured(at=at(0), t=0, seq=1, policy=policy, **about)
    rolled_back = (
        b'{"event":"rolled_back","seq":2,"at":"2026-03-01T12:00:01Z","t":1.0,"project":"api",'
        b'"kind":"hard","commit":"4f2a","kept":"77ab","by":"alice"}'
    )
    loaded = Engine(Policy())

    loaded.replay(decode(line) for line in (encode(configured), rolled_back))

    assert encode(decode(rolled_back)) == rolled_back
    assert loaded.policy.projects["api"].history == "branch"


def test_an_unfinished_hard_rollback_of_an_earlier_version_is_finished_by_a_soft_one() -> None:
    command = rollback_command("api", "4f2a", "hard")

    assert "--soft" in command
    assert "--hard" not in command


def test_action_without_project_and_folder_belongs_to_the_default_project() -> None:
    make: dict[str, Any] = {"type": "run_shell", "text": "make", "paths": ()}

    assert due(play(engine(), edit(1, **make), outcome(2))) == []
    for said, project in (({}, "shop"), ({"cwd": "/srv/shop/api"}, "api")):
        (found,) = due(play(engine("shop"), edit(1, **make, **said), outcome(2)))
        assert found.project == project
