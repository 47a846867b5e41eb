"""Click logs: fitting users to them, data of counts, and settings that are chosen from clicks."""
