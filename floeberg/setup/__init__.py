"""A set-up: what is found of it, what is written for it, and what is checked before a daemon runs."""
