"""What is known of scripting languages: how they are written, and what their functions do.

`script_code` puts it together; nobody else imports from here.
"""
