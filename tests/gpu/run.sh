#!/usr/bin/env bash
# Tests and measures the CUDA kernels on a machine with a GPU: needs nvcc, CMake and GoogleTest, nothing else of Tessera.
#   bash tests/gpu/run.sh [BUILD_FOLDER]      default: build/kernels
# With compute-sanitizer on the PATH the tests also run under its memcheck, racecheck and initcheck.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=${1:-$root/build/kernels}
cmake -S "$root/kernels" -B "$build" -DTESSERA_CUDA=ON
cmake --build "$build" --parallel "$(nproc)" --target cuda_kernels_test cuda_bench
test=$build/gpu_tests/cuda_kernels_test
"$test"
if command -v compute-sanitizer >/dev/null; then
  # The sanitizer slows kernels by 10 to 100 times; the sizes of the tests allow for it.
  for tool in memcheck racecheck initcheck; do
    echo "== compute-sanitizer $tool"
    compute-sanitizer --tool "$tool" --error-exitcode 1 "$test" --gtest_brief=1
  done
else
  echo "compute-sanitizer is not on the PATH: its checks are left out"
fi
"$build/gpu_tests/cuda_bench"
