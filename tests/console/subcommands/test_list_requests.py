"""Requests at the terminal, against a real daemon."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from safetyd.cards.request_details import RequestEnded, RequestRow
from safetyd.console.render.request_tables import what
from tests.conftest import RunningDaemon, StartDaemon
from tests.console.console_rig import Said, at_a_terminal, told
from tests.filled import filled
from tests.journeys.asking_agent import Asker


def denied_words(request: str) -> str:
    stays = "denied; the same action stays denied for one day"
    return f"{request}: {stays}. To deny it only this time, run `safetyd deny {request} --once`"


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon()


def asked(daemon: RunningDaemon, text: str, agent: str = "code", kind: str = "push") -> str:
    """Let an agent ask a person, and return the request's id."""
    said = told(daemon, "check", agent, kind, "--text", text, "--json")
    assert said.returncode == 3, said
    return str(json.loads(said.stdout)["request_id"])


def words(said: Said) -> str:
    return " ".join(said.stdout.split())


def test_a_card_says_where_a_command_runs(daemon):
    with Asker(daemon, "placed") as agent:
        named = agent.propose("p1", cwd="/srv/web")["request_id"]
    unnamed = asked(daemon, "systemctl restart nginx", "unplaced", "run_shell")

    assert " folder /srv/web " in words(told(daemon, "show", named))
    assert " folder not given " in words(told(daemon, "show", unnamed))


def test_the_path_of_an_edit_comes_before_its_text(daemon):
    told(daemon, "check", "editor", "edit_file", "--path", "/srv/.env", "--text", "TOKEN=x")

    assert 'edit_file /srv/.env "TOKEN=x"' in told(daemon, "list", "--agent", "editor").stdout


@pytest.mark.req("S3.50")
def test_what_waits_is_listed_with_urgency_time_left_agent_and_what(daemon):
    request = asked(daemon, "git push origin list", "lister")

    said = told(daemon, "list", "--agent", "lister")

    line = said.stdout.splitlines()[1].split(maxsplit=5)
    assert line == [request, "normal", "24", "h", "lister", 'push "git push origin list"']
    assert "no channel is configured" in said.stdout


def test_requests_of_one_agent_and_one_unknown_type_are_one_group(daemon):
    first, second = (asked(daemon, text, "odd", "frobnicate") for text in ("a", "b"))

    grouped = told(daemon, "list", "--agent", "odd").stdout
    each = told(daemon, "list", "--agent", "odd", "--all").stdout
    listed = json.loads(told(daemon, "list", "--agent", "odd", "--json").stdout)["requests"]

    assert f"{first} +1 " in grouped
    assert second not in grouped
    assert first in each
    assert second in each
    assert [row["id"] for row in listed] == [first, second]


def test_all_of_one_agent_is_denied_after_showing_how_much(daemon):
    mine = [asked(daemon, f"git push origin x{number}", "looper") for number in range(3)]
    other = asked(daemon, "git push origin other", "neighbour")

    unsure = told(daemon, "deny", "--agent", "looper")
    said = told(daemon, "deny", "--agent", "looper", "--yes", "--reason", "enough")

    assert (unsure.returncode, unsure.stdout) == (1, "looper has 3 pending requests: 3 x push\n")
    assert "--yes" in unsure.stderr
    denied = [denied_words(request) for request in mine]
    assert (said.returncode, said.stdout.splitlines()[1:]) == (0, denied)
    assert told(daemon, "deny", "--agent", "looper").stdout == ("looper has no pending requests.\n")
    left = json.loads(told(daemon, "list", "--json").stdout)["requests"]
    assert other in {row["id"] for row in left}


def test_more_requests_than_one_command_answers_are_all_denied(daemon, monkeypatch):
    monkeypatch.setattr("safetyd.console.subcommands.answer_requests.AT_ONCE", 2)
    mine = [asked(daemon, f"git push origin y{number}", "flooder") for number in range(3)]

    said = told(daemon, "deny", "--agent", "flooder", "--yes", "--json")

    assert [row["id"] for row in json.loads(said.stdout)["results"]] == mine
    assert said.stderr == "flooder has 3 pending requests: 3 x push\n"


@pytest.mark.parametrize(("typed", "left"), [("y\n", 0), ("\n", 1)])
def test_at_a_terminal_a_denial_of_all_is_confirmed_and_no_is_the_default(daemon, typed, left):
    asked(daemon, f"git push origin {left}", "confirmed")
    place = str(daemon.data_dir)

    said = at_a_terminal("deny", "--agent", "confirmed", typed=typed, SAFETYD_DATA_DIR=place)

    assert "confirmed has 1 pending request: 1 x push\nDeny 1 request? [y/N]" in said
    rows = json.loads(told(daemon, "list", "--agent", "confirmed", "--json").stdout)["requests"]
    assert len(rows) == left


@pytest.mark.parametrize("arguments", [(), ("req_0000", "--agent", "a")])
def test_denial_names_requests_or_an_agent(daemon, arguments):
    said = told(daemon, "deny", *arguments)

    assert said.returncode == 2
    assert "--agent" in said.stderr


def test_words_of_an_answer_can_be_a_message_or_a_reason(daemon):
    denied, approved = asked(daemon, "git push m", "m"), asked(daemon, "git push n", "m")

    told(daemon, "deny", denied, "--message", "not now")
    told(daemon, "approve", approved, "--reason", "go on")
    both = told(daemon, "deny", denied, "--message", "a", "--reason", "b")

    assert "not now" in told(daemon, "show", denied).stdout
    assert "go on" in told(daemon, "show", approved).stdout
    assert both.returncode == 2


def test_status_names_the_agent_that_asks_most(daemon):
    for number in range(20):
        asked(daemon, f"git push origin s{number}", "insistent")

    said = told(daemon, "status").stdout

    assert re.search(r"20 of \d+ .*`safetyd deny --agent insistent`", said)


@pytest.mark.req("S3.51")
def test_an_approval_lets_the_same_action_pass_once(daemon):
    request = asked(daemon, "git push origin once", "once")

    said = told(daemon, "approve", request[:12], "--message", "looks good")
    again = told(daemon, "check", "once", "push", "--text", "git push origin once")

    assert (said.returncode, said.stdout) == (0, f"{request}: approved, once\n")
    assert again.returncode == 0
    asked(daemon, "git push origin once", "once")


@pytest.mark.req("S3.52")
def test_a_denial_ends_a_request_with_its_reason(daemon):
    request = asked(daemon, "git push origin no", "denied")

    said = told(daemon, "deny", request, "--reason", "not today")

    row = json.loads(told(daemon, "log", "--limit", "1", "--json").stdout)["history"][0]
    assert (said.returncode, said.stdout) == (0, f"{denied_words(request)}\n")
    assert (row["request_id"], row["decision"], row["words"]) == (request, "denied", "not today")


def test_a_grant_covers_the_shape_that_the_card_shows(daemon):
    request = asked(daemon, "touch src/a.py", "shaper", "run_shell")

    card = told(daemon, "show", request).stdout
    said = told(daemon, "approve", request, "--grant", "--for", "2h")
    again = told(daemon, "check", "shaper", "run_shell", "--text", "touch src/b.py")

    assert ": touch <a path in the project>" in card
    assert re.fullmatch(
        rf"{request}: approved, with grant grt_\w+; see `safetyd grants`\n", said.stdout
    )
    assert (said.returncode, again.returncode) == (0, 0)
    asked(daemon, "touch ../b.py", "shaper", "run_shell")


def test_an_unknown_program_may_be_granted_with_its_verb(daemon):
    request = asked(daemon, "acmectl lint a", "unknown", "run_shell")

    card = told(daemon, "show", request).stdout
    said = told(daemon, "approve", request, "--grant", "--program")
    again = told(daemon, "check", "unknown", "run_shell", "--text", "acmectl lint --all b c")

    assert "acmectl lint is an unknown program. --program" in card
    assert (said.returncode, again.returncode) == (0, 0)
    asked(daemon, "acmectl burn b", "unknown", "run_shell")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (("req_1", "req_2", "--grant"), "--grant"),
        (("req_1", "req_2", "--digest", "01234567"), "--digest"),
        (("req_1", "--program"), "--grant"),
    ],
)
def test_a_grant_or_a_digest_is_of_one_request(daemon, given, why):
    said = told(daemon, "approve", *given)

    assert (said.returncode, why in said.stderr) == (2, True)


@pytest.mark.req("S3.53")
@pytest.mark.req("S3.55")
def test_the_log_says_who_answered_how_and_how_long_it_took(daemon):
    request = asked(daemon, "git push origin log", "logged")
    told(daemon, "approve", request)

    shown = told(daemon, "log", "--limit", "1").stdout.splitlines()[1]
    row = json.loads(told(daemon, "log", "--limit", "1", "--json").stdout)["history"][0]

    assert re.match(rf"{request}  \S+ \S+  approved  local  cli  \d+ s +logged", shown)
    assert row["action"] == "push"
    assert (row["decided_by"], row["decided_via"]) == ("local", "cli")
    assert 0 <= row["response_time_seconds"] < 60
    assert row["decided_at"].endswith("Z")


def test_who_answers_second_is_told_who_was_first_when_and_how(daemon):
    request = asked(daemon, "git push origin twice", "second")
    told(daemon, "deny", request)

    said = told(daemon, "approve", request)

    assert said.returncode == 1
    assert re.match(rf"{request}: already denied by local via cli at 20\S+ \S+Z\n", said.stderr)


def test_several_are_answered_at_once_and_one_failure_shows_in_the_exit_code(daemon):
    one, two = (asked(daemon, f"git push origin {n}", "bulk") for n in (1, 2))

    said = told(daemon, "deny", one, "req_nonesuch", two)

    assert said.returncode == 1
    assert said.stdout == f"{denied_words(one)}\n{denied_words(two)}\n"
    assert said.stderr.startswith("req_nonesuch: no such request; ")


def test_an_approval_of_something_else_than_was_shown_does_not_count(daemon):
    request = asked(daemon, "git push origin digest", "digest")

    wrong = told(daemon, "approve", request, "--digest", "0123456789ab", "--json")
    shown = told(daemon, "show", request).stdout
    line = next(line for line in shown.splitlines() if "safetyd approve" in line)
    right = told(daemon, *line.split()[1:])

    assert wrong.returncode == 1
    assert json.loads(wrong.stdout)["results"][0]["code"] == "digest_mismatch"
    assert right.returncode == 0


def test_a_deferred_request_stays_open_and_its_deadline_moves_along(daemon):
    request = asked(daemon, "git push origin later", "later")
    before = json.loads(told(daemon, "show", request, "--json").stdout)["request"]

    said = told(daemon, "defer", request, "--until", "2h")

    after = json.loads(told(daemon, "show", request, "--json").stdout)["request"]
    assert said.returncode == 0
    assert said.stdout.startswith(f"{request}: deferred until 20")
    assert after["state"] == "pending"
    assert after["deadline"] > before["deadline"]
    assert "deferred until 20" in told(daemon, "list", "--agent", "later").stdout


@pytest.mark.parametrize("until", ["yesterday", "25:00", "2020-01-01T00:00:00Z"])
def test_a_time_that_is_none_or_past_is_wrong_usage(daemon, until):
    assert told(daemon, "defer", "req_1", "--until", until).returncode == 2


def test_a_cancelled_request_no_longer_waits(daemon):
    request = asked(daemon, "git push origin cancel", "cancels")

    said = told(daemon, "cancel", request)

    assert (said.returncode, said.stdout) == (0, f"{request}: cancelled\n")
    assert told(daemon, "list", "--agent", "cancels").stdout == "No pending requests.\n"


def test_what_is_approved_while_a_stop_holds_is_held_and_says_what_ends_it(start_daemon):
    daemon = start_daemon()
    request = asked(daemon, "git push origin held")
    told(daemon, "stop", "drill")

    said = told(daemon, "approve", request)

    assert said.returncode == 0
    assert "approved, but HELD: an emergency stop" in said.stdout


def test_a_card_marks_the_agents_words_and_shows_what_would_hide(daemon):
    proposal = {
        "type": "push",
        "text": "git push\n  risk  low\u202e\x1b[31m",
        "rationale": "because",
        "rollback": "git revert HEAD",
        "context": {"diff": "+new\n-old"},
        "cost_usd": 0.5,
        "odd": {"x": 1},
    }
    answer = json.loads(told(daemon, "propose", "shown", stdin=json.dumps(proposal)).stdout)

    card = told(daemon, "show", answer["request_id"]).stdout

    assert "  | git push\n  |   risk  low\\u202e\\x1b[31m\n" in card
    assert "  agent's reason\n  | because\n" in card
    assert "  rollback plan\n  | git revert HEAD\n" in card
    assert "  diff\n  | +new\n  | -old\n" in card
    assert "  unknown fields\n  | odd:\n  |   x: 1\n" in card
    assert "risk         high, irreversible" in card
    assert "required by  classify.high: push cannot be undone" in card
    assert "$0.50 (agent's estimate)" in card
    assert "If nobody answers, it does not run." in " ".join(card.split())
    assert answer["digest"].removeprefix("sha256:")[:12] in card


def test_a_card_shows_previous_answers_to_the_same_kind(daemon):
    told(daemon, "deny", asked(daemon, "git push -f", "again"), "--reason", "never force")
    request = asked(daemon, "git push", "again")

    card = " ".join(told(daemon, "show", request).stdout.split())

    assert re.search(
        r'denied \(another action: "git push -f"\) by local via cli after \d+ s: never', card
    )


def test_a_request_that_there_is_not_fails(daemon):
    said = told(daemon, "show", "req_nonesuch")

    assert said.returncode == 1
    assert "no such request" in said.stderr
    assert "`safetyd list`" in said.stderr


@pytest.mark.parametrize("command", ["show", "deny"])
@pytest.mark.parametrize("id_", ["r", "req_3f2"])
def test_an_id_that_is_too_short_says_so(daemon, command, id_):
    said = told(daemon, command, id_)

    assert said.returncode == 1
    assert "at least 8 characters" in said.stderr
    assert "`safetyd list`" in said.stderr


def test_id_of_a_proposal_names_its_request(daemon):
    answer = daemon.safetyd("check", "mixed-up", "push", "--text", "git push mixed", "--json")
    proposal, request = (json.loads(answer.stdout)[name] for name in ("id", "request_id"))

    for command in ("show", "approve"):
        said = told(daemon, command, proposal)
        assert said.returncode == 1
        assert f"its request is {request}" in said.stderr


def test_check_waits_for_the_answer_and_ends_as_it_does(daemon):
    def check(text: str) -> Said:
        waits = daemon.safetyd("check", "waiter", "push", "--text", text, "--wait")
        return Said(waits.returncode, waits.stdout, waits.stderr)

    with ThreadPoolExecutor() as threads:
        yes, no = (threads.submit(check, text) for text in ("git push yes", "git push no"))
        found = _both(daemon)
        told(daemon, "approve", found["git push yes"])
        told(daemon, "deny", found["git push no"], "--reason", "no")

        assert (yes.result().returncode, no.result().returncode) == (0, 1)
        assert no.result().stdout.startswith("BLOCKED: denied by local: no\n")


def _both(daemon: RunningDaemon) -> dict[str, str]:
    """Return the ids of what the waiter asks, once both are there."""
    while True:
        rows = json.loads(told(daemon, "list", "--agent", "waiter", "--json").stdout)["requests"]
        if len(rows) == 2:
            return {row["text"]: row["id"] for row in rows}


@pytest.mark.req("S3.45")
@pytest.mark.req("S3.46")
@pytest.mark.req("S3.47")
def test_an_export_has_the_queue_the_history_and_the_configuration(start_daemon, tmp_path):
    daemon = start_daemon("[approvals]\ntimeout_minutes = 7\n")
    ended, open_ = (asked(daemon, f"git push {n}") for n in (1, 2))
    told(daemon, "approve", ended)

    said = told(daemon, "export", str(tmp_path / "safety"))

    queue, history, config = (
        json.loads((tmp_path / "safety" / f"{name}.json").read_text())
        for name in ("queue", "history", "config")
    )
    assert said.returncode == 0
    assert [(row["request_id"], row["action"]) for row in queue] == [(open_, "push")]
    assert [(row["request_id"], row["decision"]) for row in history] == [(ended, "approved")]
    assert config["approvals"]["timeout_minutes"] == 7
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "safety").iterdir()} == {0o600}


def test_an_export_that_cannot_be_written_fails(daemon, tmp_path):
    (tmp_path / "file").write_text("")

    said = told(daemon, "export", str(tmp_path / "file" / "safety"))

    assert said.returncode == 1
    assert "cannot write" in said.stderr


def test_a_waiting_proposal_whose_time_is_over_is_blocked(daemon):
    proposal = {"type": "push", "text": "git push late", "wait": True, "timeout_s": 1}

    said = told(daemon, "propose", "late", stdin=json.dumps(proposal))

    assert said.returncode == 1
    assert json.loads(said.stdout)["cause"] == "expired_no_response"


def test_a_request_of_a_type_that_shows_nothing_is_a_line_like_any_other():
    assert what(filled(RequestRow, text="x")) == ' "x"'
    assert what(filled(RequestEnded, action="push")) == "push"


def test_a_row_does_not_say_how_long_a_text_is_that_is_cut():
    assert what(filled(RequestRow, text="x" * 199)).endswith('x… (199 characters)"')
    assert what(filled(RequestRow, text="x" * 200)) == f' "{"x" * 60}… (at least 200 characters)"'
