#pragma once

namespace tessera::test {

/// Whether the tests run under AddressSanitizer, which takes several times as long and maps
/// terabytes of memory that no limit may forbid.
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kSanitised = true;
#else
inline constexpr bool kSanitised = false;
#endif

}  // namespace tessera::test
