#!/usr/bin/env bash
# Measures index files beside Cassandra's for the same data: their bytes, the pages that a look-up
# touches, the writer's memory, and whether long keys are written at full speed.
#
#   bench/index_sizes.sh [DIRECTORY]
#
#   KEYS=3000000 ROWS=1000000 MANY_KEYS=50000000 by environment
#
# Needs 8 GB below DIRECTORY (target/index-sizes), and `make deps` for Cassandra's side.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=${1:-target/index-sizes}
keys=${KEYS:-3000000} rows=${ROWS:-1000000} many=${MANY_KEYS:-50000000}
cargo build --release -q --bin espalier
cargo build --release -q -p espalier-sstable --example write_tables
target=${CARGO_TARGET_DIR:-target}
write=$target/release/examples/write_tables espalier=$target/release/espalier
oracle=.deps/cassandra/node/oracle
rm -rf "$out"; mkdir -p "$out"

sizes() { (cd "$1" &&
  find . -name '*-Partitions.db' -o -name '*-Rows.db' -o -name '*-Index.db' -o -name '*-Summary.db' |
  sort | xargs -r stat -c '    %n %s bytes' | sed 's#\./.*/##; s#\./##'); }

compare() { # what, version, KiB, directory
  echo "  ours:"; sizes "$4"
  if [ -x "$oracle" ]; then
    ORACLE_HEAP=4G "$oracle" rewrite "$2" "$3" "$4-cassandra" "$4" > /dev/null
    echo "  Cassandra's:"; sizes "$4-cassandra"
    for file in "$4"/*-{Partitions,Rows,Index}.db; do
      [ -e "$file" ] || continue
      other=$(find "$4-cassandra" -name "$(basename "$file")")
      if cmp -s "$file" "$other"; then
        echo "    $(basename "$file") is the same, byte for byte"
      else
        echo "    $(basename "$file") DIFFERS"
      fi
    done
    rm -rf "$4-cassandra"
  else
    echo "  Cassandra's: not here; make deps"
  fi
}

for version in da oa; do
  echo "== $keys random keys of 8 bytes, $version"
  "$write" keys "$version" "$keys" "$out/keys-$version"
  compare keys "$version" 16 "$out/keys-$version"
done
echo "== pages of Partitions.db"
"$espalier" sstable index "$out/keys-da"
rm -rf "$out"/keys-*

for kib in 1 64; do
  for version in da oa; do
    echo "== $rows rows of 300 bytes in one partition, $version indexed at $kib KiB"
    "$write" rows "$version" "$rows" "$kib" "$out/rows-$version-$kib"
    compare rows "$version" "$kib" "$out/rows-$version-$kib"
  done
done
echo "== pages of Rows.db at 1 KiB"
"$espalier" sstable index "$out/rows-da-1"
rm -rf "$out"/rows-*

echo "== memory of the writer: the same whatever is written"
for count in 1000000 10000000 "$many"; do
  "$write" keys da "$count" "$out/many"; rm -rf "$out/many"
done
echo "== keys and clusterings of 2,048 bytes that share all but the last 8:" \
  "twice as many take twice as long"
for count in 50000 100000 200000; do
  for version in da oa; do
    "$write" prefixes "$version" "$count" "$out/long"
    rm -rf "$out/long"
  done
done
rm -rf "$out"
