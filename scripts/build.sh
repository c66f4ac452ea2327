#!/usr/bin/env bash
# Configures and builds a preset; prints only what is wrong, and the configure summary when it is new.
#   bash scripts/build.sh PRESET [CMAKE OPTIONS] [--target NAME...]
set -euo pipefail
preset=${1:?build: name a preset: dev, release, asan, cuda}
shift
options=() targets=()
while [ $# -gt 0 ] && [ "$1" != --target ]; do
  options+=("$1")
  shift
done
[ $# -gt 0 ] && targets=("$@")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
fresh=1
[ -f "build/$preset/build.ninja" ] && fresh=0
if ! cmake --preset "$preset" "${options[@]}" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
if [ $fresh = 1 ]; then
  sed -n '/^-- Tessera /,/^-- *$/p' "$log"
  echo "building $preset (a few minutes the first time)"
fi
if ! cmake --build --preset "$preset" "${targets[@]}" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
