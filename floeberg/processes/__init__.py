"""Processes that are started here and end with the one that started them: a broker among them."""
