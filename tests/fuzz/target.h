#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "tessera/core/error.h"
#include "tessera/core/json.h"

/// Defines what is done with an input: the body sees `data` and `size`, and returns 0. With
/// libFuzzer each target is a program; without, replay.cpp runs the one that it is told.
#ifdef TESSERA_LIBFUZZER
#define TESSERA_FUZZ_TARGET(name) \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
#else
#define TESSERA_FUZZ_TARGET(name)                                     \
  static int fuzz_##name(const std::uint8_t* data, std::size_t size); \
  [[maybe_unused]] static const bool is_registered_##name =           \
      tessera::fuzz::targets().emplace(#name, fuzz_##name).second;    \
  static int fuzz_##name(const std::uint8_t* data, std::size_t size)
#endif

namespace tessera::fuzz {

using Target = int (*)(const std::uint8_t* data, std::size_t size);

inline std::map<std::string, Target>& targets() {
  static std::map<std::string, Target> all;
  return all;
}

/// Stops the fuzzer: what holds for every input did not hold.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

/// How many inputs a reader took so far.
inline int num_accepted = 0;

/// Runs a reader. It may refuse the input, in one clear line that is not a defect of ours; any
/// other exception leaves and stops the fuzzer.
template <typename Reader>
int read(const std::uint8_t* data, std::size_t size, const Reader& reader) {
  try {
    reader(std::string_view(reinterpret_cast<const char*>(data), size));
    ++num_accepted;
  } catch (const Error& error) {
    const std::string_view message = error.what();
    require(error.code() != ErrorCode::internal, error.what());
    require(!message.empty() && message.size() < 4000, "an error message that is empty or endless");
    require(message.find('\n') == std::string_view::npos, "an error message of several lines");
  }
  return 0;
}

/// What was written from a value reads back as the same text. Reading it must not fail.
template <typename Value, typename FromJson>
void require_round_trip(const Value& value, const FromJson& from_json) {
  const std::string written = to_json(value).dump();
  try {
    require(to_json(from_json(parse_json(written, "again"))).dump() == written,
            "a written value reads back differently");
  } catch (const Error& error) {
    std::fprintf(stderr, "fuzz: what was written cannot be read: %s\n%s\n", error.what(),
                 written.substr(0, 2000).c_str());
    std::abort();
  }
}

/// A file that lives in memory, for readers that want a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view content) : fd_(::memfd_create("input", MFD_CLOEXEC)) {
    require(fd_ >= 0 && ::write(fd_, content.data(), content.size()) ==
                            static_cast<ssize_t>(content.size()),
            "memfd");
  }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

}  // namespace tessera::fuzz
