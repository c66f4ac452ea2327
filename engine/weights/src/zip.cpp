#include "zip.h"

#include <fmt/format.h>

#include <cstring>

#include "layout.h"
#include "tessera/core/text.h"

namespace tessera::weights {
namespace {

constexpr std::uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50,
                        kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr std::uint64_t kEndBytes = 22, kLocatorBytes = 20, kEnd64Bytes = 56, kCentralBytes = 46,
                        kLocalBytes = 30;
constexpr std::uint64_t kLongestComment = 0xffff, kMostEntries = 1'000'000;

class Archive {
 public:
  Archive(std::span<const std::byte> file, const std::string& path) : file_(file), path_(path) {}

  std::map<std::string, ZipEntry> entries() const {
    auto [at, count] = directory();
    if (count > kMostEntries || count > file_.size() / kCentralBytes)
      fail_at(path_, at, fmt::format("an archive of {} files", count));
    std::map<std::string, ZipEntry> entries;
    for (std::uint64_t i = 0; i < count; ++i) at = add(at, entries);
    return entries;
  }

 private:
  template <typename Number>
  Number number(std::uint64_t at) const {
    if (at > file_.size() || sizeof(Number) > file_.size() - at)
      fail_at(path_, file_.size(), "the archive ends here; it was cut short");
    Number value;
    std::memcpy(&value, file_.data() + at, sizeof value);
    return value;
  }
  std::uint64_t u16(std::uint64_t at) const { return number<std::uint16_t>(at); }
  std::uint64_t u32(std::uint64_t at) const { return number<std::uint32_t>(at); }
  std::uint64_t u64(std::uint64_t at) const { return number<std::uint64_t>(at); }

  // The directory's first byte and how many files it lists: by the record at the end.
  std::pair<std::uint64_t, std::uint64_t> directory() const {
    const std::uint64_t size = file_.size();
    for (std::uint64_t back = kEndBytes; back <= size && back <= kEndBytes + kLongestComment;
         ++back) {
      const std::uint64_t end = size - back;
      if (u32(end) != kEnd) continue;
      const bool is_64 = end >= kLocatorBytes && u32(end - kLocatorBytes) == kLocator64;
      if (!is_64) return {u32(end + 16), u16(end + 10)};
      const std::uint64_t at = u64(end - kLocatorBytes + 8);
      if (at > size - kEnd64Bytes || u32(at) != kEnd64)
        fail_at(path_, end - kLocatorBytes, "no directory of an archive lies where this says");
      return {u64(at + 48), u64(at + 32)};
    }
    fail_at(path_, size, "no directory of an archive ends here; the file was cut short");
  }

  // The next of these 64-bit numbers, where 32 bits say that it is there.
  std::uint64_t wide(std::uint64_t narrow, std::uint64_t& extra, std::uint64_t end) const {
    if (narrow != 0xffffffff) return narrow;
    if (end < 8 || extra > end - 8) fail_at(path_, extra, "a 64-bit size is missing");
    const std::uint64_t value = u64(extra);
    extra += 8;
    return value;
  }

  std::uint64_t add(std::uint64_t at, std::map<std::string, ZipEntry>& entries) const {
    if (at > file_.size() || u32(at) != kCentral)
      fail_at(path_, at, "no file of the archive's directory stands here");
    const std::uint64_t flags = u16(at + 8), method = u16(at + 10);
    const std::uint64_t name_bytes = u16(at + 28), extra_bytes = u16(at + 30);
    const std::uint64_t next = at + kCentralBytes + name_bytes + extra_bytes + u16(at + 32);
    if (next > file_.size()) fail_at(path_, at, "the archive's directory leaves the file");
    const std::string name(reinterpret_cast<const char*>(file_.data()) + at + kCentralBytes,
                           name_bytes);
    if (const std::string problem = problem_of_name(name); !problem.empty())
      fail_at(path_, at, "a file of the archive: " + problem);
    std::uint64_t extra = at + kCentralBytes + name_bytes;
    const std::uint64_t extra_end = extra + extra_bytes;
    while (extra + 4 <= extra_end && u16(extra) != 1) extra += 4 + u16(extra + 2);
    extra += 4;  // of the header: 64-bit numbers follow in the order of those that are too large
    const std::uint64_t size = wide(u32(at + 24), extra, extra_end);
    const std::uint64_t packed = wide(u32(at + 20), extra, extra_end);
    const std::uint64_t local = wide(u32(at + 42), extra, extra_end);
    if (method != 0 || packed != size || (flags & 1) != 0) {
      fail_at(path_, at, fmt::format("{} is packed; PyTorch writes files as they are", quote(name)),
              ErrorCode::unsupported);
    }
    if (local > file_.size() || u32(local) != kLocal)
      fail_at(path_, at, quote(name) + " is not where the directory says");
    const std::uint64_t begin = local + kLocalBytes + u16(local + 26) + u16(local + 28);
    if (begin > file_.size() || size > file_.size() - begin)
      fail_at(path_, at, fmt::format("{} of {} bytes leaves the file", quote(name), size));
    if (!entries.emplace(name, ZipEntry{begin, size}).second)
      fail_at(path_, at, quote(name) + " is there twice");
    return next;
  }

  std::span<const std::byte> file_;
  const std::string& path_;
};

}  // namespace

bool looks_like_zip(std::span<const std::byte> file) {
  return file.size() >= sizeof kLocal && std::memcmp(file.data(), &kLocal, sizeof kLocal) == 0;
}

std::map<std::string, ZipEntry> parse_zip(std::span<const std::byte> file,
                                          const std::string& path) {
  return Archive(file, path).entries();
}

}  // namespace tessera::weights
