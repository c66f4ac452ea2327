#!/usr/bin/env bash
# Writes the LuaCATS definitions, for editors, and the reference page from the option tables and cards of the program.
#   bash scripts/generate_types.sh [PROGRAM]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
program=${1:-build/release/bin/tessera}
mkdir -p scripts/tessera/types
write() {
  "$program" -e "require('tessera').help_topics(); local host = require 'tessera.host'; io.write($2)" >"$1.new"
  mv "$1.new" "$1"
}
write scripts/tessera/types/tessera.lua 'host.luacats()'
write scripts/REFERENCE.md 'require("tessera.cli.reference_page").text(host.cards())'
