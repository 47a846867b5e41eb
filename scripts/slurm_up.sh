#!/usr/bin/env bash
# Starts a Slurm of one node with accounting on this machine, to try and to test launcher=slurm.
#   scripts/slurm_up.sh STATE      installs what is missing (Debian, Ubuntu), starts it, prints the command to type next
#   scripts/slurm_down.sh STATE    stops it
# STATE is a folder for everything that Slurm writes. Needs root. Exit code 3: it cannot be started; a line says why.
set -euo pipefail
state=$(realpath -m "${1:?scripts/slurm_up.sh STATE: a folder for what Slurm writes}")
node=$(hostname -s)
packages=(slurm-wlm munge slurmdbd mariadb-server)
. "$(dirname "$0")/scheduler.sh"

begun=

unavailable() {
    [ -z "$begun" ] || "$(dirname "$0")/slurm_down.sh" "$state" || true
    echo "Slurm cannot be started here: $1" >&2
    exit 3
}

configure() {
    cat > "$state/slurm.conf" << CONF
ClusterName=ol2r
SlurmctldHost=$node(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
# A requeued job waits this long until it starts again (default 120 seconds, too long for tests).
AuthInfo=cred_expire=10
StateSaveLocation=$state/controller
SlurmdSpoolDir=$state/spool
SlurmctldPidFile=$state/slurmctld.pid
SlurmdPidFile=$state/slurmd.pid
SlurmctldLogFile=$state/log/slurmctld.log
SlurmdLogFile=$state/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
# Jobs of the partition "urgent" pre-empt those of "debug", which are requeued.
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=2
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
SchedulerParameters=batch_sched_delay=0,sched_interval=1
MinJobAge=300
SlurmctldTimeout=30
SlurmdTimeout=30
NodeName=$node NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=$(($(awk '/MemTotal/ {print $2}' /proc/meminfo) / 2048)) State=UNKNOWN
PartitionName=debug Nodes=$node Default=YES MaxTime=INFINITE PriorityTier=1 State=UP
PartitionName=urgent Nodes=$node MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF State=UP
CONF
    (umask 077 && : > "$state/slurmdbd.conf")
    cat > "$state/slurmdbd.conf" << CONF
AuthType=auth/munge
DbdHost=localhost
DbdAddr=127.0.0.1
SlurmUser=root
LogFile=$state/log/slurmdbd.log
PidFile=$state/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=3399
StorageUser=slurm
StoragePass=$password
StorageLoc=slurm_acct_db
CONF
}

start_munge() {
    munge -n 2> /dev/null | unmunge > /dev/null 2>&1 && return
    mkdir -p /run/munge
    chown munge /run/munge /var/log/munge /var/lib/munge
    su munge -s /bin/sh -c /usr/sbin/munged
    cp /run/munge/munged.pid "$state/munged.pid"
    until_it_works 5 munge -n
}

database() {
    mariadb --no-defaults --socket="$state/database/socket" --user=root "$@"
}

start_database() {
    chown mysql "$state/database"
    su mysql -s /bin/sh -c "test -w '$state/database'" || unavailable "all users must be able to enter $state"
    mysql_install_db --no-defaults --user=mysql --datadir="$state/database" --auth-root-authentication-method=socket \
        --skip-test-db > "$state/log/database.log" 2>&1
    nohup mariadbd --no-defaults --user=mysql --datadir="$state/database" --socket="$state/database/socket" \
        --pid-file="$state/database/pid" --bind-address=127.0.0.1 --port=3399 --innodb-buffer-pool-size=128M \
        --innodb-lock-wait-timeout=900 >> "$state/log/database.log" 2>&1 &
    until_it_works 20 database --execute='select 1' || return
    for host in localhost 127.0.0.1; do
        database <<< "create user 'slurm'@'$host' identified by '$password';
            grant all on slurm_acct_db.* to 'slurm'@'$host'"  # not as an argument, which others see
    done
}

[ "$(id -u)" = 0 ] || unavailable "it must be installed and started as root"
if scontrol ping 2> /dev/null | grep -q 'is UP'; then
    unavailable "another Slurm runs here already"
fi
if [ -n "$(ls -A "$state" 2> /dev/null)" ] && ! grep -qs '^ClusterName=ol2r$' "$state/slurm.conf"; then
    unavailable "$state must be a folder that does not exist, that is empty, or that a Slurm of this script has left"
fi
# Nobody else may have made the folder, or a part of it, to put links in the place of what root writes.
for folder in "$state" "$(dirname "$state")"; do
    [ ! -e "$folder" ] || [ "$(stat -c %u "$folder")" = 0 ] || unavailable "$folder must belong to root"
done
rm -rf "$state"
mkdir -p "$(dirname "$state")"
mkdir -m 755 "$state" || unavailable "$state was made by another"
mkdir "$state"/{controller,spool,log,database}
chmod 700 "$state"/{controller,spool,log,database}
password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
install slurmctld slurmdbd mariadbd munged
configure
begun=1
export SLURM_CONF="$state/slurm.conf"
start_munge || unavailable "munged does not start, see /var/log/munge"
start_database || unavailable "the database does not start, see $state/log/database.log"
slurmdbd || unavailable "slurmdbd does not start, see $state/log"
until_it_works 20 sacctmgr --immediate add cluster ol2r || unavailable "slurmdbd does not start, see $state/log"
slurmctld -i && slurmd || unavailable "slurmctld or slurmd does not start, see $state/log"
until_it_works 20 srun --partition=debug true || unavailable "no job runs, see $state/log"
sinfo
echo "export SLURM_CONF=$SLURM_CONF"
