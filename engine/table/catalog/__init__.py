"""The seam to pyiceberg's catalogs: SQLite and REST, their time limits and their errors in our words."""
