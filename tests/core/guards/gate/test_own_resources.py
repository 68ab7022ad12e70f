"""Resources of safetyd are reserved for operators, however they are spelled."""

from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.action_types import Kinds
from safetyd.core.events.request_events import Released
from safetyd.core.facts.fact_finder import FactFinder
from safetyd.core.guards.gate.command_rules import CommandRules
from safetyd.core.guards.gate.gate import Gate
from safetyd.core.guards.gate.gate_config import ConfidenceConfig, GateConfig
from safetyd.core.guards.gate.own_config import ABOVE, OWN, OwnConfig
from safetyd.core.guards.gate.own_resources import OwnResources
from safetyd.core.guards.projects import ByProject, ProjectConfig
from safetyd.core.guards.rule_layers import Setting
from safetyd.core.messages.proposal import Target
from safetyd.core.messages.verdict import ALLOWED, ASK, BLOCK, Verdict
from safetyd.core.policy import Configured, Policy
from safetyd.core.shell.command_reader import CommandReader, ShellConfig
from tests.core.approvals.queue_story import QueueStory
from tests.core.text.patch_samples import unified
from tests.story import at, propose

DATA = "/home/me/state/sd"
CONFIG = OwnConfig(
    directories=(DATA, "/srv/real"),
    files=(f"{DATA}/EMERGENCY_STOP", "/run/halt_all", "/run/halt"),
    settings=("/etc/guard/my.toml",),
    addresses=("127.0.0.1:8787", "localhost:8787"),
)
ROOTS = {"web": "/srv/web", "none": ""}
KINDS = Kinds({}, "coding")
OURS = OwnResources(CONFIG, ByProject(ROOTS, ""))
FACTS = FactFinder()
READER = CommandReader(KINDS, ShellConfig(), {})
SETTING = Setting(kinds=KINDS, mode="production", timezone=UTC, coding=True, reader=READER)
COMMANDS = CommandRules(READER, SETTING, ())


def look(type: str = "run_shell", **fields: object) -> Verdict:  # noqa: A002
    proposed = propose(0, type=type, **fields)  # type: ignore[arg-type]
    return OURS.judge(proposed, FACTS.of(proposed, KINDS.of(proposed.proposal)))


def blocks(verdict: Verdict) -> bool:
    return (verdict.decision, verdict.rule) == (BLOCK, OWN)


NAMED = {
    "safetyd": (
        "safetyd approve req_1",
        "SAFETYD_URL=x true",
        "/opt/x/safetyd-0.3/bin/y",
        'sa"fe"tyd stop',
        "safe\\tyd stop",
        "safe\\\ntyd stop",
        "safe$@tyd stop",
        "safe${x}tyd stop",
        "safe$()tyd stop",
        "safe`tyd stop",
        "\uff53\uff41fetyd stop",
        "safe\u00adtyd stop",
        "[s]afetyd stop",
        "safet[y]d stop",
        "saf???? stop",
        "safe* stop",
        "s*tyd stop",
        "saf{e,}tyd stop",
        "/usr/bin/safe*d stop",
        "sudo systemctl disable --now safetyd.service",
        "git commit -m 'describe safetyd'",
    ),
    "one of safetyd's keys": (
        "cat operator.nk",
        "base64 x/operator.token",
        "cp 'links'.json y",
        "ls /home/me/coder.nk",
        "ls *.nk",
    ),
    "safetyd's stop file": ("rm EMERGENCY_STOP", "mv emergency_'stop' x"),
    "safetyd's switch": ("AI_COMPANY_ENABLED=1 make",),
    "safetyd's bus": ("nats pub safety.v1.review.local '{}'", "pkill -9 nats-server"),
    "safetyd's data directory": (
        f"ls {DATA}",
        f"ls {DATA}/audit",
        "ls /srv//./real/audit",
        "ls ~/state/sd",
        "ls ~me/state/sd/x",
        'ls "$HOME"/state/sd',
        "ls ${HOME}/state/'sd'",
        "cat /proc/self/root/srv/real/x",
        "cat /proc/1/task/1/root/srv/real/x",
        "tar -C/srv/real -c .",
        "curl file:///srv/real/x",
    ),
    "one of safetyd's files": (
        "rm /run/halt_all",
        "cd /run && rm halt_all",
        "rm /run/halt",
        "sed -i s/a/b/ /etc/guard/my.toml",
        "ls /srv/x/../real/keys",
        "ls ~/x/../state/sd",
    ),
    "safetyd's address": (
        "curl http://127.0.0.1:8787/api",
        "curl localhost:8787",
        "curl http://0a1b.localhost:8787/agents",
    ),
}


@pytest.mark.parametrize(("whose", "text"), [(w, t) for w, ts in NAMED.items() for t in ts])
@pytest.mark.parametrize("type", ["run_shell", "type", "edit_file", "run_tests", "eval_code"])
def test_a_text_that_names_it_is_blocked_where_it_does_something(
    type: str,  # noqa: A002
    whose: str,
    text: str,
) -> None:
    verdict = look(type, text=text)

    assert blocks(verdict)
    assert f"the text names {whose}, " in verdict.reason


@pytest.mark.parametrize(
    "text",
    [
        "",
        "make test",
        "ls /home/me/state/sd2 /home/me/state/sd-old /home/me/state",
        "ls /srv/realm",
        "cat ../notes && cd ..",
        "ls ../srv/real web/srv/real ~/srv/real ${X}/srv/real",
        "ls s* sa* *d *yd",
        "systemctl stop halt",
        "cat my.toml",
        "echo safety",
        "curl localhost:87870",
        "rm x.nkb weblinks.json",
        "pkill node",
    ],
)
def test_a_text_that_names_something_else_passes(text: str) -> None:
    assert look(text=text) is ALLOWED


@pytest.mark.parametrize("type", ["web_search", "draft", "send_email", "git_commit", "model_call"])
def test_text_that_is_only_read_stored_or_sent_may_name_it(type: str) -> None:  # noqa: A002
    assert look(type, text="what does safetyd approve?") is ALLOWED


READING = ("status", "list", "show req_1 --json", "explain p1", "check a read_file --path=x/y")


@pytest.mark.parametrize("command", [*READING, "log", "doctor", "types "])
def test_a_command_that_only_reads_passes(command: str) -> None:
    assert look(text=f"safetyd {command}") is ALLOWED


@pytest.mark.parametrize(
    "text",
    [
        " safetyd status",
        "safetyd  status",
        "safetyd --help status",
        "safetyd statuses",
        "safetyd status\nsafetyd approve x",
        "safetyd status;true",
        "safetyd status|sh",
        "safetyd status>x",
        "safetyd show $X",
        "safetyd show 'x'",
        "safetyd show ~",
        "safetyd show *",
        "A=1 safetyd status",
        "./safetyd status",
        "safetyd \uff53tatus",
        "safetyd approve x",
    ],
)
def test_only_a_plain_command_counts_as_reading(text: str) -> None:
    assert blocks(look(text=text))


words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
dressings = st.lists(st.sampled_from(["'", '"', "\\", "`", "$@", "${x}", "\u200b", ""]), min_size=6)


@given(words, dressings, words, st.booleans())
def test_the_name_is_found_in_any_quotes_case_and_place(
    before: str,
    dressed: list[str],
    after: str,
    loud: bool,  # noqa: FBT001
) -> None:
    name = "".join(a + b for a, b in zip("safetyd", [*dressed[:6], ""], strict=True))

    assert blocks(look(text=f"{before} {name.upper() if loud else name} x;{after}"))


@pytest.mark.parametrize(
    "target",
    [
        Target(url="http://localhost:8787/d/x"),
        Target(label=f"{DATA}/EMERGENCY_STOP"),
        Target(name="operator.token"),
        Target(name="safetyd.service"),
        Target(app="Safetyd"),
    ],
)
def test_a_target_that_is_safetyds_own_is_blocked(target: Target) -> None:
    verdict = look("click", target=target)

    assert blocks(verdict)
    assert "target names" in verdict.reason
    assert look("screenshot", target=target) is ALLOWED


FETCHED = (
    f"file://{DATA}/keys/operator.token",
    f"FILE:{DATA}/audit",
    f"read {DATA}/keys/x.nk, please",
    "file:///mnt/operator%2Etoken",
    "http://127.0.0.1:8787/metrics",
    "http://localhost:8787",
    r"http:\\127.1:8787\x",
    "http://2130706433:8787/",
    "http://[::1]:8787/",
    "http://0:8787/",
    "http://127\u30020\u30020\u30021:8787/",
    "http://[::ffff:7f00:1]:8787/",
    "http://lvh.me:8787/",
    "http://127.0.0.1.nip.io:8787/",
)


@pytest.mark.parametrize("said", FETCHED)
@pytest.mark.parametrize("type", ["web_fetch", "read_file", "list_files"])
def test_what_is_its_own_cannot_be_fetched_by_text_or_target(type: str, said: str) -> None:  # noqa: A002
    assert blocks(look(type, text=said))
    for field in ("label", "name", "url"):
        assert blocks(look(type, target=Target(**{field: said})))


@pytest.mark.parametrize(
    "said",
    [
        "https://example.com/safetyd/safety.v1.html",
        "http://localhost:3000/",
        "http://example.com:8787/",
        "/etc/guard/my.toml",
        "http://127.0.0.1/8787",
    ],
)
def test_anything_else_may_be_fetched(said: str) -> None:
    assert look("web_fetch", text=said) is ALLOWED
    assert look("web_fetch", target=Target(url=said)) is ALLOWED
    assert look("search", text=f"{DATA}/keys") is ALLOWED


@pytest.mark.parametrize(
    "text",
    [
        "curl http://127.1:8787/",
        "curl -s 0:8787/x | jq .",
        "wget -qO- 'http://2130706433:8787/a b'",
        "nc 127.1 8787",
        "echo x > /dev/tcp/127.1/8787",
        "socat - TCP:0x7f000001:8787",
        "HOST=127.1; curl $HOST:8787",
        "python3 -c \"import urllib.request as u; u.urlopen('http://127.1:8787')\"",
        "python3 -c \"import socket; socket.create_connection(('0', 8787))\"",
        "node -e 'fetch(\"http://[::1]:8787/\")'",
    ],
)
def test_a_command_cannot_contact_its_address_in_any_spelling(text: str) -> None:
    gate = Gate(GateConfig(), ConfidenceConfig(), "coding", {}, CONFIG, COMMANDS)
    proposed = propose(0, type="run_shell", text=text)

    assert blocks(gate.check(proposed, READER.kind(proposed.proposal, KINDS.of(proposed.proposal))))


@pytest.mark.parametrize("type", ["mcp_read", "mcp_call", "navigate", "tool_browser"])
def test_no_other_tool_can_contact_its_address(type: str) -> None:  # noqa: A002
    said = 'web/fetch {"depth": 2, "url": "http://127.1:8787/x"}'
    assert blocks(look(type, text=said))
    assert look(type, text=said.replace("8787", "3000")) is ALLOWED


def test_a_label_may_mention_safetyd() -> None:
    assert look("click", target=Target(label="safetyd on the web", url="https://x/")) is ALLOWED


OWN_PATHS = (
    DATA,
    f"{DATA}/",
    f"{DATA}/keys/agents/x.nk",
    "/srv/x/../real/audit",
    "/srv/real//keys",
    "~/state/sd/keys",
    "$HOME/state/sd",
    "/run/halt",
    "x/operator.nk",
    "OPERATOR.TOKEN",
    "keys/links.json",
    "EMERGENCY_STOP",
)


@pytest.mark.parametrize("path", OWN_PATHS)
@pytest.mark.parametrize("type", ["read_file", "edit_file", "draft"])
def test_a_path_that_is_safetyds_own_is_blocked_whatever_is_done_with_it(
    type: str,  # noqa: A002
    path: str,
) -> None:
    verdict = look(type, paths=("a", path))

    assert blocks(verdict)
    assert f'"{path}"' in verdict.reason


def test_its_settings_may_be_read_and_not_changed() -> None:
    assert look("read_file", paths=("/etc/guard/my.toml",)) is ALLOWED
    assert blocks(look("edit_file", paths=("/etc/guard/my.toml",)))


def test_a_path_that_leads_to_what_is_its_own_is_blocked() -> None:
    assert blocks(look("read_file", paths=("notes",), resolved=("/srv/real/keys/x",)))
    assert look("edit_file", paths=("top",), resolved=("/srv",)).rule == ABOVE
    assert look("read_file", paths=("notes",), resolved=("/srv/other",)) is ALLOWED


def test_paths_and_words_begin_at_the_root_of_a_project() -> None:
    assert blocks(look("read_file", paths=("../real/keys",), project="web"))
    assert blocks(look(text="cat ../real/audit/1", project="web"))
    assert look("read_file", paths=("real/keys",), project="web") is ALLOWED
    assert look(text="cat real/x", project="web") is ALLOWED
    assert look(text="cat ../real/audit/1", project="none") is ALLOWED
    assert look(text="cat ../real/audit/1", project="unheard of") is ALLOWED


@pytest.mark.parametrize("project", [None, "web"])
def test_paths_and_words_begin_at_the_folder_of_a_proposal(project: str | None) -> None:
    parent, name = DATA.rsplit("/", 1)
    there: dict[str, object] = {"cwd": parent, "project": project}

    assert blocks(look("read_file", paths=(f"{name}/keys/x",), **there))
    assert blocks(
        look("edit_file", context={"diff": unified(f"a/{name}/x", f"b/{name}/x")}, **there)
    )
    assert blocks(look("send_keys", text=f"cat {name}/keys/x", **there))
    assert not blocks(look("send_keys", text="cat other/keys/x", **there))
    assert look("read_file", paths=("other/x",), **there) is ALLOWED


@pytest.mark.parametrize("path", ["/", "/home", "/home/me/", "/home/me/state", "/srv"])
def test_changing_what_holds_its_files_needs_approval(path: str) -> None:
    verdict = look("edit_file", paths=(path,))

    assert (verdict.decision, verdict.rule) == (ASK, ABOVE)
    assert look("list_files", paths=(path,)) is ALLOWED


@pytest.mark.parametrize(
    ("path", "project"),
    [
        ("/srv/real/journal", None),
        ("/srv/x/../real/keys/a", None),
        ("../real/journal", "web"),
        ("keys/operator.nk", None),
        ("x/EMERGENCY_STOP", "web"),
        ("/etc/guard/my.toml", None),
    ],
)
def test_a_patch_of_what_is_its_own_is_blocked(path: str, project: str | None) -> None:
    verdict = look("edit_file", context=patch_of(path), project=project)

    assert blocks(verdict)
    assert path in verdict.reason


def test_a_patch_of_anything_else_passes() -> None:
    assert look("edit_file", context=patch_of("src/app.py")) is ALLOWED
    assert look("edit_file", context=patch_of("src/app.py"), project="web") is ALLOWED
    assert look("git_diff", context=patch_of("/etc/guard/my.toml")) is ALLOWED


def patch_of(path: str) -> dict[str, str]:
    return {"diff": unified(path, path) if path[0] == "/" else unified(f"a/{path}", f"b/{path}")}


def gate(**projects: ProjectConfig) -> Gate:
    return Gate(GateConfig(), ConfidenceConfig(), "coding", projects, CONFIG)


def gated(type: str, lifted: str = "", **fields: object) -> Verdict:  # noqa: A002
    proposed = propose(0, type=type, **fields)  # type: ignore[arg-type]
    return gate().check_without(
        proposed, KINDS.of(proposed.proposal), frozenset({lifted}), again=False
    )


def test_other_gate_rules_are_listed_with_a_question_but_not_with_a_block() -> None:
    asked = gated("click", text="submit", paths=("/",))
    blocked = gated("run_shell", text="git push; safetyd stop")

    assert (asked.rule, asked.also) == (ABOVE, ("gate.irreversible:submit",))
    assert (blocked.rule, blocked.also) == (OWN, ())
    assert gated("edit_file", paths=("/",)).rule == ABOVE


def test_a_secret_that_names_it_is_masked_all_the_same() -> None:
    assert gated("type", text="safetyd1", target=Target(label="Password")).masks_text
    assert not gated("type", text="safetyd1", target=Target(label="Search")).masks_text


def test_a_grant_lifts_what_a_text_names_and_nothing_else() -> None:
    assert gated("run_shell", OWN, text="safetyd watch") is ALLOWED
    assert gated("run_shell", OWN, text="git push; safetyd watch").rule == "gate.shell:git_push"
    assert blocks(gated("run_shell", OWN, text="safetyd watch", paths=(DATA,)))
    assert blocks(gated("click", OWN, text="safetyd", target=Target(name="operator.nk")))


def test_an_approval_looks_again_at_where_paths_led() -> None:
    queue, guarded = QueueStory(), Policy(own=OwnConfig(directories=("/home/a",)))
    asked = queue.proposes(propose(1, paths=("a",), resolved=("/home/a/.env",)))

    queue.happens(Configured(at=at(2), t=2.0, policy=guarded, digest="", version="", why="reload"))
    queue.answers(3, asked.request_id)

    (released,) = (event for event in queue.journal if isinstance(event, Released))
    assert [verdict.rule for verdict in released.verdicts] == [OWN]
