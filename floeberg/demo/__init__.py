"""``floeberg demo``: the whole path on a real broker, told as a story that can fail.

In: nothing but a JDK and the registry's jars. Out: a running broker, a table, checks, a summary. Every step is done
with the parts a user has: the command line, the plugin's jar, unmodified clients, SQL engines.
"""
