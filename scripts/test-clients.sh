#!/usr/bin/env bash
# test-clients: stock clients (Python openai, anthropic, litellm; npm openai; curl) against `zinc serve` with SmolLM2.
# Usage: scripts/test-clients.sh [ZINC]    ZINC is the executable, else target/debug/zinc is built.
. "$(dirname "$0")/test-server.sh" "${1:-}"
place=$target/clients
mkdir -p "$place"
[ -x "$place/venv/bin/python" ] || python3 -m venv "$place/venv" || {
  scripts/install-packages.sh python3-venv # Debian's Python comes without it
  python3 -m venv "$place/venv"
}
"$place/venv/bin/pip" install --quiet --disable-pip-version-check -r tests/clients/requirements.txt
cp tests/clients/package.json tests/clients/test_clients.mjs "$place/"
npm install --prefix "$place" --silent --no-audit --no-fund

ZINC_API_KEY=test-key start_server serve --port 0 --parallel 4 -c 2048 --log-level error

# litellm would look up prices on the network.
LITELLM_LOCAL_MODEL_COST_MAP=True "$place/venv/bin/python" tests/clients/test_clients.py "$base" test-key
node "$place/test_clients.mjs" "$base" test-key
curl --silent --fail -N -H 'Authorization: Bearer test-key' "$base/v1/chat/completions" \
  -d '{"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4, "stream": true}' | grep -q '^data: \[DONE\]$'
echo "curl ok"
kill -TERM $server
wait $server
echo "the server ended cleanly"
