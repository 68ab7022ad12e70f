"""Nothing is installed that does not have the hash it had when it was chosen."""

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.locks import ADAPTERS, ALL, BUILD, FILES, RUNTIME, SERVER, problems

# Imports what all tests share, without the packages in the first argument.
WITHOUT = """
import importlib, importlib.abc, importlib.metadata, json, sys

class Missing(importlib.abc.MetaPathFinder):
    def __init__(self, locked):
        found = importlib.metadata.packages_distributions()
        normal = {name: {one.lower().replace("_", "-") for one in of} for name, of in found.items()}
        self.names = {name for name, of in normal.items() if not of & locked}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"{name} is not in the lock")

sys.meta_path.insert(0, Missing({*json.loads(sys.argv[1]), "safetyd"}))
import tests.conftest, tests.adapters.test_tool_proposals
"""


def test_the_tests_of_the_adapters_import_only_what_their_lock_has() -> None:
    locked = re.findall(r"^([\w.-]+)==", (ROOT / ADAPTERS).read_text(), re.MULTILINE)
    names = json.dumps([name.lower().replace("_", "-") for name in locked])

    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


def test_everything_installed_is_locked_with_hashes() -> None:
    assert list(problems()) == []


@pytest.mark.parametrize(
    ("file", "pattern", "new", "problem"),
    [
        (RUNTIME, r"^click==.*\n(    --hash=.*\n)+", "click==8.5.1\n", "click has no hash"),
        (RUNTIME, r"^click==.*\n(    --hash=.*\n)+", "", "click >=8.5|click>=8.5 is not"),
        (RUNTIME, r"^click==8\S+", "click==8.0.0", "click is 8.0.0, in constraints.txt 8.5.1"),
        (RUNTIME, r"^hatchling==.*\n(    --hash=.*\n)+", "", "hatchling, which builds safetyd"),
        (ALL, r"^ruff==.*\n(    --hash=.*\n)+", "", "ruff is not what is locked: nothing"),
        (ALL, r"^pluggy==.*\n(    --hash=.*\n)+", "", "pytest requires pluggy, which is not"),
        (ADAPTERS, r"^langchain==.*\n(    --hash=.*\n)+", "", "langchain>=1.4 is not what is"),
        (SERVER, r"^aiohttp==.*\n(    --hash=.*\n)+", "", "aiohttp>=3.14 is not what is locked"),
        (SERVER, r"^yarl==.*\n(    --hash=.*\n)+", "", "server.lock: aiohttp requires yarl"),
        (BUILD, r"^pathspec==.*\n(    --hash=.*\n)+", "", "build.lock: hatchling requires pathsp"),
        (ALL, r"\A", "--index-url https://example.com\n", "has an address in it"),
        (ALL, r"\A", "ruff\n", "'ruff' is no entry"),
        ("constraints.txt", r"\A", "leftpad==1.0\n", "leftpad is in constraints.txt and not in"),
        ("pyproject.toml", r'"click >= 8.5"', '"click"', "click has no lower bound"),
        ("pyproject.toml", r'"twilio >= 9.13"', '"twilio >= 99"', "twilio>=99 is not what is"),
        ("pyproject.toml", r'"click >= 8.5"', '"click >= 9"', "click>=9 is not what is locked"),
    ],
)
def test_missing_locks_are_found(
    tmp_path: Path, file: str, pattern: str, new: str, problem: str
) -> None:
    for name in (*FILES, "pyproject.toml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    changed, count = re.subn(pattern, new, (ROOT / file).read_text(), count=1, flags=re.MULTILINE)
    assert count == 1

    (tmp_path / file).write_text(changed)

    assert re.search(problem, "\n".join(problems(tmp_path)))


def test_the_typescript_client_needs_nats_alone_and_is_locked_with_hashes() -> None:
    folder = ROOT / "clients/typescript"
    declared = json.loads((folder / "package.json").read_text())
    text = (folder / "package-lock.json").read_text()
    locked = {name: one for name, one in json.loads(text)["packages"].items() if name}

    assert list(declared["dependencies"]) == ["@nats-io/transport-node"]
    assert declared["private"]
    assert all(one["integrity"].startswith("sha512-") for one in locked.values())
    assert "://" not in text


def test_a_file_with_another_hash_is_refused(tmp_path: Path) -> None:
    locked = (ROOT / RUNTIME).read_text()
    entry = re.search(r"^click==(.*?) .*\n(    --hash=.*\n)+", locked, re.MULTILINE)
    assert entry is not None
    (tmp_path / "lock").write_text(entry[0])
    with zipfile.ZipFile(tmp_path / f"click-{entry[1]}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("click/__init__.py", "print('mine')")

    refused = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--no-index", "--find-links", tmp_path),
            *("--no-deps", "--require-hashes", "--dest", tmp_path / "got"),
            *("--requirement", tmp_path / "lock"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert refused.returncode == 1
    assert "DO NOT MATCH THE HASHES" in refused.stderr


def test_the_slim_lock_has_no_optional_package() -> None:
    names = (ROOT / SERVER).read_text()

    assert (
        re.findall(r"^(?:twilio|slack-sdk|apprise|textual|hatchling)==", names, re.MULTILINE) == []
    )


def test_make_installs_only_locked_packages_and_safetyd() -> None:
    lines = re.findall(r"pip install (.*)", (ROOT / "Makefile").read_text())

    assert lines
    for line in lines:
        own = line.endswith("--no-deps --no-build-isolation --editable .")
        assert own or line.startswith("$(LOCKED) --requirement ")
