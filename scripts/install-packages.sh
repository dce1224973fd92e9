#!/usr/bin/env bash
# install-packages.sh [COMMAND=]PACKAGE … : installs the Debian packages that are missing, and nothing where all are there.
# With COMMAND= a package counts as there when the command is, wherever it came from.
set -euo pipefail
missing=()
for want in "$@"; do
  package=${want#*=}
  if [ "$package" != "$want" ]; then
    command -v "${want%%=*}" >/dev/null || missing+=("$package")
  else
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  fi
done
[ ${#missing[@]} -eq 0 ] && exit 0
sudo=; [ "$(id -u)" = 0 ] || sudo=sudo
echo "installing ${missing[*]}" >&2
$sudo apt-get update -qq
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
