"""Status: health and metrics for monitors, a page for people.

In: what the daemon's loops report, as plain values. Out: `/metrics`, `/healthz`, `/readyz`, `/status`, `/`.
May import the engine, nothing else of ours.
"""
