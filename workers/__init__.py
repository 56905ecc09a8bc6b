"""Runs work somewhere else: a function and its tasks, in Spark's Python workers or in this process.

In: picklable functions and tasks. Out: each task's result, or its error. Imports the engine only, and nothing that
hands it work.
"""
