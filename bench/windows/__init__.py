"""Rows in windows sorted by columns: both sides of the dial."""
