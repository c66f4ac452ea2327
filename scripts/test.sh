#!/usr/bin/env bash
# Set-up, Release build with warnings as errors, and the whole test suite.
#   bash scripts/test.sh [CTEST OPTIONS]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bash "$here/setup.sh" build models test
bash "$here/build.sh" release -DTESSERA_TESTS=ON -DTESSERA_TORCH=ON -DTESSERA_WERROR=ON
cd "$here/.."
ctest --preset release --schedule-random --parallel 2 "$@"
