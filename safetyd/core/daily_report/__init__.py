"""The daily report: events become numbers of a day, which can be added, and a status.

`report_fold` reads events, `day_numbers` is what it counts, `colour_rules` judges that, and
`day_report` is what people and programs are shown of it.
"""
