#!/usr/bin/env bash
# Runs the test programs of all crates side by side, one on each core, the largest first. `cargo
# test` runs one program after another, and each ends with a few slow tests that leave a core idle.
#
# Prints the output of a program when the program ends. Fails if a program fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

cores=$(nproc 2> /dev/null || echo 2)
# Many tests wait for a sync or a timer, so two threads keep a core busy.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-2}
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

# Prints the size, the crate's directory and the path of each test program.
programs() {
  cargo test --quiet --workspace --lib --bins --tests --no-run --message-format=json |
    sed -n '/"profile":{[^}]*"test":true/s/.*"manifest_path":"\([^"]*\)\/Cargo.toml".*"executable":"\([^"]*\)".*/\1\t\2/p' |
    while IFS=$'\t' read -r crate program; do
      printf '%s\t%s\t%s\n' "$(stat -c %s "$program")" "$crate" "$program"
    done
}

# Runs a program in its crate's directory, as cargo does, and then prints its output in one piece.
run() { # directory for the output, size, crate, program
  local output status=0
  output=$(mktemp -p "$1")
  (cd "$3" && CARGO_MANIFEST_DIR=$3 "$4" --quiet) > "$output" 2>&1 || status=$?
  [ "$status" -eq 0 ] || echo "failed: $(basename "$4") of $(basename "$3")" >> "$output"
  flock "$1" cat "$output"
  return "$status"
}
export -f run

programs > "$directory/programs"
[ -s "$directory/programs" ] || { echo "cargo lists no test programs"; exit 1; }
sort -rn "$directory/programs" |
  xargs -P "$cores" -d '\n' -I {} \
    bash -c 'IFS=$'"'\t'"' read -r size crate program <<< "$2"; run "$1" "$size" "$crate" "$program"' \
    _ "$directory" {}
