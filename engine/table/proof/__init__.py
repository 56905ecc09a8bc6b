"""The proof that a written file holds its range: other eyes than the writer's, on the real footer and pages."""
