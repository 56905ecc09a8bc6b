"""Files whose rows a newer schema can give columns, written again."""
