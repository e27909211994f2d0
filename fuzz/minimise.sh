#!/usr/bin/env bash
# Makes the committed corpus of targets again: fuzz/minimise.sh [TARGET...]
#
# From the committed corpus, the seeds and the findings of fuzzing, the script keeps a few files
# that together reach all code that any of them reaches. It keeps all files named `regression-*`:
# inputs that failed once.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ./tools.sh
export ASAN_OPTIONS=quarantine_size_mb=16:detect_odr_violation=0
# Larger files cost more than they show.
most=${MAX_LENGTH:-16384}

for target in ${@:-$(targets)}; do
  "$CARGO_FUZZ" build "$target" 2> /dev/null
  program=$(ls target/*/release/"$target" | head -1)
  merged=$(mktemp -d)
  small=$(mktemp -d)
  for folder in "corpus/$target" "results/seeds/$target" "results/corpus/$target"; do
    [ ! -d "$folder" ] || find "$folder" -type f -size "-${most}c" ! -name 'regression-*' -exec cp -n {} "$small" \;
  done
  "$program" -set_cover_merge=1 -use_counters=0 -timeout=10 -rss_limit_mb=1024 -max_len="$most" "$merged" "$small" > /dev/null 2>&1 || true
  find "corpus/$target" -type f ! -name 'regression-*' -delete 2> /dev/null || true
  mkdir -p "corpus/$target"
  find "$merged" -type f -exec mv {} "corpus/$target" \;
  rm -rf "$merged" "$small"
  echo "$target: $(find "corpus/$target" -type f | wc -l) files, $(du -sb "corpus/$target" | cut -f1) bytes"
done
