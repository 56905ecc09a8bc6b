"""The daemon: the loops and doors put together from the settings, and what it knows of itself."""
