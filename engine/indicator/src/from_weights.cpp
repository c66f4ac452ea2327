#include "tessera/indicator/from_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "passes.h"
#include "tessera/core/error.h"

namespace tessera::indicator {
namespace {

using quant::Granularity;
using weights::LinearWeight;

const std::map<std::string, std::vector<std::string>>& variants() {
  static const std::map<std::string, std::vector<std::string>> known{
      {"variance", {"paper", "llm-pq", kPublishedCode}},
      {"hessian", {"paper", kPublishedCode}},
      {"gptq_error", {"paper"}},
      {"measured", {"paper"}}};
  return known;
}

void check(const WeightsRequest& request, const quant::Statistics* statistics) {
  const auto kind = variants().find(request.kind);
  if (kind == variants().end()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("'{}' is no indicator that is made from weights", request.kind),
                "kind");
  }
  if (std::find(kind->second.begin(), kind->second.end(), request.variant) == kind->second.end()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("kind '{}' has no variant '{}'; it has '{}'", request.kind,
                            request.variant, fmt::join(kind->second, "', '")),
                "variant");
  }
  const bool may_lack = request.kind == "variance" && request.variant != kPublishedCode;
  if (statistics == nullptr && !may_lack) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format(
            "kind '{}'{} needs statistics of the inputs{}: a file that lm:calibrate writes{} "
            "(`tessera man statistics`)",
            request.kind, request.kind == "variance" ? " as the published code has it" : "",
            request.kind == "variance" ? "" : ", Hessians among them",
            request.kind == "variance" ? "" : " with with_hessian = true"),
        "statistics");
  }
  for (const std::int32_t bitwidth : request.bitwidths) {
    if (request.kind == "variance" || bitwidth == 16) continue;
    if (bitwidth != 3 && bitwidth != 4 && bitwidth != 8) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("kind '{}' quantises, to 3, 4 or 8 bits (16: not at all), not to {}",
                              request.kind, bitwidth),
                  "bitwidths");
    }
  }
}

std::string scheme_text(const WeightsRequest& request) {
  if (request.kind == "variance" && request.variant == kPublishedCode) return "";
  const quant::Scheme& scheme = request.scheme;
  const std::string per = scheme.granularity == Granularity::group
                              ? fmt::format("group of {}", scheme.group_size)
                              : std::string(name_of(scheme.granularity));
  return fmt::format(", {}, {} rounding, a scale per {}",
                     scheme.symmetric ? "symmetric" : "asymmetric", name_of(scheme.rounding), per);
}

// Of a folder or file, as the statistics' metadata has it.
std::string model_of(const std::string& path) {
  const std::filesystem::path own = path;
  return (own.has_filename() ? own : own.parent_path()).filename().string();
}

std::string source_text(const Source& source) {
  const WeightsRequest& request = source.request;
  std::string text = fmt::format("{}, variant {}{}; weights {}; ", request.kind, request.variant,
                                 scheme_text(request), source.weights.path());
  if (source.statistics == nullptr) {
    return text + "no statistics: inputs taken to have zero mean and unit variance";
  }
  text += fmt::format("statistics {} ({} tokens of {})", source.statistics->path(),
                      source.statistics->num_tokens(), source.statistics->source());
  // A copy of the model may have another name, so this is no error; but who mixed up files sees it.
  const std::string own = model_of(source.weights.path()), theirs = source.statistics->model();
  return theirs.empty() || theirs == own ? text
                                         : text + fmt::format(
                                                      ", which name the model '{}', not "
                                                      "'{}'",
                                                      theirs, own);
}

// Tells the system that the pages are not needed any more; fused tensors appear several times.
void release(const weights::Weights& weights, const Layer& layer) {
  std::set<const weights::TensorInfo*> tensors;
  for (const LinearWeight& linear : layer) tensors.insert(linear.tensor);
  for (const weights::TensorInfo* tensor : tensors) weights.release(*tensor);
}

std::vector<Layer> layers_of(const weights::Weights& weights) {
  const ModelShape model = weights::model_of(weights);
  std::vector<Layer> layers(static_cast<std::size_t>(model.num_layers));
  for (LinearWeight& linear : weights::linears_of(weights, model)) {
    layers[static_cast<std::size_t>(linear.layer_index)].push_back(std::move(linear));
  }
  return layers;
}

}  // namespace

quant::LinearStatistics require_statistics(const Source& source, const LinearWeight& linear,
                                           bool with_hessian) {
  const quant::Statistics& statistics = *source.statistics;
  const auto reject = [&](const std::string& what) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} for {} of {}; make it from the same model with "
                            "lm:calibrate{}",
                            statistics.path(), what, weights::describe(linear),
                            source.weights.path(), with_hessian ? " and with_hessian = true" : ""),
                "statistics");
  };
  auto found = statistics.find(linear.layer_index, linear.linear, with_hessian);
  if (!found) reject("there are no statistics");
  if (with_hessian && !found->hessian) reject("there is no Hessian");
  if (found->in_features() != linear.in_features) {
    reject(
        fmt::format("{} input features are not the {}", found->in_features(), linear.in_features));
  }
  return std::move(*found);
}

Indicator make_from_weights(const weights::Weights& weights, const quant::Statistics* statistics,
                            const WeightsRequest& request) {
  check(request, statistics);
  ThreadPool threads(static_cast<std::size_t>(std::max(request.num_threads, 0)));
  const Source source{weights, statistics, request, threads};
  double overhead_s = 0;
  const std::vector<Layer> layers = layers_of(weights);
  Indicator result = make_empty(request.kind, layers.size(), request.bitwidths);
  {
    const Stopwatch watch(overhead_s);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      (request.kind == "variance" ? add_variance : add_errors)(source, layers[i], result);
      release(weights, layers[i]);
      if (request.progress) request.progress(i + 1, layers.size());
    }
  }
  result.variant = request.variant;
  result.overhead_s = overhead_s;
  result.source = source_text(source);
  const bool measured = request.kind == "measured" || request.kind == "gptq_error";
  result.provenance = measured ? Provenance::measured : Provenance::modelled;
  return result;
}

}  // namespace tessera::indicator
