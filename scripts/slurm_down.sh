#!/usr/bin/env bash
# Stops the Slurm that scripts/slurm_up.sh STATE has started, and its jobs. The folder STATE stays, for its logs.
set -uo pipefail
state=$(realpath -m "${1:?scripts/slurm_down.sh STATE: the folder given to slurm_up.sh}")
export SLURM_CONF="$state/slurm.conf"

end() {  # PIDFILE: end the process and wait for it
    [ -s "$1" ] || return
    local pid
    pid=$(cat "$1")
    kill "$pid" 2> /dev/null || return
    for ((i = 0; i < 100; i++)); do
        kill -0 "$pid" 2> /dev/null || return
        sleep 0.1
    done
    echo "process $pid of $1 does not end" >&2
}

[ -f "$SLURM_CONF" ] || { echo "no Slurm was started in $state" >&2; exit 1; }
scancel --user="$(id -un)" 2> /dev/null && sleep 1
for pidfile in slurmd.pid slurmctld.pid slurmdbd.pid database/pid munged.pid; do
    end "$state/$pidfile"
done
exit 0
