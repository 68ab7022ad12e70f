"""The daily report: counts the events of each day, and derives a status.

`report_fold` counts events in `day_numbers`. Numbers of several days can be added. `colour_rules`
derives the status, and `day_report` is the report for operators and programs.
"""
