#!/bin/bash
# scripts/mesa26.sh [SUITE]
# Brings Mesa 26's software Vulkan driver, the loader and the validation layer into .mesa26/, beside the system and
# without touching it: nothing is installed, root is not needed. Debian and its relatives with apt, x86-64 or arm64.
# That driver executes cooperative matrices on the CPU, which Debian 12's own does not have. AMD's driver, RADV, comes with it: on a
# pretended card (crates/vulkan/pretend, where cargo is there to build it) it compiles and accepts everything and executes nothing.
#
#   .mesa26/run PROGRAM ARGS...                  runs a program on the software driver, with that suite's C library
#   .mesa26/run --gpu gfx1201 PROGRAM ARGS...    runs it on RADV with a pretended gfx1201, gfx1200, gfx1100 or gfx1102
#   .mesa26/run glslang ARGS...                  programs of the suite: glslang, spirv-val, spirv-dis, vulkaninfo
#   CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER=$PWD/.mesa26/run cargo test -p zinc-vulkan
#
# SUITE: trixie-backports (default) or another of Debian's with Mesa 26. Running it again does nothing when the suite
# is there already; remove .mesa26/ to fetch anew.
set -euo pipefail
suite=${1:-trixie-backports}
cd "$(dirname "$0")/.."
dir=$PWD/.mesa26
packages="mesa-vulkan-drivers libvulkan1 vulkan-validationlayers vulkan-tools glslang-tools spirv-tools"

fail() { echo "mesa26: $1" >&2; echo "hint: $2" >&2; exit 1; }
case $dir in *[[:space:]:]*) fail "\`$dir\` holds a space or colon" "move the checkout";; esac

# Fetches the suite's packages and unpacks them to .mesa26/root.
fetch() {
  for tool in apt-get dpkg-deb; do
    command -v $tool >/dev/null || fail "\`$tool\` is missing" "this script needs Debian or a relative of it"
  done
  keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  [ -e $keyring ] || fail "\`$keyring\` is missing" "apt install debian-archive-keyring"
  # The mirror that this machine uses already, else Debian's own.
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m1 '/debian/*$' || true)
  mirror=${mirror:-http://deb.debian.org/debian}

  # A private apt: own sources, lists, cache and an empty list of installed packages, so that whole dependency trees come.
  rm -rf "$dir.new"
  local apt=$dir.new/apt
  mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$dir.new/root"
  : > "$apt/status"
  base=${suite%-backports}
  echo "deb [signed-by=$keyring] $mirror $base main" > "$apt/sources.list"
  [ "$base" = "$suite" ] || echo "deb [signed-by=$keyring] $mirror $suite main" >> "$apt/sources.list"
  options=(-qq
    -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null
    -o Dir::State::lists="$apt/lists" -o Dir::State::status="$apt/status"
    -o Dir::Cache::archives="$apt/archives" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
    -o APT::Sandbox::User= -o Debug::NoLocking=1 -o APT::Install-Recommends=0)
  apt-get "${options[@]}" update || fail "$suite could not be read from $mirror" "is it a Debian mirror, and reachable?"
  apt-get "${options[@]}" -y -t "$suite" --download-only install $packages ||
    fail "the packages could not be fetched from $mirror" "try again, or another suite"
  for deb in "$apt"/archives/*.deb; do dpkg-deb -x "$deb" "$dir.new/root"; done
  rm -rf "$apt"
  echo "$suite" > "$dir.new/suite"
  rm -rf "$dir" && mv "$dir.new" "$dir"
}

if [ "$(cat "$dir/suite" 2>/dev/null)" = "$suite" ]; then echo "mesa26: $suite is in $dir already"; else fetch; fi

lib=usr/lib/$(uname -m)-linux-gnu
loader=$(cd "$dir/root" && ls $lib/ld-linux*.so.* | head -1)
# A driver's manifest names its library by soname; a path relative to the manifest finds this one.
for driver in lvp radeon; do
  icd=$(ls "$dir"/root/usr/share/vulkan/icd.d/${driver}_icd*.json | head -1)
  sed "s#\"library_path\": *\".*/\{0,1\}\(libvulkan_[^\"]*\)\"#\"library_path\": \"./root/$lib/\1\"#" "$icd" > "$dir/$driver.json"
done
{ echo "#!/bin/bash"; echo "loader=$loader lib=$lib"; cat <<'RUN'
# .mesa26/run [--gpu NAME] PROGRAM ARGS...: see scripts/mesa26.sh
set -eu
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$here/root driver=lvp options=()
if [ "${1:-}" = --gpu ] && [ $# -gt 1 ]; then
  # The disk cache of RADV's compiler would answer for it, without statistics.
  export PRETEND_GPU=$2 MESA_SHADER_CACHE_DISABLE=true
  driver=radeon options=(--preload "$here/libzinc_pretend.so")
  [ -e "$here/libzinc_pretend.so" ] || { echo "run: no pretended card; hint: scripts/mesa26.sh builds it where cargo is installed" >&2; exit 1; }
  shift 2
fi
[ $# -gt 0 ] || { sed -n 3p "$0" >&2; exit 2; }
program=$root/usr/bin/$1
[ -x "$program" ] || program=$(command -v "$1") || { echo "run: no program \`$1\`" >&2; exit 127; }
export VK_DRIVER_FILES=$here/$driver.json VK_ICD_FILENAMES=$here/$driver.json
export VK_LAYER_PATH=$root/usr/share/vulkan/explicit_layer.d VK_IMPLICIT_LAYER_PATH=$root/none
exec "$root/$loader" --library-path "$root/$lib" ${options[@]+"${options[@]}"} "$program" "${@:2}"
RUN
} > "$dir/run"
chmod +x "$dir/run"

# The pretended card; where cargo put it stands in its messages.
if command -v cargo >/dev/null; then
  built=$(cargo build --quiet --locked -p zinc-pretend --message-format=json | grep -o '"[^"]*/libzinc_pretend\.so"' | head -1)
  cp "$(echo "$built" | tr -d '"')" "$dir/libzinc_pretend.so.new" && mv "$dir/libzinc_pretend.so.new" "$dir/libzinc_pretend.so"
fi
echo "mesa26: start programs with .mesa26/run"
