"""From a broker's closed segments to committed, verified files of the table: observe, plan, act, record.

In: log directories, the broker's word on what is safe, topic rules. Out: commits through the table writer, a report a
cycle. Imports the engine, topics and workers; docs/tiering.md tells what happens at each step and what a crash leaves.
"""
