"""The same effect on the same path or address, through every tool of a coding agent."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from safetyd.core.engine.engine import Engine
from safetyd.core.guards.gate.own_config import OwnConfig
from safetyd.core.guards.projects import ProjectConfig
from safetyd.core.guards.rules import RulesConfig
from safetyd.core.host_rules import HostRules
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.proposal import Proposal
from safetyd.core.policy import Policy
from safetyd.hosts.hook_event import HookEvent
from safetyd.hosts.tool_call import proposal_fields
from tests.story import propose

ROOT: Final = "/srv/web"
DATA: Final = "/srv/state/sd"
PORT: Final = 8787

Call = tuple[str, Mapping[str, object]]  # a tool and its arguments


def policy(profile: Any = "coding") -> Policy:
    return Policy(
        profile=profile,
        projects={"web": ProjectConfig(root=ROOT, agents=("code",))},
        default_project="web",
        hosts=HostRules(profile=profile),
        own=OwnConfig(directories=(DATA,), addresses=(f"127.0.0.1:{PORT}",)),
        # The rules of types are not compared.
        rules=RulesConfig(allow_without_permission=("mcp_call",)),
    )


def shell(command: str) -> Call:
    return "Bash", {"command": command}


def reading(path: str) -> Iterator[Call]:
    yield "Read", {"file_path": path}
    yield "Grep", {"pattern": "x", "path": path}
    yield "Grep", {"pattern": "x", "glob": path}
    yield "mcp__files__read_file", {"path": path}
    if path.startswith("/"):
        yield "mcp__files__get_any", {"options": {"uri": f"file://{path}"}}
        yield "WebFetch", {"url": f"file://{path}", "prompt": "x"}
    yield shell(f"cat {path}")
    yield shell(f"head -5 '{path}' | wc -l")
    yield shell(f'sh -c "grep x {path}"')
    yield shell(f"python3 -c \"print(open('{path}').read())\"")
    yield shell(f'node -e \'console.log(require("fs").readFileSync("{path}"))\'')


def writing(path: str) -> Iterator[Call]:
    yield "Write", {"file_path": path, "content": "x"}
    yield "Edit", {"file_path": path, "old_string": "a", "new_string": "b"}
    yield "apply_patch", {"patch": f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch"}
    yield "mcp__files__write_file", {"path": path, "text": "x"}
    yield shell(f"echo x > {path}")
    yield shell(f"echo x | tee -a {path}")
    yield shell(f"python3 -c \"open('{path}', 'w').write('x')\"")
    yield shell(f'node -e \'require("fs").writeFileSync("{path}", "x")\'')


def deleting(path: str) -> Iterator[Call]:
    yield "apply_patch", {"patch": f"*** Begin Patch\n*** Delete File: {path}\n*** End Patch"}
    yield "mcp__files__delete_file", {"path": path}
    yield shell(f"rm {path}")
    yield shell(f"python3 -c \"import os; os.remove('{path}')\"")
    yield shell(f'node -e \'require("fs").unlinkSync("{path}")\'')


def running(path: str) -> Iterator[Call]:
    yield shell(f"sh {path}")
    yield shell(f"bash -c 'sh {path}'")
    yield shell(f"python3 -c \"import subprocess; subprocess.run(['sh', '{path}'])\"")
    yield shell(f'node -e \'require("child_process").execSync("sh {path}")\'')


def contacting(url: str) -> Iterator[Call]:
    yield "WebFetch", {"url": url, "prompt": "x"}
    yield "mcp__web__fetch", {"url": url}
    yield "mcp__web__get_page", {"options": {"address": url}}
    yield shell(f"curl -s {url}")
    yield shell(f"wget -qO- '{url}'")
    yield shell(f"python3 -c \"import urllib.request as u; print(u.urlopen('{url}').read())\"")
    yield shell(f"node -e 'fetch(\"{url}\")'")


def decide(engine: Engine, call: Call, host: str = "claude") -> Decision:
    """Return the decision on a call of a coding agent."""
    tool, given = call
    event = HookEvent(session_id="s", cwd=ROOT, tool_name=tool, tool_input=dict(given))
    fields: Any = {**proposal_fields("claude", event, 1000), "dry_run": True, "wait": False}
    proposed = propose(0)
    proposed.proposal, proposed.host = msgspec.convert(fields, Proposal), host
    return engine.decide(proposed)[0]
