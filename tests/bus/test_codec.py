import json
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.bus.codec import Malformed, read_command, read_proposal, read_telemetry
from safetyd.core.messages.proposal import (
    MAX_DEPTH,
    MAX_MESSAGE_BYTES,
    MAX_TEXT_BYTES,
    Proposal,
    Tokens,
    canonical,
)
from safetyd.core.messages.telemetry import AnyTelemetry, Heartbeat, Outcome

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
FIELDS = st.dictionaries(
    st.sampled_from(["type", "id", "agent", "text", "context", "tokens", "at", "x"]), JSON
)


def proposal(**fields: object) -> bytes:
    return msgspec.json.encode({"type": "read_file", **fields})


def nested(levels: int) -> bytes:
    """Return a proposal with this many levels, counting the outer object."""
    return b'{"type":"x","x":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


def why(data: bytes, agent: str = "code") -> str:
    """Return the reason why a proposal is malformed."""
    with pytest.raises(Malformed) as caught:
        read_proposal(agent, data, "spare")
    return str(caught.value)


def test_known_fields_of_a_proposal_are_read_unchanged() -> None:
    read, digest = read_proposal("code", proposal(id="p1", text="notes.txt"), "spare")

    assert (read.type, read.id, read.text) == ("read_file", "p1", "notes.txt")
    assert (read.context, read.extra) == (None, None)
    assert digest.startswith("sha256:")


def test_proposal_without_an_id_gets_the_spare_one() -> None:
    read, _ = read_proposal("code", proposal(), "spare")

    assert read.id == "spare"


def test_unknown_fields_are_stored_in_extra() -> None:
    read, _ = read_proposal("code", proposal(zeal=9, extra="mine", amount=1.0), "spare")

    assert read.extra == msgspec.Raw(b'{"amount":1,"extra":"mine","zeal":9}')


@pytest.mark.parametrize("name", sorted({*Proposal.__struct_fields__, "zeal"} - {"type"}))
def test_null_is_read_as_absence(name: str) -> None:
    plain = read_proposal("code", proposal(id="p1"), "p1")

    assert read_proposal("code", proposal(**{"id": "p1", name: None}), "p1") == plain


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("target", {"label": "Pay"}),
        ("observation", {"url": "https://shop.example"}),
        ("tokens", {"input": 5}),
    ],
)
def test_null_inside_a_field_is_read_as_absence(name: str, given: dict[str, object]) -> None:
    nulls = dict.fromkeys({"url", "output", "zeal"} - given.keys())
    plain = read_proposal("code", proposal(**{name: given}), "spare")

    assert read_proposal("code", proposal(**{name: given | nulls}), "spare") == plain


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("command", "text"),
        ("cmd", "text"),
        ("shell", "text"),
        ("path", "paths"),
        ("file", "paths"),
        ("file_path", "paths"),
        ("filename", "paths"),
        ("workdir", "cwd"),
        ("cost", "cost_usd"),
        ("url", "target.url"),
    ],
)
def test_misnamed_field_is_rejected_if_the_right_one_is_missing(name: str, meant: str) -> None:
    reason = f'unknown field "{name}": did you mean "{meant}"? Other facts belong in "context".'

    assert why(proposal(**{name: "rm -rf /"})) == reason


@pytest.mark.parametrize("text", ["", None])
def test_empty_field_does_not_excuse_a_misnamed_one(text: str | None) -> None:
    assert 'did you mean "text"?' in why(proposal(command="rm -rf /", text=text))


@pytest.mark.parametrize(
    "fields",
    [
        {"command": "x", "text": "ls"},
        {"path": "x", "paths": ["a"]},
        {"url": "x", "target": {"url": "https://shop.example"}},
        {"command": None},
        {"context": {"command": "x"}},
    ],
)
def test_misnamed_field_is_ignored_if_the_right_one_is_there(fields: dict[str, object]) -> None:
    read_proposal("code", proposal(**fields), "spare")


def test_null_in_context_and_unknown_fields_is_preserved() -> None:
    read, digest = read_proposal("code", proposal(context={"a": None}, x=[None]), "spare")
    _, other = read_proposal("code", proposal(context={}, x=[]), "spare")

    assert (read.context, read.extra) == (msgspec.Raw(b'{"a":null}'), msgspec.Raw(b'{"x":[null]}'))
    assert digest != other


def test_null_does_not_change_other_fields() -> None:
    text = proposal(text="cat a > /dev/null")
    assert read_proposal("code", text, "spare")[0].text == "cat a > /dev/null"

    wrong = {"tokens": {"input": 5.0}}
    assert why(proposal(**wrong, text=None)) == why(proposal(**wrong))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"type":null}', "type is missing"),
        (b'{"type":"a","paths":[null]}', "paths[0] is null; expected `str`, got `null`"),
        (b'{"type":"a","scores":{"output_quality":null}}', "scores.strategic_alignment is missing"),
        (b'{"type":"a","text":null,"text":"b"}', 'an object has the key "text" twice'),
    ],
)
def test_null_is_rejected_where_a_value_is_required(data: bytes, reason: str) -> None:
    assert why(data).startswith(reason)


def test_context_becomes_one_line() -> None:
    read, _ = read_proposal("code", b'{"type": "x",\n "context": {"b": 1,\n "a": 2}}', "spare")

    assert read.context == msgspec.Raw(b'{"a":2,"b":1}')


@pytest.mark.parametrize(
    ("twice", "key"),
    [
        (b'{"type":"deploy","type":"read_file"}', '"type"'),
        (b'{"type":"deploy","type":"deploy"}', '"type"'),
        (b'{"type":"deploy","\\u0074ype":"read_file"}', '"type"'),
        (b'{"type":"x","target":{"name":"a", "name" : "b"}}', '"name"'),
        (b'{"type":"x","context":{"a":[[],{"b":{":":1,"\\u003A":2}}]}}', '":"'),
        (b'{"type":"x","x":{"":1,"":{"\\u003a":"\\u003a"}}}', '""'),
    ],
)
def test_duplicate_key_is_malformed_at_every_depth(twice: bytes, key: str) -> None:
    assert why(twice) == f"an object has the key {key} twice"


def test_same_key_in_different_objects_is_accepted() -> None:
    read, _ = read_proposal(
        "code", b'{"type":"x","text":"\\u003a:","a":{"a":[{"a":1},{"a":1}]}}', "spare"
    )

    assert read.text == "::"


def test_duplicate_key_with_a_deep_value_is_malformed() -> None:
    deep = b"[" * 900 + b"]" * 900

    assert "twice" in why(b'{"type":"x","x":%b,"x":1}' % deep)
    assert why(b'{"type":"x","x":1,"x":%b}' % deep) == "nested deeper than 32 levels"


class Pairs(list[tuple[str, Any]]):
    """An object in its JSON form, which may have duplicate keys."""

    @property
    def repeats(self) -> bool:
        keys = [key for key, _ in self]
        return len(set(keys)) < len(keys) or any(repeats(value) for _, value in self)


def repeats(value: object) -> bool:
    if isinstance(value, Pairs):
        return value.repeats
    return isinstance(value, list) and any(map(repeats, value))


KEYS = st.text(':u0"\\é', max_size=2)
WRITTEN = st.recursive(
    st.none() | st.integers(-(2**60), 2**60) | KEYS,
    lambda inner: st.lists(inner) | st.lists(st.tuples(KEYS, inner)).map(Pairs),
    max_leaves=12,
)


@given(value=WRITTEN, data=st.data())
def test_message_is_rejected_if_and_only_if_it_has_a_duplicate_key(
    value: object, data: Any
) -> None:
    def spelt(text: str) -> str:
        each = data.draw(st.lists(st.booleans(), min_size=len(text), max_size=len(text)))
        return f'"{"".join(map(character, text, each))}"'

    def character(char: str, escaped: bool) -> str:  # noqa: FBT001
        return f"\\u{ord(char):04x}" if escaped or char in '"\\' else char

    def written(value: object) -> str:
        if isinstance(value, Pairs):
            return f"{{{', '.join(f'{spelt(key)}: {written(v)}' for key, v in value)}}}"
        if isinstance(value, list):
            return f"[{','.join(map(written, value))}]"
        return spelt(value) if isinstance(value, str) else json.dumps(value)

    message = f'{{"command":"x","value":{written(value)}}}'.encode()

    if repeats(value):
        with pytest.raises(Malformed, match="twice"):
            read_command(message)
    else:
        assert read_command(message)["command"] == "x"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"type": ""}, 'type is ""; expected `str` of length >= 1'),
        ({"type": 5}, "type is 5; expected `str`, got `int`"),
        ({"cost_usd": -1}, "cost_usd is -1; expected `float` >= 0.0"),
        ({"cost_usd": 1e308}, "cost_usd is 1e+308; the limit is 1000000000 US dollars"),
        ({"confidence": 1.5}, "confidence is 1.5; expected `float` <= 1.0"),
        ({"tokens": {"input": -2}}, "tokens.input is -2; expected `int` >= 0"),
        ({"paths": ["a", 5]}, "paths[1] is 5; expected `str`, got `int`"),
        ({"scores": {}}, "scores.strategic_alignment is missing"),
        ({"urgency": "now"}, 'urgency is "now"; it must be one of high, low, normal'),
        ({"at": "noon"}, 'at is "noon"; it must be a time such as 2026-02-08T14:30:22Z'),
        ({"agent": "ops"}, "the proposal names agent 'ops', but its subject names 'code'"),
    ],
)
def test_reason_names_the_field_its_value_and_the_allowed_values(
    fields: dict[str, Any], reason: str
) -> None:
    assert why(proposal(**fields)) == reason


def test_reason_names_all_allowed_values_of_a_field() -> None:
    for value in ("read_only", "reversible", "irreversible", "unknown"):
        assert value in why(proposal(reversibility="maybe"))


def test_reason_names_a_missing_type() -> None:
    assert why(b"{}") == "type is missing"


def test_reason_shortens_a_long_value() -> None:
    assert len(why(proposal(urgency="z" * 60_000))) < 200


def test_reason_ignores_a_path_inside_the_value() -> None:
    assert why(proposal(urgency="x - at `$.type`")).startswith("urgency is ")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b'{"type":"x"} more',
        b'\xef\xbb\xbf{"type":"x"}',
        b'{"type":"x","y":NaN}',
        b'{"type":"x","confidence":Infinity}',
        b'{"type":"x","y":"\\ud800"}',
        b'{"type":"x","\\udfff":1}',
        b'{"type":"\xff"}',
        b'{"type":"x","y":"\xff"}',
        b'{"type":"x\x00"}',
    ],
)
def test_message_that_is_not_a_json_object_is_rejected(data: bytes) -> None:
    assert why(data).startswith("not a JSON object: ")


@pytest.mark.parametrize("number", [b"1e999", b"-1e999", b"9" * 400 + b".5", b"9" * 5000])
@pytest.mark.parametrize("place", [b'"cost_usd":', b'"x":', b'"context":{"a":', b'"x":[1,'])
def test_number_that_is_not_finite_is_rejected_in_every_position(
    number: bytes, place: bytes
) -> None:
    end = {b"{": b"}", b"[": b"]"}.get(place[place.find(b":") + 1 :][:1], b"")

    reason = why(b'{"type":"x",%b%b%b}' % (place, number, end))

    assert "out of range" in reason or "999" in reason
    assert len(reason) < 300


@pytest.mark.parametrize(
    "data",
    [
        b'{"type":"a\\u0000"}',
        b'{"type":"a","x":["\\u0000"]}',
        b'{"type":"a","\\u0000":1}',
        b'{"type":"a","x":"\\\\\\u0000"}',
    ],
)
def test_nul_is_rejected_in_texts_and_keys(data: bytes) -> None:
    assert why(data) == "a text contains the character NUL, which is not allowed"


def test_text_that_looks_like_an_escaped_nul_is_accepted() -> None:
    read, _ = read_proposal("code", b'{"type":"a","text":"\\\\u0000"}', "spare")

    assert read.text == "\\u0000"


def test_depth_is_limited() -> None:
    read_proposal("code", nested(MAX_DEPTH), "spare")

    assert why(nested(MAX_DEPTH + 1)) == "nested deeper than 32 levels"
    assert why(b'{"type":"x","x":' + b'{"a":' * 40 + b"1" + b"}" * 40 + b"}").startswith("nested")


def test_depth_beyond_the_parsers_limit_is_rejected() -> None:
    assert why(b'{"type":"x","x":' + b"[" * 60_000) == "nested deeper than 32 levels"


def test_many_brackets_side_by_side_are_not_deep() -> None:
    read, _ = read_proposal("code", proposal(x=[[]] * 1000, y=[{}] * 1000), "spare")

    assert read.extra is not None


def test_size_is_limited() -> None:
    fits = proposal(x="y" * (MAX_MESSAGE_BYTES - len(proposal(x=""))))
    read_proposal("code", fits, "spare")

    assert why(fits + b" ") == "the message has 65537 bytes; the limit is 65536"


def test_size_of_numbers_written_in_full_is_limited() -> None:
    numbers = b'{"type":"x","x":[' + b"1e15," * 12_000 + b"1]}"

    assert "with its numbers written out; the limit is 65536" in why(numbers)


def test_size_of_text_is_limited_in_bytes() -> None:
    read_proposal("code", proposal(text="é" * (MAX_TEXT_BYTES // 2)), "spare")

    reason = why(proposal(text="é" * (MAX_TEXT_BYTES // 2 + 1)))

    assert reason == "text has 8194 bytes; the limit is 8192"


@given(FIELDS)
def test_accepted_proposal_fits_on_one_line_and_reads_back_unchanged(
    fields: dict[str, Any],
) -> None:
    try:
        read, digest = read_proposal("code", msgspec.json.encode(fields), "spare")
    except (Malformed, OverflowError):
        return

    line = canonical(read)
    assert b"\n" not in line
    assert read_proposal("code", msgspec.json.encode(fields), "spare") == (read, digest)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_either_read_or_malformed(data: bytes) -> None:
    for read in (lambda: read_proposal("code", data, "spare"), lambda: read_telemetry(data)):
        try:
            read()
        except Malformed as exc:
            assert str(exc)  # noqa: PT017 - either result is fine


def test_telemetry_is_read_by_its_type() -> None:
    assert read_telemetry(b'{"type":"heartbeat","stop_epoch":3}') == Heartbeat(stop_epoch=3)


@pytest.mark.parametrize("kind", get_args(AnyTelemetry))
def test_null_in_telemetry_is_read_as_absence(kind: type[msgspec.Struct]) -> None:
    required = {
        field.name: True if field.type is bool else "x"
        for field in msgspec.structs.fields(kind)
        if field.required
    }
    plain = {"type": kind.__struct_config__.tag, **required}
    nulls = dict.fromkeys(kind.__struct_fields__)

    read = read_telemetry(msgspec.json.encode({**nulls, **plain}))

    assert read == read_telemetry(msgspec.json.encode(plain))


def test_null_inside_telemetry_is_read_as_absence() -> None:
    read = read_telemetry(
        b'{"type":"outcome","ok":true,"tokens":{"input":null},"details":{"a":null}}'
    )

    assert isinstance(read, Outcome)
    assert (read.tokens, read.details) == (Tokens(), msgspec.Raw(b'{"a":null}'))


def test_details_of_an_outcome_become_one_line() -> None:
    read = read_telemetry(b'{"type":"outcome","ok":true,"details":{"b": 1,\n"a": 2}}')

    assert isinstance(read, Outcome)
    assert read.details == msgspec.Raw(b'{"a":2,"b":1}')


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"{}", "type is missing"),
        (b'{"type":"outcome"}', "ok is missing"),
        (b'{"type":"outcome","ok":"yes"}', 'ok is "yes"; expected `bool`, got `str`'),
        (b'{"type":5}', "type is 5; expected `str`"),
    ],
)
def test_reason_names_the_wrong_field_of_telemetry(data: bytes, reason: str) -> None:
    with pytest.raises(Malformed) as caught:
        read_telemetry(data)

    assert str(caught.value) == reason


def test_reason_for_unknown_telemetry_lists_the_known_types() -> None:
    with pytest.raises(Malformed, match=r'type is "gossip"; it must be one of outcome, .*rollback'):
        read_telemetry(b'{"type":"gossip"}')


def test_command_must_be_an_object_with_a_command_name() -> None:
    assert read_command(b'{"command":"stop","reason":"drill"}')["reason"] == "drill"
    for data in (b"{}", b'{"command":5}', b"[]", b"stop", b"\xff"):
        with pytest.raises(Malformed):
            read_command(data)
