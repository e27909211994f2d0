#!/usr/bin/env bash
# Counts the instructions of a query in the whole node with callgrind, on machines without hardware
# counters.
#
#   bench/instructions_per_query.sh [arguments of espalier bench simple-query]
#
# Two runs differ only in the number of operations. The difference of their instructions, divided by
# the difference of their operations, is the cost of one query, all loops around it included. Kernel
# work is not counted. callgrind does not support io_uring, so files are read by the fallback
# (threads and epoll): reads from the disk need more instructions than with io_uring. Needs valgrind
# and a release build (cargo build --release). If the node cannot run in valgrind, the script says
# so and ends with status 77.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
binary=${ESPALIER:-target/release/espalier}
few=${FEW:-20000} many=${MANY:-60000}
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
command -v valgrind > /dev/null ||
  { echo "there is no valgrind: instructions are not counted"; exit 77; }
run() {
  ESPALIER_DRIVER=epoll valgrind --tool=callgrind --callgrind-out-file=/dev/null \
    "$binary" bench simple-query --duration 1 --operations-per-shard "$1" \
    --workdir "$directory/$1" "${@:2}" > "$directory/output" 2>&1 || return 1
  sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$directory/output"
}
a=$(run "$few" "$@" || true)
b=$(run "$many" "$@" || true)
[ "${a:-0}" -gt 0 ] && [ "${b:-0}" -gt "$a" ] ||
  { echo "the node does not run in valgrind here: instructions are not counted"; exit 77; }
# Each run has an iteration that is not reported and one that is, both of as many operations.
echo "$(( (b - a) / (2 * (many - few)) )) instructions for each query ($few: $a, $many: $b)"
