#!/usr/bin/env bash
# From a bare machine to a printed plan: installs what is missing, builds Release into build/release, runs a script.
#   bash scripts/quickstart.sh [script.lua [ARGS]]     default: experiments/examples/01_first_plan.lua
set -euo pipefail
called_from=$PWD
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
script=${1:-$root/experiments/examples/01_first_plan.lua}
[ $# -gt 0 ] && shift
[ -f "$script" ] || { echo "quickstart: there is no script $script" >&2; exit 2; }

bash "$here/setup.sh" build
bash "$here/build.sh" release -DTESSERA_TESTS=OFF
cd "$called_from"
exec "$root/build/release/bin/tessera" "$script" "$@"
