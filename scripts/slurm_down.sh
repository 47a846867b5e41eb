#!/usr/bin/env bash
# Stops the Slurm that scripts/slurm_up.sh STATE has started, and its jobs. The folder STATE stays, for its logs.
set -uo pipefail
. "$(dirname "$0")/scheduler.sh"
state=$(realpath -m "${1:?scripts/slurm_down.sh STATE: the folder given to slurm_up.sh}")
export SLURM_CONF="$state/slurm.conf"

[ -f "$SLURM_CONF" ] || { echo "no Slurm was started in $state" >&2; exit 1; }
scancel --user="$(id -un)" 2> /dev/null && sleep 1
for pidfile in slurmd.pid slurmctld.pid slurmdbd.pid database/pid munged.pid; do
    end "$state/$pidfile"
done
exit 0
