"""What channels without their own layout share: a message as plain text, and HTTP POST.

Only channels import from here.
"""
