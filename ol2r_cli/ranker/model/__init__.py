"""The choices of `ranker/model`: score functions, one per file; imports learning."""
