#!/usr/bin/env bash
# on-radv.sh : the engine's whole host path under AMD's driver with a card that is not there (scripts/mesa26.sh sets it up).
set -euo pipefail
cd "$(dirname "$0")/.."
host=$(rustc -vV | sed -n 's/^host: //p' | tr a-z- A-Z_)
export ZINC_TEST_DEVICE=GFX1201 "CARGO_TARGET_${host}_RUNNER=$PWD/.mesa26/run --gpu gfx1201"
cargo test --quiet --locked -p zinc-engine --test pretended -- --ignored
