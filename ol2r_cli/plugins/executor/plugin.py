"""What the plug-in executor adds."""

from __future__ import annotations

from ol2r_cli.plugins import Plugin

PLUGIN = Plugin(
    name="executor",
    about="jobs on the workers of Dask, Parsl, or any executor",
    files=[f"configs/launcher/{name}.yaml" for name in ("executor", "dask", "parsl")],
)
