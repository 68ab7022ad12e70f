"""The texts of channels as templates. An operator can replace one in the data directory.

A replaced template runs in jinja's sandbox. If it fails, is too slow or too long, or has a code to
approve what it does not show, the shipped one is used, and `broken` is called once for each content
of the file.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from safetyd.notify.template_rendering import ReplacedTemplates

TEMPLATES: Final = "templates"  # in the data directory


class ChannelTemplates:
    """Renders the texts of channels; without a directory, as they are shipped."""

    def __init__(
        self,
        directory: Path | None = None,
        broken: Callable[[str, str], None] = lambda _name, _why: None,
    ) -> None:
        self.directory = directory
        self._broken = broken
        self._replaced: ReplacedTemplates | None = None
        self._failed: dict[str, tuple[int, int]] = {}  # the file that failed, by template

    def render(self, name: str, **values: object) -> str:
        """Return a text."""
        # Not before a text is made: who only reads the configuration needs no jinja.
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
        """Return what tells one content of a replaced template from another, None without one."""
        if self.directory is None:
            return None
        try:
            found = (self.directory / name).stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size
