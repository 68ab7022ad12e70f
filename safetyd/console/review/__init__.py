"""The screen of `safetyd review`."""
