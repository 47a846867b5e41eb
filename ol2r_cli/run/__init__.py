"""One run: builds it from a configuration, plays and resumes it, and writes and reads its directory.

Imports `simulation` and everything below it; `launcher`, `sweep` and everything above import this package.

The directory of a run has the files below. `store.py` is the only module that writes them, `run.py` the only one that
reads them. The results, by their sha256, are recorded in `run.json` when the run finishes, and until then the parts of
its tables in `checkpoint.pt`. A file is read only as it was recorded.
"""

MANIFEST, SUMMARY, CHECKPOINT, RANKER = "run.json", "summary.json", "checkpoint.pt", "ranker.pt"
CONFIG, LOG, LOCK = "config.yaml", "log.txt", ".lock"
INTERACTIONS = "interactions.parquet"
TABLES = ("trace.parquet", "evaluation.parquet", "blocks.parquet", INTERACTIONS)  # and `trace.part00001.parquet` ..
RESULTS = (*TABLES, SUMMARY, RANKER, CONFIG)
REMOVABLE = (INTERACTIONS,)  # what `ol2r clean` may remove from a finished run
# In the order in which they are removed: without its manifest a directory is not a run any more.
FILES = (MANIFEST, SUMMARY, CHECKPOINT, RANKER, *TABLES, CONFIG, LOG)
