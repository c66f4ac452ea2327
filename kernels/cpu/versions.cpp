// Which version of each kernel a call uses.
#include "versions.h"

#include <cstdlib>
#include <cstring>

#include "baseline/baseline.h"
#include "reference/reference.h"
#include "tessera/kernels/info.h"
#if defined(TESSERA_KERNELS_X86)
#include <cpuid.h>

#include "avx2/avx2.h"
#include "avx512/avx512.h"
#endif

namespace tessera::kernels {

const char* describe(Status status) {
  switch (status) {
    case Status::ok:
      return "ok";
    case Status::invalid_argument:
      return "invalid argument";
    case Status::unsupported:
      return "unsupported";
    case Status::device_error:
      return "device error";
  }
  return "unknown status";
}

namespace cpu {
namespace {

constexpr bool always() { return true; }

/// What there is for an instruction set.
struct IsaVersions {
  Versions versions;
  bool (*runs_here)();
};

#if defined(TESSERA_KERNELS_X86)
/// Asked of the processor itself: Clang 14 and GCC 10 do not know this name in
/// __builtin_cpu_supports. That the system saves the registers follows from AVX2's answer.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl");
}
bool has_avx512_vnni() { return has_avx512() && __builtin_cpu_supports("avx512vnni"); }
#endif

/// Slowest first. The scalar ones are complete, so every kernel has a version everywhere.
const IsaVersions kAll[] = {
    {{"scalar", reference::moments, reference::ranges, reference::code_ranges, reference::quantise,
      reference::dequantise, reference::dequant_gemm, reference::dequant_gemm_a8,
      reference::dense_gemm, reference::quantise_row, reference::int8_gemm, reference::rms_norm,
      reference::layer_norm, reference::rotate, reference::activate, reference::log_sum_exp,
      reference::narrow, reference::attention},
     always},
    {{.isa = "baseline",
      .dequant_gemm = baseline::dequant_gemm,
      .dense_gemm = baseline::dense_gemm,
      .rms_norm = baseline::rms_norm,
      .layer_norm = baseline::layer_norm,
      .rotate = baseline::rotate,
      .activate = baseline::activate,
      .log_sum_exp = baseline::log_sum_exp,
      .attention = baseline::attention},
     always},
#if defined(TESSERA_KERNELS_X86)
    {{"avx2", avx2::moments, avx2::ranges, avx2::code_ranges, avx2::quantise, avx2::dequantise,
      avx2::dequant_gemm, avx2::dequant_gemm_a8, avx2::dense_gemm, avx2::quantise_row,
      avx2::int8_gemm, avx2::rms_norm, avx2::layer_norm, avx2::rotate, avx2::activate,
      avx2::log_sum_exp, avx2::narrow, avx2::attention},
     has_avx2},
    {{.isa = "avx512",
      .dequant_gemm = avx512::dequant_gemm,
      .dense_gemm = avx512::dense_gemm,
      .rms_norm = avx512::rms_norm,
      .layer_norm = avx512::layer_norm,
      .rotate = avx512::rotate,
      .activate = avx512::activate,
      .log_sum_exp = avx512::log_sum_exp,
      .attention = avx512::attention},
     has_avx512},
    {{.isa = "avx512-vnni",
      .dequant_gemm = avx512::dequant_gemm_digits,
      .dequant_gemm_a8 = avx512::dequant_gemm_a8,
      .int8_gemm = avx512::int8_gemm},
     has_avx512_vnni},
#endif
};
constexpr int kNum = sizeof(kAll) / sizeof(kAll[0]);

/// A kernel, by its place in Versions.
struct Kernel {
  const char* name;
  bool (*has)(const Versions& v);
  void (*copy)(const Versions& from, Versions* to);
  bool (*same)(const Versions& a, const Versions& b);
};

template <auto Member>
constexpr Kernel kernel(const char* name) {
  return {name, [](const Versions& v) { return v.*Member != nullptr; },
          [](const Versions& from, Versions* to) { to->*Member = from.*Member; },
          [](const Versions& a, const Versions& b) { return a.*Member == b.*Member; }};
}

constexpr Kernel kKernels[] = {
    kernel<&Versions::moments>("moments"),
    kernel<&Versions::ranges>("ranges"),
    kernel<&Versions::code_ranges>("code_ranges"),
    kernel<&Versions::quantise>("quantise"),
    kernel<&Versions::dequantise>("dequantise"),
    kernel<&Versions::dequant_gemm>("dequant_gemm"),
    kernel<&Versions::dequant_gemm_a8>("dequant_gemm_a8"),
    kernel<&Versions::dense_gemm>("dense_gemm"),
    kernel<&Versions::quantise_row>("quantise_rows"),
    kernel<&Versions::int8_gemm>("int8_gemm"),
    kernel<&Versions::rms_norm>("rms_norm"),
    kernel<&Versions::layer_norm>("layer_norm"),
    kernel<&Versions::rotate>("rotate"),
    kernel<&Versions::activate>("activate"),
    kernel<&Versions::log_sum_exp>("log_sum_exp"),
    kernel<&Versions::narrow>("narrow"),
    kernel<&Versions::attention>("attention"),
};
constexpr int kNumKernels = sizeof(kKernels) / sizeof(kKernels[0]);
static_assert(sizeof(Versions) == sizeof(Versions::isa) + kNumKernels * sizeof(Versions::moments),
              "a kernel of Versions is not in kKernels, so that no call would find it");

/// The versions of the sets up to `last` that run here.
Versions up_to(int last) {
  Versions result{};
  for (int i = 0; i <= last; ++i) {
    if (!kAll[i].runs_here()) continue;
    for (const Kernel& k : kKernels) {
      if (k.has(kAll[i].versions)) k.copy(kAll[i].versions, &result);
    }
  }
  return result;
}

/// The set called `isa`, or -1 where there is none or it does not run here.
int find(const char* isa) {
  for (int i = 0; i < kNum; ++i) {
    if (std::strcmp(kAll[i].versions.isa, isa) == 0) return kAll[i].runs_here() ? i : -1;
  }
  return -1;
}

Versions from_environment() {
  const char* isa = std::getenv("TESSERA_KERNELS_ISA");
  const int found = isa == nullptr ? -1 : find(isa);
  return up_to(found < 0 ? kNum - 1 : found);
}

Versions& current() {
  static Versions versions = from_environment();
  return versions;
}

}  // namespace

const Versions& chosen() { return current(); }

}  // namespace cpu

const char* unknown_isa() {
  const char* isa = std::getenv("TESSERA_KERNELS_ISA");
  return isa == nullptr || *isa == '\0' || cpu::find(isa) >= 0 ? nullptr : isa;
}

bool use_isa(const char* isa) {
  if (isa == nullptr) {
    cpu::current() = cpu::from_environment();
    return true;
  }
  const int found = cpu::find(isa);
  if (found >= 0) cpu::current() = cpu::up_to(found);
  return found >= 0;
}

std::span<const KernelInfo> cpu_kernels() {
  static KernelInfo table[cpu::kNum * cpu::kNumKernels];
  std::size_t count = 0;
  for (const cpu::Kernel& k : cpu::kKernels) {
    for (const cpu::IsaVersions& all : cpu::kAll) {
      if (!k.has(all.versions)) continue;
      table[count++] = {k.name, all.versions.isa, all.runs_here(),
                        k.same(all.versions, cpu::chosen())};
    }
  }
  return {table, count};
}

}  // namespace tessera::kernels
