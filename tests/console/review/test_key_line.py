import pytest

from safetyd.console.review.key_line import keys, offered


def test_the_line_of_keys_has_room_between_them_or_fewer_of_them():
    pairs = [("a", "approve"), ("d", "deny"), ("q", "quit")]

    assert keys(pairs, 40).plain == "[a] approve  [d] deny  [q] quit"
    assert keys(pairs, 29).plain == "[a] approve [d] deny [q] quit"
    assert keys(pairs, 28).plain == "[a] approve  [d] deny"
    assert keys(pairs, 3).plain == "[a] approve"
    assert keys(pairs, 22, lines=2).plain == "[a] approve  [d] deny\n[q] quit"


@pytest.mark.parametrize(
    ("state", "pressed"),
    [
        ({"shown": 0, "chosen": 0}, "? q t c"),
        ({"shown": 1, "chosen": 1}, "a d g s v space ? q t c PgDn"),
        ({"shown": 3, "chosen": 1}, "a d g s v j k space ? q / t c PgDn"),
        ({"shown": 3, "chosen": 1, "answers": False, "grants": False}, "v j k ? q / t c PgDn"),
        ({"shown": 1, "chosen": 1, "hidden": 2, "grants": False}, "a d s v space ? q Esc t c PgDn"),
    ],
)
def test_the_keys_are_those_that_do_something_now(state, pressed):
    known = {"hidden": 0, "answers": True, "grants": True, **state}

    assert " ".join(key for key, _ in offered(**known)) == pressed


def test_the_keys_say_how_many_requests_they_answer():
    both = offered(shown=3, chosen=2, hidden=0, answers=True, grants=False)

    assert both[:3] == [("a", "approve 2"), ("d", "deny 2"), ("s", "defer 2")]
