"""What the plug-in gpu adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ol2r_cli.lazy import lazy
from ol2r_cli.plugins import Launching, Plugin

if TYPE_CHECKING:
    from ol2r_cli.plugins.gpu import availability, batch, batches, gpu, trial
else:
    availability, gpu = lazy("ol2r_cli.plugins.gpu.availability"), lazy("ol2r_cli.plugins.gpu.gpu")
    batch, batches = lazy("ol2r_cli.plugins.gpu.batch"), lazy("ol2r_cli.plugins.gpu.batches")
    trial = lazy("ol2r_cli.plugins.gpu.trial")

PLUGIN = Plugin(
    name="gpu",
    about="rounds on a GPU, and of several runs in one process",
    launching=Launching(
        missing=lambda: availability.gpu_is_missing(),
        launch=lambda loop, replicas, room, arguments: gpu.launch(loop, replicas, room, arguments),
        try_loops=lambda device: trial.try_loops(device),
        form=lambda settings, choices: batches.shared_form(settings, choices),
        size=lambda waiting, workers, seconds: batches.automatic_size(waiting, workers, seconds),
        size_on_gpu=lambda waiting, workers, replicas: batches.size_on_gpu(waiting, workers, replicas),
        gpu_is_faster=lambda *numbers: batches.gpu_is_faster(*numbers),
        job=lambda *words: batch.BatchJob(*words),
        play=lambda jobs, ended, make: batch.run_batch(jobs, ended, make),
    ),
    files=["scripts/gpu.py"],
)
