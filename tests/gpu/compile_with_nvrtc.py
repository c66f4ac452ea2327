"""Compiles the kernels with CUDA 12's run-time compiler: compile_with_nvrtc.py 60

CUDA 13 has no code generator for GPUs before sm_75, so what the kernels do there is compiled by NVRTC 12, from the Python
packages nvidia-cuda-nvrtc-cu12 and nvidia-cuda-runtime-cu12. Exit status 77: they are not here.
"""
import ctypes
import glob
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEVICE = ROOT / "kernels/cuda/device"

# What the kernels use of the standard library; NVRTC has none of its own.
STANDARD = {
    "cstdint": "#pragma once\nnamespace std { using int8_t = signed char; using uint8_t = unsigned char; "
    "using int16_t = short; using uint16_t = unsigned short; using int32_t = int; using uint32_t = unsigned; "
    "using int64_t = long long; using uint64_t = unsigned long long; using uintptr_t = unsigned long; "
    "using size_t = unsigned long; }\n",
    "bit": "#pragma once\nnamespace std { template <class To, class From> constexpr To bit_cast(const From& "
    "from) { return __builtin_bit_cast(To, from); } }\n",
    "cmath": "#pragma once\n",
    "limits": "#pragma once\nnamespace std { template <class> struct numeric_limits; template <> struct "
    "numeric_limits<float> { static constexpr float quiet_NaN() { return __builtin_bit_cast(float, 0x7fc00000); } }; "
    "template <> struct numeric_limits<double> { static constexpr double infinity() { return "
    "__builtin_bit_cast(double, 0x7ff0000000000000ull); } }; }\n",
}

SOURCE = """
#include "activations.cuh"
#include "attention.cuh"
#include "decode_gemm.cuh"
#include "int8_gemm.cuh"
#include "moments.cuh"
#include "outliers.cuh"
#include "pack_weights.cuh"
#include "quantise.cuh"
#include "range.cuh"
#include "tile_gemm.cuh"
#include "wmma_gemm.cuh"
namespace tessera::kernels::cuda {
#define EACH(bits) \\
  template __global__ void fma_decode_kernel<Real::f32, bits>(GemmArguments); \\
  template __global__ void fma_decode_kernel<Real::f16, bits>(GemmArguments); \\
  template __global__ void fma_gemm_kernel<Real::f32, bits>(GemmArguments); \\
  template __global__ void fma_gemm_kernel<Real::f16, bits>(GemmArguments); \\
  template __global__ void pack_weights_kernel<bits>(const std::uint8_t*, std::int64_t, std::int64_t, std::uint32_t*);
EACH(3) EACH(4) EACH(8)
#if __CUDA_ARCH__ >= 700
template __global__ void wmma_gemm_kernel<3>(GemmArguments);
template __global__ void wmma_gemm_kernel<4>(GemmArguments);
template __global__ void wmma_gemm_kernel<8>(GemmArguments);
#endif
template __global__ void attention_kernel<KvType::f16>(AttentionArguments);
template __global__ void decode_gemm_kernel<F16, 4, 1, 4>(GemmArguments);
template __global__ void decode_gemm_kernel<F16, 3, 2, 1>(GemmArguments);
template __global__ void tile_gemm_kernel<F16, 4, 32>(GemmArguments);
template __global__ void group_moments_kernel<32>(Segments, Moments*);
template __global__ void choose_scales_kernel<32>(Segments, QuantFormat, float*, std::uint8_t*);
}
"""


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


def find():
    """The compiler's library and the folder of the run time's headers."""
    for folder in sys.path:
        library = glob.glob(folder + "/nvidia/cuda_nvrtc/lib/libnvrtc.so.12*")
        include = glob.glob(folder + "/nvidia/cuda_runtime/include/cuda_runtime.h")
        if library and include:
            return library[0], str(pathlib.Path(include[0]).parent)
    skip("no CUDA 12 compiler; pip install nvidia-cuda-nvrtc-cu12 nvidia-cuda-runtime-cu12")


def compile_for(arch):
    path, include = find()
    nvrtc = ctypes.CDLL(path)
    names = (ctypes.c_char_p * len(STANDARD))(*(name.encode() for name in STANDARD))
    texts = (ctypes.c_char_p * len(STANDARD))(*(text.encode() for text in STANDARD.values()))
    options = [f"--gpu-architecture=sm_{arch}", "-std=c++20", "-default-device", "-diag-suppress=1097",
               f"-I{DEVICE}", f"-I{ROOT}/kernels/include", f"-I{include}"]
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), SOURCE.encode(), b"kernels.cu", len(STANDARD), texts, names)
    result = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*(o.encode() for o in options)))
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    if log.value:
        print(log.value.decode())
    if result != 0:
        sys.exit(f"NVRTC does not compile the kernels for sm_{arch}")
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    print(f"sm_{arch}: {size.value} bytes of machine code")
    if size.value == 0:
        sys.exit("no code")


compile_for(int(sys.argv[1]))
