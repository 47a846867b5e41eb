"""The rankers, one file per choice that is not a composition of an existing one."""
