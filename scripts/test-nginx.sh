#!/usr/bin/env bash
# test-nginx: two servers behind nginx with packaging/nginx.conf: requests that begin alike go to one of them, streams pass, and one that
# is gone is left out. Usage: scripts/test-nginx.sh [ZINC]    ZINC is the executable, else target/debug/zinc is built.
. "$(dirname "$0")/test-server.sh" "${1:-}"
place=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait; rm -rf "$place"' EXIT
for port in 8081 8082; do
  "$zinc" serve -m "$model" --backend cpu -c 1024 --port $port --log-level error >/dev/null &
  pids+=($!)
done
nginx -p "$PWD" -c packaging/nginx.conf -e "$place/error" -g "daemon off; pid $place/pid;" &
pids+=($!)
for port in 8081 8082 8080; do
  wait_until is_healthy "http://127.0.0.1:$port"
done

# Answers that a server has given to completions.
answers() {
  curl --silent "http://127.0.0.1:$1/metrics" | sed -n 's|^zinc_requests_total{route="/v1/completions",status="200"} ||p' | grep . || echo 0
}
ask() { # the beginning, the end
  curl --silent --fail http://127.0.0.1:8080/v1/completions -d "{\"max_tokens\": 1, \"prompt\": \"$1 $2\"}" >/dev/null
}
long=$(printf 'once upon a time %.0s' $(seq 70))
for i in 1 2 3 4 5 6; do ask "${long:0:990}" "end $i"; done
[ "$(answers 8081)-$(answers 8082)" = 6-0 ] || [ "$(answers 8081)-$(answers 8082)" = 0-6 ] || {
  echo "requests that begin alike went to both servers" >&2; exit 1; }
for i in $(seq 24); do ask "user $i" "asks"; done
[ "$(answers 8081)" -gt 6 ] || [ "$(answers 8082)" -gt 6 ]
[ "$(answers 8081)" -gt 0 ] && [ "$(answers 8082)" -gt 0 ] || { echo "all requests went to one server" >&2; exit 1; }
curl --silent --fail -N http://127.0.0.1:8080/v1/completions -d '{"prompt": "a", "max_tokens": 4, "stream": true}' | grep -q '\[DONE\]'
kill -TERM "${pids[0]}"
for i in $(seq 8); do ask "after $i" "one is gone"; done
echo "nginx ok: affinity, spread, streams, a server that is gone"
