#include "tessera/weights/linears.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "bounds.h"
#include "names.h"
#include "quantised.h"
#include "scaled.h"
#include "sizes.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::weights {
namespace {

using Fused = Place::Fused;

std::string filled(std::string pattern, std::int64_t layer, std::int64_t expert) {
  const auto replace = [&pattern](const char* mark, std::int64_t value) {
    const std::size_t at = pattern.find(mark);
    if (at != std::string::npos) {
      pattern.replace(at, std::string_view(mark).size(), std::to_string(value));
    }
  };
  replace("{}", layer);
  replace("{e}", expert);
  return pattern;
}

// Rows of a fused matrix that belong to one of its linears.
struct Slice {
  std::int64_t first_row, stored_rows, block_rows, block_stride;
};

Slice slice_of(const Place& place, const LayerShape& layer, const LinearShape& linear) {
  const std::int64_t rows = linear.out_features;
  const bool second = linear.name == "k_proj", third = linear.name == "v_proj";
  const std::int64_t key = layer.num_kv_heads * layer.head_dim;
  const std::int64_t query = layer.num_heads * layer.head_dim;
  switch (place.fused) {
    case Fused::no:
      return {0, rows, rows, rows};
    case Fused::gate_up: {
      const bool up = linear.name.find("up_proj") != std::string::npos;
      return {up ? rows : 0, 2 * rows, rows, rows};
    }
    case Fused::gate_up_by_turns:
      return {linear.name.find("up_proj") != std::string::npos ? 1 : 0, 2 * rows, 1, 2};
    case Fused::qkv:
      return {second ? query : third ? query + key : 0, query + 2 * key, rows, rows};
    case Fused::grouped_qkv: {
      const std::int64_t queries = query / layer.num_kv_heads;  // of one group
      const std::int64_t group = queries + 2 * layer.head_dim;
      const std::int64_t first = second ? queries : third ? queries + layer.head_dim : 0;
      // One group is q, k, v one after the other.
      const std::int64_t block = second || third ? layer.head_dim : queries;
      return {first, group * layer.num_kv_heads, block, layer.num_kv_heads == 1 ? block : group};
    }
  }
  throw Error(ErrorCode::internal, "a fused matrix of no kind");
}

class Finder {
 public:
  Finder(const Weights& weights, const ModelShape& model, Readable readable)
      : weights_(weights), model_(model), readable_(readable) {
    for (const std::string& prefix : name_prefixes()) {
      if (!weights.is_gguf() && has_layers(prefix)) {
        prefix_ = prefix;
        return;
      }
    }
  }

  LinearWeight find(std::int64_t layer_index, const LinearShape& linear, std::int64_t copy) const {
    const auto places = places_of(model_.family, linear.name, weights_.is_gguf());
    for (const Place& place : places) {
      const std::string name = prefix_ + filled(place.pattern, layer_index, copy);
      if (const TensorInfo* tensor = weights_.find(name)) {
        return checked(*tensor, place, layer_index, linear, copy);
      }
      const auto part = quantised_part(weights_, name);
      if (part && is_readable(*part->tensor)) {
        return checked(*part->tensor, place, layer_index, linear, copy);
      }
    }
    missing(places, layer_index, linear, copy);
  }

  /// The same, of a linear that may lie in several tensors.
  void add(std::int64_t layer_index, const LinearShape& linear, std::int64_t copy,
           std::vector<LinearWeight>& found) const {
    if (add_latent_halves(layer_index, linear, found)) return;
    const std::vector<const TensorInfo*> pieces = pieces_in(layer_index, linear);
    if (pieces.empty()) return found.push_back(find(layer_index, linear, copy));
    std::int64_t rows = 0;
    for (const TensorInfo* piece : pieces) {
      LinearShape part = linear;
      part.out_features = piece->shape.empty() ? 0 : piece->shape.front();
      rows += part.out_features;
      found.push_back(checked(*piece, {.pattern = piece->name}, layer_index, part, copy));
    }
    if (rows == linear.out_features) return;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} and {} have {} rows, and {} of {} needs {}",
                            quote(weights_.path(), 300), quote(pieces.front()->name, 100),
                            quote(pieces.back()->name, 100), rows, linear.name,
                            quote(model_.name, 100), linear.out_features),
                pieces.front()->name);
  }

  // llama.cpp files the halves of kv_b_proj apart, [heads][rank][plain] and [heads][value][rank].
  // Head by head they are its rows.
  bool add_latent_halves(std::int64_t layer_index, const LinearShape& linear,
                         std::vector<LinearWeight>& found) const {
    if (!weights_.is_gguf() || linear.name != "kv_b_proj") return false;
    const TensorInfo* keys = weights_.find(filled("blk.{}.attn_k_b.weight", layer_index, 0));
    const TensorInfo* values = weights_.find(filled("blk.{}.attn_v_b.weight", layer_index, 0));
    if (keys == nullptr || values == nullptr) return false;
    const LayerShape& layer = model_.layer(layer_index);
    const std::int64_t rank = linear.in_features, heads = layer.num_heads;
    const std::int64_t plain = layer.head_dim - layer.rope_width.value_or(0);
    const std::int64_t value = linear.out_features / heads - plain;
    check_half(*keys, {heads, rank, plain});
    check_half(*values, {heads, value, rank});
    for (std::int64_t head = 0; head < heads; ++head) {
      for (const bool is_key : {true, false}) {
        const std::int64_t rows = is_key ? plain : value;
        found.push_back({.layer_index = layer_index,
                         .linear = linear.name,
                         .copy = 0,
                         .tensor = is_key ? keys : values,
                         .offset = head * rows * rank,
                         .first_row = 0,
                         .num_rows = rows,
                         .in_features = rank,
                         .stored_rows = rows,
                         .block_rows = rows,
                         .block_stride = rows,
                         .transposed = is_key});
      }
    }
    return true;
  }

  void check_half(const TensorInfo& tensor, const std::vector<std::int64_t>& expected) const {
    if (tensor.shape == expected) return;
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: tensor {} has the shape {}, and {} needs {}", quote(tensor.file, 300),
                    quote(tensor.name, 100), describe_shape(tensor.shape), quote(model_.name, 100),
                    describe_shape(expected)),
        tensor.name);
  }

  /// What the file holds beside the layers is that of the model, and there are no more of these.
  void check_the_rest() const {
    check_embeddings(weights_, model_, prefix_);
    for (const LinearShape& linear : model_.layer(0).linears) {
      for (const Place& place : places_of(model_.family, linear.name, weights_.is_gguf())) {
        const std::string name = prefix_ + filled(place.pattern, model_.num_layers, 0);
        const TensorInfo* tensor = weights_.find(name);
        if (tensor == nullptr) continue;
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: {} is a tensor of layer {}, counted from 0, and {} says {} "
                                "layers; one of the two belongs to another model",
                                quote(tensor->file, 300), quote(name, 100), model_.num_layers,
                                quote(weights_.config_path(), 300), model_.num_layers),
                    name);
      }
    }
  }

 private:
  // All of them, or none.
  std::vector<const TensorInfo*> pieces_in(std::int64_t layer_index,
                                           const LinearShape& linear) const {
    std::vector<const TensorInfo*> pieces;
    for (const std::string& pattern : pieces_of(linear.name, weights_.is_gguf())) {
      const TensorInfo* piece = weights_.find(prefix_ + filled(pattern, layer_index, 0));
      if (piece == nullptr || is_readable(*piece)) return {};
      pieces.push_back(piece);
    }
    return pieces;
  }

  bool has_layers(const std::string& prefix) const {
    for (const LinearShape& linear : model_.layer(0).linears) {
      for (const Place& place : places_of(model_.family, linear.name, false)) {
        const std::string name = prefix + filled(place.pattern, 0, 0);
        if (weights_.find(name) != nullptr || quantised_part(weights_, name)) return true;
      }
      for (const std::string& piece : pieces_of(linear.name, weights_.is_gguf())) {
        if (weights_.find(prefix + filled(piece, 0, 0)) != nullptr) return true;
      }
    }
    return false;
  }

  LinearWeight checked(const TensorInfo& tensor, const Place& place, std::int64_t layer_index,
                       const LinearShape& linear, std::int64_t copy) const {
    const bool codes = may_be_codes(tensor);
    const Scaled scaled = codes ? Scaled::no : scaled_of(tensor);
    const bool is_numbers = !codes && scaled == Scaled::no;
    if (const auto part = quantised_part(weights_, tensor.name); part && is_numbers)
      refuse_quantised(weights_, *part);
    const Slice slice = slice_of(place, model_.layer(layer_index), linear);
    const std::int64_t stacked = place.stacked ? linear.num_copies : 1;
    std::vector<std::int64_t> expected = {slice.stored_rows, linear.in_features};
    const bool transposed = place.transposed && is_numbers;
    if (transposed) std::swap(expected[0], expected[1]);
    if (place.stacked) expected.insert(expected.begin(), linear.num_copies);
    if (scaled != Scaled::no)
      expected = scaled_shape(tensor, scaled, slice.stored_rows, linear.in_features, stacked);
    // How codes lie in words is for their reader to check.
    if (codes && tensor.dtype == DType::i32 && tensor.shape.size() == 2) {
      expected[1] = tensor.shape[1];
      if (tensor.name.ends_with(".qweight")) expected[0] = tensor.shape[0];
    }
    if (tensor.shape != expected) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: tensor {} has the shape {}, and {} of {} needs {}",
                              quote(tensor.file, 300), quote(tensor.name, 100),
                              describe_shape(tensor.shape), linear.name, quote(model_.name, 100),
                              describe_shape(expected)),
                  tensor.name);
    }
    return {.layer_index = layer_index,
            .linear = linear.name,
            .copy = copy,
            .tensor = &tensor,
            .offset = place.stacked ? copy * slice.stored_rows * linear.in_features : 0,
            .first_row = slice.first_row,
            .num_rows = linear.out_features,
            .in_features = linear.in_features,
            .stored_rows = slice.stored_rows,
            .block_rows = slice.block_rows,
            .block_stride = slice.block_stride,
            .transposed = transposed,
            .codes = codes,
            .scaled = scaled,
            .num_stacked = stacked};
  }

  // Of the layouts that quant::read_codes knows.
  bool may_be_codes(const TensorInfo& tensor) const {
    if (readable_ == Readable::numbers) return false;
    if (tensor.name.ends_with(".weight_packed") || tensor.name.ends_with(".qweight"))
      return tensor.dtype == DType::i32;
    return tensor.dtype == DType::i8 && quantised_part(weights_, tensor.name);
  }

  Scaled scaled_of(const TensorInfo& tensor) const {
    return readable_ == Readable::numbers ? Scaled::no : scaled_kind(weights_, tensor);
  }

  bool is_readable(const TensorInfo& tensor) const {
    return may_be_codes(tensor) || scaled_of(tensor) != Scaled::no;
  }

  [[noreturn]] void missing(const std::vector<Place>& places, std::int64_t layer_index,
                            const LinearShape& linear, std::int64_t copy) const {
    std::vector<std::string> tried;
    for (const Place& place : places) {
      tried.push_back(prefix_ + filled(place.pattern, layer_index, copy));
      if (const auto part = quantised_part(weights_, tried.back()))
        refuse_quantised(weights_, *part);
    }
    throw Error(ErrorCode::not_found,
                fmt::format("{}: no tensor for {} of layer {}{} of {}; looked for {} of shape {}{}",
                            quote(weights_.path(), 300), linear.name, layer_index,
                            linear.num_copies == 1 ? "" : fmt::format(", expert {},", copy),
                            quote(model_.name, 100), join(tried, ", "),
                            describe_shape({linear.out_features, linear.in_features}),
                            did_you_mean(tried.front(), weights_.names())),
                tried.front());
  }

  const Weights& weights_;
  const ModelShape& model_;
  Readable readable_;
  std::string prefix_;
};

// Columns of a matrix stored [in_features, stored_rows] become rows. In squares, so that both sides
// stay in the cache.
void read_transposed(const Weights& weights, const LinearWeight& linear, std::int64_t first,
                     std::int64_t num_rows, std::span<float> out) {
  constexpr std::int64_t kSquare = 64;
  std::vector<float> columns;
  for (std::int64_t row = 0; row < num_rows; row += kSquare) {
    const std::int64_t rows = std::min(kSquare, num_rows - row);
    // Rows that are not neighbours are read with those between them.
    const std::int64_t from = linear.stored_row(first + row);
    const std::int64_t span = linear.stored_row(first + row + rows - 1) - from + 1;
    columns.resize(static_cast<std::size_t>(kSquare * span));
    for (std::int64_t in = 0; in < linear.in_features; in += kSquare) {
      const std::int64_t ins = std::min(kSquare, linear.in_features - in);
      for (std::int64_t i = 0; i < ins; ++i) {
        const std::int64_t at = linear.offset + (in + i) * linear.stored_rows + from;
        read_f32(weights, *linear.tensor, at,
                 {columns.data() + i * span, static_cast<std::size_t>(span)});
      }
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t i = 0; i < ins; ++i) {
          out[static_cast<std::size_t>((row + r) * linear.in_features + in + i)] =
              columns[static_cast<std::size_t>(i * span + linear.stored_row(first + row + r) -
                                               from)];
        }
      }
    }
  }
}

}  // namespace

std::vector<LinearWeight> linears_of(const Weights& weights, const ModelShape& model,
                                     Readable readable) {
  const Finder finder(weights, model, readable);
  std::vector<LinearWeight> found;
  for (std::int64_t layer = 0; layer < model.num_layers; ++layer) {
    for (const LinearShape& linear : model.layer(layer).linears) {
      for (std::int64_t copy = 0; copy < linear.num_copies; ++copy) {
        finder.add(layer, linear, copy, found);
      }
    }
  }
  finder.check_the_rest();
  check_named_quantisation(weights, found);
  return found;
}

LinearWeight linear_of(const Weights& weights, const ModelShape& model, std::int64_t layer_index,
                       const LinearShape& linear, std::int64_t copy, Readable readable) {
  return Finder(weights, model, readable).find(layer_index, linear, copy);
}

void read_linear_f32(const Weights& weights, const LinearWeight& linear, std::span<float> out) {
  read_linear_rows_f32(weights, linear, 0, linear.num_rows, out);
}

void read_linear_rows_f32(const Weights& weights, const LinearWeight& linear, std::int64_t first,
                          std::int64_t num_rows, std::span<float> out) {
  const std::int64_t columns = linear.in_features;
  check_rows(linear, first, num_rows, columns, out.size());
  if (linear.codes) {
    refuse(ErrorCode::unsupported, linear.tensor->name,
           "{} is stored as codes; they are not read as numbers", describe(linear));
  }
  if (linear.transposed) return read_transposed(weights, linear, first, num_rows, out);
  for (std::int64_t row = first; row < first + num_rows;) {
    // To the end of the block, or of what is wanted.
    const std::int64_t rows =
        std::min(linear.block_rows - row % linear.block_rows, first + num_rows - row);
    const auto part = out.subspan(static_cast<std::size_t>((row - first) * columns),
                                  static_cast<std::size_t>(rows * columns));
    const std::int64_t stored = linear.stored_row(row);
    if (linear.scaled == Scaled::no)
      read_f32(weights, *linear.tensor, linear.offset + stored * columns, part);
    else
      read_scaled_rows(weights, linear, stored, rows, part);
    row += rows;
  }
}

std::string describe(const LinearWeight& linear) {
  const bool expert = linear.linear.rfind("experts.", 0) == 0;
  return fmt::format("layer {} {}{}", linear.layer_index, linear.linear,
                     expert ? fmt::format(" of expert {}", linear.copy) : "");
}

std::vector<std::int32_t> stored_bitwidths(const Weights& weights, const ModelShape& model) {
  std::vector<double> bits(static_cast<std::size_t>(model.num_layers)), parameters(bits.size());
  for (const LinearWeight& linear : linears_of(weights, model, Readable::quantised)) {
    // Of a tensor of codes its shape is of words, of one that several share the bits are all the
    // same.
    const TensorInfo& tensor = *linear.tensor;
    const std::int64_t stored = linear.stored_rows * linear.in_features * linear.num_stacked;
    const auto numbers =
        static_cast<double>(linear.is_quantised() ? stored : tensor.num_elements());
    const auto layer = static_cast<std::size_t>(linear.layer_index);
    const auto own = static_cast<double>(linear.parameters());
    bits[layer] += own * 8 * static_cast<double>(tensor.size_bytes) / numbers;
    parameters[layer] += own;
  }
  std::vector<std::int32_t> out;
  for (std::size_t i = 0; i < bits.size(); ++i) {
    constexpr double kRounding = 1e-9;
    const double mean = parameters[i] > 0 ? bits[i] / parameters[i] : 16;
    out.push_back(static_cast<std::int32_t>(std::min(16.0, std::floor(mean + kRounding))));
  }
  return out;
}

}  // namespace tessera::weights
