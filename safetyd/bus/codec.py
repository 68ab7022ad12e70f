"""Decodes proposals and telemetry, and says what is wrong with malformed messages.

A repeated key is rejected, because decoders differ on which one counts. A null field of an agent's
message is treated as missing.
"""

import json
import re
from collections.abc import Mapping
from typing import Final, get_args

import msgspec
import msgspec.inspect as mi

from safetyd.core.action_types import normalised
from safetyd.core.messages.money import MAX_USD
from safetyd.core.messages.proposal import (
    MAX_DEPTH,
    MAX_MESSAGE_BYTES,
    MAX_TEXT_BYTES,
    PARTS,
    Observation,
    Proposal,
    Scores,
    Target,
    Tokens,
    canonical,
    digest,
    shortest,
    without_nulls,
)
from safetyd.core.messages.telemetry import AnyTelemetry, Outcome

SHOWN_CHARS: Final = 80
_A_TIME: Final = "a time such as 2026-02-08T14:30:22Z"
_SAID: Final = re.compile(r"\A(.*?)(?: - at `\$([^`]*)`)?\Z", re.DOTALL)
_STEP: Final = re.compile(r"\.(\w+)|\[(\d+)\]")
_MISSING: Final = re.compile(r"Object missing required field `(\w+)`")
# `_BACKSLASH in data` is ten times faster with a number than with bytes.
_BACKSLASH: Final = ord("\\")

_encode = msgspec.json.Encoder().encode
Fields = dict[str, object]

# Decoder errors are cut at this length, because they may contain very long numbers.
REASON_CHARS: Final = 200

# A number in canonical form is at most this many times as long as the number that was sent.
GROWTH: Final = 5

_KNOWN = frozenset(Proposal.__struct_fields__) - {"extra"}

_PARTS = {
    "target": frozenset(Target.__struct_fields__),
    "observation": frozenset(Observation.__struct_fields__),
    "scores": frozenset(Scores.__struct_fields__),
    "tokens": frozenset(Tokens.__struct_fields__),
}

# Wrong names that agents are likely to use for a field. Guards read only the field itself, so
# under a wrong name nothing would be analysed.
_MISNAMED: Final = {
    **dict.fromkeys(("command", "cmd", "shell", "script", "sql", "query"), "text"),
    **dict.fromkeys(
        ("path", "file", "files", "file_path", "filepath", "file_paths", "filename"), "paths"
    ),
    **dict.fromkeys(("workdir", "working_dir", "working_directory"), "cwd"),
    "cost": "cost_usd",
    "url": "target.url",
}

# Matches an escape sequence, but not the same characters after an escaped backslash.
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")

# Types that contain others; a tuple, because a union is slow to check.
_NESTED = (dict, list)

_TELEMETRY_TAGS = [kind.__struct_config__.tag for kind in get_args(AnyTelemetry)]
_TELEMETRY_CHOICES = {".type": f"one of {', '.join(map(str, _TELEMETRY_TAGS))}"}
_decode_fields = msgspec.json.Decoder(Fields, float_hook=shortest).decode
_decode_plain = msgspec.json.Decoder(Fields).decode
_decode_proposal = msgspec.json.Decoder(Proposal).decode
_decode_telemetry = msgspec.json.Decoder(AnyTelemetry).decode


_KINDS: Final = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "datetime": "a time with a time zone",
}
_BOUNDS: Final = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}


def choices(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Return the allowed values of each field that has a fixed set of values."""
    return {
        f".{field.encode_name}": f"one of {', '.join(values)}"
        for field in msgspec.structs.fields(kind)
        if (values := _values(mi.type_info(field.type)))
    }


def in_words(
    error: msgspec.ValidationError, fields: Mapping[str, object], allowed: Mapping[str, str]
) -> str:
    """Describe a validation error of an agent's message. `allowed` comes from `choices`."""
    expected, path = _SAID.findall(str(error))[0]
    if missing := _MISSING.match(expected):
        return f"{_name(f'{path}.{missing[1]}')} is missing"
    if expected.startswith("Invalid"):
        expected = f"it must be {allowed.get(path, _A_TIME)}"
    return f"{_name(path)}{_is(fields, path)}; {expected[0].lower()}{expected[1:]}"


def rejected(error: msgspec.ValidationError) -> str:  # noqa: PLR0911 - one for each kind of mistake
    """Describe a validation error of an operator's command or query."""
    expected, path = _SAID.findall(str(error))[0]
    name = _name(path)
    if missing := _MISSING.match(expected):
        return f"{_name(f'{path}.{missing[1]}')} is missing"
    if wrong := re.match(r"Expected `(\w+)[^`]*`, got `(\w+)", expected):
        return f"{name} must be {_KINDS.get(wrong[1], wrong[1])}"
    if bound := re.match(r"Expected `\w+` (>=|<=|>|<) (\S+)", expected):
        return f"{name} must be {_BOUNDS[bound[1]]} {bound[2]}"
    if bound := re.match(r"Expected `\w+` of length (>=|<=) (\S+)", expected):
        return f"{name} must have {_BOUNDS[bound[1]]} {bound[2]} characters or entries"
    if "regex" in expected and "0-9a-f" in expected:
        return f"{name} must be 4 to 64 hexadecimal digits"
    if value := re.match(r"Invalid enum value (.+)", expected):
        return f"{name} cannot be {value[1]}"
    return f"{name} is not valid"


def shown(value: object) -> str:
    """Return a value as JSON, shortened."""
    text = canonical(value).decode()
    return text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "…"


def _values(kind: mi.Type) -> tuple[str, ...]:
    match kind:
        case mi.LiteralType(values=values):
            return tuple(map(str, values))
        case mi.EnumType(cls=cls):
            return tuple(str(each.value) for each in cls)
        case mi.UnionType(types=types):
            return tuple(value for inner in types for value in _values(inner))
    return ()


def _name(path: str) -> str:
    return path.removeprefix(".") or "the message"


def _is(fields: Mapping[str, object], path: str) -> str:
    """Return ` is VALUE` for the value at a path, or ` is wrong` if it cannot be found."""
    value: object = fields
    for name, number in _STEP.findall(path):
        try:
            value = value[name] if name else value[int(number)]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            return " is wrong"
    followed = path and not _STEP.sub("", path)
    return f" is {shown(value)}" if followed else " is wrong"


class _Twice(Exception):
    """Raised to end the search for repeated keys."""


def repeated(data: bytes, fields: object) -> str | None:
    """Return a key that an object in `data` repeats, or None. `fields` is the decoded `data`.

    Decoding drops repeated keys. So if the encoded `fields` has as many colons as `data`, no key is
    repeated. Otherwise, or if `data` may contain escaped colons, a slower check is needed.
    """
    same = data.count(b":") == _encode(fields).count(b":")
    if same and not (_BACKSLASH in data and b"\\u003" in data):
        return None
    try:
        # Numbers stay strings, because converting them may be slow or fail.
        json.loads(data, object_pairs_hook=_once, parse_int=str, parse_float=str)
    except _Twice as exc:
        return str(exc)
    return None


def _once(pairs: list[tuple[str, object]]) -> None:
    seen = set[str]()
    for key, _ in pairs:
        if key in seen:
            raise _Twice(key)
        seen.add(key)


_PROPOSAL_CHOICES = choices(Proposal)


class Malformed(Exception):
    """A message violates the contract. The text says how."""


def read_proposal(agent: str, data: bytes, spare_id: str) -> tuple[Proposal, str]:
    """Return the proposal and its digest. If it has no id, it gets `spare_id`."""
    fields = read_object(data)
    if data.count(b"null"):
        fields, data = _given(fields, data)
    try:
        proposal = _decode_proposal(data)
    except msgspec.ValidationError as exc:
        raise Malformed(in_words(exc, fields, _PROPOSAL_CHOICES)) from None
    if proposal.agent is not None and proposal.agent != agent:
        raise Malformed(
            f"the proposal names agent {proposal.agent!r}, but its subject names {agent!r}"
        )
    if not (proposal.type.isidentifier() or normalised(proposal.type)):
        raise Malformed("type has no visible character")
    if not _MISNAMED.keys().isdisjoint(fields):
        _check_names(fields)
    _check_text(proposal.text)
    _check_cost(proposal.cost_usd)
    return _completed(proposal, fields, spare_id), digest(agent, fields)


def read_telemetry(data: bytes) -> AnyTelemetry:
    fields = read_object(data)
    if data.count(b"null"):
        fields, data = _given(fields, data)
    try:
        telemetry: AnyTelemetry = _decode_telemetry(data)
    except msgspec.ValidationError as exc:
        raise Malformed(in_words(exc, fields, _TELEMETRY_CHOICES)) from None
    return _outcome(telemetry, fields) if isinstance(telemetry, Outcome) else telemetry


def read_given(data: bytes) -> bytes:
    """Validate an agent's message, and return it without null fields."""
    return _given(read_object(data), data)[1]


def _given(fields: Fields, data: bytes) -> tuple[Fields, bytes]:
    """Return a message without null fields, as an object and as bytes."""
    if None not in fields.values() and PARTS.isdisjoint(fields):
        return fields, data
    # Numbers are encoded as they were sent, because 1.0 must not become an integer.
    return without_nulls(fields), _encode(without_nulls(_decode_plain(data)))


def _outcome(outcome: Outcome, fields: Fields) -> Outcome:
    _check_cost(outcome.cost_usd)
    if outcome.details is None:
        return outcome
    # The message may contain line breaks, but a line of the journal must not.
    return msgspec.structs.replace(outcome, details=msgspec.Raw(canonical(fields["details"])))


def read_command(data: bytes) -> Fields:
    """Return an operator's message as an object with a `command`."""
    fields = read_object(data)
    if not isinstance(fields.get("command"), str):
        raise Malformed('a message needs "command", such as {"command": "status"}')
    return fields


def read_object(data: bytes) -> Fields:
    """Decode a message. Raise `Malformed` if it is too large or too deep, or repeats a key."""
    if len(data) > MAX_MESSAGE_BYTES:
        raise Malformed(f"the message has {len(data)} bytes; the limit is {MAX_MESSAGE_BYTES}")
    try:
        fields = _decode_fields(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise Malformed(f"not a JSON object: {str(exc)[:REASON_CHARS]}") from None
    except RecursionError:
        raise Malformed(f"nested deeper than {MAX_DEPTH} levels") from None
    # Only a message with many brackets can be nested deeply.
    if data.count(b"{") + data.count(b"[") > MAX_DEPTH and _deeper(fields, MAX_DEPTH):
        raise Malformed(f"nested deeper than {MAX_DEPTH} levels")
    if _BACKSLASH in data and b"\\u0000" in data and _NUL.search(data):
        raise Malformed("a text contains the character NUL, which is not allowed")
    if (key := _repeated(data, fields)) is not None:
        raise Malformed(f"an object has the key {shown(key)} twice")
    _check_written_size(len(data), fields)
    return fields


def _repeated(data: bytes, fields: Fields) -> str | None:
    try:
        return repeated(data, fields)
    except RecursionError:  # the value of a repeated key is nested too deeply
        raise Malformed(f"nested deeper than {MAX_DEPTH} levels") from None


def _check_written_size(size: int, fields: Fields) -> None:
    """Reject messages that are too long once numbers are written out: 1e15 has 16 digits."""
    if size * GROWTH <= MAX_MESSAGE_BYTES:
        return
    size = len(canonical(fields))
    if size > MAX_MESSAGE_BYTES:
        limit = f"the limit is {MAX_MESSAGE_BYTES}"
        raise Malformed(f"the message has {size} bytes with its numbers written out; {limit}")


def _deeper(fields: Fields, levels: int) -> bool:
    level: list[Fields | list[object]] = [fields]
    for _ in range(levels):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, _NESTED)
        ]
    return bool(level)


def _check_names(fields: Fields) -> None:
    """Reject a misnamed field if the field that it probably means is missing or empty."""
    for name in fields:
        meant = _MISNAMED.get(name, "")
        if meant and not _value_at(fields, meant):
            hint = f'did you mean "{meant}"? Other facts belong in "context".'
            raise Malformed(f'unknown field "{name}": {hint}')


def _value_at(fields: Mapping[str, object], path: str) -> object:
    """Return the value at a dotted path, or None."""
    value: object = fields
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _check_text(text: str) -> None:
    if len(text) * 4 <= MAX_TEXT_BYTES:
        return
    size = len(text.encode())
    if size > MAX_TEXT_BYTES:
        raise Malformed(f"text has {size} bytes; the limit is {MAX_TEXT_BYTES}")


def _check_cost(usd: float | None) -> None:
    if usd is not None and usd > MAX_USD:
        raise Malformed(f"cost_usd is {usd:g}; the limit is {MAX_USD:.0f} US dollars")


def _completed(proposal: Proposal, fields: Mapping[str, object], spare_id: str) -> Proposal:
    unknown = _unknown(fields)
    if proposal.id is not None and proposal.context is None and not unknown:
        return proposal
    extra = msgspec.Raw(canonical(unknown)) if unknown else None
    context = None if proposal.context is None else msgspec.Raw(canonical(fields["context"]))
    return msgspec.structs.replace(
        proposal, id=proposal.id or spare_id, context=context, extra=extra
    )


def _unknown(fields: Mapping[str, object]) -> Fields:
    """Return unknown fields, including those of nested objects, which operators see too."""
    unknown = {name: fields[name] for name in fields.keys() - _KNOWN}
    for name in fields.keys() & _PARTS.keys():
        part, known = fields[name], _PARTS[name]
        if isinstance(part, dict) and not part.keys() <= known:
            unknown[name] = {key: part[key] for key in part.keys() - known}
    return unknown
