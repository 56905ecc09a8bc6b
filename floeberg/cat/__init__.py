"""Records as a consumer would read them: which, from where, and how they are printed."""
