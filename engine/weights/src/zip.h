#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace tessera::weights {

/// Where a file in an archive lies, as it is: PyTorch packs nothing.
struct ZipEntry {
  std::uint64_t offset_bytes = 0, size_bytes = 0;
};

/// The first bytes of an archive with files in it.
bool looks_like_zip(std::span<const std::byte> file);

/// The files of a ZIP archive by name, with 64-bit sizes or without. Contents are not checked.
/// Source: PKWARE's APPNOTE.TXT 6.3.9, sections 4.3 and 4.5.3.
/// @param path named in errors
/// @throws Error{invalid_argument} for what is no such archive, Error{unsupported} for packed files
std::map<std::string, ZipEntry> parse_zip(std::span<const std::byte> file, const std::string& path);

}  // namespace tessera::weights
