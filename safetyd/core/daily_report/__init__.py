"""The daily report: events of days become numbers that can be added, and a colour.

`report_fold` reads events, `day_numbers` is what it counts, `colour_rules` judges that, and
`day_report` is what people and programs are shown of it.
"""
