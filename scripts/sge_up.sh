#!/usr/bin/env bash
# Starts a Grid Engine of one node on this machine, to try and to test launcher=dask with dask_jobqueue.SGECluster.
#   scripts/sge_up.sh STATE      installs what is missing (Debian, Ubuntu), starts it, prints the commands to type next
#   scripts/sge_down.sh STATE    stops it
# STATE is a folder for everything that Grid Engine writes. Needs root. Exit code 3: it cannot be started; a line says why.
set -euo pipefail
state=$(realpath -m "${1:?scripts/sge_up.sh STATE: a folder for what Grid Engine writes}")
node=$(hostname)
packages=(gridengine-master gridengine-exec gridengine-client)
. "$(dirname "$0")/scheduler.sh"
export SGE_ROOT=$state/root SGE_CELL=default SGE_QMASTER_PORT=6544 SGE_EXECD_PORT=6545

unavailable() {
    [ ! -f "$state/qmaster/qmaster.pid" ] || "$(dirname "$0")/sge_down.sh" "$state" || true
    echo "Grid Engine cannot be started here: $1" >&2
    exit 3
}

# A root of its own, with the programs of the package and another cell.
configure() {
    mkdir -p "$SGE_ROOT/$SGE_CELL/common"
    ln -s /var/lib/gridengine/{bin,lib,util,utilbin} "$SGE_ROOT"
    echo "$node" > "$SGE_ROOT/$SGE_CELL/common/act_qmaster"
    # Where the address of the host has several names, Grid Engine takes them for one.
    echo "$node" $(getent hosts 127.0.0.1 "$node" | tr -s ' ' '\n' | grep -v '^[0-9.:]*$' | grep -vx "$node" | sort -u) \
        > "$SGE_ROOT/$SGE_CELL/common/host_aliases"
    cat > "$SGE_ROOT/$SGE_CELL/common/bootstrap" << CONF
admin_user              none
default_domain          none
ignore_fqdn             false
spooling_method         berkeleydb
spooling_lib            libspoolb
spooling_params         $state/spooldb
binary_path             /usr/lib/gridengine
qmaster_spool_dir       $state/qmaster
security_mode           none
listener_threads        2
worker_threads          2
scheduler_threads       1
CONF
    /usr/share/gridengine/scripts/init_cluster "$SGE_ROOT" "$SGE_CELL" "$state/spooldb" root > "$state/log/init.log" 2>&1
}

# The execution host is known to the master before its daemon starts; a queue has a slot for each core of it.
add_queue() {
    local folder=$state/log
    qconf -as "$node"
    qconf -sconf | sed "s|^execd_spool_dir.*|execd_spool_dir $state/execd|; s|^min_[ug]id.*|#|; s|^gid_range.*|gid_range 20000-20100|" \
        | grep -v '^#' > "$folder/global"
    printf 'min_uid 0\nmin_gid 0\n' >> "$folder/global"
    qconf -Mconf "$folder/global"
    printf '%s\n' "hostname $node" "load_scaling NONE" "complex_values NONE" "user_lists NONE" "xuser_lists NONE" \
        "projects NONE" "xprojects NONE" "usage_scaling NONE" "report_variables NONE" > "$folder/host"
    qconf -Ae "$folder/host"
    qconf -ssconf | sed 's|^schedule_interval.*|schedule_interval 0:0:2|' > "$folder/scheduler"
    qconf -Msconf "$folder/scheduler"
    qconf -sq | sed "s|^qname.*|qname all.q|; s|^hostlist.*|hostlist $node|; s|^slots.*|slots $(nproc)|; s|^pe_list.*|pe_list NONE|;
        s|^load_thresholds.*|load_thresholds NONE|; s|^shell .*|shell /bin/bash|; s|^shell_start_mode.*|shell_start_mode unix_behavior|" \
        > "$folder/queue"
    qconf -Aq "$folder/queue"
}

[ "$(id -u)" = 0 ] || unavailable "it must be installed and started as root"
if [ -n "$(ls -A "$state" 2> /dev/null)" ] && [ ! -f "$SGE_ROOT/$SGE_CELL/common/bootstrap" ]; then
    unavailable "$state must be a folder that does not exist, that is empty, or that a Grid Engine of this script has left"
fi
rm -rf "$state"
mkdir -p "$state"/{log,spooldb,execd,qmaster/job_scripts}
install sge_qmaster sge_execd qsub
configure || unavailable "its spool cannot be made, see $state/log/init.log"
sge_qmaster > "$state/log/qmaster.log" 2>&1 || unavailable "sge_qmaster does not start, see $state/log/qmaster.log"
until_it_works 20 qconf -sconf || unavailable "sge_qmaster does not answer, see $state/qmaster/messages"
add_queue > "$state/log/queue.log" 2>&1 || unavailable "the queue cannot be made, see $state/log/queue.log"
sge_execd > "$state/log/execd.log" 2>&1 || unavailable "sge_execd does not start, see $state/log/execd.log"
until_it_works 40 qsub -sync y -b y -j y -o "$state/log/first" /bin/true || unavailable "no job runs, see $state/qmaster/messages"
qhost
for name in SGE_ROOT SGE_CELL SGE_QMASTER_PORT SGE_EXECD_PORT; do
    echo "export $name=${!name}"
done
