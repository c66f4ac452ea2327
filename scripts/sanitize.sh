#!/usr/bin/env bash
# AddressSanitizer and UndefinedBehaviorSanitizer over what meets files, scripts and clients of others: the readers, the
# binding kit, the store, damaged models that run, tokenizers and texts, stages and the server, and the attacks on the whole
# program, which call every function: the tests with label sanitize. Left out for their time: what computes from what was
# read (prices, planners, simulators, kernels, whole models), property and differential tests, sweeps, the browser;
# `cmake --workflow --preset asan` runs everything but what needs LibTorch, which is not instrumented: the second backend.
#   bash scripts/sanitize.sh
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/.."
bash scripts/setup.sh build tokenizer runtime test
bash scripts/build.sh asan --target sanitize_tests
ctest --preset asan --parallel 2 --label-regex '^sanitize$'
