#!/usr/bin/env bash
# AddressSanitizer and UndefinedBehaviorSanitizer over what meets files and scripts of others: the readers, the binding
# kit, the store, the solver, and the attacks on the whole program. Left out for their time: kernels, property and
# differential tests, sweeps, the browser; `cmake --workflow --preset asan` runs everything.
#   bash scripts/sanitize.sh
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/.."
tests=(
  core_devices_test core_files_test core_models_test lua_kit_test
  weights_test checkpoint_test quantise_test read_samples_test profile_test
  results_test solver_test exact_planner_test exact_parts_test ilp_planner_test
  host_recursion_test host_printing_test results_database_test attack_readers_test attack_caller_test
)
bash scripts/setup.sh build test
bash scripts/build.sh asan --target tessera "${tests[@]}"
export LSAN_OPTIONS=suppressions=$PWD/tests/support/lsan.supp:print_suppressions=0
# Two at a time; a test that fails ends the run with its output shown.
printf '%s\n' "${tests[@]}" | xargs -P 2 -I TEST bash -c \
  'log=$(mktemp); if build/asan/tests/TEST --gtest_brief=1 >"$log" 2>&1; then echo "-- TEST passed"
   else cat "$log"; echo "-- TEST failed"; rm -f "$log"; exit 255; fi; rm -f "$log"'
