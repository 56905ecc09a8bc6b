"""The seam to pyiceberg's catalogs: SQL, Glue and REST, their time limits and their errors in our words."""
