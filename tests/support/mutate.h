#pragma once

#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string>

#include "tessera/core/rng.h"

namespace tessera::test {

/// Seed of randomised tests: TESSERA_TEST_SEED, or a fixed one.
inline std::uint64_t test_seed() {
  const char* text = std::getenv("TESSERA_TEST_SEED");
  return text == nullptr ? 20240607u : std::strtoull(text, nullptr, 10);
}

/// `text` with one to four random edits: a byte changed, cut out or repeated, the end cut off, or a
/// fragment put in that parsers tend to stumble over.
inline std::string mutate(std::string text, Rng& rng) {
  static const char* const kFragments[] = {"-1",   "0",       "1e999", "null",     "\"\"",
                                           "[]",   "{}",      "true",  "NaN",      "-0.0",
                                           "1e30", "\\u0000", ",",     "\"x\": 1,"};
  const auto below = [&rng](std::size_t n) {
    return static_cast<std::size_t>(rng.integer(0, static_cast<std::int64_t>(n) - 1));
  };
  const std::size_t edits = 1 + below(4);
  for (std::size_t i = 0; i < edits && !text.empty(); ++i) {
    const std::size_t at = below(text.size());
    const std::size_t length = 1 + below(12);
    switch (below(5)) {
      case 0:
        text[at] = static_cast<char>(below(256));
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(at, length));
        break;
      case 3:
        if (below(8) == 0) text.resize(at);
        break;
      default:
        // In place of a whole number or word more often than in the middle of one.
        const std::size_t start = text.find_first_of("0123456789[{\"", at);
        if (start == std::string::npos) break;
        std::size_t end = text.find_first_of(",]}\n", start);
        if (end == std::string::npos) end = text.size();
        text.replace(start, end - start, kFragments[below(std::size(kFragments))]);
    }
  }
  return text;
}

}  // namespace tessera::test
