#!/usr/bin/env bash
# test-load: the server's long runs: 1,000 interleaved pairs of requests, 1,040 requests of 16 clients with no growth of memory.
set -euo pipefail
cd "$(dirname "$0")/.."
for run in a_thousand_pairs_are_kept_apart a_thousand_requests_leak_nothing; do
  # Each in a process of its own: memory is measured.
  cargo test --locked --quiet -p zinc-server --test server -- --ignored --exact "load::$run" --nocapture
done
