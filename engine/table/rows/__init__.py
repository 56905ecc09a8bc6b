"""Records into the rows of a table file and back."""
