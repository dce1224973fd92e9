#!/usr/bin/env bash
# test-page: the chat page in headless Chromium (Playwright) against `zinc chat --ui` with SmolLM2.
# Usage: scripts/test-page.sh [ZINC] [FOLDER]    ZINC is the executable, else target/debug/zinc is built; FOLDER takes screenshots.
set -euo pipefail
cd "$(dirname "$0")/.."
zinc=${1:-}
shots=${2:-}
if [ -z "$zinc" ]; then
  cargo build --locked --quiet -p zinc
  zinc=${CARGO_TARGET_DIR:-target}/debug/zinc
fi
chromium=$(command -v chromium-headless-shell || command -v chromium || command -v google-chrome) || {
  echo "test-page: Chromium is missing
hint: install \`chromium-headless-shell\` or \`chromium\`" >&2
  exit 1
}
model=models/smollm2-135m-instruct-q4_1.gguf
[ -f "$model" ] || model=../$model
place=${CARGO_TARGET_DIR:-target}/page
mkdir -p "$place" ${shots:+"$shots"}
cp tests/page/package.json tests/page/test_page.mjs "$place/"
npm install --prefix "$place" --silent --no-audit --no-fund

# Without a browser to open; the test brings its own.
BROWSER=true "$zinc" chat --ui -m "$model" --backend cpu -c 1024 >"$place/address" &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
for _ in $(seq 600); do
  base=$(cat "$place/address")
  [ -n "$base" ] && curl --silent --fail "$base/health" >/dev/null && break
  sleep 0.1
done
node "$place/test_page.mjs" "$base" "$chromium" ${shots:+"$shots"}
