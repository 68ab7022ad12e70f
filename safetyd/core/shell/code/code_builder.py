"""Builds the result of analysing code."""

from safetyd.core.shell.code.secret_names import looks_secret
from safetyd.core.shell.reading import Access, Code, Effect, Touch


class CodeBuilder:
    """Collects the effects of code, without duplicates."""

    def __init__(self) -> None:
        self._findings: dict[tuple[Effect, str], None] = {}
        self._touches: dict[Touch, None] = {}
        self._shell: dict[str, None] = {}
        self._commands: dict[tuple[str, ...], None] = {}

    def find(self, effect: Effect, why: str) -> None:
        self._findings[effect, why] = None

    def variable(self, name: str) -> None:
        """Record that an environment variable is read."""
        if looks_secret(name):
            self.find(Effect.SECRETS, f"reads {name} from the environment")

    def touch(self, path: str, access: Access) -> None:
        self._touches[Touch(path, access)] = None

    def shell(self, text: str) -> None:
        self._shell[text] = None

    def command(self, *words: str) -> None:
        self._commands[words] = None

    def code(self) -> Code:
        return Code(
            tuple(self._findings), tuple(self._touches), tuple(self._shell), tuple(self._commands)
        )
