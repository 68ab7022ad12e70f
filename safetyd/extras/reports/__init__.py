"""Daily reports: made from the audit files, stored, and sent to the recipients who want them.

`day_reading` reads the audit files, `report_maker` makes a report, and `report_keeper` stores and
sends it. `report_markdown`, `report_page` and `report_note` render it. `core/daily_report` counts.
"""
