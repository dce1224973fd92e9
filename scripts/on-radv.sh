#!/usr/bin/env bash
# on-radv.sh : the engine's whole host path under AMD's driver with a card that is not there (scripts/mesa26.sh sets it up).
set -euo pipefail
cd "$(dirname "$0")/.."
export ZINC_TEST_DEVICE=GFX1201
binary=$(cargo test --no-run --locked --message-format=json -p zinc-engine --test pretended 2>/dev/null |
  grep -o '"executable":"[^"]*pretended[^"]*"' | cut -d'"' -f4)
[ -n "$binary" ] || { echo "on-radv: no test binary" >&2; exit 1; }
root=$PWD
cd crates/engine && "$root/.mesa26/run" --gpu gfx1201 "$binary" --quiet --ignored
