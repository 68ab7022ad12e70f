"""Runs these tests only where the frameworks are installed: `make adapters` does both."""

from importlib.util import find_spec

collect_ignore_glob = ["test_*.py"] if find_spec("agents") is None else []
