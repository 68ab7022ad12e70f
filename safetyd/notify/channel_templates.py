"""Templates for the texts of channels. Operators can replace a template in the data directory.

A replacement runs in jinja's sandbox. If it fails, is too slow, makes too much text, or shows an
approval code without the whole action, the shipped template is used and `broken` is called, once
for each version of the file.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from safetyd.notify.template_rendering import ReplacedTemplates

TEMPLATES: Final = "templates"  # in the data directory


class ChannelTemplates:
    """Renders the texts of channels. Without a directory, it uses only shipped templates."""

    def __init__(
        self,
        directory: Path | None = None,
        broken: Callable[[str, str], None] = lambda _name, _why: None,
    ) -> None:
        self.directory = directory
        self._broken = broken
        self._replaced: ReplacedTemplates | None = None
        self._failed: dict[str, tuple[int, int]] = {}  # the versions that failed, by template

    def render(self, name: str, **values: object) -> str:
        """Render a template. If an operator's replacement fails, use the shipped template."""
        # Import jinja only here: reading the configuration does not need it.
        from safetyd.notify import template_rendering as rendering  # noqa: PLC0415

        file = self._file(name)
        if file is not None and self.directory is not None and self._failed.get(name) != file:
            if self._replaced is None:
                self._replaced = rendering.ReplacedTemplates(self.directory)
            try:
                return self._replaced.made(name, values)
            except Exception as exc:  # noqa: BLE001 - an operator's template may raise anything
                self._failed[name] = file
                self._broken(name, rendering.why(exc))
        return rendering.rendered_as_shipped(name, values)

    def _file(self, name: str) -> tuple[int, int] | None:
        """Return the time and size of an operator's replacement, or None if there is none."""
        if self.directory is None:
            return None
        try:
            found = (self.directory / name).stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size
