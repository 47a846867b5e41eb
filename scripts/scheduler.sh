# What the scripts that start and stop a scheduler on this machine share; they source it. The first ones define `state`,
# the folder of what the scheduler writes, `packages` (Debian) and `unavailable`, which says why it cannot be started.

until_it_works() {  # SECONDS COMMAND..
    local tries=$(($1 * 5))
    shift
    for ((i = 0; i < tries; i++)); do
        "$@" > /dev/null 2>&1 && return
        sleep 0.2
    done
    return 1
}

install() {  # PROGRAM..: install the packages unless all of these programs are there
    local program missing=
    for program in "$@"; do
        command -v "$program" > /dev/null || missing=1
    done
    [ -n "$missing" ] || return 0
    command -v apt-get > /dev/null || unavailable "there is no apt-get to install ${packages[*]} with"
    local policy=/usr/sbin/policy-rc.d made=
    if [ ! -e $policy ]; then  # prevents that services start before they are configured
        printf '#!/bin/sh\nexit 101\n' > $policy
        chmod +x $policy
        made=1
    fi
    fetch > "$state/log/apt.log" 2>&1 || fetched=no
    [ -z "$made" ] || rm $policy
    [ -z "${fetched:-}" ] || unavailable "apt-get failed, see $state/log/apt.log"
}

fetch() {
    export DEBIAN_FRONTEND=noninteractive
    local hurry=(-o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o DPkg::Lock::Timeout=60)
    apt-get "${hurry[@]}" update
    apt-get "${hurry[@]}" install -y --no-install-recommends "${packages[@]}"
}

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
