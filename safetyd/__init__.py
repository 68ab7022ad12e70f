"""A daemon that decides which of an agent's proposed actions may run."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from safetyd.core.guards.gate.safety_gate import (
        SafetyAssessment,
        SafetyConfig,
        SafetyDecision,
        SafetyGate,
    )

__version__ = "0.1.0"
__all__ = ["SafetyAssessment", "SafetyConfig", "SafetyDecision", "SafetyGate", "__version__"]


def __getattr__(name: str) -> object:
    """Import the library on first use, so that `import safetyd` costs nothing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from safetyd.core.guards.gate import safety_gate  # noqa: PLC0415 - see above

    return getattr(safety_gate, name)
