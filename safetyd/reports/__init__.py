"""Daily reports: made of the audit files, kept as files, put into words and sent to who wants them.

`day_reading` reads, `report_maker` makes what is asked for, `report_keeper` keeps and delivers,
`report_markdown`, `report_page` and `report_note` are the words. The numbers and the colour are the
core's: `core/daily_report`.
"""
