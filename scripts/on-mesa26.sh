#!/usr/bin/env bash
# on-mesa26.sh PACKAGE … : runs the packages' tests on Mesa 26's software driver (scripts/mesa26.sh sets it up).
set -euo pipefail
cd "$(dirname "$0")/.."
args=()
for p in "$@"; do args+=(-p "$p"); done
# The test binaries, from cargo's own messages; the last path of an artifact's line that is a test.
mapfile -t binaries < <(cargo test --no-run --locked --message-format=json "${args[@]}" 2>/dev/null |
  python3 -c 'import json,sys
for line in sys.stdin:
    m = json.loads(line)
    if m.get("executable") and m["profile"]["test"]: print(m["executable"], m["manifest_path"])')
[ ${#binaries[@]} -gt 0 ] || { echo "on-mesa26: no test binaries" >&2; exit 1; }
root=$PWD
for line in "${binaries[@]}"; do
  # Tests expect their package's folder, as cargo runs them.
  (cd "$(dirname "${line#* }")" && "$root/.mesa26/run" "${line%% *}" --quiet)
done
