"""The daily report: events of days become numbers that can be added, and a colour.

`report_fold` reads events, `day_numbers` is what it counts, `colour_rules` judges that, and
`shown_numbers` makes of it what people and programs are shown: `report_parts`.
"""
