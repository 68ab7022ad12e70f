"""What happened on a day: `report` shows it.

`show_report` is the command, `report_text` what it prints.
"""
