#!/usr/bin/env bash
# Compares Espalier with Cassandra on this machine: the server is pinned to one core, latte to
# another.
#
#   bench/compare_cassandra.sh [NAME]        results in bench/results/NAME (default: the date),
#                                            with latte's raw reports
#
# For commitlog_sync periodic and then group, for each server and each workload, the script starts
# the server, loads the rows, warms up (Cassandra's JIT needs a minute), measures reads, and then
# measures writes over the same rows. All rows stay in the memtables; the report says if a table was
# flushed nevertheless. A run takes about half an hour. Each rate is reported with the load of the
# server's core during the measurement (from /proc/PID/stat). Where this load is far below 100 %,
# latte on its one core was the limit, not the server.
#
# Settings by environment:
#   WORKLOADS="keyvalue typical large"   SYSTEMS="espalier cassandra"   SYNCS="periodic group"
#   WARMUP_S=60 DURATION_S=30            seconds of warm-up (half reads, half writes) and of each
#                                        measurement
#   CONCURRENCY=512 CONNECTIONS=1        requests in flight and connections of latte
#   ROWS_keyvalue=1000000 ROWS_typical=200000 ROWS_large=500000
#   SERVER_PERCENT=100                   share of its core that a measured server gets (root, by a
#                                        control group); with 25, latte is not the limit
#   SERVER_CORE=1 CLIENT_CORE=0          default of the server: the core of the disk's interrupts
#   MEMORY=8G       of Espalier       HEAP=6G       of Cassandra
#   LATTE=latte                          default: .deps/latte, installed with cargo if missing
#
# The machine must be idle, because two cores have no time for other work.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD

WORKLOADS=${WORKLOADS:-keyvalue typical large}
SYSTEMS=${SYSTEMS:-espalier cassandra}
SYNCS=${SYNCS:-periodic group}
WARMUP_S=${WARMUP_S:-60}
DURATION_S=${DURATION_S:-30}
CONCURRENCY=${CONCURRENCY:-512}
CONNECTIONS=${CONNECTIONS:-1}
ROWS_keyvalue=${ROWS_keyvalue:-1000000}
ROWS_typical=${ROWS_typical:-200000}
ROWS_large=${ROWS_large:-500000}
SERVER_PERCENT=${SERVER_PERCENT:-100}
# The server runs on the one of the first two cores that gets more of the disk's interrupts, because
# these interrupts are the server's work, including those of the syncs for which it waits.
disk_core=$(awk '/-req\.|nvme|ahci/ { zero += $2; one += $3 } END { print (one > zero) ? 1 : 0 }' \
  /proc/interrupts 2> /dev/null || echo 0)
SERVER_CORE=${SERVER_CORE:-$disk_core}
CLIENT_CORE=${CLIENT_CORE:-$((1 - disk_core))}
MEMORY=${MEMORY:-8G}
HEAP=${HEAP:-6G}
PORT=${PORT:-19042}
binary=${BINARY:-target/release/espalier}
name=${1:-$(date +%Y-%m-%d_%H%M)}
results=bench/results/$name
mkdir -p "$results"

fail() { echo "$*" >&2; exit 1; }
[ "$SERVER_PERCENT" -ge 25 ] ||
  fail "SERVER_PERCENT must be at least 25: the kernel's shortest share is 1 ms of 4 ms"
echo "$SERVER_PERCENT" > "$results/share"
[ -x "$binary" ] || fail "there is no $binary: run cargo build --release first"

latte=${LATTE:-$(command -v latte || echo "$root/.deps/latte/bin/latte")}
if [ ! -x "$latte" ]; then
  echo "installing latte into .deps/latte"
  cargo install --quiet latte-cli --locked --root .deps/latte
fi

scratch=$(mktemp -d -p "${SCRATCH:-.deps}")
scratch=$(cd "$scratch" && pwd)
server=
stop_server() {
  case $server in
    espalier)
      kill "$pid" 2> /dev/null || true
      while kill -0 "$pid" 2> /dev/null; do sleep 0.1; done
      ;;
    cassandra) interop/cassandra/stop.sh "$scratch/cassandra" > /dev/null ;;
  esac
  server=
}

# Moves a server into a control group with its share of a core, version 1 or 2, or back into the
# root group.
limited_group=/sys/fs/cgroup/espalier-comparison
[ ! -d /sys/fs/cgroup/cpu ] || limited_group=/sys/fs/cgroup/cpu/espalier-comparison
limit_server() { # process id
  [ "$SERVER_PERCENT" -lt 100 ] || return 0
  mkdir -p "$limited_group"
  if [ -e "$limited_group/cpu.cfs_quota_us" ]; then
    echo 4000 > "$limited_group/cpu.cfs_period_us"
    echo $((SERVER_PERCENT * 40)) > "$limited_group/cpu.cfs_quota_us"
  else
    echo +cpu > /sys/fs/cgroup/cgroup.subtree_control
    echo "$((SERVER_PERCENT * 40)) 4000" > "$limited_group/cpu.max"
  fi
  echo "$1" > "$limited_group/cgroup.procs"
}
lift_limit() { # process id
  [ "$SERVER_PERCENT" -lt 100 ] || return 0
  echo "$1" > "$(dirname "$limited_group")/cgroup.procs"
}

finish() {
  stop_server || true
  rm -rf "$scratch"
  [ ! -d "$limited_group" ] || rmdir "$limited_group"
}
trap finish EXIT

start_espalier() { # sync
  rm -rf "$scratch/espalier"
  exec 3< <(exec taskset -c "$SERVER_CORE" "$binary" serve --workdir "$scratch/espalier" \
    --port "$PORT" --smp 1 --memory "$MEMORY" --set api_port=0 --set commitlog_sync="$1" \
    --set commitlog_total_space=16GiB --set memtable_cleanup_threshold=0.9 \
    --log warn 2>> "$results/espalier.log")
  pid=$!
  server=espalier
  local line=
  read -r -t 60 line <&3 || true
  case $line in ready*) ;; *) fail "Espalier did not start: $results/espalier.log" ;; esac
}

start_cassandra() { # sync
  local extra=$'memtable_heap_space: 3072MiB\nmemtable_offheap_space: 1024MiB'
  extra+=$'\nmemtable_cleanup_threshold: 0.9\ncommitlog_total_space: 16384MiB'
  # Each of Cassandra's write threads waits for a sync; its default of 32 threads would be the
  # limit.
  [ "$1" != group ] || extra+=$'\nconcurrent_writes: 512'
  rm -rf "$scratch/cassandra"
  PORT=$PORT STORAGE_PORT=$((PORT + 1)) HEAP=$HEAP DIRECT=2G FORMAT=bti MEMTABLE=trie \
    CORES=$SERVER_CORE EXTRA_YAML=$extra \
    interop/cassandra/install.sh "$scratch/cassandra" > /dev/null
  if [ "$1" = group ]; then
    # Cassandra's default window would delay every write by up to a second. 10 ms are favourable to
    # Cassandra with so many requests in flight.
    sed -i -e 's/^commitlog_sync: .*/commitlog_sync: group/' \
      -e 's/^commitlog_sync_period: .*/commitlog_sync_group_window: 10ms/' \
      "$scratch/cassandra/conf/cassandra.yaml"
  fi
  server=cassandra
  interop/cassandra/start.sh "$scratch/cassandra" > /dev/null || {
    cp "$scratch"/cassandra/log/node.log "$results/cassandra.log"
    fail "Cassandra did not start: $results/cassandra.log"
  }
}

run_latte() { # arguments of latte
  taskset -c "$CLIENT_CORE" "$latte" --log-dir "$scratch" "$@" > "$scratch/latte.txt" 2>&1 \
    || { cat "$scratch/latte.txt" >&2; fail "latte failed: $*"; }
}

# Prints the server's processor time so far, in ticks of 10 ms: user and system, all threads.
server_ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }

# Measures the percentage of one core that the server uses in the middle of a measurement.
sample_server() { # process id, seconds of the measurement, output file
  local before
  sleep 3
  before=$(server_ticks "$1")
  sleep $(($2 - 2))
  echo $((($(server_ticks "$1") - before) / ($2 - 2))) > "$3"
}

drive() { # function, seconds, workload, output file or nothing
  local rows=ROWS_$3 process=${pid:-} sampler=
  [ "$server" = espalier ] || process=$(cat "$scratch/cassandra/pid")
  if [ -n "${4:-}" ]; then
    limit_server "$process"
    sample_server "$process" "$2" "${4%.json}-server-percent" &
    sampler=$!
  fi
  run_latte run "bench/workloads/$3.rn" --functions "$1" --duration "$2s" --warmup 1s \
    --end-cycle "${!rows}" --threads 1 \
    --concurrency "$CONCURRENCY" --connections "$CONNECTIONS" --quiet -P "rows=${!rows}" \
    --output "${4:-$scratch/unused.json}" "127.0.0.1:$PORT"
  if [ -n "$sampler" ]; then
    wait "$sampler"
    lift_limit "$process"
  fi
}

# Prints the number of data files of the workloads' tables: 0 if all rows are in the memtables.
flushed_files() {
  find "$scratch/$1" \( -path '*/trie_test/*' -o -path '*/keyspace1/*' \) -name '*-Data.db' | wc -l
}

measure() { # system, sync, workload
  local rows=ROWS_$3
  run_latte schema "bench/workloads/$3.rn" -P "rows=${!rows}" "127.0.0.1:$PORT"
  run_latte load "bench/workloads/$3.rn" --threads 1 --concurrency "$CONCURRENCY" \
    --connections "$CONNECTIONS" --quiet \
    -P "rows=${!rows}" "127.0.0.1:$PORT"
  local write=write
  [ "$3" != large ] || write=load
  drive run $((WARMUP_S / 2)) "$3"
  drive "$write" $((WARMUP_S / 2)) "$3"
  drive run "$DURATION_S" "$3" "$results/$1-$2-$3-reads.json"
  drive "$write" "$DURATION_S" "$3" "$results/$1-$2-$3-writes.json"
  flushed_files "$1" > "$results/$1-$2-$3-files"
  python3 bench/compare_report.py line "$results" "$1" "$2" "$3"
}

echo "Espalier $("$binary" --version | cut -d' ' -f2), Cassandra 5.0.9, $("$latte" --version);" \
  "server on core $SERVER_CORE, latte on core $CLIENT_CORE"
for sync in $SYNCS; do
  for system in $SYSTEMS; do
    for workload in $WORKLOADS; do
      # Each workload gets a server of its own, so that no other workload's rows affect it.
      "start_$system" "$sync"
      measure "$system" "$sync" "$workload"
      stop_server
      rm -rf "$scratch/$system"
    done
  done
done
python3 bench/compare_report.py report "$results"
