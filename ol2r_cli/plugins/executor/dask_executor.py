"""Workers of Dask as an executor: those of a scheduler that runs, or of a cluster that is started for the sweep."""

from __future__ import annotations

import re
import socket
import threading
from concurrent.futures import Executor, Future
from typing import Any

from distributed import Client, LocalCluster

from ol2r_cli.config.ranges import Count

_CONNECT = 10.0  # seconds in which a scheduler answers
_LOOK = 15.0  # seconds between two looks whether a cluster has all of its workers


def dask_executor(address: str | None, cluster: Any, workers: Count | None) -> Executor:
    """Return an executor of the workers of a scheduler, whose `address` is given, or else of a cluster of Dask.

    `workers` is how many the cluster has: a fixed number, so that those that end, as at the end of the wall time of
    their jobs, are replaced. None: as many as it starts with. Without address and cluster they are processes of this
    machine.
    """
    if address is not None and cluster is not None:
        raise ValueError("launcher.executor needs an address or a cluster, got both")
    if address is not None:
        _check_address(address)
        return DaskExecutor(Client(address), None, None)
    if cluster is None:
        cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
    return DaskExecutor(Client(cluster), cluster, workers)


def _check_address(address: str) -> None:
    """Raise ConnectionError at once where nothing listens at an address; Dask itself would try for half a minute."""
    place = re.fullmatch(r"(?:tcp://)?\[?([^\[\]/]+)\]?:(\d+)", address)
    if place:
        try:
            socket.create_connection((place[1], int(place[2])), timeout=_CONNECT).close()
        except (OSError, OverflowError) as error:
            raise ConnectionError(f"no scheduler at {address} ({error}): start `dask scheduler`") from None


class DaskExecutor(Executor):
    """The executor of a client of Dask. It closes the client, and the cluster, when it is shut down."""

    def __init__(self, client: Any, cluster: Any, workers: int | None):
        self.client, self.cluster, self.workers = client, cluster, workers
        self.executor = client.get_executor(pure=False)
        self.is_shut_down = threading.Event()
        if cluster is not None and workers is not None:
            cluster.scale(workers)
            threading.Thread(target=self._replace_lost_workers, daemon=True).start()

    def _replace_lost_workers(self) -> None:
        # `adapt` of dask_jobqueue starts and ends jobs of the cluster again and again.
        while not self.is_shut_down.wait(_LOOK):
            self.cluster.scale(self.workers)

    def submit(self, function: Any, /, *arguments: Any, **more: Any) -> Future[Any]:
        """Return the future of a call. Dask itself calls again where a worker is lost, up to three times."""
        return self.executor.submit(function, *arguments, **more)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for all calls, or cancel them, and close the client and the cluster."""
        self.is_shut_down.set()
        self.executor.shutdown(wait=wait)
        self.client.close()
        if self.cluster is not None:
            self.cluster.close()
