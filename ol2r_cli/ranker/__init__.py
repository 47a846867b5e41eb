"""The choices of `ranker`, and their base classes; imports interfaces and learning."""
