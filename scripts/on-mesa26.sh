#!/usr/bin/env bash
# on-mesa26.sh CRATE … : runs the tests of crates, named by their folders, on Mesa 26's software driver (scripts/mesa26.sh sets it up).
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
binaries=$(scripts/test-binaries.sh "$@")
while IFS=$'\t' read -r _ binary folder; do
  (cd "$folder" && "$root/.mesa26/run" "$binary" --quiet)
done <<<"$binaries"
