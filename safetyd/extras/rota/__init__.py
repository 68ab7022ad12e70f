"""The rota's calendar: read in another process, checked, and journalled when it changes.

Other packages import `read_calendar`, `CalendarWatch` and the checks. Only `calendar_shifts`
imports icalendar and recurring-ical-events, and only when a calendar is read.
"""
