#!/usr/bin/env bash
# fuzz: each fuzz target for a while. Usage: scripts/fuzz.sh [SECONDS [TARGET…]]    SECONDS of each target, default 120.
# Needs nightly Rust and `cargo install cargo-fuzz`. What is found lies in fuzz/artifacts: keep it as a seed in fuzz/corpus, where the tests replay it.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-120}
shift $(($# > 0 ? 1 : 0))
[ $# -gt 0 ] || set -- gguf answer stops template request stream
for target in "$@"; do
  # What it learns stays out of the seeds.
  grown=$(mktemp -d)
  cargo +nightly fuzz run "$target" "$grown" "fuzz/corpus/$target" -- -max_total_time="$seconds" -timeout=30 -rss_limit_mb=4096 -print_final_stats=1
  rm -rf "$grown"
done
