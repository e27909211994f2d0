#!/usr/bin/env bash
# Regenerates testdata/byte_comparable and testdata/types with the real Apache Cassandra.
#
#   generate.sh ORACLE        ORACLE: a directory made by interop/cassandra/install.sh
#
# The vectors are deterministic, so a second run changes no file unless Cassandra's version changed.
set -euo pipefail
[ $# -eq 1 ] || { sed -n '2,6p' "${BASH_SOURCE[0]}" >&2; exit 2; }
oracle=$(cd "$1" && pwd)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
testdata=$(cd "$here/../../.." && pwd)/testdata
mkdir -p "$testdata/byte_comparable" "$testdata/types"
run() {
  CONF=tools.yaml HEAP=512M XMS=64M GC=-XX:+UseSerialGC LOGLEVEL=OFF JVM_OPTS=-Duser.timezone=UTC \
    "$oracle/run.sh" "$here/TypeVectors.java" "$1" > "$testdata/$2.new"
  mv "$testdata/$2.new" "$testdata/$2"
  wc -l "$testdata/$2"
}
run values byte_comparable/values.txt
run clusterings byte_comparable/clusterings.txt
run keys byte_comparable/keys.txt
run names types/names.txt
run validate types/validate.txt
run parse types/parse.txt
run print types/print.txt
run json types/json.txt
run timeuuid types/timeuuid.txt
