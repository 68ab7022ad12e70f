"""Assertions about decisions, shared by several tests."""

from safetyd.client import Decision

NOWHERE = "nats://127.0.0.1:1"


def assert_unavailable(decision: Decision, *words: str) -> None:
    assert not decision.allowed
    assert decision.cause == "unavailable"
    assert all(word in decision.reason for word in words), decision.reason
