#include "layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "tessera/core/text.h"

namespace tessera::weights {
namespace {

constexpr std::size_t kMaxNameBytes = 1024;

std::string shown(const TensorInfo& tensor) { return "tensor " + quote(tensor.name, 100); }

void check_names_differ(const std::vector<TensorInfo>& tensors, const std::string& path) {
  std::vector<const TensorInfo*> by_name;
  for (const TensorInfo& tensor : tensors) by_name.push_back(&tensor);
  std::sort(by_name.begin(), by_name.end(), [](const TensorInfo* a, const TensorInfo* b) {
    return std::tie(a->name, a->offset_bytes) < std::tie(b->name, b->offset_bytes);
  });
  const auto twice =
      std::adjacent_find(by_name.begin(), by_name.end(),
                         [](const auto* a, const auto* b) { return a->name == b->name; });
  if (twice == by_name.end()) return;
  fail_at(path, twice[1]->offset_bytes,
          fmt::format("{} is there twice, the first at byte {}", shown(**twice),
                      twice[0]->offset_bytes));
}

}  // namespace

void fail_at(const std::string& path, std::uint64_t byte, const std::string& problem,
             ErrorCode code) {
  const std::string where = quote(path, 300);
  refuse(code, where, "byte {}: {}", byte, problem);
}

std::string problem_of_name(const std::string& name) {
  if (name.empty()) return "a name is empty";
  if (name.size() > kMaxNameBytes)
    return fmt::format("a name of {} bytes, the limit is {}", name.size(), kMaxNameBytes);
  const bool printable =
      std::none_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (!printable) return "the name " + quote(name) + " has control characters";
  return is_utf8(name) ? "" : "the name " + quote(name) + " is not UTF-8";
}

void check_name(const std::string& name, const std::string& path, std::uint64_t byte) {
  const std::string problem = problem_of_name(name);
  if (!problem.empty()) fail_at(path, byte, problem);
}

void check_layout(std::vector<TensorInfo>& tensors, std::uint64_t begin, std::uint64_t end,
                  Gaps gaps, const std::string& path) {
  check_names_differ(tensors, path);
  // An empty tensor lies before the one that starts at the same byte.
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.offset_bytes, a.size_bytes, a.name) <
           std::tie(b.offset_bytes, b.size_bytes, b.name);
  });
  std::uint64_t reached = begin;
  const TensorInfo* last = nullptr;
  for (const TensorInfo& tensor : tensors) {
    const std::uint64_t at = tensor.offset_bytes;
    if (at > end || tensor.size_bytes > end - at) {
      fail_at(path, at,
              fmt::format("{} has {} bytes there and the file ends at byte {}; it was cut short, "
                          "or its header is wrong",
                          shown(tensor), tensor.size_bytes, end));
    }
    if (at < reached) {
      fail_at(path, at,
              last == nullptr ? shown(tensor) + " starts inside the header"
                              : fmt::format("{} overlaps {}, which ends at byte {}", shown(tensor),
                                            shown(*last), reached));
    }
    if (gaps == Gaps::refused && at > reached) {
      fail_at(path, reached,
              fmt::format("{} bytes before {} belong to no tensor", at - reached, shown(tensor)));
    }
    reached = at + tensor.size_bytes;
    last = &tensor;
  }
  if (gaps == Gaps::refused && reached < end) {
    fail_at(path, reached,
            fmt::format("{} bytes after the last tensor belong to none", end - reached));
  }
}

}  // namespace tessera::weights
