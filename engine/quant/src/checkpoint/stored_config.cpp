#include "stored_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::quant {
namespace {

/// Members of an object of the file, and what is wrong with them.
class Member {
 public:
  Member(const Json& json, std::string path) : json_(json), path_(std::move(path)) {}

  bool is_null(const char* name) const {
    const auto found = json_.find(name);
    return found == json_.end() || found->is_null();
  }
  Member object(const char* name) const {
    const Json& found = get(name);
    if (!found.is_object()) refuse(path_ + "." + name, "an object is needed");
    return {found, path_ + "." + name};
  }
  std::string text(const char* name) const {
    const Json& found = get(name);
    if (!found.is_string()) refuse(path_ + "." + name, "a text is needed");
    return found.get<std::string>();
  }
  bool flag(const char* name, bool otherwise) const {
    if (is_null(name)) return otherwise;
    const Json& found = json_.at(name);
    if (!found.is_boolean()) refuse(path_ + "." + name, "true or false is needed");
    return found.get<bool>();
  }
  std::int64_t whole(const char* name) const {
    const Json& found = get(name);
    if (!found.is_number_integer()) refuse(path_ + "." + name, "a whole number is needed");
    return found.get<std::int64_t>();
  }
  [[noreturn]] void refuse(const std::string& path, const std::string& what) const {
    tessera::refuse(path, what);
  }
  /// @throws Error{unsupported} unless the text is the one
  void require(const char* name, std::string_view only) const {
    const std::string found = text(name);
    if (found == only) return;
    tessera::refuse(ErrorCode::unsupported, path_ + "." + name, "{} is not read, only {}",
                    quote(found), only);
  }
  const Json& json() const { return json_; }
  const std::string& path() const { return path_; }

 private:
  const Json& get(const char* name) const {
    const auto found = json_.find(name);
    if (found == json_.end()) refuse(path_ + "." + name, "it is missing");
    return *found;
  }

  const Json& json_;
  std::string path_;
};

Scheme scheme_of(const Member& weights, bool int8) {
  weights.require("type", "int");
  if (weights.flag("dynamic", false)) {
    refuse(ErrorCode::unsupported, weights.path() + ".dynamic",
           "weights without stored scales are not read");
  }
  Scheme scheme;
  const std::int64_t bits = weights.whole("num_bits");
  if (int8 ? bits != 8 : bits != 3 && bits != 4 && bits != 8) {
    refuse(ErrorCode::unsupported, weights.path() + ".num_bits", "{} is not read, only {}", bits,
           int8 ? "8" : "3, 4 and 8");
  }
  scheme.bitwidth = static_cast<int>(bits);
  scheme.symmetric = weights.flag("symmetric", true);
  const std::string strategy = weights.text("strategy");
  const auto granularity = named<Granularity>(strategy);
  if (!granularity) {
    refuse(ErrorCode::unsupported, weights.path() + ".strategy",
           "{} is not read, only tensor, channel and group", quote(strategy));
  }
  scheme.granularity = *granularity;
  if (scheme.granularity == Granularity::group) scheme.group_size = weights.whole("group_size");
  check(scheme);
  if (int8 && (scheme.granularity != Granularity::channel || !scheme.symmetric)) {
    refuse(ErrorCode::unsupported, weights.path(),
           "int8 weights are multiplied with a scale per channel, symmetric; this is {}",
           describe({scheme}));
  }
  return scheme;
}

void check_activations(const Member& group, bool int8) {
  if (!int8) {
    if (group.is_null("input_activations")) return;
    refuse(ErrorCode::unsupported, group.path() + ".input_activations",
           "packed weights with quantised activations are not read");
  }
  const Member activations = group.object("input_activations");
  activations.require("type", "int");
  activations.require("strategy", "token");
  if (activations.whole("num_bits") == 8 && activations.flag("symmetric", true) &&
      activations.flag("dynamic", false)) {
    return;
  }
  refuse(ErrorCode::unsupported, activations.path(),
         "only 8 bits, symmetric and dynamic per token, are multiplied");
}

}  // namespace

StoredConfig stored_config(const weights::Weights& weights) {
  const std::string path = quote(weights.config_path(), 300) + ": quantization_config";
  const Json& config = weights.config();
  const auto found = config.is_object() ? config.find("quantization_config") : config.end();
  if (!config.is_object() || found == config.end() || !found->is_object()) {
    refuse(ErrorCode::unsupported, path,
           "it is missing, and says how quantised weights are to be read");
  }
  const Member root(*found, path);
  root.require("quant_method", "compressed-tensors");
  StoredConfig out;
  const std::string format = root.text("format");
  out.int8 = format == "int-quantized";
  if (!out.int8 && format != "pack-quantized") {
    refuse(ErrorCode::unsupported, path + ".format",
           "{} is not read, only pack-quantized and int-quantized", quote(format));
  }
  const Member groups = root.object("config_groups");
  for (const auto& [name, ignored] : groups.json().items()) {
    const Member group = groups.object(name.c_str());
    out.schemes.push_back(scheme_of(group.object("weights"), out.int8));
    check_activations(group, out.int8);
  }
  if (out.schemes.empty()) refuse(groups.path(), "it is empty, and the weights are quantised");
  return out;
}

std::string describe(const std::vector<Scheme>& schemes) {
  std::vector<std::string> all;
  for (const Scheme& s : schemes) {
    const bool group = s.granularity == Granularity::group;
    all.push_back(fmt::format("{}-bit {}{} {}", s.bitwidth, name_of(s.granularity),
                              group ? fmt::format(" {}", s.group_size) : "",
                              s.symmetric ? "symmetric" : "asymmetric"));
  }
  return join(all, ", ");
}

}  // namespace tessera::quant
