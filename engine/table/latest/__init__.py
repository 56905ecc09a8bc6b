"""What a ``__latest`` table is made of: rows with their keys and places, delete files, the files that it names."""
