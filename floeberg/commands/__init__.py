"""The commands of ``floeberg``, one a file: each reads settings, does one thing, reports, and says how it went."""
