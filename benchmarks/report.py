"""Results: a table to read, and the same with raw numbers as JSON."""

import os
import platform
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

import msgspec

from benchmarks.processes import call
from benchmarks.rig import NATS_SERVER


class Row(msgspec.Struct, frozen=True):
    """One line of the table. `ok` is None where there is no target."""

    what: str
    measured: str
    target: str = ""
    ok: bool | None = None

    @property
    def verdict(self) -> str:
        return {None: "", True: "ok", False: "MISSED"}[self.ok]


class Report:
    """Rows and raw numbers of all measurements."""

    def __init__(self, *, quick: bool) -> None:
        self.quick = quick
        self.load_before = os.getloadavg()[0]
        self.rows: list[Row] = []
        self.raw: dict[str, object] = {}
        self.unmeasured: dict[str, str] = {}

    def tell(self, what: str, measured: str) -> None:
        self.rows.append(Row(what, measured))

    def at_least(self, what: str, value: float, target: float, note: str = "") -> None:
        self._judge(what, value, f">= {target:g}", note, ok=value >= target)

    def at_most(self, what: str, value: float, target: float, note: str = "") -> None:
        self._judge(what, value, f"<= {target:g}", note, ok=value <= target)

    def _judge(self, what: str, value: float, target: str, note: str, *, ok: bool) -> None:
        self.rows.append(Row(what, f"{number(value)}  {note}".rstrip(), target, ok))
        self.raw[what] = value

    @property
    def missed(self) -> bool:
        return any(row.ok is False for row in self.rows)

    def table(self) -> str:
        """Return the rows, aligned."""
        cells = [("measure", "measured", "target", "")]
        cells += [(row.what, row.measured, row.target, row.verdict) for row in self.rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        return "\n".join(_aligned(line, widths) for line in cells)

    def write(self, path: Path) -> None:
        found = {
            "quick": self.quick,
            "machine": machine(),
            "load_before": self.load_before,
            "rows": self.rows,
            "raw": self.raw,
            "unmeasured": self.unmeasured,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")


def number(value: float) -> str:
    """Format a number with useful precision."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def machine() -> dict[str, object]:
    """Describe the machine."""
    return {
        "cpus": os.cpu_count(),
        "system": platform.platform(),
        "python": sys.version.split()[0],
        "nats_server": call(NATS_SERVER, "--version").decode().strip(),
        "nats_py": version("nats-py"),
        "safetyd": version("safetyd"),
    }


def _aligned(line: Iterable[str], widths: list[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
    return "  ".join(padded).rstrip()
