"""The files that dpkg and Debian's policy expect: control, changelog, copyright, md5sums."""

import hashlib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from importlib import metadata
from pathlib import Path
from typing import Final

from deb.bundled_venv import PLACE, ROOT, Interpreter, run

FILES: Final = Path(__file__).parent / "files"
SCRIPTS: Final = ("postinst", "prerm", "postrm")
# On a system without systemd, another package can create the user.
SYSUSERS: Final = "systemd | systemd-standalone-sysusers | systemd-sysusers"

_PRERELEASE: Final = re.compile(r"\.?(a|b|rc|dev)(?=\d)")
_LICENCE: Final = "License :: OSI Approved :: "


def version() -> str:
    """Return the version of the package."""
    return debian_version(
        tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    )


def debian_version(python_version: str) -> str:
    """Return a version that Debian orders like Python: prereleases come before the release."""
    return _PRERELEASE.sub(r"~\1", python_version)


def architecture() -> str:
    return run(["dpkg", "--print-architecture"]).strip()


def maintainer() -> str:
    """Return name and address from the variables that Debian's tools use."""
    name = os.environ.get("DEBFULLNAME", "The safetyd authors")
    return f"{name} <{os.environ.get('DEBEMAIL', 'safetyd@safetyd.invalid')}>"


def control(depends: str, size_kib: int) -> str:
    text = (FILES / "control").read_text()
    facts: Mapping[str, str] = {
        "VERSION": version(),
        "ARCHITECTURE": architecture(),
        "MAINTAINER": maintainer(),
        "SIZE": str(size_kib),
        "DEPENDS": depends,
    }
    for name, fact in facts.items():
        text = text.replace(f"@{name}@", fact)
    return text


def depends(stage: Path, scratch: Path, interpreter: Interpreter) -> str:
    """Return the packages that the program needs, with the system libraries of all wheels."""
    python = f"python3 (>= {interpreter.version}), {interpreter.package}"
    return f"{python}, {SYSUSERS}, {_libraries(stage, scratch)}"


def _libraries(stage: Path, scratch: Path) -> str:
    """Return the dependencies on libraries that dpkg-shlibdeps finds."""
    (scratch / "debian").mkdir()
    (scratch / "debian/control").write_text(
        "Source: safetyd\n\nPackage: safetyd\nArchitecture: any\n"
    )
    venv = stage / PLACE.relative_to("/")
    binaries = [path for path in venv.rglob("*") if _is_binary(path)]
    folders = {path.parent for path in binaries if ".so" in path.name}
    line = ["env", f"--chdir={scratch}", "dpkg-shlibdeps", "-O", "--ignore-missing-info"]
    line += ["--warnings=0", *(f"-l{folder}" for folder in sorted(folders))]
    line += [f"-e{path}" for path in sorted(binaries)]
    return run(line).strip().removeprefix("shlibs:Depends=")


def _is_binary(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def changelog(made: datetime) -> str:
    """Return a changelog in Debian's format. It says where the changes are described."""
    return (
        f"safetyd ({version()}) unstable; urgency=medium\n\n"
        "  * `safetyd docs CHANGELOG` shows the changes.\n\n"
        f" -- {maintainer()}  {format_datetime(made.astimezone(UTC))}\n"
    )


def copyright_text(site: Path) -> str:
    """Return the licences of safetyd and of every distribution in the environment."""
    return "\n".join(_copyright(site)) + "\n"


def _copyright(site: Path) -> Iterator[str]:
    yield "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
    yield "Upstream-Name: safetyd"
    yield "Comment:"
    yield f" {PLACE} also contains these Python distributions as they were published."
    yield " The licence of each is in its folder *.dist-info."
    found = {one.name: one for one in metadata.distributions(path=[str(site)])}
    for name in sorted(found, key=str.lower):
        if name != "safetyd":
            yield f" {name} {found[name].version}: {_licence(found[name].metadata)}"
    yield ""
    yield "Files: *"
    yield "Copyright: 2026 the safetyd authors"
    yield "License: Apache-2.0"
    yield ""
    yield "License: Apache-2.0"
    yield " On Debian systems, the text of the Apache License 2.0 is in"
    yield " /usr/share/common-licenses/Apache-2.0."


def _licence(found: metadata.PackageMetadata) -> str:
    """Return a licence in a few words."""
    named = [line for line in found.get_all("Classifier", []) if line.startswith("License ::")]
    listed = ", ".join(line.removeprefix(_LICENCE) for line in named)
    texts = [*found.get_all("License-Expression", []), listed, *found.get_all("License", [])]
    chosen = next(filter(None, texts), "see its folder")
    return chosen.strip().partition("\n")[0][:60]


def md5sums(stage: Path) -> str:
    """Return the checksums with which `dpkg --verify` finds changed files."""
    files = sorted(path for path in stage.rglob("*") if path.is_file() and not path.is_symlink())
    names = [path.relative_to(stage).as_posix() for path in files]
    return "".join(
        f"{hashlib.md5((stage / name).read_bytes(), usedforsecurity=False).hexdigest()}  {name}\n"
        for name in names
        if not name.startswith(("DEBIAN/", "etc/"))
    )
