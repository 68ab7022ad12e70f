"""Turns tool calls into proposals. Defines the options and errors that all adapters share."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypedDict, cast

from safetyd.adapters.described_call import described_call
from safetyd.client.arguments import ProposalFields
from safetyd.hosts.named_paths import Arguments

# A function of a tool's arguments: one for all tools, or one for each tool by its name.
OfArguments = Callable[[Any], object] | Mapping[str, Callable[[Any], object]]


class Settings(TypedDict, total=False):
    """The options of all adapters.

    `types` maps tools to action types; the type of any other tool is its name. `text` and `paths`
    compute these fields from the arguments. `unguarded` names tools that the adapter cannot guard
    and that may run anyway. The other options are fields of every proposal.
    """

    types: Mapping[str, str]
    text: OfArguments
    paths: OfArguments
    unguarded: Collection[str]
    wait: bool
    timeout_s: float
    session: str
    project: str
    cwd: str


_FIELDS: Final = ("wait", "timeout_s", "session", "project", "cwd")


class Unguardable(Exception):
    """The agent has tools that run outside its process, where no adapter can guard them."""

    def __init__(self, tools: Collection[str]) -> None:
        self.tools = tuple(sorted(tools))
        super().__init__(
            f"safetyd cannot guard {', '.join(self.tools)}. Remove the tool, or let it run without "
            f"a decision: unguarded={list(self.tools)!r}"
        )


class ToolProposals:
    """Makes a proposal from each tool call, with the options of an adapter."""

    def __init__(self, settings: Settings) -> None:
        if unknown := settings.keys() - Settings.__annotations__.keys():
            raise TypeError(f"adapters have no option {', '.join(map(repr, sorted(unknown)))}")
        self._types = settings.get("types", {})
        self._text = settings.get("text", {})
        self._paths = settings.get("paths", {})
        self._unguarded = frozenset(settings.get("unguarded", ()))
        self.constant = {name: value for name, value in settings.items() if name in _FIELDS}

    def names(self, tool: str) -> bool:
        """Return True if `types`, `text` or `paths` applies to this tool."""
        functions = (self._text, self._paths)
        return tool in self._types or any(callable(how) or tool in how for how in functions)

    def of_call(self, tool: str, given: Arguments) -> tuple[str, ProposalFields]:
        """Return the type and the other fields of the proposal for a tool call."""
        paths = _computed(self._paths, tool, given)
        computed = {
            "text": _computed(self._text, tool, given),
            "paths": [paths] if isinstance(paths, str) else paths,
        }
        fields = described_call(tool, self._types.get(tool, tool), given, computed)
        return str(fields.pop("type")), cast("ProposalFields", {**fields, **self.constant})

    def check(self, tools: Collection[str]) -> None:
        """Raise `Unguardable` unless the options let all these tools run without a decision."""
        if rest := set(tools) - self._unguarded:
            raise Unguardable(rest)


def _computed(how: OfArguments, tool: str, given: Arguments) -> object:
    function = how.get(tool) if isinstance(how, Mapping) else how
    return None if function is None else function(given)


@contextmanager
def required(package: str) -> Iterator[None]:
    """Explain an import that fails because a framework is missing or too old."""
    try:
        yield
    except ImportError as exc:
        command = f"pip install --upgrade 'safetyd[{package}]'"
        raise ImportError(f"{package} is missing or too old ({exc}). Run: {command}") from exc
