#!/usr/bin/env bash
# Stops the Grid Engine that scripts/sge_up.sh STATE has started, and its jobs. The folder STATE stays, for its logs.
set -uo pipefail
. "$(dirname "$0")/scheduler.sh"
state=$(realpath -m "${1:?scripts/sge_down.sh STATE: the folder given to sge_up.sh}")
export SGE_ROOT=$state/root SGE_CELL=default SGE_QMASTER_PORT=6544 SGE_EXECD_PORT=6545

[ -f "$state/qmaster/qmaster.pid" ] || { echo "no Grid Engine was started in $state" >&2; exit 1; }
qdel -u '*' > /dev/null 2>&1 && sleep 2
for pidfile in "$state"/execd/*/execd.pid "$state/qmaster/qmaster.pid"; do
    end "$pidfile"
done
exit 0
