"""SQL engines on the tables, through the table door, and how their answers are written."""
