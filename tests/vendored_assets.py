"""Assets of the control room from npm packages: `python -m tests.vendored_assets [--fetch]`.

Without an option it names files that differ from the record. With `--fetch` it extracts the
files from the packages again (`npm pack`) and writes the record: version, licence and hash.
"""

import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from tests.checkout import ROOT

VENDOR: Final = ROOT / "safetyd/web/assets/vendor"
RECORD: Final = VENDOR / "vendor.json"


class Package(NamedTuple):
    """A package and its files that are served."""

    name: str
    version: str
    files: tuple[str, ...]


PACKAGES: Final = (
    Package("htmx.org", "2.0.11", ("dist/htmx.min.js",)),
    Package("idiomorph", "0.8.0", ("dist/idiomorph-ext.min.js",)),
    Package("uplot", "1.6.32", ("dist/uPlot.iife.min.js", "dist/uPlot.min.css")),
)


class Vendored(msgspec.Struct, frozen=True, kw_only=True):
    """One file from a package."""

    package: str
    version: str
    licence: str
    sha256: str


def recorded() -> dict[str, Vendored]:
    return msgspec.json.decode(RECORD.read_bytes(), type=dict[str, Vendored])


def problems() -> Iterator[str]:
    record = recorded()
    there = {path.name for path in VENDOR.iterdir()} - {RECORD.name}
    yield from (f"{name} is not recorded" for name in sorted(there - record.keys()))
    yield from (f"{name} is recorded and not there" for name in sorted(record.keys() - there))
    for name in sorted(there & record.keys()):
        if _hash((VENDOR / name).read_bytes()) != record[name].sha256:
            yield f"{name} is not the file that was recorded"


def fetch() -> None:
    record: dict[str, Vendored] = {}
    for package in PACKAGES:
        content = _unpacked(package)
        about = msgspec.json.decode(content["package.json"])
        licence = f"{package.name}.LICENSE.txt"
        kept = {licence: content["LICENSE"]}
        kept |= {Path(name).name: content[name] for name in package.files}
        for name, body in kept.items():
            (VENDOR / name).write_bytes(body)
            record[name] = Vendored(
                package=package.name,
                version=package.version,
                licence=about.get("license", "0BSD"),
                sha256=_hash(body),
            )
    encoded = msgspec.json.format(msgspec.json.encode(record, order="sorted"), indent=2)
    RECORD.write_bytes(encoded + b"\n")


def _unpacked(package: Package) -> dict[str, bytes]:
    """Return the files of a package, by their paths in it."""
    with tempfile.TemporaryDirectory() as directory:
        pack = ["npm", "pack", "--silent", f"{package.name}@{package.version}"]
        made = subprocess.run(pack, cwd=directory, check=True, capture_output=True, text=True)
        archive = (Path(directory) / made.stdout.strip().splitlines()[-1]).read_bytes()
    with tarfile.open(fileobj=io.BytesIO(archive)) as unpacked:
        files = ((member, unpacked.extractfile(member)) for member in unpacked.getmembers())
        return {m.name.removeprefix("package/"): f.read() for m, f in files if f is not None}


def _hash(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


if __name__ == "__main__":
    if "--fetch" in sys.argv[1:]:
        fetch()
    found = list(problems())
    print("\n".join(found))
    sys.exit(1 if found else 0)
