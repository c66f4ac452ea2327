#include "tessera/lm/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "sequences.h"
#include "tessera/core/error.h"
#include "tessera/quant/statistics.h"
#include "tessera/weights/writer.h"

namespace tessera::lm {
namespace {

using quant::InputSums;
using quant::LinearStatistics;
using InputKey = std::pair<std::int64_t, std::string>;  ///< layer and linear

/// The matrix whose input this one reads too, where the layer has it: queries before keys and
/// values, the gate before what it gates, and of latent attention the first projection.
std::string input_owner(const std::string& linear) {
  static const std::map<std::string, std::string, std::less<>> owners{{"k_proj", "q_proj"},
                                                                      {"v_proj", "q_proj"},
                                                                      {"up_proj", "gate_proj"},
                                                                      {"kv_a_proj", "q_a_proj"}};
  const std::size_t dot = linear.rfind('.');
  const std::string prefix = dot == std::string::npos ? "" : linear.substr(0, dot + 1);
  const auto owner = owners.find(linear.substr(prefix.size()));
  return owner == owners.end() ? "" : prefix + owner->second;
}

/// What the file holds of a layer: inputs, and for other matrices the input that they share.
struct Layout {
  std::map<InputKey, std::int64_t> inputs;  ///< in_features
  std::map<InputKey, std::string> aliases;
};

Layout layout_of(const ModelShape& shape) {
  Layout layout;
  for (std::int64_t layer = 0; layer < shape.num_layers; ++layer) {
    const std::vector<LinearShape>& linears = shape.layer(layer).linears;
    for (const LinearShape& linear : linears) {
      std::string owner = input_owner(linear.name);
      // Latent attention without a low rank for queries: q_proj and kv_a_proj.
      const auto has = [&](const std::string& name) {
        return std::any_of(linears.begin(), linears.end(),
                           [&](const LinearShape& other) { return other.name == name; });
      };
      if (linear.name == "kv_a_proj" && !has(owner)) owner = "q_proj";
      if (!owner.empty() && has(owner)) {
        layout.aliases[{layer, linear.name}] = owner;
      } else {
        layout.inputs[{layer, linear.name}] = linear.in_features;
      }
    }
  }
  return layout;
}

std::string prefix_of(const InputKey& key) {
  return fmt::format("layers.{}.{}", key.first, key.second);
}

std::vector<weights::TensorSpec> tensors_of(const Layout& layout, bool with_hessian) {
  std::vector<weights::TensorSpec> tensors;
  for (const auto& [key, features] : layout.inputs) {
    const std::string prefix = prefix_of(key) + ".";
    const auto add = [&](const char* quantity, std::vector<std::int64_t> shape) {
      tensors.push_back({prefix + quantity, weights::DType::f32, std::move(shape)});
    };
    for (const char* quantity : {"mean", "variance", "abs_mean", "abs_max"})
      add(quantity, {features});
    for (const char* quantity : {"token_variance", "token_mean_square"}) add(quantity, {1});
    if (with_hessian) add("hessian", {features, features});
  }
  return tensors;
}

class StatisticsFile {
 public:
  StatisticsFile(const std::string& path, const Layout& layout, bool with_hessian,
                 const std::map<std::string, std::string>& metadata)
      : writer_(path, tensors_of(layout, with_hessian), {.metadata = metadata}) {}

  void append(const InputKey& key, const LinearStatistics& found) {
    const std::string prefix = prefix_of(key) + ".";
    append(prefix + "mean", found.mean);
    append(prefix + "variance", found.variance);
    append(prefix + "abs_mean", found.abs_mean);
    append(prefix + "abs_max", found.abs_max);
    append(prefix + "token_variance", one(found.token_variance));
    append(prefix + "token_mean_square", one(found.token_mean_square));
    if (found.hessian) append(prefix + "hessian", *found.hessian);
  }
  void finish() { writer_.finish(); }

 private:
  template <class Values>
  void append(const std::string& name, const Values& values) {
    const std::span numbers(values.data(), static_cast<std::size_t>(values.size()));
    writer_.append(name, std::as_bytes(numbers));
  }
  static Eigen::VectorXf one(double value) {
    return Eigen::VectorXf::Constant(1, static_cast<float>(value));
  }

  weights::SafetensorsWriter writer_;
};

constexpr std::int64_t kUsualSample = 512;  ///< tokens

class Calibrator {
 public:
  Calibrator(const LanguageModel& model, const CalibrationRequest& request)
      : model_(model),
        request_(request),
        sample_tokens_(request.sample_tokens.value_or(
            std::min<std::int64_t>(kUsualSample, model.shape().max_context_tokens))),
        layout_(layout_of(model.shape())) {
    check();
    tokens_ = tokens_of(request.input, model);
    samples_ = quality::pieces_of(tokens_, request.input.name, request.num_samples, sample_tokens_,
                                  model.shape(), "num_samples or sample_tokens");
  }

  Calibration run() {
    StatisticsFile file(request_.out, layout_, request_.with_hessian, metadata());
    const Slots slots(model_, 1, sample_tokens_);
    const std::int64_t num_layers = model_.shape().num_layers;
    const std::int64_t at_once =
        request_.layers_at_once == 0 ? num_layers : request_.layers_at_once;
    for (std::int64_t first = 0; first < num_layers; first += at_once) {
      const std::int64_t last = std::min(first + at_once, num_layers);
      for (auto& [key, sums] : sums_of(first, last, slots))
        file.append(key, finished(key, std::move(sums)));
    }
    file.finish();
    return {static_cast<std::int64_t>(layout_.inputs.size()), request_.num_samples * sample_tokens_,
            watch_.seconds()};
  }

 private:
  void check() const {
    if (request_.out.empty()) refuse("out", "is empty; a file to write belongs here");
    quality::check_writes_no_input(request_.out, model_);
    for (const auto& [name, value, low] :
         {std::tuple{"num_samples", request_.num_samples, 1},
          std::tuple{"sample_tokens", sample_tokens_, 1},
          std::tuple{"layers_at_once", request_.layers_at_once, 0}}) {
      if (value < low) refuse(ErrorCode::out_of_range, name, "{} is less than {}", value, low);
    }
  }

  std::map<std::string, std::string> metadata() const {
    std::map<std::string, std::string> all{
        {"format", "tessera.activation_statistics/1"},
        {"model", model_.shape().name},
        {"source", fmt::format("{}, {} pieces of {} tokens, tessera", request_.input.name,
                               request_.num_samples, sample_tokens_)},
        {"num_tokens", std::to_string(request_.num_samples * sample_tokens_)},
        {"num_samples", std::to_string(request_.num_samples)}};
    for (const auto& [key, owner] : layout_.aliases)
      all["alias:" + prefix_of(key)] = prefix_of({key.first, owner});
    return all;
  }

  /// Of the inputs of layers [first, last), over all samples.
  std::map<InputKey, InputSums> sums_of(std::int64_t first, std::int64_t last, const Slots& slots) {
    std::map<InputKey, InputSums> sums;
    for (const auto& [key, features] : layout_.inputs) {
      if (key.first >= first && key.first < last)
        sums.emplace(key, InputSums(features, request_.with_hessian));
    }
    const auto see = [&](std::int64_t layer, std::string_view linear, const float* inputs,
                         std::int64_t num_tokens) {
      if (layer < first || layer >= last) return;
      const auto own = sums.find({layer, std::string(linear)});
      if (own == sums.end()) {
        throw Error(ErrorCode::internal,
                    fmt::format("layer {} has no input '{}' to observe", layer, linear));
      }
      own->second.add(inputs, num_tokens);
    };
    for (const std::span<const std::int32_t> sample : samples_) {
      if (quality::is_set(request_.stop)) {
        throw Error(ErrorCode::interrupted,
                    fmt::format("stopped after {} samples; nothing is written", num_run_));
      }
      const SequenceStep step{sample, 0, slots.blocks(0, sample_tokens_), 1};
      model_.observe({&step, 1}, slots.cache(), see);
      ++num_run_;
      if (request_.progress) request_.progress(num_run_, total_runs());
    }
    return sums;
  }

  std::int64_t total_runs() const {
    const std::int64_t num_layers = model_.shape().num_layers;
    const std::int64_t at_once =
        request_.layers_at_once == 0 ? num_layers : request_.layers_at_once;
    return (num_layers + at_once - 1) / at_once * request_.num_samples;
  }

  LinearStatistics finished(const InputKey& key, InputSums sums) const {
    try {
      return std::move(sums).statistics();
    } catch (const Error&) {
      refuse(request_.input.name, "layer {} {} was reached by no token; give more num_samples",
             key.first, key.second);
    }
  }

  const LanguageModel& model_;
  const CalibrationRequest& request_;
  std::int64_t sample_tokens_;
  Layout layout_;
  std::vector<std::int32_t> tokens_;
  std::vector<std::span<const std::int32_t>> samples_;
  std::int64_t num_run_ = 0;
  quality::Stopwatch watch_;
};

}  // namespace

Calibration calibrate(const LanguageModel& model, const CalibrationRequest& request) {
  return Calibrator(model, request).run();
}

}  // namespace tessera::lm
