#pragma once

#include "few_tokens.h"
#include "many_tokens.h"

// The products with weights of any kind for an instruction set. `Isa` says how many lanes it has,
// how it reads 16-bit numbers, and how many sums its registers hold.
namespace tessera::kernels::cpu {
namespace {

template <class Source, class Isa>
void gemm_of(Matrix x, const Source& w, Rows outputs, float* out, std::int64_t out_stride) {
  if (x.rows == 1) return FewTokens<Source, Isa, 1>::run(x, w, outputs, out, out_stride);
  if (x.rows == 2) return FewTokens<Source, Isa, 2>::run(x, w, outputs, out, out_stride);
  if (x.rows == 3) return FewTokens<Source, Isa, 3>::run(x, w, outputs, out, out_stride);
  if (x.rows == 4) return FewTokens<Source, Isa, 4>::run(x, w, outputs, out, out_stride);
  ManyTokens<Source, Isa>::run(x, w, outputs, out, out_stride);
}

template <class Isa>
void dequant_gemm_of(Matrix x, const CodedWeights& w, Rows outputs, float* out,
                     std::int64_t out_stride) {
  const auto run = [&](auto source) {
    gemm_of<decltype(source), Isa>(x, source, outputs, out, out_stride);
  };
  if (w.format.bitwidth == 3) run(Coded<3, Isa>(w));
  if (w.format.bitwidth == 4) run(Coded<4, Isa>(w));
  if (w.format.bitwidth == 8) run(Coded<8, Isa>(w));
}

template <class Isa>
void dense_gemm_of(Matrix x, const DenseWeights& w, Rows outputs, float* out,
                   std::int64_t out_stride) {
  const auto run = [&](auto source) {
    gemm_of<decltype(source), Isa>(x, source, outputs, out, out_stride);
  };
  if (w.type == Real::f32) run(Dense<Real::f32, Isa>(w));
  if (w.type == Real::f16) run(Dense<Real::f16, Isa>(w));
  if (w.type == Real::bf16) run(Dense<Real::bf16, Isa>(w));
}

}  // namespace
}  // namespace tessera::kernels::cpu
