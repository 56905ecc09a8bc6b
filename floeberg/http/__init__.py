"""The doors' HTTP server: a Starlette application on a socket, and what its connections are bound by."""
