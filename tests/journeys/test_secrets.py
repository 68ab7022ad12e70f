"""Access to files that may hold secrets needs approval, by whatever path."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from safetyd.core.events.decision_events import Decided
from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon
from tests.core.text.patch_samples import unified
from tests.hosts.hook_process import bash, hook
from tests.journeys.asking_agent import Asker, review
from tests.journeys.audit_record import assert_verifies, events

pytestmark = pytest.mark.journey

_numbers: Final = count()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("project")


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon, project: Path) -> RunningDaemon:
    web = f'[projects.web]\nroot = "{project}"\n'
    return start_module_daemon(f'profile = "coding"\n{UNLIMITED}{web}')


@pytest.fixture
def agent(daemon: RunningDaemon) -> Iterator[Asker]:
    with Asker(daemon, f"agent{next(_numbers)}") as asker:
        yield asker


def ask(agent: Asker, type_: str, **fields: object) -> dict[str, Any]:
    return agent.propose(f"s{next(_numbers)}", **{"text": "", "type": type_, **fields})


def decisions(answers: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {what: answer["decision"] for what, answer in answers.items()}


def test_a_patch_is_judged_by_the_files_it_touches_and_their_symlinks(
    daemon: RunningDaemon, project: Path, agent: Asker
) -> None:
    (project / "settled").symlink_to(daemon.data_dir)
    edited = {
        "src/app.py": "allow",
        ".github/workflows/ci.yml": "require_confirmation",
        "/home/me/elsewhere.py": "require_confirmation",
        "settled/endpoint.json": "block",
    }

    answers = {
        path: ask(
            agent,
            "edit_file",
            paths=["src/app.py"],
            project="web",
            context={"diff": unified(f"a/{path}", f"b/{path}")},
        )
        for path in edited
    }

    assert decisions(answers) == edited
    assert_verifies(daemon)


def test_a_path_is_judged_by_its_symlink_target_too(
    daemon: RunningDaemon, project: Path, agent: Asker
) -> None:
    key = daemon.data_dir / "keys" / "operator.nk"
    (project / "notes").symlink_to(key)
    (project / "up").symlink_to(daemon.data_dir)
    (project / "twice").symlink_to("up/keys")
    (project / "secret").symlink_to("/etc/shadow")
    (project / "loop").symlink_to("loop")
    (project / "plain").write_text("")
    own = [f"{project}/notes", f"{project}/up/audit", f"{project}/twice/x"]
    own += [f"/proc/self/root{daemon.data_dir}/endpoint.json"]

    blocked = {path: ask(agent, "read_file", paths=[path]) for path in own}
    relative = ask(agent, "read_file", paths=["twice/../lock"], project="web")
    outside = ask(agent, "read_file", paths=["secret"], project="web")
    fine = [
        ask(agent, "read_file", paths=[f"{project}/{name}"]) for name in ("plain", "loop", "no")
    ]

    assert decisions(blocked) == dict.fromkeys(own, "block")
    assert all("gate.own" in answer["triggered_rules"] for answer in blocked.values())
    assert "gate.own" in relative["triggered_rules"], "`..` goes up from where a link leads"
    assert outside["decision"] == "require_confirmation"
    assert outside["triggered_rules"] == ["classify.sensitive_path"]
    assert "/etc/shadow" in outside["reason"]
    assert [answer["decision"] for answer in fine] == ["allow"] * 3
    kept = [event for event in events(daemon.data_dir) if isinstance(event, Decided)]
    resolved = {event.id: event.resolved for event in kept if event.resolved}
    assert resolved[outside["id"]] == ("/etc/shadow",)
    assert not {answer["id"] for answer in fine} & resolved.keys()
    assert_verifies(daemon)


def test_too_many_paths_to_resolve_need_approval(project: Path, agent: Asker) -> None:
    (project / "hidden").symlink_to("/etc/shadow")
    padding = [project / str(number) / "/".join("a" * 40) for number in range(40)]
    for folder in padding:
        folder.mkdir(parents=True)

    answer = ask(agent, "read_file", paths=[*map(str, padding), f"{project}/hidden"])

    assert answer["decision"] == "require_confirmation"
    assert answer["triggered_rules"] == ["classify.unfollowed_paths"]


def test_the_links_in_a_command_are_followed(
    daemon: RunningDaemon, project: Path, agent: Asker
) -> None:
    (project / "k").symlink_to(daemon.data_dir / "keys" / "operator.nk")
    (project / "notes.txt").symlink_to("/home/me/.ssh/id_ed25519")
    (project / "etc").symlink_to("/etc")
    (project / "plain.txt").write_text("")
    (project / "same").symlink_to("plain.txt")
    expected = {
        "cat k": "block",
        "python3 -c \"print(open('k').read())\"": "block",
        'node -e \'require("fs").readFileSync("k")\'': "block",
        "cp k out.txt": "block",
        "cat < notes.txt": "require_confirmation",
        "grep -r KEY notes.txt plain.txt": "require_confirmation",
        "cat etc/shadow": "require_confirmation",
        "echo x >> etc/hosts.allow": "require_confirmation",
        "cat same plain.txt etc/hostname": "allow",
        "rm k": "allow",
    }

    answers = {
        text: ask(agent, "run_shell", text=text, cwd=str(project), project="web")
        for text in expected
    }

    assert decisions(answers) == expected
    kept = [event for event in events(daemon.data_dir) if isinstance(event, Decided)]
    written = {event.id: (event.resolved, event.changed) for event in kept}
    assert written[answers["echo x >> etc/hosts.allow"]["id"]] == (("/etc/hosts.allow",),) * 2
    assert_verifies(daemon)


def test_an_approval_does_not_cover_a_link_that_leads_elsewhere_now(
    daemon: RunningDaemon, project: Path, agent: Asker
) -> None:
    link, claims = project / "goes", {"type": "deploy", "paths": ["goes"], "project": "web"}
    link.symlink_to("plain")
    answered, claimed, unmoved = (agent.propose(f"m{n}", **claims, text=f"x{n}") for n in range(3))
    review(daemon, "approve", claimed["request_id"])
    link.unlink()
    link.symlink_to("/etc/shadow")
    review(daemon, "approve", answered["request_id"])

    late, early = agent.claim(claimed, "me"), agent.claim(answered, "me")
    link.unlink()
    link.symlink_to("plain")
    review(daemon, "approve", unmoved["request_id"])

    assert (late["granted"], early["granted"]) == (False, False)
    assert "leads elsewhere" in late["reason"]
    assert agent.claim(unmoved, "me")["granted"]


def test_a_path_that_the_daemon_cannot_see_needs_approval_unless_the_hook_saw_it(
    daemon: RunningDaemon, agent: Asker, tmp_path: Path
) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / "notes").symlink_to(".ssh/id_rsa")
    (tmp_path / "plain").write_text("")
    hidden = "/dev/pts/ptmx"  # on a file system that the daemon does not look into
    read = {"tool_name": "Read", "tool_input": {"file_path": hidden}}

    blind = ask(agent, "read_file", paths=[hidden])
    saw = hook(daemon.endpoint.hook, read)
    secret = hook(daemon.endpoint.hook, bash("cat ~/notes"), home=tmp_path)
    harmless = hook(daemon.endpoint.hook, bash("cat ~/plain"), home=tmp_path)

    assert blind["decision"] == "require_confirmation"
    assert blind["triggered_rules"] == ["classify.unfollowed_paths"]
    assert (saw.passes, harmless.passes, secret.refuses) == (True, True, True)
