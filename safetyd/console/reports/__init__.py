"""What happened on a day: `report` shows it."""
