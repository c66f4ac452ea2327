#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/core/units.h"
#include "weights_lua.h"

namespace tessera::weights_lua {
namespace {

using weights::TensorInfo;
using weights::Weights;

// Tensors whose names differ in the numbers only, of one type and shape.
struct Group {
  std::string pattern, dtype, shape;
  std::set<std::int64_t> layers;
  std::int64_t num_tensors = 0;
  std::uint64_t size_bytes = 0;
};

// "model.layers.3.mlp.experts.7.up_proj.weight": numbers between dots are the layer, then the
// expert.
std::string pattern_of(const std::string& name, std::int64_t* layer) {
  std::string pattern;
  int num_numbers = 0;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('.', at), name.size());
    const std::string part = name.substr(at, end - at);
    const bool number =
        !part.empty() && part.size() < 10 &&
        std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
    if (number && num_numbers++ == 0) *layer = std::stoll(part);
    pattern += (at > 0 ? "." : "") + (number ? "*" : part);
    at = end + 1;
  }
  return pattern;
}

std::vector<Group> groups_of(const Weights& weights) {
  std::vector<Group> groups;
  std::map<std::tuple<std::string, std::string, std::string>, std::size_t> index;
  for (const TensorInfo& tensor : weights.tensors()) {
    std::int64_t layer = -1;
    Group group;
    group.pattern = pattern_of(tensor.name, &layer);
    group.dtype = to_string(tensor.dtype);
    group.shape = weights::describe_shape(tensor.shape);
    const auto key = std::make_tuple(group.pattern, group.dtype, group.shape);
    const auto [found, fresh] = index.emplace(key, groups.size());
    if (fresh) groups.push_back(std::move(group));
    Group& known = groups[found->second];
    if (layer >= 0) known.layers.insert(layer);
    ++known.num_tensors;
    known.size_bytes += tensor.size_bytes;
  }
  // Embeddings and head first, then the layers as they come.
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    const auto first = [](const Group& g) { return g.layers.empty() ? -1 : *g.layers.begin(); };
    return first(a) < first(b);
  });
  return groups;
}

// "0-3, 5, 7-9"; long lists end in dots.
std::string ranges(const std::set<std::int64_t>& numbers) {
  std::string text;
  for (auto it = numbers.begin(); it != numbers.end();) {
    std::int64_t last = *it;
    const std::int64_t first = last;
    while (++it != numbers.end() && *it == last + 1) last = *it;
    text += text.empty() ? "" : ", ";
    if (text.size() > 20) return text + "...";
    text += first == last ? std::to_string(first) : fmt::format("{}-{}", first, last);
  }
  return text;
}

std::string model_line(const Weights& weights) {
  try {
    const ModelShape model = model_of(weights);
    return fmt::format("\n  model {}: {}, {} layers, {} parameters", model.name, model.family,
                       model.num_layers, format_count(static_cast<double>(model.num_parameters())));
  } catch (const Error&) {
    return "";  // weights of no model, or of one that is not understood, are still weights
  }
}

}  // namespace

std::string print_weights(const Weights& weights) {
  std::vector<std::vector<std::string>> rows = {
      {"layers", "tensor", "shape", "dtype", "tensors", "size"}};
  for (const Group& group : groups_of(weights)) {
    rows.push_back({ranges(group.layers), group.pattern, group.shape, group.dtype,
                    std::to_string(group.num_tensors),
                    format_bytes(static_cast<double>(group.size_bytes))});
  }
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text = lua_kit::object_type<Weights>().summary(weights) + model_line(weights);
  for (const auto& row : rows) {
    text += "\n ";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool numbers = i >= 4;
      text += numbers ? fmt::format(" {:>{}}", row[i], widths[i] + 1)
                      : fmt::format(" {:<{}}", row[i], widths[i] + 1);
    }
  }
  return text;
}

}  // namespace tessera::weights_lua
