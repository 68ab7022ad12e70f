"""Webhooks, ntfy, and chats by apprise."""
