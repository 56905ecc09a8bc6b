"""What a table's past costs: commits, growth, a year of it, the newest of each key."""
