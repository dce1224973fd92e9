#!/usr/bin/env bash
# run-tests: runs all tests, several programs at a time: the software driver compiles shaders on one core, so that a program alone leaves others
# idle. Says how long each took, and in the end what failed ones wrote. Part of ./test, which sets everything up.
# Usage: scripts/run-tests.sh [NAME]    With NAME only those programs whose name contains it, such as `engine/` or `radv`. JOBS: programs at a time.
set -euo pipefail
cd "$(dirname "$0")/.."
export root=$PWD logs
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
only=${1:-}
binaries=$(scripts/test-binaries.sh)
queue=()
declare -A queued
add() { # NAME COMMAND…
  [[ $1 == *"$only"* && -z ${queued[$1]:-} ]] || return 0
  queued[$1]=yes
  queue+=("$(printf '%q ' "$@")")
}
each() { # PATTERN of binaries, PREFIX of their names, OPTIONS of the tests, what to START them with…
  local pattern=$1 prefix=$2 options=$3 name binary folder
  shift 3
  while IFS=$'\t' read -r name binary folder; do
    # shellcheck disable=SC2086 # options are words
    [[ $name != $pattern ]] || add "$prefix$name" env -C "$folder" "$@" "$binary" --quiet $options
  done <<<"$binaries"
}

# The longest first. Those that want the same pipelines of the driver come behind each other where they can: it keeps pipelines on disk.
each engine/vulkan "" ""
# The kernels again at the other subgroup sizes of the software driver (its native one, 256 bits or with AVX-512 512, runs below). Tiles of products
# know no subgroups where there are no matrices.
widths=128
! grep -qw avx512f /proc/cpuinfo || widths="128 256"
for width in $widths; do
  each 'kernels/*' "$width bits: " "suite --skip products_in_tiles" "LP_NATIVE_VECTOR_WIDTH=$width"
  each 'vulkan/*' "$width bits: " "" "LP_NATIVE_VECTOR_WIDTH=$width"
done
# The host path under AMD's driver, with a card that is not there.
add radv scripts/on-radv.sh
# On a newer driver, whose compiler takes minutes for all kernels: the runtime, and what the older one has no matrices for. The other kernels run there
# on a schedule (.github/workflows/rdna4.yml).
each 'kernels/*' "Mesa 26, attention: " attention::matrix "$root/.mesa26/run"
each 'kernels/*' "Mesa 26, products: " products_in_tiles ZINC_TEST_CASES=khr "$root/.mesa26/run"
each 'vulkan/*' "Mesa 26: " "" "$root/.mesa26/run"
for crate in server cli cpu text; do
  each "$crate/*" "" ""
done
add documentation cargo test --doc --workspace --locked --quiet --features zinc/fault-injection
# Stock clients, the two that are quick to download; all of them run by scripts/test-clients.sh on every push.
add clients scripts/test-clients.sh "${CARGO_TARGET_DIR:-target}/debug/zinc" openai anthropic
# Two servers behind nginx.
add nginx scripts/test-nginx.sh "${CARGO_TARGET_DIR:-target}/debug/zinc"
each '*' "" ""

one() { # NAME and COMMAND, quoted
  local words started=$SECONDS log
  eval "words=($1)"
  log=$(mktemp "$logs/run.XXXXXX")
  if "${words[@]:1}" >"$log" 2>&1 </dev/null; then
    echo "ok      ${words[0]} ($((SECONDS - started)) s) $(sed -n 's/^test result: ok\. \(.*\); 0 measured.*/\1/p' "$log" | paste -sd' ')"
    rm "$log"
  else
    echo "FAILED  ${words[0]} ($((SECONDS - started)) s)"
    { echo "== ${words[0]} failed:"; cat "$log"; } >"$logs/failed.${log##*.}"
  fi
}
export -f one
printf '%s\0' "${queue[@]}" | xargs -0 -n 1 -P "${JOBS:-$(nproc)}" bash -c 'one "$1"' _
cat "$logs"/failed.* 2>/dev/null && exit 1
exit 0
