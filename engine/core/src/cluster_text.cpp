#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <set>

#include "tessera/core/cluster.h"
#include "tessera/core/device.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"

namespace tessera {
namespace {

constexpr std::size_t kMaxTextLength = 64 * 1024;
constexpr const char* kExample = "as in '3xT4-16G+1xV100-32G@100Gbps'";

[[noreturn]] void refuse_text(std::string_view text, const std::string& problem,
                              ErrorCode code = ErrorCode::invalid_argument) {
  throw Error(code, fmt::format("cluster {}: {}", quote(text), problem), "cluster");
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// "100Gbps" or "100 Gb/s" to bytes per second.
double parse_network(std::string_view rate, std::string_view whole) {
  double gbps = 0;
  const auto [end, error] = std::from_chars(rate.data(), rate.data() + rate.size(), gbps);
  const std::string unit = lower(trimmed(rate.substr(static_cast<std::size_t>(end - rate.data()))));
  if (error == std::errc::result_out_of_range) gbps = HUGE_VAL;
  if (error == std::errc::invalid_argument || (unit != "gbps" && unit != "gb/s")) {
    refuse_text(whole, fmt::format("the network after '@' is {}; write a number and 'Gbps', {}",
                                   quote(rate), kExample));
  }
  if (!(gbps > 0 && gbps <= kMaxGbps)) {
    refuse_text(whole,
                fmt::format("the network after '@' is {} Gb/s; it must be above 0 and at most {}",
                            gbps, kMaxGbps),
                ErrorCode::out_of_range);
  }
  return gbps / 8 * 1e9;
}

struct Term {
  std::size_t count = 0;
  std::string name;
};

// "3xT4-16G"; `number` counts terms from 1 for the message.
Term parse_term(std::string_view term, std::size_t number, std::string_view whole) {
  if (term.empty()) {
    refuse_text(whole, fmt::format("term {} is empty; write COUNTxDEVICE, {}", number, kExample));
  }
  const std::size_t digits = std::min(term.find_first_not_of("0123456789"), term.size());
  const bool counted =
      digits > 0 && digits < term.size() && (term[digits] == 'x' || term[digits] == 'X');
  if (!counted) {
    refuse_text(
        whole, fmt::format("term {} is {}; write COUNTxDEVICE, {}", number, quote(term), kExample));
  }
  Term result;
  const auto [end, error] = std::from_chars(term.data(), term.data() + digits, result.count);
  if (error != std::errc() || result.count < 1 || result.count > kMaxClusterDevices) {
    refuse_text(whole,
                fmt::format("term {}: {} devices; a term has 1 to {}", number,
                            quote(term.substr(0, digits), 20), kMaxClusterDevices),
                ErrorCode::out_of_range);
  }
  result.name = std::string(trimmed(term.substr(digits + 1)));
  if (result.name.empty()) {
    refuse_text(whole, fmt::format("term {} is {}, without a device; write COUNTxDEVICE, {}",
                                   number, quote(term), kExample));
  }
  return result;
}

std::string node_name(const std::string& device_name, std::set<std::string>& taken) {
  const std::string base = lower(device_name);
  std::string name = base;
  for (int i = 2; !taken.insert(name).second; ++i) name = fmt::format("{}-{}", base, i);
  return name;
}

}  // namespace

Cluster cluster_from_text(std::string_view text, const DataFolders& folders) {
  const std::string_view whole = trimmed(text);
  if (whole.empty())
    refuse_text(text, fmt::format("empty; write COUNTxDEVICE terms, {}", kExample));
  if (whole.size() > kMaxTextLength) {
    refuse_text(
        whole,
        fmt::format("{} long, the limit is {}", format_bytes(static_cast<double>(whole.size())),
                    format_bytes(static_cast<double>(kMaxTextLength))),
        ErrorCode::out_of_range);
  }
  Cluster cluster;
  cluster.name = std::string(whole);
  const std::size_t at = whole.find('@');
  if (at != std::string_view::npos) {
    cluster.network_bytes_per_s = parse_network(trimmed(whole.substr(at + 1)), whole);
  }
  std::set<std::string> taken;
  std::string_view rest = whole.substr(0, at);
  for (std::size_t number = 1;; ++number) {
    const std::size_t plus = rest.find('+');
    const Term term = parse_term(trimmed(rest.substr(0, plus)), number, whole);
    if (cluster.devices.size() + term.count > kMaxClusterDevices) {
      refuse_text(whole, fmt::format("more than {} devices", kMaxClusterDevices),
                  ErrorCode::out_of_range);
    }
    const Device device =
        find_device(term.name, folders, fmt::format("cluster {}: term {}", quote(whole), number));
    Node node;
    node.name = node_name(device.name, taken);
    cluster.devices.insert(cluster.devices.end(), term.count,
                           ClusterDevice{device, cluster.nodes.size()});
    cluster.nodes.push_back(std::move(node));
    if (plus == std::string_view::npos) break;
    rest.remove_prefix(plus + 1);
  }
  return cluster;
}

}  // namespace tessera
