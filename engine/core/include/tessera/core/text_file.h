#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

/// The text as UTF-8 without a byte order mark, whatever mark it had: UTF-16 of either order, too.
/// @throws Error{invalid_argument} for an archive, a compressed or another binary file, by its
/// first bytes: what it is, and what makes text of it.
std::string decoded_text(std::string bytes, const std::string& path);

/// read_file and that.
std::string read_text_file(const std::string& path, std::uint64_t max_bytes = 64ull << 20);

}  // namespace tessera
