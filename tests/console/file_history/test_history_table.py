"""Commits as people read them."""

import re

import click

from safetyd.console.cli import commands as root
from safetyd.console.file_history import history_table
from safetyd.console.file_history.roll_back import rollback
from tests.filled import reading

commits = reading(history_table.commits)

COMMIT = {
    "at": "2026-11-01T09:00:00Z",
    "commit": "0" * 40,
    "project": "shop",
    "author": "agent",
    "agent": "code",
    "approver": "",
    "action": "write_file",
    "files": 1,
    "added": 2,
    "removed": 0,
    "left_out": "",
    "subject": "Write the notes",
}


def test_the_foot_names_rollbacks_that_are_accepted_as_they_are():
    shown = commits({"problems": [], "projects": ["shop"], "commits": [COMMIT]}, 20)

    commands = re.findall(r"`safetyd rollback (.*?)`", shown)
    parent = click.Context(root, **root.context_settings)
    found = [rollback.make_context("rollback", line.split(), parent).params for line in commands]

    assert [(options["commit"], options["kind"], options["reason"]) for options in found] == [
        ("COMMIT", "soft", "WHY"),
        ("COMMIT", "revert", "WHY"),
    ]
