"""The laws that every choice keeps: `ol2r check` and the tests hold choices to them. `laws.py` lists them by group."""
