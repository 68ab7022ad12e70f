"""What `safetyd doctor` looks at."""
