#!/usr/bin/env bash
# Fuzzes all targets, each for some seconds: fuzz/run_all.sh SECONDS [AT ONCE]
#
# May be interrupted: what is finished is not done again (remove fuzz/results/SECONDS to begin anew). Ends with a table of
# target, executions, seconds, peak of resident memory, code covered and result, in fuzz/results/SECONDS/table.txt.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ./tools.sh
seconds=${1:?seconds for each target}
at_once=${2:-1}
results=results/$seconds
mkdir -p "$results"

"$CARGO_FUZZ" build 2>&1 | grep -E '^(error|warning: unused)' || true

one() { # target
  local target=$1 log=$results/$1.log began=$SECONDS result=ok
  nice -n 19 ./run.sh "$target" "$seconds" > "$log" 2>&1 || result=FAILED
  # Somebody pressed a key, or the machine went down: not finished.
  if [ "$result" = FAILED ] && ! grep -qE 'SUMMARY: (libFuzzer|AddressSanitizer)|panicked at|^error' "$log"; then return; fi
  [ "$result" = ok ] || result="FAILED: $(grep -oE "panicked at [^ ]*|ERROR: libFuzzer: [a-z -]*|AddressSanitizer: [a-z-]*" "$log" | head -1)"
  local executions peak covered
  executions=$(grep -oE 'stat::number_of_executed_units: *[0-9]+' "$log" | grep -oE '[0-9]+$' || echo ?)
  peak=$(grep -oE 'stat::peak_rss_mb: *[0-9]+' "$log" | grep -oE '[0-9]+$' || echo ?)
  covered=$(grep -oE 'cov: [0-9]+' "$log" | tail -1 | grep -oE '[0-9]+' || echo ?)
  printf '%-26s %12s %8s %9s %9s  %s\n' "$target" "$executions" "$((SECONDS - began))" "$peak" "$covered" "$result" \
    > "$results/$target.done"
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
  printf '%-26s %12s %8s %9s %9s  %s\n' target executions seconds peak_MiB covered result
  cat "$results"/*.done
} | tee "$results/table.txt"
! grep -q FAILED "$results/table.txt"
