"""Detectors: each is its own settings, and says of numbers it is given whether they are odd."""
