"""The column machine that Avro, JSON and Protobuf share: programs of operations over arenas of columns.

A format compiles a schema into a program; its own kernels run the program over a block of records and fill the
arenas.
"""
