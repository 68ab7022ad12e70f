"""Fork bombs: functions that start copies of themselves endlessly."""

from collections.abc import Iterator

from tree_sitter import Node


def forks_itself(name: str, body: Node) -> bool:
    """Return True if a function calls itself in the background or in a pipeline."""
    called = name.encode()
    return any(_name(node) == called and _continues(node, body) for node in _commands(body))


def _commands(node: Node) -> Iterator[Node]:
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if each.type == "command":
            yield each
        waiting += each.children


def _name(command: Node) -> bytes:
    found = command.child_by_field_name("name")
    return (found.text or b"") if found else b""


def _continues(node: Node, body: Node) -> bool:
    """Return True if the function continues while a command still runs."""
    at: Node | None = node
    while at is not None and at.id != body.id:
        following = at.next_sibling
        if at.type == "pipeline" or (following is not None and following.type == "&"):
            return True
        at = at.parent
    return False
