#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <set>
#include <span>
#include <vector>

#include "counted.h"
#include "instances.h"
#include "tessera/core/cluster.h"
#include "tessera/core/device.h"
#include "tessera/core/device_name.h"
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

// "100Gbps", "100 Gb/s" or in bytes "12.5 GB/s" to bytes per second.
double parse_network(std::string_view rate, std::string_view whole) {
  double gbps = 0;
  const auto [end, error] = std::from_chars(rate.data(), rate.data() + rate.size(), gbps);
  const std::string_view written =
      stripped(rate.substr(static_cast<std::size_t>(end - rate.data())));
  if (written.starts_with("GB")) gbps *= 8;
  const std::string unit = lower(written);
  if (error == std::errc::result_out_of_range) gbps = HUGE_VAL;
  if (error == std::errc::invalid_argument || (unit != "gbps" && unit != "gb/s")) {
    refuse_text(whole, fmt::format("the network after '@' is {}; write a number and 'Gbps', {}; "
                                   "'@bridges' is the only word",
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

// "a+(b+c)" at its marks (any of them) outside parentheses: "a", "(b+c)".
std::vector<std::string_view> cut_at(std::string_view text, std::string_view marks,
                                     std::string_view whole) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(' && ++depth > 1) refuse_text(whole, "parentheses within parentheses");
    if (text[i] == ')' && --depth < 0) refuse_text(whole, "')' without '(' before it");
    if (marks.find(text[i]) == std::string_view::npos || depth > 0) continue;
    parts.push_back(stripped(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  if (depth > 0) refuse_text(whole, "'(' without ')' after it");
  parts.push_back(stripped(text.substr(begin)));
  return parts;
}

constexpr const char* kBetweenTerms = "+,";

// "3xT4-16G", "3 x T4-16G", or "T4-16G" for one; `place` is "term 1" for the message.
Counted parse_term(std::string_view term, const std::string& place, std::string_view whole) {
  if (term.empty()) {
    refuse_text(whole, fmt::format("{} is empty; write COUNTxDEVICE, {}", place, kExample));
  }
  const std::size_t digits = std::min(term.find_first_not_of("0123456789"), term.size());
  if (digits == 0 && term.front() != '(' && term.front() != '-') return {1, term};
  const std::string_view rest = stripped(term.substr(digits));
  if (digits == 0 || times_sign(rest) == 0) {
    refuse_text(whole,
                fmt::format("{} is {}; write COUNTxDEVICE, {}", place, quote(term), kExample));
  }
  Counted result;
  const auto [end, error] = std::from_chars(term.data(), term.data() + digits, result.count);
  if (error != std::errc() || result.count < 1 || result.count > kMaxClusterDevices) {
    refuse_text(whole,
                fmt::format("{}: {} devices; a term has 1 to {}", place,
                            quote(term.substr(0, digits), 20), kMaxClusterDevices),
                ErrorCode::out_of_range);
  }
  result.what = stripped(rest.substr(times_sign(rest)));
  if (result.what.empty()) {
    refuse_text(whole, fmt::format("{} is {}, without a device; write COUNTxDEVICE, {}", place,
                                   quote(term), kExample));
  }
  return result;
}

/// Adds what a text says of nodes to a cluster.
class NodeReader {
 public:
  NodeReader(std::string_view whole, const DataFolders& folders, Cluster& cluster)
      : whole_(whole), folders_(folders), cluster_(cluster) {}

  // "3xT4-16G", "(2xT4-16G+1xL4)", "2x(4xT4-16G)" or "2x4xT4-16G".
  void add(std::string_view text, const std::string& place) {
    const auto is_device = [&](std::string_view what) {  // "L4 (PCIe)"
      return what.find(" (") != std::string_view::npos && names_device(std::string(what), folders_);
    };
    bool grouped = text.ends_with(')') && !is_device(text);
    Counted node{1, text};
    if (grouped && !text.starts_with('(')) {
      node = parse_term(text, place, whole_);
      grouped = !is_device(node.what);
    }
    if (!grouped) {
      if (add_shipped(text, place) || add_nodes(text, place)) return;
      return add_node({parse_device(text, place)});
    }
    if (!node.what.starts_with('(') || node.what.find(')') + 1 != node.what.size()) {
      refuse_text(whole_, fmt::format("{} is {}; write (COUNTxDEVICE+COUNTxDEVICE) for one node",
                                      place, quote(text)));
    }
    std::vector<ClusterDevices> devices;
    const std::string_view inside = node.what.substr(1, node.what.size() - 2);
    for (const std::string_view term : cut_at(inside, kBetweenTerms, whole_)) {
      devices.push_back(
          parse_device(term, fmt::format("term {} of {}", devices.size() + 1, quote(node.what))));
    }
    for (std::size_t i = 0; i < node.count; ++i) add_node(devices);
  }

 private:
  struct ClusterDevices {
    Device device;
    std::size_t count = 0;
  };

  ClusterDevices parse_device(std::string_view text, const std::string& place) const {
    const Counted term = term_of(text, place);
    const std::string where = fmt::format("cluster {}: {}", quote(whole_), place);
    return {find_device(std::string(term.what), folders_, where, &cluster_.notes), term.count};
  }

  // A number of three digits may be a model's ("7900XTX", "4090"), and one without a sign a word's
  // ("3D controller: ... [H100 PCIe]").
  Counted term_of(std::string_view text, const std::string& place) const {
    constexpr std::size_t kModelDigits = 3;
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    const bool plain = digits > 0 && times_sign(stripped(text.substr(digits))) > 0;
    const bool may_be_name = digits >= kModelDigits || (digits > 0 && !plain);
    if (may_be_name && names_device(std::string(text), folders_)) return {1, text};
    if (const auto counted = plain ? std::nullopt : counted_otherwise(text, folders_)) {
      return *counted;
    }
    return parse_term(text, place, whole_);
  }

  // "2xDGX-H100": whether a term is some of a cluster that ships, which are added then.
  bool add_shipped(std::string_view text, const std::string& place) {
    const Counted term = term_of(text, place);
    const std::string name(term.what);
    if (names_device(name, folders_)) return false;
    if (cluster_file(name, folders_).empty() && !find_instance(name, folders_)) return false;
    const Cluster shipped = find_cluster(name, folders_);
    if (lower(shipped.name) != lower(name)) {
      cluster_.notes.push_back(fmt::format("{} is taken for {}", name, shipped.name));
    }
    for (std::size_t i = 0; i < term.count; ++i) append(shipped, place);
    return true;
  }

  // "2x8xH100": nodes of one type, which are added then.
  bool add_nodes(std::string_view text, const std::string& place) {
    const Counted nodes = term_of(text, place);
    if (!counts_devices(nodes.what, folders_)) return false;
    const ClusterDevices devices = parse_device(nodes.what, place);
    for (std::size_t i = 0; i < nodes.count; ++i) add_node({devices});
    return true;
  }

  void append(const Cluster& shipped, const std::string& place) {
    const std::size_t before = cluster_.nodes.size();
    for (Node node : shipped.nodes) {
      node.name = free_name(node.name);
      cluster_.nodes.push_back(std::move(node));
    }
    for (ClusterDevice slot : shipped.devices) {
      slot.node_index += before;
      cluster_.devices.push_back(std::move(slot));
    }
    check_count(place);
    // The slowest network carries all.
    cluster_.network_bytes_per_s =
        before == 0 ? shipped.network_bytes_per_s
                    : std::min(cluster_.network_bytes_per_s, shipped.network_bytes_per_s);
  }

  void check_count(const std::string& place) const {
    if (cluster_.devices.size() <= kMaxClusterDevices) return;
    refuse_text(whole_, fmt::format("{}: more than {} devices", place, kMaxClusterDevices),
                ErrorCode::out_of_range);
  }

  void add_node(const std::vector<ClusterDevices>& all) {
    Node node;
    node.name = free_name(all.size() == 1 ? lower(all.front().device.name) : "node");
    for (const auto& [device, count] : all) {
      if (cluster_.devices.size() + count > kMaxClusterDevices) {
        refuse_text(whole_, fmt::format("more than {} devices", kMaxClusterDevices),
                    ErrorCode::out_of_range);
      }
      cluster_.devices.insert(cluster_.devices.end(), count,
                              ClusterDevice{device, cluster_.nodes.size()});
    }
    cluster_.nodes.push_back(std::move(node));
  }

  std::string free_name(const std::string& base) {
    std::string name = base;
    for (int i = 2; !taken_.insert(name).second; ++i) name = fmt::format("{}-{}", base, i);
    return name;
  }

  std::string_view whole_;
  const DataFolders& folders_;
  Cluster& cluster_;
  std::set<std::string> taken_;
};

// "2 x A100-80G, 4 x L4 @ 100 Gb/s" as "2xA100-80G+4xL4@100Gb/s".
std::string tidy(std::string_view text) {
  std::string name;
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c))) continue;
    name += c == ',' ? '+' : c;
  }
  return name;
}

// What stands after an '@': "100Gbps", "bridges" or "no-peer".
void read_suffixes(std::span<const std::string_view> suffixes, std::string_view whole,
                   Cluster& cluster) {
  bool network = false, bridges = false, no_peer = false;
  for (const std::string_view suffix : suffixes) {
    const std::string word = lower(suffix);
    bool& given = word == "bridges" ? bridges : word == "no-peer" ? no_peer : network;
    if (&given == &network) cluster.network_bytes_per_s = parse_network(suffix, whole);
    if (given) refuse_text(whole, fmt::format("'@{}' says what another '@' says", suffix));
    given = true;
  }
  if (no_peer) {
    for (Node& node : cluster.nodes) node.peer_access = false;
  }
  if (bridges) join_by_bridges(cluster, fmt::format("cluster {}", quote(whole)));
}

}  // namespace

Cluster cluster_from_text(std::string_view text, const DataFolders& folders) {
  const std::string_view whole = stripped(text);
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
  cluster.name = tidy(whole);
  const std::vector<std::string_view> parts = cut_at(whole, "@", whole);
  NodeReader reader(whole, folders, cluster);
  std::size_t number = 0;
  for (const std::string_view node : cut_at(parts.front(), kBetweenTerms, whole)) {
    reader.add(node, fmt::format("term {}", ++number));
  }
  read_suffixes(std::span(parts).subspan(1), whole, cluster);
  return cluster;
}

}  // namespace tessera
