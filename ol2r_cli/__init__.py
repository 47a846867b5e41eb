"""ol2r: online learning to rank experiments from the command line. Start reading at `interfaces.py`."""

__version__ = "0.2.0"
