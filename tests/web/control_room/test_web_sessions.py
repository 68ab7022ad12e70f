"""Sessions and their file; damage to it signs nobody in."""

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from safetyd.operators.contract.session_contract import SessionEndCommand, SignInQuestion
from safetyd.operators.replies import CommandRefused
from safetyd.web.control_room.entrance import Entrance
from safetyd.web.control_room.sign_in_links import LIFE_S, MAX_LINKS, SignInLinks
from safetyd.web.control_room.web_sessions import (
    BROWSER_CHARS,
    FILE,
    IDLE,
    MAX_SESSIONS,
    NOTED,
    Note,
    WebSessions,
    proves,
)
from tests.story import NOON
from tests.web.link_site import HandClock


def own(name: str) -> set[str]:
    """Everybody has one key, which is called like them."""
    return {name}


def sessions_in(directory: Path, *people: str) -> WebSessions:
    known = set(people or ("alice", "bob"))
    return WebSessions(directory, lambda name: known & {name})


def entrance(sessions: WebSessions) -> Entrance:
    return Entrance(sessions, SignInLinks(own), lambda: "http://127.0.0.1:8787", HandClock())


def test_only_its_own_browser_has_a_session(tmp_path: Path) -> None:
    sessions = sessions_in(tmp_path)
    opened = sessions.open("alice", "Firefox", NOON)
    other = sessions.open("bob", "x" * 500, NOON)

    assert sessions.find(opened.token, NOON) is opened.session
    assert sessions.find("", NOON) is None
    assert sessions.find(opened.session.token, NOON) is None
    assert proves(opened.session, opened.proof)
    assert not proves(opened.session, other.proof)
    assert not proves(opened.session, opened.token)
    assert len(other.session.browser) == BROWSER_CHARS


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\x00",
        b"{}",
        b"[null]",
        b'[{"id": "web_1"}]',
        (
            b'[{"id":"web_1","operator":"alice","token":"t","proof":"p",'
            b'"opened_at":"2026-03-01T12:00:00","used_at":"2026-03-01T12:00:00"}]'
        ),
    ],
)
def test_an_unreadable_session_file_signs_nobody_in(tmp_path: Path, content: bytes) -> None:
    opened = sessions_in(tmp_path).open("alice", "", NOON)
    (tmp_path / FILE).write_bytes(content)

    sessions = sessions_in(tmp_path)

    assert sessions.find(opened.token, NOON) is None
    assert sessions.all(NOON) == []
    assert sessions.open("alice", "", NOON).session in sessions.all(NOON)


def test_looking_writes_nothing_until_it_was_a_while(tmp_path: Path) -> None:
    sessions = sessions_in(tmp_path)
    opened = sessions.open("alice", "", NOON)
    (tmp_path / FILE).unlink()

    sessions.find(opened.token, NOON + NOTED)
    unwritten = (tmp_path / FILE).exists()
    sessions.find(opened.token, NOON + NOTED + timedelta(seconds=1))

    assert not unwritten
    assert sessions_in(tmp_path).all(NOON)[0].used_at == NOON + NOTED + timedelta(seconds=1)


def test_sessions_of_operators_without_a_key_are_dropped(tmp_path: Path) -> None:
    people = {"alice", "bob"}
    sessions = WebSessions(tmp_path, lambda name: people & {name})
    alice, bob = (sessions.open(name, "", NOON) for name in ("alice", "bob"))
    people.remove("bob")
    sessions.prune(NOON)
    people.add("bob")

    assert sessions.find(bob.token, NOON) is None
    assert sessions.find(alice.token, NOON) is not None
    assert [session.id for session in sessions_in(tmp_path).all(NOON)] == [alice.session.id]


def test_a_key_that_ends_takes_every_session_along_that_was_opened_before(tmp_path: Path) -> None:
    keys = {"old"}
    sessions = WebSessions(tmp_path, lambda _name: keys)
    before = sessions.open("alice", "", NOON)
    keys.add("new")
    during = sessions.open("alice", "", NOON)
    both = [sessions.find(opened.token, NOON) is not None for opened in (before, during)]
    keys.remove("old")
    after = sessions.open("alice", "", NOON)

    assert both == [True, True]
    assert [sessions.find(opened.token, NOON) for opened in (before, during)] == [None, None]
    assert sessions.all(NOON) == [after.session]


def test_a_key_that_was_replaced_while_nobody_served_signs_out(tmp_path: Path) -> None:
    opened = WebSessions(tmp_path, lambda _name: {"old"}).open("alice", "", NOON)

    assert WebSessions(tmp_path, lambda _name: {"old"}).find(opened.token, NOON) is not None
    assert WebSessions(tmp_path, lambda _name: {"new"}).find(opened.token, NOON) is None


def test_a_session_of_which_no_key_is_known_is_over(tmp_path: Path) -> None:
    opened = sessions_in(tmp_path).open("alice", "", NOON)
    kept = msgspec.json.decode((tmp_path / FILE).read_bytes())
    del kept[0]["keys"]  # as it was written before keys were
    (tmp_path / FILE).write_bytes(msgspec.json.encode(kept))

    assert sessions_in(tmp_path).find(opened.token, NOON) is None


def test_a_key_that_ends_takes_the_links_along_that_nobody_used() -> None:
    keys = {"old"}
    links = SignInLinks(lambda _name: keys, lambda: 0.0)
    before = links.make("alice", "")
    keys.add("new")
    during = links.make("alice", "")
    both = [links.find(token, "") for token in (before, during)]
    keys.remove("old")

    assert both == ["alice", "alice"]
    assert [links.use(token, "") for token in (before, during)] == [None, None]


def test_nothing_is_written_if_there_is_nobody_to_forget(tmp_path: Path) -> None:
    sessions = sessions_in(tmp_path)
    sessions.open("alice", "", NOON)
    (tmp_path / FILE).unlink()
    sessions.prune(NOON)

    assert not (tmp_path / FILE).exists()


def test_the_least_recently_used_session_of_an_operator_is_dropped(tmp_path: Path) -> None:
    sessions = sessions_in(tmp_path)
    first = sessions.open("alice", "", NOON)
    bob = sessions.open("bob", "", NOON)
    second = sessions.open("alice", "", NOON)
    later = NOON + timedelta(hours=1)
    sessions.find(first.token, later)
    newest = [sessions.open("alice", "", later) for _ in range(MAX_SESSIONS - 1)]

    assert sessions.find(first.token, later) is not None
    assert sessions.find(second.token, later) is None
    assert sessions.find(bob.token, later) is not None
    assert all(sessions.find(opened.token, later) for opened in newest)


def test_a_note_is_told_once_to_its_own_browser(tmp_path: Path) -> None:
    sessions = sessions_in(tmp_path)
    alice, bob = (sessions.open(name, "", NOON).session for name in ("alice", "bob"))
    sessions.note(alice, Note("done"))

    notes = [sessions.take_note(each) for each in (bob, alice, alice)]
    assert notes == [Note(), Note("done"), Note()]


def test_notes_that_nobody_takes_do_not_pile_up(tmp_path: Path) -> None:
    sessions = sessions_in(tmp_path)
    opened = sessions.open("alice", "", NOON).session
    each = [msgspec.structs.replace(opened, id=f"web_{n}") for n in range(MAX_SESSIONS + 1)]
    for session in each:
        sessions.note(session, Note("done"))

    assert (sessions.take_note(each[0]), sessions.take_note(each[1])) == (Note(), Note("done"))


def test_operators_see_who_is_signed_in_and_when_that_ends(tmp_path: Path) -> None:
    sessions = sessions_in(tmp_path)
    first = sessions.open("alice", "Firefox", NOON - timedelta(hours=1)).session
    second = sessions.open("bob", "", NOON).session
    sessions.open("bob", "", NOON - IDLE)

    rows = entrance(sessions).sessions().sessions

    assert [row.id for row in rows] == [second.id, first.id]
    assert (rows[1].operator, rows[1].browser) == ("alice", "Firefox")
    assert rows[1].ends_at == first.used_at + IDLE


@pytest.mark.parametrize(
    ("fields", "left"),
    [({"operator": "alice"}, ["bob"]), ({"all": True}, []), ({"id": "web_b"}, ["alice", "alice"])],
)
def test_sessions_are_ended_by_name_or_owner_or_all(
    tmp_path: Path, fields: dict[str, object], left: list[str]
) -> None:
    sessions = sessions_in(tmp_path)
    for name in ("alice", "alice", "bob"):
        sessions.open(name, "", NOON).session.id = f"web_{name[0]}"

    ended = entrance(sessions).end("alice", SessionEndCommand(**fields))  # type: ignore[arg-type]

    assert [session.operator for session in sessions.all(NOON)] == left
    assert len(ended.ended) == 3 - len(left)
    assert [session.operator for session in sessions_in(tmp_path).all(NOON)] == left


def test_a_session_of_another_operator_than_named_is_not_ended(tmp_path: Path) -> None:
    sessions = sessions_in(tmp_path)
    opened = sessions.open("bob", "", NOON).session

    with pytest.raises(CommandRefused, match="no session"):
        entrance(sessions).end("alice", SessionEndCommand(id=opened.id, operator="alice"))
    with pytest.raises(CommandRefused, match="name a session or an operator, or end all sessions"):
        entrance(sessions).end("alice", SessionEndCommand())
    assert sessions.all(NOON) == [opened]


def test_nobody_of_whom_all_are_ended_is_no_error(tmp_path: Path) -> None:
    command = SessionEndCommand(operator="nobody")

    assert entrance(sessions_in(tmp_path)).end("alice", command).ended == ()


def test_a_link_leads_to_where_the_control_room_is(tmp_path: Path) -> None:
    answer = entrance(sessions_in(tmp_path)).sign_in("alice", SignInQuestion())

    assert answer.url.startswith("http://127.0.0.1:8787/signin/")
    assert (answer.operator, answer.expires_s) == ("alice", LIFE_S)


def test_a_link_leads_to_the_name_of_this_start_unless_the_address_is_asked_for(
    tmp_path: Path,
) -> None:
    door = entrance(WebSessions(tmp_path, own, "a1.localhost"))
    named, numeric = (
        door.sign_in("alice", SignInQuestion(numeric=numeric)).url for numeric in (False, True)
    )

    assert named.startswith("http://a1.localhost:8787/signin/")
    assert numeric.startswith("http://127.0.0.1:8787/signin/")


def test_a_link_is_good_where_it_leads_and_nowhere_else() -> None:
    links = SignInLinks(own, lambda: 0.0)
    named, numeric = links.make("alice", "a1.localhost"), links.make("alice", "")

    assert links.find(named, "a1.localhost") == links.find(numeric, "") == "alice"
    assert links.use(named, "") is None
    assert links.use(named, "a1.localhost") is None  # who has seen it elsewhere may be anybody
    assert links.use(numeric, "a1.localhost") is None


def test_the_name_of_an_earlier_start_is_known_while_somebody_is_signed_in_under_it(
    tmp_path: Path,
) -> None:
    WebSessions(tmp_path, own, "a1.localhost")
    second = WebSessions(tmp_path, own, "b2.localhost")
    second.open("alice", "", NOON, "b2.localhost")
    third = WebSessions(tmp_path, own, "c3.localhost")
    before = [third.serves(f"{name}.localhost") for name in ("a1", "b2", "c3")]
    third.end(lambda _session: True, NOON)

    assert before == [False, True, True]
    assert not third.serves("b2.localhost")


def test_links_that_nobody_uses_do_not_pile_up() -> None:
    links = SignInLinks(own, lambda: 0.0)
    made = [links.make("alice", "") for _ in range(MAX_LINKS + 1)]

    assert links.find(made[0], "") is None
    assert all(links.find(token, "") == "alice" for token in made[1:])
