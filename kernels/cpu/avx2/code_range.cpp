#include <immintrin.h>

#include "../reference/reference.h"
#include "avx2.h"

// Groups of 16 or 32 codes, 32 groups at a time. Lane 0 of vector j is group j, lane 1 is group
// j + 16. Each step interleaves the bytes of two vectors and keeps the smaller (larger) of each two
// codes of a group, so that half as many vectors are left; after four steps byte j of a lane is the
// end of its group j.
namespace tessera::kernels::cpu::avx2 {
namespace {

constexpr std::int64_t kGroups = 32;

struct Smaller {
  TESSERA_KERNELS_INLINE static __m256i of(__m256i a, __m256i b) { return _mm256_min_epi8(a, b); }
};
struct Larger {
  TESSERA_KERNELS_INLINE static __m256i of(__m256i a, __m256i b) { return _mm256_max_epi8(a, b); }
};

template <class Choice, int Count>
TESSERA_KERNELS_INLINE void halve(__m256i* v) {
  for (int i = 0; i < Count; ++i) {
    const __m256i other = v[i + Count];
    v[i] = Choice::of(_mm256_unpacklo_epi8(v[i], other), _mm256_unpackhi_epi8(v[i], other));
  }
}

template <class Choice>
TESSERA_KERNELS_INLINE void write_ends(__m256i* v, std::int8_t* out) {
  halve<Choice, 8>(v);
  halve<Choice, 4>(v);
  halve<Choice, 2>(v);
  halve<Choice, 1>(v);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), v[0]);
}

TESSERA_KERNELS_INLINE __m256i lanes(const std::int8_t* low, const std::int8_t* high) {
  return _mm256_inserti128_si256(
      _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(low))),
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(high)), 1);
}

template <int GroupSize>
void many(const std::int8_t* codes, std::int8_t* min, std::int8_t* max) {
  __m256i small[16], large[16];
  for (int i = 0; i < 16; ++i) {
    const std::int8_t* group = codes + i * GroupSize;
    const __m256i first = lanes(group, group + 16 * GroupSize);
    small[i] = large[i] = first;
    if (GroupSize == 32) {
      const __m256i second = lanes(group + 16, group + 16 * GroupSize + 16);
      small[i] = Smaller::of(first, second);
      large[i] = Larger::of(first, second);
    }
  }
  write_ends<Smaller>(small, min);
  write_ends<Larger>(large, max);
}

}  // namespace

void code_ranges(const std::int8_t* codes, std::int64_t num_groups, std::int64_t group_size,
                 std::int8_t* min, std::int8_t* max) {
  std::int64_t done = 0;
  if (group_size == 16 || group_size == 32) {
    for (; done + kGroups <= num_groups; done += kGroups) {
      (group_size == 16 ? many<16> : many<32>)(codes + done * group_size, min + done, max + done);
    }
  }
  reference::code_ranges(codes + done * group_size, num_groups - done, group_size, min + done,
                         max + done);
}

}  // namespace tessera::kernels::cpu::avx2
