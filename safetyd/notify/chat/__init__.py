"""Webhooks, ntfy, and chats that apprise knows.

The registry opens the channels. apprise runs in a process of its own, aiohttp stays in `http_post`.
"""
