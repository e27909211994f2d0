#!/usr/bin/env bash
# Makes a runnable Apache Cassandra node and the oracle tools in a directory.
#
#   [settings] install.sh DIR
#
# Maven fetches the jars, once for all directories, into .deps/cassandra of this repository; the
# compiled oracle goes there too.
#
# Settings (environment; DIR/settings keeps them, so a later run only has to name changes):
#   CASSANDRA=5.0.9   version of org.apache.cassandra:cassandra-all; without oracle tools if it is
#                     not a 5.0
#   PORT=9142         CQL port            ADDRESS=127.0.0.1
#   STORAGE_PORT      internode port, default PORT+1000
#   HEAP=2G           -Xms/-Xmx of the node        DIRECT=2G  -XX:MaxDirectMemorySize
#   FORMAT=bti        bti (writes `da`) | big (writes `oa`) | nb (big in CASSANDRA_4 compatibility
#                     mode, writes `nb`)
#   MEMTABLE=trie     trie | skiplist     ALLOCATION=heap_buffers (or offheap_objects ...)
#   COLUMN_INDEX      row index granularity, e.g. 1KiB; empty = Cassandra's default (64KiB big,
#                     16KiB bti)
#   UUID_IDS=false    true: UUID sstable identifiers instead of 1,2,3...
#   JMX               port for local JMX; empty = JMX off
#   CORES             taskset list, e.g. 0 or 0,2; empty = all
#   EXTRA_YAML        text appended to cassandra.yaml
#   JAVA_HOME         a JDK 11 or 17 (else `java`/`javac` from PATH)
#   QUICK=1           (when a program runs; not kept) for tests: the JVM compiles code once, without
#                     optimising it, and takes classes from an archive
# Running it again is cheap: jars, classes and data are kept, only the configuration is rewritten.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -eq 1 ] || { sed -n '2,27p' "${BASH_SOURCE[0]}" >&2; exit 2; }
mkdir -p "$1"; D=$(cd "$1" && pwd)

names="CASSANDRA PORT ADDRESS STORAGE_PORT HEAP DIRECT FORMAT MEMTABLE ALLOCATION COLUMN_INDEX \
UUID_IDS JMX CORES EXTRA_YAML"
declare -A given=()
for n in $names; do if [ -n "${!n+x}" ]; then given[$n]=${!n}; fi; done
if [ -f "$D/settings" ]; then
  for n in $names; do unset "$n"; done
  # shellcheck disable=SC1091
  . "$D/settings"
fi
for n in "${!given[@]}"; do printf -v "$n" %s "${given[$n]}"; done
CASSANDRA=${CASSANDRA:-5.0.9}; PORT=${PORT:-9142}; ADDRESS=${ADDRESS:-127.0.0.1}
if [ -n "${given[PORT]+x}" ] && [ -z "${given[STORAGE_PORT]+x}" ]; then STORAGE_PORT=; fi
STORAGE_PORT=${STORAGE_PORT:-$((PORT + 1000))}
HEAP=${HEAP:-2G}; DIRECT=${DIRECT:-2G}; FORMAT=${FORMAT:-bti}; MEMTABLE=${MEMTABLE:-trie}
ALLOCATION=${ALLOCATION:-heap_buffers}; COLUMN_INDEX=${COLUMN_INDEX:-}; UUID_IDS=${UUID_IDS:-false}
JMX=${JMX:-}; CORES=${CORES:-}; EXTRA_YAML=${EXTRA_YAML:-}
case $FORMAT in bti) fmt=bti compat=NONE;; big) fmt=big compat=NONE;; nb) fmt=big compat=CASSANDRA_4;;
  *) echo "FORMAT must be bti, big or nb" >&2; exit 2;; esac
case $MEMTABLE in trie|skiplist) ;; *) echo "MEMTABLE must be trie or skiplist" >&2; exit 2;; esac
if [ "$FORMAT" = nb ] && [ "$UUID_IDS" = true ]; then
  echo "note: CASSANDRA_4 mode with UUID ids" >&2
fi
: > "$D/settings"; for n in $names; do printf '%s=%q\n' "$n" "${!n}" >> "$D/settings"; done

# ---- jars
# The links below have the real path of the jars, so they stay valid if .deps is itself a link in a
# checkout that is removed.
deps=$(cd "$here/../.." && pwd)/.deps/cassandra
mkdir -p "$deps"; deps=$(cd "$deps" && pwd -P)
jars=$deps/jars-$CASSANDRA
classes=$deps/classes-$CASSANDRA
exec 9> "$deps/install.lock"
flock 9
if [ ! -f "$jars/.complete" ]; then
  rm -rf "$jars"; mkdir -p "$jars"
  cat > "$jars/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>peer</groupId><artifactId>cassandra-node</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>org.apache.cassandra</groupId><artifactId>cassandra-all</artifactId><version>$CASSANDRA</version>
  </dependency></dependencies>
</project>
POM
  (cd "$jars" && mvn -q -B ${OFFLINE:+-o} dependency:copy-dependencies \
    -DoutputDirectory="$jars" -DincludeScope=runtime)
  ls "$jars"/cassandra-all-"$CASSANDRA".jar "$jars"/jamm-*.jar > /dev/null
  touch "$jars/.complete"
fi
ln -sfn "$jars" "$D/lib"

# ---- configuration: one file for the node, one for offline tools, which never share directories
mkdir -p "$D/conf" "$D/data"
yaml() { # file, root of the data directories
  cat > "$1" <<YAML
cluster_name: 'peer'
num_tokens: 1
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
commitlog_sync: periodic
commitlog_sync_period: 10000ms
commitlog_directory: $2/commitlog
data_file_directories: [$2/data]
saved_caches_directory: $2/saved_caches
hints_directory: $2/hints
cdc_raw_directory: $2/cdc_raw
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters: [{seeds: "$ADDRESS:$STORAGE_PORT"}]
listen_address: $ADDRESS
storage_port: $STORAGE_PORT
rpc_address: $ADDRESS
native_transport_port: $PORT
start_native_transport: true
endpoint_snitch: SimpleSnitch
auto_snapshot: false
storage_compatibility_mode: $compat
uuid_sstable_identifiers_enabled: $UUID_IDS
sstable:
  selected_format: $fmt
memtable:
  configurations:
    skiplist:
      class_name: SkipListMemtable
    trie:
      class_name: TrieMemtable
    default:
      inherits: $MEMTABLE
memtable_allocation_type: $ALLOCATION
user_defined_functions_enabled: true
materialized_views_enabled: true
sasi_indexes_enabled: true
drop_compact_storage_enabled: true
column_value_size_warn_threshold:
column_index_cache_size: 2KiB
YAML
  [ -z "$COLUMN_INDEX" ] || echo "column_index_size: $COLUMN_INDEX" >> "$1"
  [ -n "$EXTRA_YAML" ] || return 0
  # A setting of EXTRA_YAML replaces the one of that name.
  awk -v given="$(grep -oE '^[a-z_]+:' <<< "$EXTRA_YAML" | paste -sd ' ')" '
    BEGIN { count = split(given, names, " "); for (i = 1; i <= count; i++) replaced[names[i]] = 1 }
    /^[a-z_]+:/ { skips = $1 in replaced }
    !skips' "$1" > "$1.new"
  mv "$1.new" "$1"
  printf '%s\n' "$EXTRA_YAML" >> "$1"
}
yaml "$D/conf/cassandra.yaml" "$D/data"
COLUMN_INDEX='' UUID_IDS=false EXTRA_YAML='' fmt=bti compat=NONE \
  yaml "$D/conf/tools.yaml" "$D/scratch"
COLUMN_INDEX='' UUID_IDS=false EXTRA_YAML='' fmt=big compat=CASSANDRA_4 \
  yaml "$D/conf/tools-nb.yaml" "$D/scratch"
cat > "$D/conf/logback.xml" <<'XML'
<configuration>
  <appender name="S" class="ch.qos.logback.core.ConsoleAppender"><target>System.err</target>
    <encoder><pattern>%-5level %date{ISO8601} %F:%L - %msg%n</pattern></encoder></appender>
  <root level="${loglevel:-INFO}"><appender-ref ref="S"/></root>
</configuration>
XML

# ---- scripts
cat > "$D/run.sh" <<'RUN'
#!/usr/bin/env bash
# Runs any main class of Cassandra with the flags it needs: run.sh CLASS [args]
# (HEAP, CONF=cassandra.yaml|tools.yaml, LOGLEVEL, QUICK=1)
D=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
h=${HEAP:-}; c=${CORES-unset}
. "$D/settings"
HEAP=${h:-$HEAP}; [ "$c" = unset ] || CORES=$c
java=java; [ -z "${JAVA_HOME:-}" ] || java=$JAVA_HOME/bin/java
opts=()
e() { for p in "$@"; do opts+=(--add-exports "$p=ALL-UNNAMED"); done; }
o() { for p in "$@"; do opts+=(--add-opens "$p=ALL-UNNAMED"); done; }
e java.base/jdk.internal.misc java.base/jdk.internal.ref java.base/sun.nio.ch \
  java.base/java.lang.ref java.sql/java.sql java.management.rmi/com.sun.jmx.remote.internal.rmi \
  java.rmi/sun.rmi.registry java.rmi/sun.rmi.server jdk.unsupported/sun.misc
o java.base/java.lang.module java.base/jdk.internal.loader java.base/jdk.internal.ref \
  java.base/jdk.internal.reflect java.base/jdk.internal.math java.base/jdk.internal.module \
  java.base/jdk.internal.util.jar java.base/sun.nio.ch java.base/java.io java.base/java.nio \
  java.base/java.lang java.base/java.util java.base/java.util.concurrent \
  java.base/java.util.concurrent.atomic \
  java.rmi/sun.rmi.transport.tcp jdk.management/com.sun.management.internal
[ -z "${JMX:-}" ] || [ "${CONF:-cassandra.yaml}" != cassandra.yaml ] ||
  opts+=(-Dcassandra.jmx.local.port="$JMX")
pin=(); [ -z "${CORES:-}" ] || pin=(taskset -c "$CORES")
# A JVM refuses an archive that was made from other class paths, so all directories name the jars by
# one path. It goes on without an archive that it cannot use.
jars=$(cd "$D/lib" && pwd -P); tools=$(cd "$D/tools" && pwd -P)
if [ -n "${QUICK:-}" ]; then
  opts+=(-XX:TieredStopAtLevel=1)
  [ ! -f "$tools.jsa" ] ||
    opts+=(-XX:+UnlockDiagnosticVMOptions -XX:+AllowArchivingWithJavaAgent -XX:-PrintWarnings
      -Xlog:disable -Xlog:all=error:stderr -XX:SharedArchiveFile="$tools.jsa")
fi
exec "${pin[@]}" "$java" -javaagent:"$(echo "$jars"/jamm-*.jar)" \
  -Xms"${XMS:-$HEAP}" -Xmx"$HEAP" -XX:MaxDirectMemorySize="$DIRECT" \
  ${GC:--XX:+UseG1GC} -XX:+PerfDisableSharedMem -Djdk.attach.allowAttachSelf=true \
  -Djava.awt.headless=true "${opts[@]}" ${JVM_OPTS:-} \
  -Dcassandra.storagedir="$D/data" -Dcassandra.config="file://$D/conf/${CONF:-cassandra.yaml}" \
  -Dlogback.configurationFile="$D/conf/logback.xml" -Dloglevel="${LOGLEVEL:-INFO}" \
  -Dcassandra.ring_delay_ms=100 -Dcassandra.skip_wait_for_gossip_to_settle=0 \
  -Dcassandra-foreground=yes \
  -cp "$tools.jar:$jars/*" "$@"
RUN
cat > "$D/oracle" <<'RUN'
#!/usr/bin/env bash
# The offline oracle; `oracle help` lists the commands.  FORMAT=bti|big|nb for `write`.
D=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
f=${FORMAT:-bti}; conf=tools.yaml; [ "$f" != nb ] || conf=tools-nb.yaml
export ORACLE_FORMAT=$f CONF=$conf HEAP=${ORACLE_HEAP:-1G} XMS=${ORACLE_XMS:-64M}
export GC=-XX:+UseSerialGC LOGLEVEL=${LOGLEVEL:-OFF} QUICK=1
exec "$D/run.sh" Oracle "$@"
RUN
chmod +x "$D/run.sh" "$D/oracle"

# ---- tools
# Each tool is a class; the later ones may use the earlier ones. They compile with 5.0 alone.
mkdir -p "$classes"
case $CASSANDRA in
  5.0.*) tools="Oracle InternodeVectors ReadVectors";;
  *) tools= ARCHIVE=none;;
esac
for tool in $tools; do
  [ ! -f "$classes/$tool.class" ] || [ "$here/$tool.java" -nt "$classes/$tool.class" ] || continue
  javac=javac; [ -z "${JAVA_HOME:-}" ] || javac=$JAVA_HOME/bin/javac
  "$javac" -nowarn -proc:none -Xlint:none -cp "$jars/*:$classes" -d "$classes" "$here/$tool.java"
  rm -f "$classes.jar"
done
if [ ! -f "$classes.jar" ]; then
  jar=jar; [ -z "${JAVA_HOME:-}" ] || jar=$JAVA_HOME/bin/jar
  "$jar" --create --file "$classes.jar" -C "$classes" .
  rm -f "$classes.jsa"
fi
ln -sfn "$classes" "$D/tools"
exec 9>&-

# ---- archive of the classes that a node and the oracle load: with it and QUICK=1 they start in a
# third of the time. A node that runs for a moment, on an address of its own, makes it.
if [ ! -f "$classes.jsa" ] && [ -z "${ARCHIVE:-}" ]; then
  exec 8> "$deps/archive.lock"
  flock 8
  if [ ! -f "$classes.jsa" ]; then
    ARCHIVE=making EXTRA_YAML="" ADDRESS=127.$((RANDOM % 200 + 10)).$((RANDOM % 200 + 10)).2 HEAP=512M \
      "$here/install.sh" "$deps/archive" > /dev/null
    JVM_OPTS="-XX:+UnlockDiagnosticVMOptions -XX:+AllowArchivingWithJavaAgent
      -XX:ArchiveClassesAtExit=$classes.jsa.new" QUICK=1 \
      "$here/start.sh" "$deps/archive" 8>&- > /dev/null
    "$here/stop.sh" "$deps/archive" > /dev/null
    mv "$classes.jsa.new" "$classes.jsa" || echo "note: no archive of classes; runs start slower" >&2
    rm -rf "$deps/archive"
  fi
  exec 8>&-
fi
echo "cassandra $CASSANDRA in $D: CQL $ADDRESS:$PORT, format $FORMAT, memtable $MEMTABLE," \
  "JMX ${JMX:-off}"
