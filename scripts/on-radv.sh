#!/usr/bin/env bash
# on-radv.sh : the engine's whole host path under AMD's driver with a card that is not there (scripts/mesa26.sh sets it up).
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
binaries=$(scripts/test-binaries.sh engine)
IFS=$'\t' read -r _ binary folder < <(grep ^engine/pretended <<<"$binaries")
cd "$folder"
ZINC_TEST_DEVICE=GFX1201 exec "$root/.mesa26/run" --gpu gfx1201 "$binary" --quiet --ignored
