#!/usr/bin/env bash
# From a bare machine to a printed plan: installs what is missing, builds Release into build/release, runs a script.
#   bash scripts/quickstart.sh [--models] [script.lua [ARGS]]     default: experiments/examples/01_first_plan.lua
# With --models also what runs language models: LibTorch, ICU, SentencePiece, Boost, libsodium and prometheus-cpp, 139 MB of packages.
set -euo pipefail
called_from=$PWD
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
groups=(build pictures) models=OFF
if [ "${1:-}" = --models ]; then
  groups+=(models) models=ON
  shift
fi
script=${1:-$root/experiments/examples/01_first_plan.lua}
[ $# -gt 0 ] && shift
[ -f "$script" ] || { echo "quickstart: there is no script $script" >&2; exit 2; }

bash "$here/setup.sh" "${groups[@]}"
# What an earlier call has built stays: without --models nothing is said of them.
options=(-DTESSERA_TESTS=OFF)
[ $models = ON ] && options+=(-DTESSERA_TORCH=ON)
bash "$here/build.sh" release "${options[@]}"
cd "$called_from"
exec "$root/build/release/bin/tessera" "$script" "$@"
