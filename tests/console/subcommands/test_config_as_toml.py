import tomllib

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from safetyd.console.subcommands.show_config import encode
from safetyd.daemon.config import Config, parse

SCALARS = st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8"))
ARRAYS = st.lists(SCALARS | st.dictionaries(st.text(st.characters(codec="utf-8")), SCALARS))
TABLES = st.recursive(
    st.dictionaries(st.text(st.characters(codec="utf-8")), SCALARS | ARRAYS, min_size=1),
    lambda inner: st.dictionaries(
        st.text(st.characters(codec="utf-8")), SCALARS | inner, min_size=1
    ),
)


@given(TABLES)
def test_tables_come_back_as_they_were(table):
    assert tomllib.loads(encode(table)) == table


def test_what_is_none_is_left_out():
    assert encode({"a": None, "b": 1}) == "b = 1\n"


def test_patterns_are_written_without_doubled_backslashes():
    assert encode({"pattern": r"\brm\b"}) == "pattern = '\\brm\\b'\n"


def test_the_shown_defaults_are_a_file_that_means_the_defaults():
    shown = encode(msgspec.to_builtins(Config()))

    assert parse(shown, "shown") == Config()
