"""The known type that an unknown one is similar to is never laxer than its words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.action_types import Kinds
from safetyd.core.similar_types import _ACTS, like
from safetyd.core.type_aliases import ALIASES

KNOWN = Kinds({}, "strict").known


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("red_file", "read_file"),
        ("read_files", "read_file"),
        ("file_read", "read_file"),
        ("git_commits", "git_commit"),
        ("git_logs", "git_log"),
        ("deploys", "deploy"),
        ("pull_request_create", "create_pull_request"),
        ("edit", "edit_file"),
        ("install", "install_package"),
        ("git_push", "push"),
        ("delete_file_now", "delete_file"),
    ],
)
def test_the_known_type_of_a_similar_name_is_found(name: str, known: str) -> None:
    assert like(name, KNOWN) == known


@pytest.mark.parametrize(
    "name",
    [
        *("http_request", "http_get", "run_test", "search_and_destroy", "click_buy", "zzz"),
        *("read", "run", "write", "delete", "send", "post", "list", "internal", "searches"),
        *("push_and_deploy", "raft", "clock", "browser_click", "draft_and_mail", ""),
        *("keys", "types", "clicks", "drafts", "model", "content", "run_sell", "test_run"),
        *("create_or_update_file", "delete_branch", "send_keys", "update_plan", "execute_code"),
    ],
)
def test_in_doubt_no_type_is_found(name: str) -> None:
    assert like(name, KNOWN) is None


@pytest.mark.parametrize(
    "word",
    [
        *("edit", "write", "delete", "remove", "push", "post", "put", "send", "exec", "run"),
        *("kill", "deploy", "pay", "http", "request", "drop", "patch", "upload"),
    ],
)
@given(others=st.lists(st.sampled_from([word for name in KNOWN for word in name.split("_")])))
def test_an_acting_name_is_never_similar_to_a_type_that_only_reads(
    word: str, others: list[str]
) -> None:
    for name in ("_".join((word, *others)), "_".join((*others, word))):
        near = like(name, KNOWN)
        assert near is None or near == name or not KNOWN[near].read_only


@given(words=st.lists(st.sampled_from([*sorted(_ACTS), "file", "git", "web"]), min_size=1))
def test_an_allowed_type_is_found_only_by_its_own_words(words: list[str]) -> None:
    near = like("_".join(words), KNOWN)

    if near is not None and KNOWN[near].tier == "auto_allowed":
        assert set(words) <= set(near.split("_"))


@pytest.mark.parametrize("profile", ["strict", "coding"])
@given(
    words=st.lists(
        st.sampled_from(sorted({*_ACTS, *(word for name in ALIASES for word in name.split("_"))})),
        min_size=1,
        max_size=4,
    )
)
def test_words_of_tools_lead_to_an_allowed_type_only_if_they_are_its_own(
    profile: str, words: list[str]
) -> None:
    known = Kinds({}, profile).known

    near = like("_".join(words), known)

    if near is not None and known[near].tier == "auto_allowed":
        assert not _ACTS & {*words} - {*near.split("_")}
        assert len(words) in {len(near.split("_")), 1}
