#include "dense.h"

namespace tessera::quant::dense {

const Functions& functions() {
#ifdef TESSERA_QUANT_AVX2
  static const Functions& best =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? avx2 : baseline;
  return best;
#else
  return baseline;
#endif
}

}  // namespace tessera::quant::dense
