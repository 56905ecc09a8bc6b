"""Lines of CSV with declared columns."""
