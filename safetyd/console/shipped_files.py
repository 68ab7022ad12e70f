"""The documents, configurations and systemd units that come with safetyd.

Their names are paths in the repository, such as `docs/guards.md`. A wheel contains them in `share/`
inside the package. In a checkout they are next to the package.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

SHIPPED: Final = (
    *("README.md", "CHANGELOG.md", "docs/*.md", "docs/asyncapi.yaml"),
    *("docs/openapi.yaml", "docs/digest_vectors.json"),
    *("docs/decisions/*.md", "docs/schemas/*.json"),
    *("config/*.toml", "config/policy_tests/*.toml", "config/*.yml", "config/grafana/*.json"),
    *("systemd/*.service", "systemd/*.sysusers", "systemd/user/*.service"),
)

ALL_SETTINGS: Final = "config/safetyd.toml"
PRODUCTION: Final = "config/production.toml"
SERVICE: Final = "systemd/safetyd.service"
SERVICE_USER: Final = "systemd/safetyd.sysusers"

_PACKAGE: Final = Path(__file__).parents[1]
_TITLES: Final = {
    "README.md": "What safetyd is, and how to start",
    "CHANGELOG.md": "What is new",
    "docs/digest_vectors.json": "Proposals and their digests, to test a client",
    "config/grafana/safetyd.json": "A Grafana dashboard of safetyd's metrics",
}
_SENTENCE: Final = re.compile(r"(.+?)[.;](?: |\Z)")


class ShippedFile(NamedTuple):
    name: str
    path: Path

    @property
    def title(self) -> str:
        """Return the first sentence of the heading or of the first comment."""
        text = _TITLES.get(self.name) or " ".join(self._opening())
        found = _SENTENCE.match(text)
        return found[1] if found else text

    def _opening(self) -> Iterator[str]:
        for line in self.path.read_text(encoding="utf-8").splitlines():
            words = line.lstrip("# ")
            if not line.startswith("#") or not words:
                return
            yield words


def shipped_files(root: Path | None = None) -> Sequence[ShippedFile]:
    """Return all shipped files, the most useful first."""
    where = root or _root()
    return tuple(
        ShippedFile(path.relative_to(where).as_posix(), path)
        for pattern in SHIPPED
        for path in sorted(where.glob(pattern))
    )


def _root() -> Path:
    installed = _PACKAGE / "share"
    return installed if installed.is_dir() else _PACKAGE.parent


def find(name: str, files: Sequence[ShippedFile]) -> Sequence[ShippedFile]:
    """Return the file with this name, or the files in the folder with this name.

    `docs/` and `.md` are optional: `guards` is docs/guards.md, `schemas` is docs/schemas.
    """
    wanted = name.strip("/")
    for full in (wanted, f"docs/{wanted}"):
        exact = [file for file in files if file.name in {full, f"{full}.md"}]
        found = exact or [file for file in files if file.name.startswith(f"{full}/")]
        if found:
            return found
    return ()


def shipped(name: str) -> Path:
    """Return the path of one shipped file."""
    [file] = find(name, shipped_files())
    return file.path
