"""Desktops."""
