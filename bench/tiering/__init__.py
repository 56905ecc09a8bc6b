"""From log to table: the tiering job, its stages, its peer, and what the table takes."""
