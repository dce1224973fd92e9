# test-server.sh: what test-clients.sh, test-nginx.sh and test-page.sh share; they source it with their first argument, the executable,
# else target/debug/zinc is built. It goes to the checkout and sets `zinc`, `model` (SmolLM2) and `target` (cargo's folder).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=${CARGO_TARGET_DIR:-target}
zinc=${1:-}
if [ -z "$zinc" ]; then
  cargo build --locked --quiet -p zinc
  zinc=$target/debug/zinc
fi
model=models/smollm2-135m-instruct-q4_1.gguf
[ -f "$model" ] || model=../$model

# A minute at most, until a command succeeds.
wait_until() { # COMMAND ARGS…
  for _ in $(seq 600); do
    "$@" && return
    sleep 0.1
  done
  echo "waited in vain for: $*" >&2
  return 1
}

is_healthy() { # ADDRESS
  curl --silent --fail "$1/health" >/dev/null
}

# Starts zinc with the model and waits until it answers. Leaves its address in `base` and its process in `server`, which ends with the script.
start_server() { # COMMAND ARGS…
  local file=$place/address
  rm -f "$file"
  "$zinc" "$@" -m "$model" --backend cpu >"$file" &
  server=$!
  trap 'kill $server 2>/dev/null || true' EXIT
  wait_until [ -s "$file" ]
  base=$(cat "$file")
  wait_until is_healthy "$base"
}
