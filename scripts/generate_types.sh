#!/usr/bin/env bash
# Writes the LuaCATS definitions, for editors, from the option tables and cards of the program.
#   bash scripts/generate_types.sh [PROGRAM]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
program=${1:-build/release/bin/tessera}
file=scripts/tessera/types/tessera.lua
mkdir -p "$(dirname "$file")"
"$program" -e 'require("tessera").help_topics(); io.write(require("tessera.host").luacats())' >"$file.new"
mv "$file.new" "$file"
