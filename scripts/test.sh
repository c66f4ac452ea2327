#!/usr/bin/env bash
# Set-up, Release build with warnings as errors, and the tests: all but those that take long and are there on demand.
#   bash scripts/test.sh [--long] [CTEST OPTIONS]     --long: those too
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
preset=all
if [ "${1:-}" = --long ]; then
  preset=release
  shift
fi
bash "$here/setup.sh" build models test
bash "$here/build.sh" release -DTESSERA_TESTS=ON -DTESSERA_TORCH=ON -DTESSERA_WERROR=ON
cd "$here/.."
status=0
ctest --preset $preset --schedule-random --parallel 2 "$@" || status=$?
# What a test left out, and why: GoogleTest's, busted's and Python's.
skipped=$(sed -n 's/^skipped: /  /p; s/^ok [0-9]* - # SKIP /  /p' build/release/Testing/Temporary/LastTest.log | sort | uniq -c)
[ -z "$skipped" ] || echo "skipped, times and why:"$'\n'"$skipped"
exit $status
