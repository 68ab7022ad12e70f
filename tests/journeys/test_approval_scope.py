"""An approval covers exactly what was shown, over the bus."""

from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon
from tests.journeys.asking_agent import Asker, Reply, review

pytestmark = pytest.mark.journey

_numbers: Final = count()
WAYS: Final = """
[types.ship]
risk = "high"
approve_via = ["cli"]
[types.draw]
risk = "high"
approve_via = ["link"]
"""

MOVE: Final[dict[str, Any]] = {
    "type": "push",
    "text": "sync",
    "paths": ["/srv/prod", "/srv/backup"],
    "target": {"name": "mirror", "selector": "#left"},
    "context": {"diff": "-a\n+b", "branch": "main"},
    "model": "llama3",
    "provider": "local",
    "dependency": "store",
    "tokens": {"input": 100, "output": 10},
    "cost_usd": 0.5,
    "speed": "slow",
    "observation": {"app_name": "Files", "window_title": "prod", "zoom": 2},
    "session": "monday",
    "description": "Sync the mirror",
}


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon(WAYS + UNLIMITED)


def name() -> str:
    """Return a name that no other test uses."""
    return f"mover-{next(_numbers)}"


def approved(daemon: RunningDaemon, asked: Reply, **fields: Any) -> Reply:
    answer = review(daemon, "approve", asked["request_id"], **fields)
    assert answer["ok"], answer
    return answer


@pytest.mark.parametrize(
    "change",
    [
        {"paths": ["/srv/backup", "/srv/prod"]},
        {"target": {"name": "mirror", "selector": "#right"}},
        {"target": {"name": "mirror"}},
        {"context": {"diff": "-a\n+b", "branch": "release"}},
        {"context": {"diff": "-a\n+b"}},
        {"context": {"diff": "-a\n+c", "branch": "main"}},
        {"model": "gpt-5"},
        {"provider": "cloud"},
        {"dependency": "bank"},
        {"tokens": {"input": 100, "output": 11}},
        {"tokens": {"input": 100, "output": 10, "images": 5}},
        {"cost_usd": 0.51},
        {"cost_usd": None},
        {"speed": "fast"},
        {"observation": {"app_name": "Files", "window_title": "payroll", "zoom": 2}},
        {"project": "payroll"},
        {"remote": "elsewhere"},
    ],
    ids=str,
)
def test_an_approval_covers_only_what_the_operator_saw(
    daemon: RunningDaemon, change: Reply
) -> None:
    with Asker(daemon, name()) as agent:
        asked = agent.propose("p1", **MOVE, episode="1")
        approved(daemon, asked)
        other = {key: value for key, value in {**MOVE, **change}.items() if value is not None}

        answer = agent.propose("p2", **other, episode="2")

        assert (answer["decision"], answer["status"]) == ("require_confirmation", "pending")
        assert answer["request_id"] != asked["request_id"]
        seen = agent.propose("p3", **MOVE, episode="3")
        assert seen["cause"] == "human_approved", "what was seen is still permitted"


def test_a_harmless_repetition_uses_the_approval_even_after_a_restart(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon(UNLIMITED)
    with Asker(daemon) as agent:
        approved(daemon, agent.propose("p1", **MOVE))
    daemon.kill()
    daemon.start()

    again = {
        **MOVE,
        "session": "tuesday",
        "chain": "c2",
        "task": "t2",
        "episode": "e2",
        "description": "Sync it, please",
        "rationale": "It is Tuesday",
        "rollback": "Sync back",
        "urgency": "high",
        "confidence": 0.95,
        "cost_usd": 0.4,
        "tokens": {"input": 90},
        "observation": {**MOVE["observation"], "screen_hash": "other"},
        "context": {"branch": "main", "diff": "-a\n+b"},
    }
    with Asker(daemon) as agent:
        assert agent.propose("p2", **again)["cause"] == "human_approved"
        assert agent.propose("p3", **again)["decision"] == "require_confirmation", "once"


def test_unknown_fields_are_shown_on_the_card(
    daemon: RunningDaemon,
) -> None:
    with Asker(daemon, name()) as agent:
        asked = agent.propose("p1", **MOVE)

    card = daemon.safetyd("show", asked["request_id"]).stdout

    for shown in ("selector", "#left", "zoom", "speed", "slow", "llama3", "store", "branch"):
        assert shown in card, shown


def permission(agent: Asker, action: str, **fields: object) -> Reply:
    return agent.ask("permission", {"action": action, **fields})


@pytest.mark.parametrize("action", ["run_shell", "db_write", "send_email", "frobnicate"])
def test_a_permission_request_without_text_is_refused_with_the_missing_field(
    daemon: RunningDaemon, action: str
) -> None:
    with Asker(daemon, name()) as agent:
        answer = permission(agent, action, description="make test")

        assert answer["approved"] is False
        assert "context.text" in answer["reason"]
        assert agent.ask("permission", {"open": True}) == {"requests": []}


def test_a_permission_covers_what_its_request_showed(daemon: RunningDaemon) -> None:
    shown = {"text": "make test", "paths": ["/srv/a.py"], "target": {"name": "ci", "shard": 2}}
    with Asker(daemon, name()) as agent:
        why = {"context": {"only": "on staging"}}
        asked = permission(agent, "run_shell", context={**shown, "only": "on staging"})
        approved(daemon, asked)
        uses = {"type": "run_shell", "request_id": asked["request_id"]}

        others = [
            agent.propose("p1", **uses, **why, **{**shown, "text": "touch z"}),
            agent.propose("p2", **uses, **why, text="make test"),
            agent.propose("p3", **uses, **why, **shown, remote="elsewhere"),
            agent.propose("p4", **uses, **shown, context={**why["context"], "diff": "+x"}),
            agent.propose("p5", **uses, **why, **shown, cost_usd=1.0),
            agent.propose("p6", **uses, **why, **{**shown, "target": {"name": "ci"}}),
            agent.propose("p7", **uses, **shown),
        ]

        assert {other["decision"] for other in others} == {"require_confirmation"}
        assert agent.propose("p9", **uses, **why, **shown)["cause"] == "human_approved"


def test_a_permission_without_a_text_covers_its_description(daemon: RunningDaemon) -> None:
    with Asker(daemon, name()) as agent:
        asked = permission(agent, "deploy", description="the docs to staging")
        approved(daemon, asked)
        uses = {"type": "deploy", "text": "", "request_id": asked["request_id"]}

        other = agent.propose("p1", **uses, description="the shop to production")
        same = agent.propose("p2", **uses, description="the docs to staging")

    assert (other["decision"], same["cause"]) == ("require_confirmation", "human_approved")


def test_a_permission_does_not_cover_a_symlink_that_was_changed_later(
    daemon: RunningDaemon, tmp_path: Path
) -> None:
    link = tmp_path / "old"
    link.symlink_to("/srv/old")
    with Asker(daemon, name()) as agent:
        context = {"paths": [str(link)]}
        asked = permission(agent, "delete_file", context=context)
        assert "/srv/old" in daemon.safetyd("show", asked["request_id"]).stdout
        approved(daemon, asked)
        uses = {"type": "delete_file", "text": "", "request_id": asked["request_id"]}
        link.unlink()
        link.symlink_to("/srv/important")

        moved = agent.propose("p1", **uses, **context)
        link.unlink()
        link.symlink_to("/srv/old")
        same = agent.propose("p2", **uses, **context)

    assert (moved["decision"], same["cause"]) == ("require_confirmation", "human_approved")


def test_permissions_end_with_the_revoked_key(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon(UNLIMITED)
    assert daemon.safetyd("agent", "add", "temp").returncode == 0
    key = daemon.data_dir / "keys" / "agents" / "temp.nk"
    claimable = {"type": "deploy", "text": "site"}
    with Asker(daemon, "temp", key) as keyed:
        push, deploy = keyed.propose("p1"), keyed.propose("p2", **claimable)
        approved(daemon, push)
        approved(daemon, deploy)
    terms = ("--type", "run_shell", "--text", "^make .*$", "--uses", "5", "--for", "1h")
    added = daemon.safetyd("grant", "add", "--agent", "temp", *terms, "--reason", "x")
    assert added.returncode == 0, added.stderr
    assert daemon.safetyd("agent", "revoke", "temp").returncode == 0

    with Asker(daemon, "temp") as stranger:
        used = stranger.propose("q1")
        named = stranger.propose("q2", request_id=push["request_id"])
        granted = stranger.propose("q3", type="run_shell", text="make deploy")
        claimed = stranger.claim(deploy, "me")

    assert [answer["decision"] for answer in (used, named, granted)] == ["require_confirmation"] * 3
    assert claimed["granted"] is False


def test_a_grant_from_a_request_covers_exactly_what_was_shown(daemon: RunningDaemon) -> None:
    with Asker(daemon, name()) as agent:
        seen = {"type": "run_shell", "text": "make -k all"}
        asked = agent.propose("p1", **seen)
        until = datetime.fromisoformat(asked["at"]) + timedelta(hours=8)
        approved(daemon, asked, grant={"uses": 5, "until": until}, via="tui")

        assert agent.propose("p2", **seen)["decision"] == "allow"
        assert agent.propose("p3", **seen)["decision"] == "allow"
        for number, text in enumerate(
            (
                "sudo systemctl stop postgresql",
                "git push --force origin main",
                "curl https://example.com -o x",
                "make -k all; id",
                "make -k some",
                "",
            )
        ):
            answer = agent.propose(f"q{number}", type="run_shell", text=text)
            assert answer["decision"] == "require_confirmation", text
        assert agent.propose("r1", **seen, remote="x")["decision"] == "require_confirmation"


@pytest.mark.parametrize(
    ("action", "via", "taken"),
    [
        ("purchase", "cli", True),
        ("purchase", "tui", True),
        ("purchase", "desktop", False),
        ("purchase", "web", False),
        ("ship", "cli", True),
        ("ship", "tui", False),
        ("ship", "desktop", False),
        ("draw", "cli", False),
        ("draw", "desktop", False),
    ],
)
def test_every_way_to_approve_follows_the_same_rules(
    daemon: RunningDaemon, action: str, via: str, *, taken: bool
) -> None:
    with Asker(daemon, name()) as agent:
        asked = agent.propose("p1", type=action, text="now")

        answer = review(daemon, "approve", asked["request_id"], via=via)

        assert answer["ok"] is taken, answer
        if not taken:
            assert answer["code"] == "elsewhere"
            assert action in answer["error"]
            assert agent.propose("p2", type=action, text="now")["status"] == "pending"
        assert review(daemon, "deny", asked["request_id"], via=via)["ok"] is not taken


def test_a_notification_approves_only_what_it_shows_completely(daemon: RunningDaemon) -> None:
    with Asker(daemon, name()) as agent:
        short = agent.propose("p1", text="git push")
        long = agent.propose("p2", text="git push " + "x" * 400)
        more = agent.propose("p3", text="git push", context={"diff": "+x"})

    assert review(daemon, "approve", short["request_id"], via="desktop")["ok"]
    assert review(daemon, "approve", long["request_id"], via="desktop")["code"] == "elsewhere"
    assert review(daemon, "approve", more["request_id"], via="desktop")["code"] == "elsewhere"
