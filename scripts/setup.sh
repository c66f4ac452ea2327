#!/usr/bin/env bash
# Installs with apt what a build needs and is missing. Arguments: any of build, tokenizer, runtime, models, pictures, test, lint, fuzz (default: build).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/packages.sh
source "$here/packages.sh"

wanted=()
for group in "${@:-build}"; do
  case $group in
    build) wanted+=("${build_packages[@]}") ;;
    tokenizer) wanted+=("${tokenizer_packages[@]}") ;;
    runtime) wanted+=("${runtime_packages[@]}") ;;
    models) wanted+=("${models_packages[@]}") ;;
    pictures) wanted+=("${pictures_packages[@]}") ;;
    test) wanted+=("${test_packages[@]}") ;;
    lint) wanted+=("${lint_packages[@]}") ;;
    fuzz) wanted+=("${fuzz_packages[@]}") ;;
    *) echo "setup: unknown group '$group'; use build, tokenizer, runtime, models, pictures, test, lint, fuzz" >&2; exit 2 ;;
  esac
done

command -v apt-get >/dev/null || { echo "setup: this needs apt (tried on Debian 12); install by hand: ${wanted[*]}" >&2; exit 1; }
missing=()
for package in "${wanted[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "setup: run as root, or install sudo; missing: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "setup: installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
if ! { "${as_root[@]}" apt-get update -qq && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "setup: apt-get failed, see above" >&2
  exit 1
fi
