# The scripts of this folder source this file. It finds the nightly toolchain and cargo-fuzz, and
# installs cargo-fuzz into .deps/ if the machine has none.
export RUSTUP_TOOLCHAIN=${RUSTUP_TOOLCHAIN:-nightly}
# The main workspace's folder would be rebuilt for each other toolchain.
unset CARGO_TARGET_DIR
CARGO_FUZZ=$(command -v cargo-fuzz || true)
if [ -z "$CARGO_FUZZ" ]; then
  CARGO_FUZZ=$PWD/../.deps/cargo-fuzz/bin/cargo-fuzz
  if [ ! -x "$CARGO_FUZZ" ]; then
    echo "installing cargo-fuzz into .deps/"
    cargo install --quiet --locked cargo-fuzz --version 0.13.2 --root ../.deps/cargo-fuzz --target-dir ../.deps/cargo-fuzz/build
  fi
fi
targets() { for file in fuzz_targets/*.rs; do basename "$file" .rs; done; }
