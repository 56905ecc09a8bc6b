"""The second table of a topic, ``__latest``, which shows the newest record of each key.

In: the topics that are led here and their tables. Out: commits to their ``__latest`` tables, made of the same data
files and of position deletes. Imports topics, workers and the engine; never tiering, compaction, retention or serving.
"""
