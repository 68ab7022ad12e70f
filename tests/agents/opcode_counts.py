"""Count the bytecode instructions and Python calls of a decision: `make opcodes`.

Both numbers are exact for one version of Python, on any machine and under any load. They cover the
whole way from the received message to the encoded answer, without the network and the disk.
"""

import sys
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

import msgspec

import safetyd
from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import encode
from safetyd.core.messages.decision import Decision
from safetyd.daemon.config import Config
from safetyd.hosts.hook_answer import answer_to
from safetyd.hosts.hook_event import read_event
from safetyd.hosts.project_root import project_root
from safetyd.hosts.tool_call import call_folder, proposal_fields
from tests.agents.test_agent_service import Counter as ServedAgents
from tests.captured_connection import REPLY

PROJECT: Final = "/srv/shop"
WARM_UP: Final = 4  # commands and prices are remembered afterwards
ROUNDS: Final = 7  # clocks and health are looked at every few milliseconds, so the least counts
_COUNTED: Final = str(Path(safetyd.__file__).parent)

_encode = msgspec.json.Encoder().encode
_read_decision = msgspec.json.Decoder(Decision).decode


class Cost(NamedTuple):
    """The instructions and calls of one decision, and the instructions of each function."""

    opcodes: int
    calls: int
    functions: Counter[str]

    def table(self, most: int = 25) -> str:
        """Return the functions with the most instructions."""
        rows = [f"{count:7}  {name}" for name, count in self.functions.most_common(most)]
        return "\n".join((f"{self.opcodes:7}  opcodes in {self.calls} Python calls", *rows))


class OpcodeTrace:
    """Counts the instructions of safetyd's functions while it is active."""

    def __init__(self) -> None:
        self._opcodes = Counter[CodeType]()
        self._calls = 0

    def __enter__(self) -> None:
        self._before = sys.gettrace()
        sys.settrace(self._enter)

    def __exit__(self, *_exc: object) -> None:
        sys.settrace(self._before)

    @property
    def cost(self) -> Cost:
        functions = Counter[str]()
        for code, count in self._opcodes.items():
            module = Path(code.co_filename).relative_to(_COUNTED).with_suffix("")
            functions[f"{module}: {code.co_qualname}"] += count
        return Cost(self._opcodes.total(), self._calls, functions)

    def _enter(self, frame: FrameType, _event: str, _argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(_COUNTED):
            return None
        self._calls += 1
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _step(self, frame: FrameType, event: str, _argument: object) -> Any:
        if event == "opcode":
            self._opcodes[frame.f_code] += 1
        return self._step


Decide = Callable[..., None]  # within a context manager


class Decisions:
    """Agents that propose ordinary actions, and the service that allows them."""

    def __init__(self, place: Path) -> None:
        shop = {"root": PROJECT, "default": True}
        config = msgspec.convert({"profile": "coding", "projects": {"shop": shop}}, Config)
        self._agents = ServedAgents(place, config)
        self._agents.engine = Engine(self._agents.settings.policy)
        self._made = 0

    def costs(self) -> dict[str, Cost]:
        """Return the cost of each typical proposal."""
        tokens = {"input": 9000, "output": 700}
        paid = {"model": "claude-sonnet-4-5", "provider": "anthropic", "tokens": tokens}
        cart = f"{PROJECT}/cart.py"
        return {
            "edit": self._cost(self._proposed, type="edit_file", paths=[cart], text="x = 1\n"),
            "read": self._cost(self._proposed, type="read_file", paths=[cart]),
            "command": self._cost(self._proposed, type="run_shell", text="ls -l src", cwd=PROJECT),
            "hook call": self._cost(self._called, file_path=cart, content="x = 1\n"),
            "model call": self._cost(self._proposed, type="model_call", session="s1", **paid),
        }

    def _cost(self, decide: Decide, **fields: object) -> Cost:
        for _ in range(WARM_UP):
            decide(nullcontext(), **fields)
        return min(self._round(decide, fields) for _ in range(ROUNDS))

    def _round(self, decide: Decide, fields: dict[str, object]) -> Cost:
        decide(nullcontext(), **fields)  # it looks at clocks and health, so the next one need not
        trace = OpcodeTrace()
        decide(trace, **fields)
        return trace.cost

    def _proposed(self, trace: AbstractContextManager[object], **fields: object) -> None:
        payload = _encode({"id": self._id(), **fields})
        with trace:
            self._decided(payload)
        self._answer()

    def _called(self, trace: AbstractContextManager[object], **arguments: object) -> None:
        event = {"session_id": "s1", "cwd": PROJECT, "tool_use_id": self._id()}
        body = _encode({**event, "tool_name": "Write", "tool_input": arguments})
        with trace:
            call = read_event("claude", "before", body)
            fields = proposal_fields("claude", call, 1000, project_root(call_folder(call)))
            self._decided(_encode(fields), "claude")
        decision = _read_decision(_encode(self._answer()))
        with trace:
            answer_to("claude", decision, "")

    def _decided(self, payload: bytes, host: str = "") -> None:
        self._agents.service.propose(b"safety.v1.propose.code", REPLY, payload, host)
        for event in self._agents.write():
            encode(event)
        self._agents.captured.publisher.flush()

    def _answer(self) -> dict[str, Any]:
        answer = self._agents.captured.answer()
        assert answer["decision"] == "allow", answer
        return answer

    def _id(self) -> str:
        self._made += 1
        return f"p{self._made}"


def main() -> None:
    with TemporaryDirectory() as place:
        costs = Decisions(Path(place)).costs()
    for name, cost in costs.items():
        print(f"{name}\n{cost.table()}\n")


if __name__ == "__main__":
    main()
