#!/usr/bin/env bash
# AddressSanitizer and UndefinedBehaviorSanitizer over what meets files and scripts of others: the readers, the binding
# kit, the store, the solver, served runs, models that run with their tokenizers and texts, and the attacks on the whole
# program. Left out for their time: kernels, property and differential tests, sweeps, the browser; `cmake --workflow
# --preset asan` runs everything but what needs LibTorch, which is not instrumented: the second backend, training.
#   bash scripts/sanitize.sh
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/.."
tests=(
  core_devices_test core_files_test core_models_test lua_kit_test
  weights_test checkpoint_test quantise_test read_samples_test profile_test
  tokenizer_test linear_test lm_test lm_generate_test quality_test
  serving_scheduler_test serving_simulate_test serving_traffic_test serving_results_test serving_speculation_test
  results_test solver_test exact_planner_test exact_parts_test ilp_planner_test
  host_recursion_test host_printing_test results_database_test attack_readers_test attack_caller_test
)
# Readers that no attack on the whole program reaches: the program of this build has models without arithmetic there.
fuzzers=(decoder text tokenizer traffic_trace zero_shot)
bash scripts/setup.sh build tokenizer test
bash scripts/build.sh asan --target tessera "${tests[@]}" "${fuzzers[@]/#/fuzz_}"
export LSAN_OPTIONS=suppressions=$PWD/tests/support/lsan.supp:print_suppressions=0
# Two at a time; a test that fails ends the run with its output shown.
printf '%s\n' "${tests[@]}" | xargs -P 2 -I TEST bash -c \
  'log=$(mktemp); if build/asan/tests/TEST --gtest_brief=1 >"$log" 2>&1; then echo "-- TEST passed"
   else cat "$log"; echo "-- TEST failed"; rm -f "$log"; exit 255; fi; rm -f "$log"'
ctest --preset asan --parallel 2 --tests-regex "^fuzz[.]($(IFS='|' && echo "${fuzzers[*]}"))\$"
