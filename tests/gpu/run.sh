#!/usr/bin/env bash
# Tests and measures the CUDA kernels on a machine with a GPU: needs nvcc, CMake and GoogleTest, nothing else of Tessera.
#   bash tests/gpu/run.sh [BUILD_FOLDER]      default: build/kernels
# With compute-sanitizer on the PATH the tests also run under its memcheck, racecheck and initcheck.
# Where CMake finds a LibTorch with CUDA (CMAKE_PREFIX_PATH=.../site-packages/torch for PyTorch's own), and what else Tessera
# needs, the decoder runs on the GPU too: its tests, and prefill and decode of TESSERA_GPU_MODEL, a folder or a GGUF file
# (default: the project's own small model), beside the same in 16 bits and on the CPU.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=${1:-$root/build/kernels}
cmake -S "$root/kernels" -B "$build" -DTESSERA_CUDA=ON
cmake --build "$build" --parallel "$(nproc)" --target cuda_kernels_test cuda_bench

tests() {  # tests PROGRAM: it, and it under the sanitizer
  "$1"
  command -v compute-sanitizer >/dev/null || return 0
  # The sanitizer slows kernels by 10 to 100 times; the sizes of the tests allow for it.
  for tool in memcheck racecheck initcheck; do
    echo "== compute-sanitizer $tool"
    compute-sanitizer --tool "$tool" --error-exitcode 1 "$1" --gtest_brief=1 "${@:2}"
  done
}
command -v compute-sanitizer >/dev/null || echo "compute-sanitizer is not on the PATH: its checks are left out"
tests "$build/gpu_tests/cuda_kernels_test"
"$build/gpu_tests/cuda_bench"

decoder=$build-decoder
if ! cmake -S "$root" -B "$decoder" -DTESSERA_CUDA=ON -DTESSERA_TORCH=ON >"$decoder.log" 2>&1; then
  echo "the decoder on the GPU is left out: Tessera with LibTorch does not configure here ($decoder.log says why)"
elif ! cmake --build "$decoder" --target help | grep -q cuda_decoder_test; then
  echo "the decoder on the GPU is left out: the LibTorch that CMake found has no CUDA (CMAKE_PREFIX_PATH names another)"
else
  cmake --build "$decoder" --parallel "$(nproc)" --target cuda_decoder_test tessera tessera_models tessera_torch
  # Of LibTorch's own kernels the sanitizer has its own opinion: products alone.
  tests "$decoder/bin/cuda_decoder_test" '--gtest_filter=PackedLinear.*'
  model=${TESSERA_GPU_MODEL:-$root/datasets/language_models/grammar-opt-5m}
  for device in cuda cpu; do
    echo "== $model on $device"
    "$decoder/bin/tessera" bench "$model" --device "$device" --dtype f16 --bitwidths 16,8,4,3 --context-tokens 128 \
      --prompt-tokens 256 --output-tokens 64
  done
fi
