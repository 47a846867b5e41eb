"""What the plug-in slurm adds."""

from __future__ import annotations

from ol2r_cli.plugins import Plugin

PLUGIN = Plugin(
    name="slurm",
    about="jobs on a Slurm cluster",
    files=["configs/launcher/slurm.yaml", "scripts/slurm_up.sh", "scripts/slurm_down.sh"],
)
