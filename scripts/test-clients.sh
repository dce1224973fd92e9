#!/usr/bin/env bash
# test-clients: stock clients (Python openai, anthropic, litellm; npm openai; curl) against `zinc serve` with SmolLM2.
# Usage: scripts/test-clients.sh [ZINC [CLIENT…]]    ZINC is the executable, else target/debug/zinc is built; CLIENTs are openai, anthropic, litellm and
# npm, all where none is named. curl always.
. "$(dirname "$0")/test-server.sh" "${1:-}"
shift $(($# > 0 ? 1 : 0))
[ $# -gt 0 ] || set -- openai anthropic litellm npm
python=(jsonschema openai anthropic) npm=
for client in "$@"; do
  case $client in
    openai | anthropic) ;;
    litellm) python+=(litellm) ;;
    npm) npm=yes ;;
    *) echo "test-clients: unknown client: $client" >&2; exit 2 ;;
  esac
done
place=$target/clients
mkdir -p "$place"
[ -x "$place/venv/bin/python" ] || python3 -m venv "$place/venv" || {
  scripts/install-packages.sh python3-venv # Debian's Python comes without it
  python3 -m venv "$place/venv"
}
"$place/venv/bin/pip" install --quiet --disable-pip-version-check -c tests/clients/requirements.txt "${python[@]}"
if [ -n "$npm" ]; then
  cp tests/clients/package.json tests/clients/test_clients.mjs "$place/"
  npm install --prefix "$place" --silent --no-audit --no-fund
fi

ZINC_API_KEY=test-key start_server serve --port 0 --parallel 4 -c 2048 --log-level error

# litellm would look up prices on the network.
LITELLM_LOCAL_MODEL_COST_MAP=True "$place/venv/bin/python" tests/clients/test_clients.py "$base" test-key "$@"
[ -z "$npm" ] || node "$place/test_clients.mjs" "$base" test-key
curl --silent --fail -N -H 'Authorization: Bearer test-key' "$base/v1/chat/completions" \
  -d '{"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4, "stream": true}' | grep -q '^data: \[DONE\]$'
echo "curl ok"
kill -TERM $server
wait $server
echo "the server ended cleanly"
