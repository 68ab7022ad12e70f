"""Check the locked dependencies: `python -m tests.locks`, a part of `make check`.

`constraints.txt` has the versions, the locks have the hashes of every file of these releases.
"""

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.checkout import ROOT

RUNTIME: Final = "requirements.lock"
ALL: Final = "requirements-dev.lock"
ADAPTERS: Final = "tests/adapters/requirements.lock"
# For the image (Containerfile): what builds the wheel, and a daemon without optional packages.
BUILD: Final = "requirements-build.lock"
SERVER: Final = "requirements-server.lock"
LOCKS: Final = (RUNTIME, ALL, ADAPTERS, BUILD, SERVER)
FILES: Final = ("constraints.txt", *LOCKS)
# Extras, and a group of tools, that only `make adapters` installs.
FRAMEWORKS: Final = ("pydantic-ai", "langchain", "openai-agents", "claude-agent-sdk")
FRAMEWORK_TOOLS: Final = "adapters"
# A group of tools that only the image installs.
SOURCE_TOOLS: Final = "sources"
# Part of every virtual environment, and built here.
UNLOCKED: Final = frozenset({"pip", "setuptools", "safetyd"})

_ENTRY: Final = re.compile(
    r"([\w.-]+)==(\S+)(?: ; [^\\\n]+)?((?: \\\n    --hash=sha256:\w{64})*)\n"
)

Versions = Mapping[str, str]


def problems(root: Path = ROOT) -> Iterator[str]:
    texts = {name: (root / name).read_text() for name in FILES}
    locked = {name: versions(texts[name]) for name in FILES}
    for name in LOCKS:
        yield from _unhashed(name, texts[name])
        yield from _other_versions(name, locked[name], locked["constraints.txt"])
    yield from (f"{name} has an address in it" for name in FILES if "://" in texts[name])
    missing = locked["constraints.txt"].keys() - set(chain(*(locked[name] for name in LOCKS)))
    yield from (f"{name} is in constraints.txt and not in {ALL}" for name in sorted(missing))
    project = tomllib.loads((root / "pyproject.toml").read_text())
    yield from _undeclared(project, locked)
    yield from _not_installed_as_locked(locked[ALL])
    for name in (BUILD, SERVER):
        yield from _incomplete(name, locked[name])


def versions(text: str) -> Versions:
    """Return the version of each distribution, by its canonical name."""
    return {canonicalize_name(name): version for name, version, _ in _ENTRY.findall(text)}


def _unhashed(lock: str, text: str) -> Iterator[str]:
    rest = _ENTRY.sub("", text)
    yield from (f"{lock}: {line!r} is no entry" for line in rest.splitlines())
    for name, _, hashes in _ENTRY.findall(text):
        if not hashes:
            yield f"{lock}: {name} has no hash"


def _other_versions(lock: str, locked: Versions, wanted: Versions) -> Iterator[str]:
    for name, version in locked.items():
        if wanted.get(name) != version:
            yield f"{lock}: {name} is {version}, in constraints.txt {wanted.get(name, 'missing')}"


def _undeclared(project: Mapping[str, Any], locked: Mapping[str, Versions]) -> Iterator[str]:
    """Yield requirements that are not locked, or that the locked version does not satisfy."""
    extras, groups = project["project"]["optional-dependencies"], project["dependency-groups"]
    usual = [lines for name, lines in extras.items() if name not in FRAMEWORKS]
    runtime = _parsed(project["project"]["dependencies"], *usual)
    elsewhere = (FRAMEWORK_TOOLS, SOURCE_TOOLS)
    tools = _parsed(*(lines for name, lines in groups.items() if name not in elsewhere))
    adapters = _parsed(*(extras[name] for name in FRAMEWORKS))
    wanted = {
        RUNTIME: runtime,
        ALL: [*runtime, *tools],
        ADAPTERS: [*runtime, *adapters, *_parsed(groups[FRAMEWORK_TOOLS])],
        BUILD: [*_parsed(groups["build"]), *map(Requirement, groups[SOURCE_TOOLS])],
        SERVER: _parsed(project["project"]["dependencies"], extras["server"], extras["postgres"]),
    }
    for lock, needed in wanted.items():
        for one in needed:
            version = locked[lock].get(canonicalize_name(one.name))
            if version is None or version not in one.specifier:
                yield f"{lock}: {one} is not what is locked: {version or 'nothing'}"
    for one in (*runtime, *adapters):
        if not any(part.operator in {">=", "=="} for part in one.specifier):
            yield f"pyproject.toml: {one} has no lower bound"
    builds = {Requirement(line).name for line in project["build-system"]["requires"]}
    for name in sorted(builds - locked[RUNTIME].keys()):
        yield f"{RUNTIME}: {name}, which builds safetyd, is missing"


def _parsed(*lines: list[str]) -> list[Requirement]:
    """Parse requirements, except extras that only name other extras of safetyd."""
    found = map(Requirement, chain(*lines))
    return [one for one in found if one.name not in UNLOCKED]


def _not_installed_as_locked(locked: Versions) -> Iterator[str]:
    """Yield installed distributions, and their requirements, that are not locked."""
    for one in metadata.distributions():
        name = canonicalize_name(one.name)
        if name not in UNLOCKED and locked.get(name) != one.version:
            yield f"{name} {one.version} is installed, {locked.get(name, 'nothing')} is locked"
        yield from _unlocked(one, locked)


def _incomplete(lock: str, locked: Versions) -> Iterator[str]:
    """Yield requirements of locked distributions that the same lock does not have."""
    for one in metadata.distributions():
        if canonicalize_name(one.name) in locked:
            yield from (f"{lock}: {problem}" for problem in _unlocked(one, locked))


def _unlocked(one: metadata.Distribution, locked: Versions) -> Iterator[str]:
    for line in one.requires or ():
        needed = Requirement(line)
        marker, wanted = needed.marker, canonicalize_name(needed.name)
        if (marker is None or marker.evaluate({"extra": ""})) and wanted not in locked:
            yield f"{canonicalize_name(one.name)} requires {wanted}, which is not locked"


if __name__ == "__main__":
    found = "\n".join(problems())
    sys.exit(
        f"{found}\nRun `make lock`, or `make clean` if other versions are installed."
        if found
        else 0
    )
