"""Files with the records of others: many as one, or rows that newer schemas can give columns.

In: files of a table. Out: new files, which nobody has verified yet. Knows neither the commit nor any loop.
"""
