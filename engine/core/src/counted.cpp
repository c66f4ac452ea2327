#include "counted.h"

#include <charconv>
#include <string>

#include "instances.h"
#include "tessera/core/cluster.h"
#include "tessera/core/device_name.h"
#include "tessera/core/text.h"

namespace tessera {
namespace {

constexpr std::string_view kCountDigits = "0123456789";

bool is_known(std::string_view what, const DataFolders& folders) {
  const std::string name(what);
  return !name.empty() && (names_device(name, folders) || !cluster_file(name, folders).empty() ||
                           find_instance(name, folders).has_value());
}

std::size_t count_of(std::string_view digits) {
  std::size_t count = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  return error == std::errc() && end == digits.data() + digits.size() ? count : 0;
}

// "H100 x8", "H100x8", "A100:8".
Counted counted_behind(std::string_view text) {
  const std::size_t last = text.find_last_not_of(kCountDigits);
  if (last == std::string_view::npos || last + 1 == text.size()) return {};
  const std::string_view before = stripped(text.substr(0, last + 1));
  const bool sign = before.ends_with(':') || times_sign(before.substr(before.size() - 1)) > 0;
  if (!sign) return {};
  return {count_of(text.substr(last + 1)), stripped(before.substr(0, before.size() - 1))};
}

// "8 H100" and "dual RTX 3090".
Counted counted_before(std::string_view text) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) return {};
  const std::string word = lower(text.substr(0, space));
  const std::size_t count = word == "dual" ? 2 : word == "quad" ? 4 : count_of(word);
  return {count, stripped(text.substr(space))};
}

}  // namespace

std::string_view stripped(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::size_t times_sign(std::string_view text) {
  if (!text.empty() && std::string_view("xX*").find(text.front()) != std::string_view::npos)
    return 1;
  constexpr std::string_view kTimes = "\u00d7";
  return text.starts_with(kTimes) ? kTimes.size() : 0;
}

std::optional<Counted> counted_otherwise(std::string_view text, const DataFolders& folders) {
  // Slurm's "gpu:a100:4" and Lambda's "gpu_8x_h100_sxm5".
  for (const std::string_view kind : {"gpu:", "gpu_"}) {
    if (text.starts_with(kind)) text.remove_prefix(kind.size());
  }
  for (const Counted counted : {counted_behind(text), counted_before(text)}) {
    if (counted.count > 0 && is_known(counted.what, folders)) return counted;
  }
  const std::size_t digits = text.find_first_not_of(kCountDigits);
  if (digits == std::string_view::npos || digits == 0) return std::nullopt;
  const std::string_view rest = stripped(text.substr(digits));
  const Counted counted{count_of(text.substr(0, digits)), rest.substr(times_sign(rest))};
  if (times_sign(rest) > 0 && counted.count > 0 && is_known(counted.what, folders)) return counted;
  return std::nullopt;
}

bool counts_devices(std::string_view name, const DataFolders& folders) {
  return counted_otherwise(stripped(name), folders).has_value();
}

}  // namespace tessera
