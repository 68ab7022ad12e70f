"""Text of agents: folded, searched by patterns and by globs of paths."""
