"""Few files for ever: merges and their peer, SQL before and after."""
