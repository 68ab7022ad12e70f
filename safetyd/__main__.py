"""`python -m safetyd` is the same as `safetyd`."""

from safetyd.console.cli import main

main()
