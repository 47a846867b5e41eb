"""From the proposed list to the shown list."""
