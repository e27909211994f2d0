#!/usr/bin/env bash
# Fuzzes one target for some seconds: fuzz/run.sh TARGET SECONDS
#
# Reads fuzz/corpus/TARGET and fuzz/results/seeds/TARGET (fuzz/seed.sh makes the latter), and adds
# its findings to fuzz/results/corpus/TARGET. Inputs have at most 8 KiB, because longer ones are
# slow and show no more. An input that fails stays in fuzz/artifacts/TARGET. Settings by
# environment:
#   TIMEOUT=10    seconds after which an input counts as a hang; more on a busy machine
#   CORPUS=NAME   work in fuzz/results/NAME with the seeds of fuzz/results/NAME-seeds, for bytes
#                 that must not be committed
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ./tools.sh

target=${1:?a target: one of fuzz_targets/}
seconds=${2:?seconds}
corpus=${CORPUS:-corpus}
work=results/$corpus/$target
seeds=results/seeds/$target
[ "$corpus" = corpus ] || seeds=results/$corpus-seeds/$target
mkdir -p "$work" "artifacts/$target" "corpus/$target"
folders=("$work" "corpus/$target")
[ ! -d "$seeds" ] || folders+=("$seeds")
dictionary=()
[ ! -f "dictionaries/$target.dict" ] || dictionary=("-dict=dictionaries/$target.dict")

# AddressSanitizer keeps freed memory back to notice late uses, and this memory counts as the
# target's. A little of it is enough.
export ASAN_OPTIONS=${ASAN_OPTIONS:-quarantine_size_mb=16:detect_odr_violation=0}
# The nodes of this target run until the process ends and keep their memory.
leaks=()
[ "$target" != connection ] || leaks=(-detect_leaks=0)
exec "$CARGO_FUZZ" run "$target" "${folders[@]}" -- \
  -max_total_time="$seconds" -timeout="${TIMEOUT:-10}" -malloc_limit_mb=64 -rss_limit_mb=1024 -max_len=8192 \
  -print_final_stats=1 "${leaks[@]+"${leaks[@]}"}" "${dictionary[@]+"${dictionary[@]}"}"
