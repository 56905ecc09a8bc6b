"""The tables of a catalog: found, looked through, dropped; records erased from them."""
