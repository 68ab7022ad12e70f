"""Handles keys that arrive faster than the screen is drawn: bursts, pastes, slow connections."""

from typing import Final, TypeVar

from textual.app import App
from textual.binding import Binding
from textual.events import Event, Key, Paste
from textual.message import Message
from textual.screen import ModalScreen

R = TypeVar("R")

NEVER: Final = float("inf")


def at_once(key: str, action: str, words: str) -> Binding:
    """Return a binding that runs before the next key is handled."""
    return Binding(key, action, words, priority=True)


class Dialog(ModalScreen[R]):
    """A dialog over the list. It ignores keys that were typed before it was shown."""

    shown_at = NEVER  # comparable with the `time` of key events

    def on_mount(self) -> None:  # textual calls this and also `on_mount` of subclasses
        self.screen_layout_refresh_signal.subscribe(self, self._painted, immediate=True)
        self.call_after_refresh(self._painted)  # in case no layout is pending

    def _painted(self, _: object = None) -> None:
        self.shown_at = min(self.shown_at, Message().time)


class TypeAheadApp(App[None]):
    """Sends each key to the dialog that was open when it was typed, or drops the key."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the keys of the list while a dialog is open."""
        of_queue = f"action_{action}" in vars(type(self))
        if of_queue and isinstance(self.screen, Dialog):
            return False
        return super().check_action(action, parameters)

    async def on_event(self, event: Event) -> None:
        typed = isinstance(event, Key | Paste) and not event.is_forwarded
        if typed and isinstance(self.screen, Dialog) and event.time <= self.screen.shown_at:
            return
        await super().on_event(event)
