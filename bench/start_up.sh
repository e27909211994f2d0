#!/usr/bin/env bash
# Measures how long a node takes from its start to `ready` on an empty directory, and its resident
# memory 3 s later.
#
#   bench/start_up.sh [RUNS]      default 10; BINARY=target/release/espalier
#
# Prints both figures, and fails if one exceeds the README's limits: 100 ms (median), 64 MiB. With
# LIMIT_OF=processor, the limit of 100 ms is for the processor time of the start, because other
# programs slow the start itself.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
runs=${1:-10}
binary=${BINARY:-target/release/espalier}
limit_ms=100
limit_mib=64
[ -x "$binary" ] || { echo "there is no $binary: run cargo build --release first" >&2; exit 2; }

scratch=$(mktemp -d)
pid=
finish() { [ -z "$pid" ] || kill -9 "$pid" 2> /dev/null || true; rm -rf "$scratch"; }
trap finish EXIT

times_us=()
processor_us=()
resident_kib=0
for run in $(seq "$runs"); do
  directory=$scratch/$run
  began=${EPOCHREALTIME/[.,]/}
  exec 3< <(exec "$binary" serve --workdir "$directory" --port 0 --set api_port=0 --log warn)
  pid=$!
  read -r line <&3 || true
  ended=${EPOCHREALTIME/[.,]/}
  case $line in ready*) ;; *) echo "the node said: ${line:-nothing}" >&2; exit 1 ;; esac
  times_us+=($((ended - began)))
  # A thread may end meanwhile.
  processor_us+=("$({ cat /proc/"$pid"/task/*/schedstat 2> /dev/null || true; } | awk '{ ns += $1 } END { print int(ns / 1000) }')")
  if [ "$run" = "$runs" ]; then
    sleep 3
    resident_kib=$(awk '/^VmRSS:/ { print $2 }' "/proc/$pid/status")
  fi
  kill "$pid"
  exec 3<&-
  while kill -0 "$pid" 2> /dev/null; do sleep 0.02; done
  pid=
done

mapfile -t sorted < <(printf '%s\n' "${times_us[@]}" | sort -n)
best_us=${sorted[0]}
median_us=${sorted[$((runs / 2))]}
worst_us=${sorted[$((runs - 1))]}
mapfile -t sorted < <(printf '%s\n' "${processor_us[@]}" | sort -n)
processor_us=${sorted[$((runs / 2))]}
limited_us=$median_us
[ "${LIMIT_OF:-median}" != processor ] || limited_us=$processor_us
awk -v processor="$processor_us" -v best="$best_us" -v limited="$limited_us" -v median="$median_us" -v worst="$worst_us" \
  -v resident="$resident_kib" -v runs="$runs" -v limit_ms="$limit_ms" -v limit_mib="$limit_mib" 'BEGIN {
    printf "start to ready: median %.1f ms, best %.1f ms, worst %.1f ms of %d (limit %d ms)\n",
      median / 1000, best / 1000, worst / 1000, runs, limit_ms
    printf "processor time of the start: median %.1f ms\n", processor / 1000
    printf "idle resident memory: %.1f MiB (limit %d MiB)\n", resident / 1024, limit_mib
    exit limited > limit_ms * 1000 || resident > limit_mib * 1024
  }'
