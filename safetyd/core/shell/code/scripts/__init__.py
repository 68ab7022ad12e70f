"""What is known of scripting languages: how they are written, and what their functions do."""
