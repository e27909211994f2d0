#!/usr/bin/env bash
# Fuzzes all targets, each for some seconds of a core: fuzz/run_all.sh SECONDS [AT ONCE]
#
# The script counts the time on a core, user and system, not the clock, and runs at the lowest
# priority, so it may run beside other work. It may be interrupted: finished slices of at most SLICE
# seconds (600) count. Remove fuzz/results/SECONDS to start again. At the end the script writes
# fuzz/results/SECONDS/table.txt: target, executions, seconds on a core, peak of resident memory,
# code covered, result.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ./tools.sh
seconds=${1:?seconds for each target}
at_once=${2:-1}
slice=${SLICE:-600}
results=results/$seconds
mkdir -p "$results"
[ -x /usr/bin/time ] || { echo "GNU time is not installed" >&2; exit 1; }

"$CARGO_FUZZ" build 2>&1 | grep -E '^(error|warning: unused)' || true

# The sum or the maximum of a column of a target's slices: executions, seconds, peak, covered
sum() { awk -v column="$2" '{ all += $column } END { printf "%d", all }' "$results/$1.slices"; }
greatest() { awk -v column="$2" '$column > most { most = $column } END { printf "%d", most }' "$results/$1.slices"; }

one() { # target
  local target=$1 log=$results/$1.log result=ok used left
  touch "$results/$target.slices"
  while used=$(sum "$target" 2) && [ "$used" -lt "$seconds" ]; do
    left=$((seconds - used < slice ? seconds - used : slice))
    /usr/bin/time -o "$log.time" -f '%U %S' nice -n 19 ./run.sh "$target" "$left" > "$log" 2>&1 || result=FAILED
    # The run was interrupted, or the machine went down: not finished.
    if [ "$result" = FAILED ] && ! grep -qE 'SUMMARY: (libFuzzer|AddressSanitizer)|panicked at|^error' "$log"; then return; fi
    [ "$result" = ok ] || result="FAILED: $(grep -oE "panicked at [^ ]*|ERROR: libFuzzer: [a-z -]*|AddressSanitizer: [a-z-]*" "$log" | head -1)"
    local executions peak covered
    executions=$(grep -oE 'stat::number_of_executed_units: *[0-9]+' "$log" | grep -oE '[0-9]+$' || echo 0)
    peak=$(grep -oE 'stat::peak_rss_mb: *[0-9]+' "$log" | grep -oE '[0-9]+$' || echo 0)
    covered=$(grep -oE 'cov: [0-9]+' "$log" | tail -1 | grep -oE '[0-9]+' || echo 0)
    echo "$executions $(tail -1 "$log.time" | awk '{ printf "%d", $1 + $2 + 1 }') $peak $covered" >> "$results/$target.slices"
    [ "$result" = ok ] || break
  done
  printf '%-26s %12s %8s %9s %9s  %s\n' "$target" "$(sum "$target" 1)" "$(sum "$target" 2)" "$(greatest "$target" 3)" \
    "$(greatest "$target" 4)" "$result" > "$results/$target.done"
  cat "$results/$target.done"
}

running=0
for target in $(targets); do
  [ ! -f "$results/$target.done" ] || continue
  one "$target" &
  running=$((running + 1))
  if [ "$running" -ge "$at_once" ]; then wait -n || true; running=$((running - 1)); fi
done
wait
{
  printf '%-26s %12s %8s %9s %9s  %s\n' target executions core_s peak_MiB covered result
  cat "$results"/*.done
} | tee "$results/table.txt"
! grep -q FAILED "$results/table.txt"
