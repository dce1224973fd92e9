#!/usr/bin/env bash
# test-page: the chat page in headless Chromium (Playwright) against `zinc chat --ui` with SmolLM2.
# Usage: scripts/test-page.sh [ZINC] [FOLDER]    ZINC is the executable, else target/debug/zinc is built; FOLDER takes screenshots.
. "$(dirname "$0")/test-server.sh" "${1:-}"
shots=${2:-}
chromium=$(command -v chromium-headless-shell || command -v chromium || command -v google-chrome) || {
  echo "test-page: Chromium is missing
hint: install \`chromium-headless-shell\` or \`chromium\`" >&2
  exit 1
}
place=$target/page
mkdir -p "$place" ${shots:+"$shots"}
cp tests/page/package.json tests/page/test_page.mjs "$place/"
npm install --prefix "$place" --silent --no-audit --no-fund

# Without a browser to open; the test brings its own.
BROWSER=true start_server chat --ui -c 1024
node "$place/test_page.mjs" "$base" "$chromium" ${shots:+"$shots"}
