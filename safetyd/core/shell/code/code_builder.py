"""Builds the result of analysing code."""

from safetyd.core.shell.code.secret_names import looks_secret
from safetyd.core.shell.reading import HOLE, Access, Code, Effect, Touch


class CodeBuilder:
    """Collects the effects of code, without duplicates."""

    def __init__(self) -> None:
        self._findings: dict[tuple[Effect, str], None] = {}
        self._touches: dict[Touch, None] = {}
        self._shell: dict[str, None] = {}
        self._commands: dict[tuple[str, ...], None] = {}
        self._asks_unknown = False

    def find(self, effect: Effect, why: str) -> None:
        self._findings[effect, why] = None

    def variable(self, name: str) -> None:
        """Record that an environment variable is read."""
        if looks_secret(name):
            self.find(Effect.SECRETS, f"reads {name} from the environment")

    def touch(self, path: str, access: Access) -> None:
        self._touches[Touch(path, access)] = None

    def ask(self, address: str) -> None:
        """Record a request. An address that is only known at run time may contain local data."""
        self._asks_unknown = self._asks_unknown or HOLE in address

    def shell(self, text: str) -> None:
        self._shell[text] = None

    def command(self, *words: str) -> None:
        self._commands[words] = None

    def code(self) -> Code:
        reads = any(touch.access is Access.READ for touch in self._touches)
        if self._asks_unknown and (reads or self._commands or self._shell):
            self.find(Effect.LEAVES, "may send local data in an address")
        return Code(
            tuple(self._findings), tuple(self._touches), tuple(self._shell), tuple(self._commands)
        )
