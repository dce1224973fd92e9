#!/usr/bin/env bash
# test-binaries.sh [CRATE…]: builds the tests of the workspace, always all with the same features, so that nothing is built twice, and lists those
# of the crates named by their folders, else all. A line each: CRATE/TARGET, executable, the folder that tests expect to run in; tabs between.
set -euo pipefail
cd "$(dirname "$0")/.."
# With faults on purpose, which validate mode must find.
list=$(cargo test --no-run --workspace --locked --quiet --features zinc/fault-injection --message-format=json-render-diagnostics |
  python3 -c 'import json, os, sys
for line in sys.stdin:
    m = json.loads(line)
    if m.get("executable") and m["profile"]["test"]:
        folder, kind, name = os.path.dirname(m["manifest_path"]), m["target"]["kind"][0], m["target"]["name"]
        name = name if kind == "test" else "unit"
        print(os.path.basename(folder) + "/" + name, m["executable"], folder, sep="\t")')
[ $# -gt 0 ] || set -- '[^/]*'
for crate in "$@"; do
  grep "^$crate/" <<<"$list" || { echo "test-binaries: no tests in \`$crate\`" >&2; exit 1; }
done
