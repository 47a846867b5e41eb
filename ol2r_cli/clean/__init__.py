"""What runs and the cache take on disk, and taking away what is chosen: nothing that is in use, nothing of others."""
