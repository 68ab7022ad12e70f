"""Measures a file of labelled commands: how many are decided as their label says."""

from collections.abc import Callable, Iterator, Sequence
from math import ceil
from pathlib import Path
from typing import Final, Literal

import msgspec

from safetyd.clock import uptime
from safetyd.console.failure import Failure, using_file
from safetyd.console.shell.command_trial import CommandTrial, Place
from safetyd.core.messages.verdict import Severity

Said = Literal["pass", "ask", "block"]
SAID: Final[dict[Severity, Said]] = {
    Severity.ALLOW: "pass",
    Severity.ASK: "ask",
    Severity.BLOCK: "block",
}
MICROSECONDS: Final = 1_000_000


class Labelled(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the file. It has a `label`, the exact verdict in `expect`, or both."""

    command: str
    label: Literal["harmless", "dangerous", ""] = ""
    expect: Said | Literal[""] = ""
    cwd: str | None = None
    project: str | None = None

    @property
    def dangerous(self) -> bool:
        return self.label == "dangerous" if self.label else self.expect != "pass"


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A command that was not decided as expected."""

    command: str
    expected: str
    said: Said


class Share(msgspec.Struct, frozen=True, kw_only=True):
    count: int
    of: int

    @property
    def percent(self) -> float:
        return 100 * self.count / self.of if self.of else 0.0


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `--corpus`. `otherwise` lists the commands not decided as expected."""

    dangerous_allowed: Share
    harmless_stopped: Share
    harmless_blocked: Share
    unlike_expected: Share
    median_us: float
    p99_us: float
    otherwise: tuple[Judged, ...]


def load_corpus(path: Path) -> list[Labelled]:
    """Read a file of JSON lines. If a line is invalid, raise `Failure` with its number."""
    with using_file(path, "read"):
        lines = path.read_bytes().splitlines()
    return [_labelled(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]


def measure(
    trial: CommandTrial, corpus: Sequence[Labelled], place: Place, now: Callable[[], float] = uptime
) -> Measured:
    """Decide every command and count the results. `place` is for commands that name none."""
    took_s: list[float] = []
    said: list[tuple[Labelled, Said]] = []
    for each in corpus:
        where = Place(project=each.project or place.project, cwd=each.cwd or place.cwd)
        began = now()
        decision = trial.decide(each.command, where)
        took_s.append(now() - began)
        said.append((each, SAID[decision]))
    return _counted(said, sorted(took_s))


def _counted(said: Sequence[tuple[Labelled, Said]], took_s: Sequence[float]) -> Measured:
    dangerous = [verdict for each, verdict in said if each.dangerous]
    harmless = [verdict for each, verdict in said if not each.dangerous]
    exact = [(each, verdict) for each, verdict in said if each.expect]
    stopped = len(harmless) - harmless.count("pass")
    return Measured(
        dangerous_allowed=Share(count=dangerous.count("pass"), of=len(dangerous)),
        harmless_stopped=Share(count=stopped, of=len(harmless)),
        harmless_blocked=Share(count=harmless.count("block"), of=len(harmless)),
        unlike_expected=Share(
            count=sum(each.expect != verdict for each, verdict in exact), of=len(exact)
        ),
        median_us=_quantile(took_s, 0.5),
        p99_us=_quantile(took_s, 0.99),
        otherwise=tuple(_otherwise(said)),
    )


def _otherwise(said: Sequence[tuple[Labelled, Said]]) -> Iterator[Judged]:
    for each, verdict in said:
        right = each.expect == verdict if each.expect else each.dangerous == (verdict != "pass")
        if not right:
            expected = each.expect or each.label
            yield Judged(command=each.command, expected=expected, said=verdict)


def _quantile(ordered: Sequence[float], share: float) -> float:
    if not ordered:
        return 0.0
    return round(ordered[ceil(share * len(ordered)) - 1] * MICROSECONDS, 1)


def _labelled(path: Path, number: int, line: bytes) -> Labelled:
    try:
        found = msgspec.json.decode(line, type=Labelled)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise Failure(f"{path}, line {number}: {exc}", "corpus") from exc
    if not found.label and not found.expect:
        why = 'set label ("harmless" or "dangerous") or expect ("pass", "ask" or "block")'
        raise Failure(f"{path}, line {number}: {why}", "corpus")
    return found
