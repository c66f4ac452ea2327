// Moments of a large tensor against a sum that does nothing but read it.
#include "tessera/kernels/moments.h"

#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "compare.h"
#include "tessera/kernels/parallel.h"

namespace tessera::kernels::bench {
namespace {

constexpr std::int64_t kGrain = 1 << 20;  // elements

}  // namespace

[[gnu::target("avx2")]] std::int64_t plain_sum(const void* from, std::int64_t bytes) {
  __m256i sums[8];
  for (auto& s : sums) s = _mm256_setzero_si256();
  for (std::int64_t i = 0; i + 256 <= bytes; i += 256) {
#pragma GCC unroll 8
    for (int v = 0; v < 8; ++v) {
      const auto* at = reinterpret_cast<const __m256i*>(static_cast<const char*>(from) + i) + v;
      sums[v] = _mm256_add_epi32(sums[v], _mm256_loadu_si256(at));
    }
  }
  for (int v = 1; v < 8; ++v) sums[0] = _mm256_add_epi32(sums[0], sums[v]);
  return _mm256_extract_epi32(sums[0], 0);
}

void bench_moments(bool quick) {
  const std::int64_t bytes = (quick ? std::int64_t{1} << 27 : std::int64_t{1} << 30);
  const std::int64_t count = bytes / 2;
  std::vector<std::uint16_t> x(static_cast<std::size_t>(count));
  // Numbers of both signs between 2^-7 and 0.03: the fields of an f16 filled from a counter.
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bits = static_cast<std::uint32_t>(i) * 2654435761u;
    x[static_cast<std::size_t>(i)] =
        static_cast<std::uint16_t>((bits >> 31 << 15) | (0x2000 + (bits >> 10 & 0x7ff)));
  }
  for (const int threads : {1, 2}) {
    std::vector<Moments> parts(static_cast<std::size_t>(count / kGrain));
    std::vector<std::int64_t> sums(parts.size());
    const auto part = [](std::int64_t first) { return static_cast<std::size_t>(first / kGrain); };
    const Contender sum{"plain AVX2 sum",
                        [&] {
                          for_slices(threads, count, kGrain, [&](std::int64_t a, std::int64_t b) {
                            sums[part(a)] = plain_sum(x.data() + a, 2 * (b - a));
                          });
                        },
                        static_cast<double>(bytes)};
    const auto moments_of = [&](Real type) {
      return Contender{type == Real::f16 ? "moments f16" : "moments bf16",
                       [&, type] {
                         for_slices(threads, count, kGrain, [&](std::int64_t a, std::int64_t b) {
                           moments(x.data() + a, type, b - a, &parts[part(a)]);
                         });
                       },
                       static_cast<double>(bytes)};
    };
    compare(std::to_string(bytes >> 20) + " MiB", threads, quick ? 3 : 9,
            {sum, moments_of(Real::bf16), moments_of(Real::f16)});
    Moments all;
    for (const Moments& m : parts) all = merge(all, m);
    double mean = 0;
    for (std::int64_t i = 0; i < count; ++i) mean += f16_to_f32(x[static_cast<std::size_t>(i)]);
    mean /= static_cast<double>(count);
    check(all.count == count && all.num_not_finite == 0 && std::fabs(all.mean - mean) < 1e-9,
          "moments");
  }
}

}  // namespace tessera::kernels::bench
