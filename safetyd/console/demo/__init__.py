"""What `safetyd demo` shows."""
