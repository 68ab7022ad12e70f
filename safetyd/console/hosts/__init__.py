"""`safetyd protect` and its relatives: hooks in the settings of coding agents."""
