"""From table to consumer: replay, a fetch anywhere, an unmodified consumer."""
