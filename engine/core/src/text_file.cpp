#include "tessera/core/text_file.h"

#include <array>

#include "tessera/core/error.h"
#include "tessera/core/files.h"

namespace tessera {
namespace {

using namespace std::string_view_literals;

/// What is no text, by its first bytes.
struct Binary {
  std::string_view magic, what;
};
constexpr std::string_view kPickle =
    "a pickle of Python; pandas makes CSV of a table in it: read_pickle(...).to_csv(...)";
constexpr std::array kBinaries{
    Binary{"\x1f\x8b"sv, "compressed by gzip; `gunzip -k` makes text of it"},
    Binary{"\x28\xb5\x2f\xfd"sv, "compressed by zstd; `unzstd` makes text of it"},
    Binary{"BZh"sv, "compressed by bzip2; `bunzip2 -k` makes text of it"},
    Binary{"\xfd"
           "7zXZ\0"sv,
           "compressed by xz; `unxz -k` makes text of it"},
    Binary{"PK\x03\x04"sv,
           "a zip archive or a spreadsheet (xlsx); unpack it, or save it as CSV in UTF-8"},
    Binary{"PAR1"sv, "a Parquet file; pandas makes CSV of it: read_parquet(...).to_csv(...)"},
    Binary{"SQLite format 3\0"sv,
           "a database of SQLite; `sqlite3 -csv FILE 'SELECT ...'` prints a "
           "table of it as CSV"},
    Binary{"\x80\x03"sv, kPickle},
    Binary{"\x80\x04"sv, kPickle},
    Binary{"\x80\x05"sv, kPickle},
    Binary{"\x89PNG"sv, "a picture; text or numbers are needed"},
    Binary{"%PDF"sv, "a PDF; text or numbers are needed"},
};

void append_utf8(std::string& text, std::uint32_t code) {
  const auto byte = [&](std::uint32_t value) { text += static_cast<char>(value); };
  const auto tail = [&](int shift) { byte(0x80 | ((code >> shift) & 0x3f)); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xc0 | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    byte(0xe0 | (code >> 12));
    tail(6);
    tail(0);
  } else {
    byte(0xf0 | (code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

/// Text of UTF-16 after its mark. @param low where the low byte of a unit is, 0 or 1
std::string of_utf16(std::string_view bytes, std::size_t low, const std::string& path) {
  if (bytes.size() % 2 != 0)
    refuse(path, "UTF-16 with half a character at its end; is it cut off?");
  const auto unit = [&](std::size_t at) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + low])) |
           static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + 1 - low])) << 8;
  };
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 2) {
    std::uint32_t code = unit(at);
    if (code >= 0xd800 && code < 0xe000) {
      const std::uint32_t next = at + 2 < bytes.size() ? unit(at + 2) : 0;
      if (code >= 0xdc00 || next < 0xdc00 || next >= 0xe000) {
        refuse(path, "UTF-16 with half a pair of surrogates at byte {}", at + 2);
      }
      code = 0x10000 + ((code - 0xd800) << 10) + (next - 0xdc00);
      at += 2;
    }
    append_utf8(text, code);
  }
  return text;
}

}  // namespace

std::string decoded_text(std::string bytes, const std::string& path) {
  const std::string_view view(bytes);
  for (const Binary& binary : kBinaries) {
    if (view.substr(0, binary.magic.size()) == binary.magic) refuse(path, binary.what);
  }
  if (view.substr(0, 3) == "\xef\xbb\xbf") return bytes.substr(3);
  if (view.substr(0, 2) == "\xff\xfe") return of_utf16(view.substr(2), 0, path);
  if (view.substr(0, 2) == "\xfe\xff") return of_utf16(view.substr(2), 1, path);
  return bytes;
}

std::string read_text_file(const std::string& path, std::uint64_t max_bytes) {
  return decoded_text(read_file(path, max_bytes), path);
}

}  // namespace tessera
