"""Checks a whole table against everything that is known of it, and reports."""
