"""The only room that commits: decides what stands, takes turns with other writers, asserts, reads back."""
