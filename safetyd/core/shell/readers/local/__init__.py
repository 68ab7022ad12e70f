"""Readers of programs for the files, texts and processes of this machine."""
