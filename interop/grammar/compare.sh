#!/usr/bin/env bash
# Compares our CQL grammar with the parser of a real Cassandra 5.0.
#
#   compare.sh ORACLE [MUTANTS [SEED]]
#
# ORACLE is a directory with cassandra-all and its dependencies in lib/; classes go to
# ORACLE/grammar.
# 1. The recorded verdict (accepted or not) of every statement of testdata/cql must be Cassandra's;
#    that of the statements in differences.txt must not.
# 2. The names of result columns in result_names.txt must be Cassandra's.
# 3. Every keyword in every place where a name may stand gets the same verdict from both parsers.
# 4. If MUTANTS is given: both parsers get that many statements, made from those of testdata/cql by
#    changing a few tokens. The script prints the differences that differences.txt does not explain.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
[ $# -ge 1 ] || { sed -n '2,13p' "${BASH_SOURCE[0]}" >&2; exit 2; }
oracle=$(cd "$1" && pwd)
cases=$root/testdata/cql

mkdir -p "$oracle/grammar"
if [ "$here/GrammarOracle.java" -nt "$oracle/grammar/GrammarOracle.class" ]; then
  javac -nowarn -proc:none -Xlint:none -cp "$oracle/lib/*" -d "$oracle/grammar" \
    "$here/GrammarOracle.java"
fi
flags=()
for package in java.lang java.io java.nio java.util sun.nio.ch jdk.internal.ref jdk.internal.misc; do
  flags+=(--add-opens "java.base/$package=ALL-UNNAMED")
done
echo '<configuration/>' > "$oracle/grammar/silent.xml"
ask() {
  java -Xss4m -javaagent:"$(echo "$oracle"/lib/jamm-*.jar)" "${flags[@]}" \
    -Dlogback.configurationFile="$oracle/grammar/silent.xml" \
    -cp "$oracle/grammar:$oracle/lib/*" GrammarOracle "$@"
}

status=0
files=()
for file in "$cases"/*.txt; do
  case $(basename "$file") in result_names.txt|functions.txt) ;; *) files+=("$file");; esac
done
ask cases "${files[@]}" || status=1
ask names "$cases/result_names.txt" || status=1

cargo build -q --manifest-path "$root/Cargo.toml" -p espalier-cql --example grammar_verdicts
scratch=$(mktemp -d); trap 'rm -rf "$scratch"' EXIT
both() { # what, file of statements
  ask verdicts < "$2" > "$2.theirs"
  "${CARGO_TARGET_DIR:-$root/target}/debug/examples/grammar_verdicts" < "$2" > "$2.ours"
  echo "$1:"
  python3 "$here/mutate.py" compare "$2" "$2.ours" "$2.theirs" || status=1
}
python3 "$here/mutate.py" keywords "$root/crates/cql/src/grammar/keyword.rs" > "$scratch/keywords"
both "keywords as names" "$scratch/keywords"
if [ $# -ge 2 ]; then
  python3 "$here/mutate.py" "$2" "${3:-1}" "$cases"/*.txt > "$scratch/mutants"
  both "mutants" "$scratch/mutants"
fi
exit $status
