"""Questions and commands are declared once: everything else is derived from the list of them."""

import importlib
import json
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import click
import msgspec
import msgspec.inspect as mi
import pytest
import yaml
from aiohttp import web

import safetyd
from docs.components import structs_in
from docs.generate import DOCS
from safetyd.bus.server_config import Users, accounts
from safetyd.bus.subjects import Subjects
from safetyd.console import help_page
from safetyd.console.cli import commands
from safetyd.console.completion import TABLE
from safetyd.operators.contract.question import (
    Call,
    Command,
    Question,
    Review,
    answer_of,
    name_of,
    needed_role,
    summary_of,
)
from safetyd.operators.declarations import BY_NAME, COMMANDS, QUESTIONS, read_call
from safetyd.operators.replies import CommandRefused, Done
from safetyd.web.v1.agent_routes import CLAIM, OUTCOME, PROPOSE, WAIT
from safetyd.web.v1.question_routes import QuestionRoutes
from tests.web.control_room.room_site import room_site
from tests.wire_samples import SAMPLES

ALL = (*QUESTIONS, *COMMANDS)
WIRE = {name: json.loads(sample) for name, sample in SAMPLES}
# Parts of what other commands do, and what other programs than the console send.
WITHOUT_COMMAND = {
    "health",
    "replicas",
    "agent",
    "top_bar",
    "sign_in",
    "session_end",
    "checkpoint",
    "backup_made",
    "accept_files",
    "host_files",
    "safe_mode_enter",
    "safe_mode_exit",
    "reject",
    "notify_shown",
    "notify_link",
}
each = pytest.mark.parametrize("kind", ALL, ids=lambda kind: f"{kind.verb}_{name_of(kind)}")


def sample(kind: type[Call[Done]]) -> Call[Done]:
    return read_call(kind.verb, WIRE[f"{kind.verb}_{name_of(kind)}"])


def declared(base: type[Call[Done]] = Call) -> Iterator[type[Call[Done]]]:
    for kind in base.__subclasses__():
        if kind.__struct_config__.tag is not None and kind.__module__.startswith("safetyd."):
            yield kind
        yield from declared(kind)


def test_every_declaration_in_the_source_is_in_the_list_once() -> None:
    for module in pkgutil.walk_packages(safetyd.__path__, "safetyd."):
        # Adapters need the packages of their frameworks, and declare nothing.
        if not module.name.endswith("__main__") and not module.name.startswith("safetyd.adapters."):
            importlib.import_module(module.name)
    bases = {Question, Command, Review}

    assert sorted(map(str, set(declared()) - bases)) == sorted(map(str, ALL))
    assert sum(len(known) for known in BY_NAME.values()) == len(ALL)


@each
def test_a_declaration_says_its_help_and_its_answer(kind: type[Call[Done]]) -> None:
    assert kind.__doc__ != (kind.__bases__[0].__doc__ or "")
    assert summary_of(kind).endswith(".")
    assert issubclass(answer_of(kind), Done)


@each
def test_what_is_sent_is_read_as_the_same(kind: type[Call[Done]]) -> None:
    call = sample(kind)

    assert type(call) is kind
    assert read_call(kind.verb, json.loads(msgspec.json.encode(call))) == call


def test_asyncapi_has_an_operation_for_each_declaration_and_no_other() -> None:
    document = yaml.safe_load((DOCS / "asyncapi.yaml").read_text())
    channels = {f"#/channels/{verb}": verb for verb in BY_NAME}
    operations = {
        (channels[operation["channel"]["$ref"]], name): operation["summary"]
        for name, operation in document["operations"].items()
        if operation["channel"]["$ref"] in channels
    }

    assert operations == {
        (kind.verb, f"{kind.verb}_{name_of(kind)}"): summary_of(kind) for kind in ALL
    }
    for verb in BY_NAME:
        assert document["channels"][verb]["address"] == Subjects().of(verb, "{operator}")


def test_openapi_and_the_server_have_the_paths_of_questions_and_no_other() -> None:
    document = yaml.safe_load((DOCS / "openapi.yaml").read_text())["paths"]
    app = web.Application()
    nothing = cast("Any", None)
    QuestionRoutes(nothing, nothing, nothing).routes(app)
    served = {resource.canonical for route in app.router.resources() for resource in _below(route)}
    paths = {path: question for question in QUESTIONS for path in question.paths}

    assert served == {f"/v1{path}" for path in paths}
    of_agents = {PROPOSE, WAIT, CLAIM, OUTCOME}
    assert {path for path in document if path.startswith("/api/v1/")} - of_agents == {
        f"/api/v1{path}" for path in paths
    }
    for path, question in paths.items():
        assert document[f"/api/v1{path}"]["get"]["summary"] == summary_of(question)


def _below(resource: Any) -> Iterator[Any]:
    """Yield the resources of an application that is served below a path."""
    inner = getattr(resource, "_app", None)
    yield from inner.router.resources() if inner is not None else ()


@each
def test_the_bus_lets_a_role_send_what_it_needs_for(kind: type[Call[Done]]) -> None:
    people = {"operator": "alice", "observer": "eve"}
    users = Users(
        daemons=("D",),
        agents={},
        operators={"alice": "A"},
        observers={"eve": "E"},
        open_agents=False,
    )
    lines = accounts(users, Subjects()).splitlines()
    may = {
        role
        for role, name in people.items()
        for line in lines
        if "publish: { allow" in line and f'"{Subjects().of(kind.verb, name)}"' in line
    }

    assert may == ({"operator"} if needed_role(kind) == "operator" else {"operator", "observer"})


async def test_the_web_lets_observers_send_questions_and_no_commands(tmp_path: Path) -> None:
    refused: set[type] = set()
    async with room_site(tmp_path) as site:
        for kind in ALL:
            try:
                await site.gateway.ask("eve", sample(kind))
            except CommandRefused as exc:
                if exc.code == "observer":
                    refused.add(kind)

    assert refused == set(COMMANDS)


def typed(group: click.Group, *words: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command that can be typed."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*words, name), command
        if isinstance(command, click.Group):
            yield from typed(command, *words, name)


def test_completion_has_the_help_of_each_declaration_that_a_command_sends() -> None:
    table, found = json.loads(TABLE.read_text()), {}
    for words, command in typed(commands):
        if isinstance(command, help_page.Command) and command.sends:
            node = table
            for word in words:
                node = node["commands"][word]
            assert node["help"] == summary_of(command.sends), words
            found[command.sends] = words

    assert {name_of(kind) for kind in set(ALL) - found.keys()} == WITHOUT_COMMAND


def test_an_answer_cannot_change_once_it_is_made() -> None:
    """The web gets it as it is, when everything in it is durable."""
    for struct in structs_in(map(answer_of, ALL)):
        info = mi.type_info(struct)
        assert isinstance(info, mi.StructType)
        lists = [field.name for field in info.fields if isinstance(field.type, mi.ListType)]
        assert (struct.__name__, lists) == (struct.__name__, [])
        assert info.cls.__struct_config__.frozen, struct


# Dictionaries that are no answers: what shells complete, lines of audit files and events as JSON,
# rows, documents and options that a command itself puts together, what a template or a chart is
# given, and requests to a model.
NO_ANSWERS = {
    "console/access/manage_keys.py",
    "console/completion.py",
    "console/demo/stage.py",
    "console/hosts/rehearsal/model_stand_in.py",
    "console/render/audit_lines.py",
    "console/render/event_line.py",
    "console/render/program_table.py",
    "console/simulation/try_rules.py",
    "console/subcommands/manage_grants.py",
    "console/subcommands/watch_events.py",
    "web/control_room/room_charts.py",
    "web/control_room/room_pages.py",
    "web/control_room/room_rendering.py",
}


def test_no_answer_is_a_dictionary_to_the_console_or_the_web() -> None:
    root = Path(safetyd.__file__).parent
    untyped = re.compile(r"\b(dict|Mapping)\[str, Any\]")
    found = {
        str(path.relative_to(root))
        for room in ("console", "web")
        for path in (root / room).rglob("*.py")
        if untyped.search(path.read_text())
    }

    assert found <= NO_ANSWERS
