"""From a broker's closed segments to committed, verified files of the table: observe, plan, act, record.

In: log directories, the broker's word on what is safe, topic rules. Out: commits through the table writer, a report a
cycle. Imports only the engine; docs/tiering.md tells what happens at each step and after a crash at each.
"""
