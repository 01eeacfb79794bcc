#!/usr/bin/env bash
# What pages of documentation take for granted, for their hidden blocks: other hosts, people, a database.

# facility DIR [OPTION…]: makes a facility and starts it at the usual ports, of which others on this host get their own
facility() {
    export BP_FACILITY=$1
    bp create "$@"
    bp up "$BP_FACILITY" --detach
}

# host NAME ROLE…: another host joins, and its daemon runs; its directory is /srv/NAME
host() {
    local name=$1 words=() role
    shift
    for role in "$@"; do words+=(--role "$role"); done
    HOSTS=$((${HOSTS:-0} + 1))
    local token ports=(--root-port $((2000 + HOSTS)) --https-port $((3000 + HOSTS)))
    token=$(bp host invite "${words[@]}" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])')
    bpd join "/srv/$name" --token "$token" "${words[@]}" --name "$name" "${ports[@]}" --only
    daemon run "/srv/$name"
}

# daemon WORD…: runs `bpd WORD… DIR` without waiting for its end; returns when its doors are open
daemon() {
    local directory=${*: -1}
    rm -f "$directory/endpoints.json"
    setsid bpd "$@" >>"$directory.log" 2>&1 </dev/null &
    until_holds test -s "$directory/endpoints.json" || cat "$directory.log"
}

# pid_of DIR: the process of a daemon
pid_of() {
    python3 -c 'import json, sys; print(json.load(sys.stdin)["pid"])' <"$1/endpoints.json"
}

# until_holds COMMAND…: repeats a command until it succeeds, for a minute at most
until_holds() {
    local end=$((SECONDS + 60))
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < end)) || { echo "does not come true: $*"; return 1; }
        sleep 0.1
    done
}

# database NAME OTHER…: a PostgreSQL server at localhost with databases of a user NAME, whose password is `secret`
database() {
    local programs
    programs=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
    mkdir -p /srv/postgres
    echo secret >/srv/postgres/password
    chown -R postgres /srv/postgres
    runuser -u postgres -- "$programs/initdb" --auth=scram-sha-256 --pwfile=/srv/postgres/password -D /srv/postgres/data
    runuser -u postgres -- "$programs/pg_ctl" start --wait -D /srv/postgres/data -l /srv/postgres/log \
        -o '-c listen_addresses=localhost -c unix_socket_directories=/srv/postgres'
    export PGHOST=localhost PGPASSWORD=secret PGUSER=postgres
    psql -c "CREATE ROLE $1 LOGIN PASSWORD 'secret'"
    local name
    for name in "$@"; do psql -c "CREATE DATABASE $name OWNER $1"; done
}
