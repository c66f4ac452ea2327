#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "pruner.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/weights/parts.h"

namespace tessera::quant {
namespace {

// Widths of networks stay multiples of what kernels take at once, where they are many times that.
constexpr std::int64_t kMultiple = 32, kWide = 512;

/// How a family's config names what goes.
struct Words {
  const char* ffn_size;
  bool heads;  ///< may go: the width of a head is a field of its own
};

Words words_of(const ModelShape& shape, const std::string& path) {
  static const std::map<std::string, Words> known = {{"llama", {"intermediate_size", true}},
                                                     {"mistral", {"intermediate_size", true}},
                                                     {"qwen2", {"intermediate_size", true}},
                                                     {"qwen3", {"intermediate_size", true}},
                                                     {"opt", {"ffn_dim", false}}};
  const auto found = known.find(shape.family);
  if (found != known.end() && shape.layer_classes.size() == 1) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, ignored] : known) names.push_back(name);
  refuse(ErrorCode::unsupported, path,
         "structures are removed from {} with layers that are all alike, not from {}; wanda_2_4 "
         "takes every family",
         join(names, ", "), quote(shape.family));
}

/// Rows or columns of a tensor that stay, in order.
struct Cut {
  bool columns = false;
  std::vector<std::int64_t> kept;
};

// The `count` of the largest values, in their order.
std::vector<std::int64_t> largest(const std::vector<double>& values, std::int64_t count) {
  std::vector<std::int64_t> order(values.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return values[static_cast<std::size_t>(a)] > values[static_cast<std::size_t>(b)];
  });
  order.resize(static_cast<std::size_t>(count));
  std::sort(order.begin(), order.end());
  return order;
}

std::vector<std::int64_t> widened(const std::vector<std::int64_t>& kept, std::int64_t width) {
  std::vector<std::int64_t> all;
  for (const std::int64_t one : kept) {
    for (std::int64_t i = 0; i < width; ++i) all.push_back(one * width + i);
  }
  return all;
}

class Structured final : public Pruner {
 public:
  Structured(const PruneInput& input, double ratio)
      : input_(input),
        layer_(input.shape.layer_classes.front()),
        words_(words_of(input.shape, input.model->path())) {
    for (const weights::LinearWeight& linear : input.linears) {
      if (!linear.is_contiguous() || linear.num_rows != linear.stored_rows) {
        refuse(ErrorCode::unsupported, linear.tensor->name,
               "it holds several matrices, and structures are removed from tensors of one; "
               "wanda_2_4 takes it");
      }
    }
    count(ratio);
    std::int64_t layer = -1;
    for (const weights::LinearWeight& linear : input.linears) {
      if (linear.layer_index != layer) choose(layer = linear.layer_index);
      cut(linear);
    }
  }

  std::vector<std::int64_t> shape_of(const weights::TensorInfo& tensor) const override {
    std::vector<std::int64_t> shape = tensor.shape;
    const auto found = cuts_.find(&tensor);
    if (found != cuts_.end()) shape[found->second.columns ? 1 : 0] = std::ssize(found->second.kept);
    return shape;
  }

  std::vector<std::byte> bytes_of(const weights::TensorInfo& tensor) const override {
    const auto stored = input_.model->bytes(tensor);
    const auto found = cuts_.find(&tensor);
    if (found == cuts_.end()) return {stored.begin(), stored.end()};
    const auto& [columns, kept] = found->second;
    // Runs of `unit` bytes, of which a row has several where columns go.
    const std::size_t rows = columns ? static_cast<std::size_t>(tensor.shape[0]) : 1;
    const std::size_t row_bytes = stored.size() / rows;
    const std::size_t unit = row_bytes / static_cast<std::size_t>(tensor.shape[columns ? 1 : 0]);
    std::vector<std::byte> bytes;
    bytes.reserve(rows * kept.size() * unit);
    for (std::size_t row = 0; row < rows; ++row) {
      for (const std::int64_t one : kept) {
        const auto from =
            stored.begin() +
            static_cast<std::ptrdiff_t>(row * row_bytes + static_cast<std::size_t>(one) * unit);
        bytes.insert(bytes.end(), from, from + static_cast<std::ptrdiff_t>(unit));
      }
    }
    return bytes;
  }

  void change(Json& config) const override {
    config[words_.ffn_size] = channels_;
    if (!words_.heads) return;
    config["num_attention_heads"] = groups_ * heads_per_group();
    config["num_key_value_heads"] = groups_;
    config["head_dim"] = layer_.head_dim;
  }

  double ratio() const override {
    const std::int64_t gone = (layer_.num_kv_heads - groups_) * group_parameters() +
                              (input_.shape.ffn_size - channels_) * channel_parameters();
    return static_cast<double>(gone) / static_cast<double>(layer_.linear_parameters());
  }

 private:
  std::int64_t heads_per_group() const { return layer_.num_heads / layer_.num_kv_heads; }
  std::int64_t group_width() const { return heads_per_group() * layer_.head_dim; }
  // Of queries and output, keys and values.
  std::int64_t group_parameters() const {
    return 2 * (group_width() + layer_.head_dim) * input_.shape.hidden_size;
  }
  std::int64_t channel_parameters() const {
    std::int64_t sum = 0;
    for (const LinearShape& linear : layer_.linears) {
      if (is_of_network(linear.name)) sum += linear.parameters() / input_.shape.ffn_size;
    }
    return sum;
  }
  static bool is_of_network(const std::string& linear) {
    return linear == "gate_proj" || linear == "up_proj" || linear == "down_proj";
  }

  // How many groups and channels every layer keeps.
  void count(double ratio) {
    const double all = static_cast<double>(layer_.linear_parameters());
    const std::int64_t ffn = input_.shape.ffn_size, multiple = ffn >= kWide ? kMultiple : 1;
    groups_ = layer_.num_kv_heads;
    if (words_.heads) {
      const auto gone = static_cast<std::int64_t>(ratio * static_cast<double>(groups_));
      groups_ -= std::min(gone, groups_ - 1);
    }
    const double left =
        ratio * all - static_cast<double>((layer_.num_kv_heads - groups_) * group_parameters());
    const double kept = static_cast<double>(ffn) - left / static_cast<double>(channel_parameters());
    channels_ =
        static_cast<std::int64_t>(std::llround(kept / static_cast<double>(multiple))) * multiple;
    channels_ = std::min(channels_, ffn);
    if (channels_ >= multiple) return;
    channels_ = multiple;
    refuse(ErrorCode::out_of_range, "ratio",
           "{:.3g} of the weights of the layers of {} are more than can go: {:.3g} at most, with "
           "{} of {} KV heads and {} of {} channels left",
           ratio, input_.shape.name, this->ratio(), groups_, layer_.num_kv_heads, channels_, ffn);
  }

  // Energy that each input of a matrix adds to its output.
  std::vector<double> energy(std::int64_t layer, const char* name) const {
    const auto linear = std::find_if(
        input_.linears.begin(), input_.linears.end(),
        [&](const auto& one) { return one.layer_index == layer && one.linear == name; });
    std::vector<float> values(static_cast<std::size_t>(linear->parameters()));
    weights::read_linear_f32(*input_.model, *linear, values);
    const Eigen::VectorXf square = input_.mean_square(layer, name, linear->in_features);
    std::vector<double> sums(static_cast<std::size_t>(linear->in_features));
    for (std::int64_t r = 0; r < linear->num_rows; ++r) {
      for (std::size_t c = 0; c < sums.size(); ++c) {
        const double weight = values[static_cast<std::size_t>(r) * sums.size() + c];
        sums[c] += weight * weight * static_cast<double>(square[static_cast<Eigen::Index>(c)]);
      }
    }
    return sums;
  }

  void choose(std::int64_t layer) {
    kept_channels_ = largest(energy(layer, "down_proj"), channels_);
    const std::vector<double> columns = energy(layer, "o_proj");
    std::vector<double> of_group(static_cast<std::size_t>(layer_.num_kv_heads));
    for (std::size_t c = 0; c < columns.size(); ++c)
      of_group[c / static_cast<std::size_t>(group_width())] += columns[c];
    kept_groups_ = largest(of_group, groups_);
  }

  void cut(const weights::LinearWeight& linear) {
    Cut cut;
    if (is_of_network(linear.linear)) {
      cut = {linear.linear == "down_proj", kept_channels_};
    } else {
      const bool of_kv = linear.linear == "k_proj" || linear.linear == "v_proj";
      cut = {linear.linear == "o_proj",
             widened(kept_groups_, of_kv ? layer_.head_dim : group_width())};
    }
    const weights::TensorInfo* bias = weights::bias_of(*input_.model, linear);
    if (bias != nullptr && !cut.columns) cuts_[bias] = cut;
    cuts_[linear.tensor] = std::move(cut);
  }

  const PruneInput& input_;
  const LayerShape& layer_;
  Words words_;
  std::int64_t groups_ = 0, channels_ = 0;                 ///< that stay
  std::vector<std::int64_t> kept_groups_, kept_channels_;  ///< of the layer at hand
  std::map<const weights::TensorInfo*, Cut> cuts_;
};

}  // namespace

std::unique_ptr<Pruner> make_structured(const PruneInput& input, double ratio) {
  return std::make_unique<Structured>(input, ratio);
}

}  // namespace tessera::quant
