"""Formats of values, both ways, on values as producers write them."""
