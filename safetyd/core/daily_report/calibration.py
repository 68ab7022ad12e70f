"""Calibration: what agents stated as their confidence, against what became of it."""

from safetyd.core.daily_report.day_numbers import MILLION, DayNumbers, Stated, bin_of, entry


def stated_of(day: DayNumbers, agent: str, confidence: float | None) -> Stated | None:
    """Return where an outcome or answer is counted, None if no confidence was stated."""
    if confidence is None:
        return None
    bins = entry(day.calibration, agent, dict[int, Stated])
    stated = entry(bins, bin_of(confidence), Stated)
    stated.sum_millionths += round(confidence * MILLION)
    return stated
