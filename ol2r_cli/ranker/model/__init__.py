"""The score functions a ranker may have, one file per choice of `ranker/model`."""
