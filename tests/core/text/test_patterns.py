import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.messages.verdict import Severity
from safetyd.core.text.patterns import PatternConfig, PatternSet, Sieve, named, problems


def test_a_set_says_which_patterns_match_in_the_order_of_the_list() -> None:
    patterns = PatternSet(("gamma", "beta", "alpha"))

    assert patterns.find(("alpha gamma",)) == [0, 2]
    assert patterns.find(("delta",)) == []


def test_case_is_ignored_and_a_dot_matches_a_newline() -> None:
    assert PatternSet(("close.*unsaved",)).find(("CLOSE\nUnsaved",)) == [0]


def test_each_form_is_matched_separately() -> None:
    patterns = PatternSet((r"drop\s+table", "drop.*table"))

    assert patterns.find(("drop", "table")) == []
    assert patterns.find(("x", "drop table")) == [0, 1]


def test_anchors_hold_for_each_form() -> None:
    patterns = PatternSet(("^send$", r"\Apay\z"))

    assert patterns.find(("now", "send")) == [0]
    assert patterns.find(("pay", "now")) == [1]
    assert patterns.find(("send now", "do pay")) == []


@pytest.mark.parametrize(
    "patterns", [(r"\bab\b", r"\Bb\B", r"a\s+b", "a.*b", "[^a]b"), ("^a", "b$")]
)
@given(forms=st.lists(st.text("ab -\n\u00e9", min_size=1), max_size=4))
def test_matching_all_forms_at_once_equals_matching_each(
    patterns: tuple[str, ...], forms: list[str]
) -> None:
    together = PatternSet(patterns)

    assert together.find(forms) == sorted({hit for form in forms for hit in together.find((form,))})


def test_an_empty_list_and_empty_words_match_nothing() -> None:
    assert PatternSet(()).find(("anything",)) == []
    assert PatternSet(("a*",)).find(()) == []


def test_half_a_character_does_no_harm() -> None:
    assert PatternSet(("delete",)).find(("\udc80 delete",)) == [0]


def test_a_pattern_that_allows_never_matches() -> None:
    patterns = PatternSet(
        (PatternConfig(name="format", pattern="format", then=Severity.ALLOW), "wipe")
    )

    assert patterns.find(("format and wipe",)) == [1]


def test_a_plain_string_is_named_by_its_position() -> None:
    names = [p.name for p in named((PatternConfig(name="wipe", pattern="wipe"), "burn"))]

    assert names == ["wipe", "custom_2"]


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(a", "missing )"),
        (r"(?=a)", "invalid perl operator"),
        (r"(a)\1", "invalid escape sequence"),
        ("(?:a{1000}){1000}", "invalid repetition size"),
        ("é(", "missing ): é("),
        ("", "it is empty and would match everything"),
    ],
)
def test_a_refused_pattern_is_named_with_the_reason(pattern: str, why: str) -> None:
    (place, message) = problems(("fine", pattern))[0]

    assert place == "[1]"
    assert message.startswith(f"pattern custom_2, {pattern!r}: ")
    assert why in message
    with pytest.raises(ValueError, match="pattern custom_2"):
        PatternSet(("fine", pattern))


def test_names_must_be_valid_and_unique() -> None:
    wrong = problems(
        (
            PatternConfig(name="custom_2", pattern="a"),
            "b",
            PatternConfig(name="no good", pattern="c"),
        )
    )

    assert [place for place, _ in wrong] == ["[1]", "[2]"]
    assert "custom_2" in wrong[0][1]
    assert "'no good'" in wrong[1][1]


def test_ten_unbounded_wildcards_are_accepted_and_eleven_refused() -> None:
    assert problems(["a.*b.+c"] * 5) == []
    (place, message) = problems(["a.*b.+c"] * 5 + ["x.{2,}y"])[0]

    assert place == ""
    assert "11 unbounded" in message
    assert "write .{0,80} instead" in message


def test_escaped_and_bounded_wildcards_are_not_counted() -> None:
    assert problems([r"a\.*[.*]+[].*]x.{0,80}\\\.+"] * 20) == []


def test_a_set_too_large_to_compile_is_refused_before_it_can_crash() -> None:
    large = [rf"{number}x\pL{{50}}" for number in range(100)]

    assert "too large" in problems(large)[0][1]
    with pytest.raises(ValueError, match="use fewer or simpler ones"):
        PatternSet(large)


@pytest.mark.parametrize(
    "lists",
    [
        ((r"\bab\b", "[^a]b"), (r"a\s+b",)),
        (("^a",), ("b$",)),
        (tuple(f"a.*{n}" for n in range(8)), tuple(f"b.*{n}" for n in range(8))),
    ],
    ids=["together", "anchored", "too many wildcards"],
)
@given(forms=st.lists(st.text("ab -\n17", min_size=1), max_size=3))
def test_a_sieve_passes_nothing_that_a_list_finds(
    lists: tuple[tuple[str, ...], ...], forms: list[str]
) -> None:
    known = [PatternSet(patterns) for patterns in lists]

    if Sieve(known).passes(forms):
        assert not any(patterns.find(forms) for patterns in known)


def test_a_sieve_passes_plain_text() -> None:
    assert Sieve([PatternSet(("pay",)), PatternSet(("send",))]).passes(("ls", "now"))
