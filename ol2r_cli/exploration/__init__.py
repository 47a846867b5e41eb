"""From what a ranker believes to the list it proposes."""
