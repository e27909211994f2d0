#!/usr/bin/env bash
# Compares the SSTable tool with Cassandra's sstabledump and with the disk.
#
#   bench/sstable_tools.sh [NAME]        report and raw times in bench/results/NAME
#                                        (default: the date)
#
# The tables are written with `espalier sstable write`: rows in partitions of a hundred,
# uncompressed and with LZ4, and with BIG=1 one partition of BIG_ROWS rows (5 GB), which only
# `espalier sstable dump` reads. sstabledump and `espalier sstable dump` alternate on the same file,
# ROUNDS times each to /dev/null, and then once each to a file; both outputs must have the same
# number of rows. Then follow verify, verify --quick and convert, and for comparison a read of the
# same file that bypasses the page cache and shows the disk's own rate. Seconds are by the clock,
# CPU seconds are user and system time of all threads, memory is the peak resident set (GNU time).
# times.tsv has the machine's load before each run; where it is not near 0, the clock's seconds are
# not reliable.
#
# Settings by environment:
#   ROWS=2000000 ROUNDS=3  BIG=0 BIG_ROWS=58000000
#   WORK=bench/results/sstables           files are kept and used again
#   BINARY=target/release/espalier  CASSANDRA=5.0.9  HEAP=1G (of sstabledump)
#
# sstabledump is Cassandra's own; it runs from the installation that interop/cassandra/install.sh
# makes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ROWS=${ROWS:-2000000} ROUNDS=${ROUNDS:-3} BIG=${BIG:-0} BIG_ROWS=${BIG_ROWS:-58000000}
HEAP=${HEAP:-1G} CASSANDRA=${CASSANDRA:-5.0.9}
binary=$(realpath "${BINARY:-target/release/espalier}")
work=${WORK:-bench/results/sstables}
results=bench/results/${1:-$(date +%Y-%m-%d_%H%M)_sstables}
mkdir -p "$results" "$work"
work=$(realpath "$work") results=$(realpath "$results")
fail() { echo "$*" >&2; exit 1; }
[ -x "$binary" ] || fail "there is no $binary: run cargo build --release first"
[ -x /usr/bin/time ] || fail "GNU time is not installed"

schema=$work/readings.cql
cat > "$schema" <<'CQL'
CREATE TABLE bench.readings (k int, c int, name text, count bigint, price double, at timestamp,
  payload blob, PRIMARY KEY (k, c));
CQL

# rows COUNT ROWS_IN_A_PARTITION
rows() {
  awk -v rows="$1" -v each="$2" 'BEGIN { srand(7); for (i = 0; i < rows; i++) printf( \
    "{\"k\":%d,\"c\":%d,\"name\":\"the name of row %d of them\",\"count\":%.0f,\"price\":%.2f,\"at\":%.0f,\"payload\":\"0x%04x%04x%08x%08x\",\"$ts\":%.0f}\n", \
    int(i / each), i % each, i, i * 7919, rand() * 1000, 1700000000000 + i * 1000, \
    int(rand() * 65535), int(rand() * 65535), i, int(i / each), 1700000000000000 + i) }'
}

# make NAME COUNT ROWS_IN_A_PARTITION COMPRESSION
make() {
  [ -f "$work/$1/done" ] && return
  echo "making $1"
  rm -rf "${work:?}/$1"
  rows "$2" "$3" | "$binary" sstable write --schema "$schema" --input - --output "$work/$1" \
    --compression "$4"
  touch "$work/$1/done"
}
make plain "$ROWS" 100 none
make lz4 "$ROWS" 100 lz4
if [ "$BIG" = 1 ]; then make big "$BIG_ROWS" "$BIG_ROWS" none; fi

# measured LABEL OUTPUT COMMAND…   appends: label, seconds, CPU seconds, peak KiB, load before
measured() {
  local label=$1 output=$2 load; shift 2
  load=$(cut -d' ' -f1 /proc/loadavg)
  /usr/bin/time -o "$results/time" -f '%e %U %S %M' "$@" > "$output" 2> "$results/stderr" \
    || { cat "$results/stderr" >&2; fail "$label failed"; }
  awk -v label="$label" -v load="$load" \
    '{ printf "%s\t%.2f\t%.2f\t%d\t%s\n", label, $1, $2 + $3, $4, load }' \
    "$results/time" | tee -a "$results/times.tsv"
}
data() { echo "$work/$1"/*-Data.db; }

tools=$work/cassandra
CASSANDRA=$CASSANDRA interop/cassandra/install.sh "$tools" > /dev/null
# sstabledump LABEL OUTPUT FILE [-l]
sstabledump() {
  measured "$1" "$2" env CONF=tools.yaml HEAP="$HEAP" XMS=64M LOGLEVEL=OFF \
    "$tools/run.sh" org.apache.cassandra.tools.SSTableExport "$3" ${4:+"$4"}
}

: > "$results/times.tsv"
tables="plain lz4"
for table in $tables; do
  file=$(data "$table")
  for round in $(seq "$ROUNDS"); do
    sstabledump "sstabledump $table" /dev/null "$file"
    measured "dump $table" /dev/null "$binary" sstable dump "$file"
    sstabledump "sstabledump -l $table" /dev/null "$file" -l
    measured "dump --raw $table" /dev/null "$binary" sstable dump --raw "$file"
  done
  sstabledump "sstabledump $table to a file" "$results/theirs" "$file"
  measured "dump $table to a file" "$results/ours" "$binary" sstable dump "$file"
  theirs=$(grep -c '"type" : "row"' "$results/theirs")
  ours=$(grep -c '^{"kind":"row"' "$results/ours")
  [ "$theirs" = "$ours" ] || fail "$table: sstabledump prints $theirs rows, dump $ours"
  echo "$table: both print $ours rows" | tee -a "$results/rows"
  rm -f "$results/theirs" "$results/ours"
done
if [ "$BIG" = 1 ]; then
  measured "dump big" /dev/null "$binary" sstable dump "$(data big)"
  measured "dump --raw big" /dev/null "$binary" sstable dump --raw "$(data big)"
fi

for table in $tables; do
  file=$(data "$table")
  for round in $(seq "$ROUNDS"); do
    measured "disk $table" /dev/null dd if="$file" of=/dev/null bs=1M iflag=direct
    measured "verify --quick $table" /dev/null "$binary" sstable verify --quick "$file"
    measured "verify $table" /dev/null "$binary" sstable verify "$file"
    for version in da nb me; do
      rm -rf "$results/converted"
      measured "convert --to $version $table" /dev/null \
        "$binary" sstable convert --to "$version" --output "$results/converted" "$file"
    done
    rm -rf "$results/converted"
  done
done

python3 - "$results" "$work" <<'PY' | tee "$results/report.md"
import glob, os, statistics, sys
results, work = sys.argv[1:]
runs = {}
for line in open(results + "/times.tsv"):
    label, seconds, cpu, memory, load = line.rstrip("\n").split("\t")
    runs.setdefault(label, []).append((float(seconds), float(cpu), int(memory), float(load)))
middle = lambda label, field: statistics.median(run[field] for run in runs[label])
files = {t: glob.glob(f"{work}/{t}/*-Data.db") for t in ("plain", "lz4", "big")}
size = {t: os.path.getsize(found[0]) / 1e6 for t, found in files.items() if found}
loads = [run[3] for all_runs in runs.values() for run in all_runs]
print(f"Medians. Load before the runs: {min(loads):.1f} to {max(loads):.1f},"
      f" on {os.cpu_count()} cores.\n")
print("| | MB of Data.db | seconds | CPU seconds | MB/s | MB per CPU second | peak MiB |")
print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
for label in runs:
    table = next((t for t in size if t in label.split()), "plain")
    seconds, cpu = max(middle(label, 0), 0.01), max(middle(label, 1), 0.01)
    print(f"| {label} | {size[table]:.0f} | {seconds:.2f} | {cpu:.2f} | {size[table] / seconds:.0f}"
          f" | {size[table] / cpu:.0f} | {middle(label, 2) / 1024:.0f} |")
print()
for table in ("plain", "lz4"):
    for theirs, ours in (
        (f"sstabledump {table}", f"dump {table}"),
        (f"sstabledump -l {table}", f"dump --raw {table}"),
        (f"sstabledump {table} to a file", f"dump {table} to a file"),
    ):
        print(f"{ours}: {middle(theirs, 0) / middle(ours, 0):.1f} times as fast as {theirs}"
              f" by the clock, {middle(theirs, 1) / middle(ours, 1):.1f} times by CPU seconds")
PY
