"""What other programs made of a table: evidence, the judgement of it, and the rows of their files."""
