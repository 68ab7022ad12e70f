"""The daily report: count the events of each day, and derive a status.

`report_fold` reads events and counts them in `day_numbers`, which can be added. `colour_rules`
derives the status, and `day_report` is the report for operators and programs.
"""
