"""The one object that joins the core, and the lines of the journal."""
