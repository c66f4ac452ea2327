#include "tessera/quant/prune.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "../checkpoint/folder.h"
#include "pruner.h"
#include "tessera/core/access.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/output.h"
#include "tessera/core/record_json.h"
#include "tessera/core/text.h"
#include "tessera/weights/tensor.h"
#include "tessera/weights/writer.h"

namespace tessera::quant {
namespace fs = std::filesystem;
namespace {

constexpr const char* kPruningFile = "tessera_pruning.json";

void check_is_new(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error) || (fs::is_directory(path, error) && fs::is_empty(path, error)))
    return;
  refuse(ErrorCode::io, "out", "{} is there already; name a new folder", quote(path, 300));
}

double ratio_of(const PruneRequest& request) {
  const bool is_wanda = request.method != PruneMethod::structured;
  const double ratio = request.ratio.value_or(is_wanda ? 0.5 : 0.25);
  if (!(ratio > 0 && ratio < 1)) {
    refuse(ErrorCode::out_of_range, "ratio", "{} of the weights; it lies above 0 and below 1",
           ratio);
  }
  if (is_wanda && ratio != 0.5) {
    refuse(ErrorCode::out_of_range, "ratio",
           "{}; {} takes half of the weights, 0.5. method structured takes other shares", ratio,
           name_of(request.method));
  }
  return ratio;
}

PruneInput open(const PruneRequest& request) {
  if (request.statistics.empty()) {
    refuse("statistics", "method {} needs a calibration file (tessera man statistics)",
           name_of(request.method));
  }
  check_may_read(request.model);
  PruneInput input{.model = weights::Weights::open(request.model),
                   .shape = {},
                   .linears = {},
                   .statistics = Statistics::open(request.statistics)};
  if (input.model->is_gguf()) {
    refuse(
        ErrorCode::unsupported, "model",
        "{} is GGUF; name the model's folder with safetensors (scripts/convert_gguf.py makes one "
        "of it)",
        quote(request.model, 300));
  }
  input.shape = weights::model_of(*input.model);
  input.linears = weights::linears_of(*input.model, input.shape);
  for (const weights::LinearWeight& linear : input.linears) {
    if (weights::real_of(linear.tensor->dtype)) continue;
    refuse(ErrorCode::unsupported, linear.tensor->name, "it is {}; F32, F16 or BF16 is pruned",
           weights::to_string(linear.tensor->dtype));
  }
  if (input.statistics.num_layers() != input.shape.num_layers) {
    refuse(request.statistics, "it is of {} layers, {}, and {} has {}",
           input.statistics.num_layers(), quote(input.statistics.model()), input.shape.name,
           input.shape.num_layers);
  }
  return input;
}

std::unique_ptr<Pruner> pruner_of(const PruneRequest& request, const PruneInput& input) {
  const double ratio = ratio_of(request);
  if (request.method == PruneMethod::structured) return make_structured(input, ratio);
  const std::int64_t group = request.method == PruneMethod::wanda_2_4 ? 4 : 8;
  return make_wanda(input, group / 2, group);
}

std::vector<std::string> notes_of(const PruneInput& input, const std::vector<std::string>& files) {
  std::vector<std::string> notes;
  if (!holds_tokenizer(files)) {
    notes.push_back(
        "no tokenizer lies beside the model (tokenizer.json, tokenizer.model or vocab.json); "
        "servers want one: copy it into the folder");
  }
  if (input.statistics.model() != input.shape.name) {
    notes.push_back(fmt::format("the statistics name {}, the model is {}",
                                quote(input.statistics.model()), quote(input.shape.name)));
  }
  return notes;
}

}  // namespace

Eigen::VectorXf PruneInput::mean_square(std::int64_t layer_index, const std::string& linear,
                                        std::int64_t in_features) const {
  const auto found = statistics.find(layer_index, linear, false);
  if (!found) {
    refuse(ErrorCode::not_found, statistics.path(), "nothing of layer {} {}; it was written for {}",
           layer_index, linear, quote(statistics.model()));
  }
  if (found->in_features() != in_features) {
    refuse(statistics.path(), "layer {} {} has {} inputs there, {}, and {} in {}", layer_index,
           linear, found->in_features(), quote(statistics.model()), in_features, shape.name);
  }
  return found->mean_square();
}

PruneSummary prune_model(const PruneRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  ratio_of(request);
  const PruneInput input = open(request);
  check_is_new(request.out);
  const bool replaces = check_place(request.out, false, {});
  const std::unique_ptr<Pruner> pruner = pruner_of(request, input);
  const weights::Weights& model = *input.model;

  PruneSummary summary{.out = request.out, .method = request.method, .ratio = pruner->ratio()};
  std::vector<weights::TensorSpec> specs;
  for (const weights::TensorInfo& tensor : model.tensors()) {
    specs.push_back({tensor.name, tensor.dtype, pruner->shape_of(tensor)});
    summary.bytes_after += weights::size_bytes(tensor.dtype, specs.back().shape).value();
  }
  summary.bytes_before = model.size_bytes();
  const std::vector<std::string> files = files_to_copy(request.model);
  summary.notes = notes_of(input, files);

  OutputFolder folder(request.out);
  const std::string& place = folder.scratch_path();
  folder.require_space(summary.bytes_after + (1 << 20));
  {
    weights::SafetensorsWriter writer(
        place + "/model.safetensors", specs,
        {.metadata = {{"format", "pt"}}, .max_shard_bytes = kMaxShardBytes});
    std::int64_t done = 0;
    for (const weights::TensorInfo& tensor : model.tensors()) {
      writer.append(tensor.name, pruner->bytes_of(tensor));
      model.release(tensor);
      if (request.progress) request.progress(++done, std::ssize(model.tensors()));
    }
    writer.finish();
  }
  for (const std::string& name : files) copy_file(request.model + "/" + name, place + "/" + name);
  Json config = model.config();
  pruner->change(config);
  write_file(place + "/config.json", json_text(config, 2) + "\n");
  const auto written = weights::Weights::open(place);
  const ModelShape shape = weights::model_of(*written);
  weights::linears_of(*written, shape);  // all are there, in the sizes that the config says
  summary.num_heads = shape.num_heads;
  summary.num_kv_heads = shape.num_kv_heads;
  summary.ffn_size = shape.ffn_size;
  Json about{{"model", input.shape.name}, {"statistics", input.statistics.source()}};
  write_fields(summary, about);
  write_file(place + "/" + kPruningFile, json_text(about, 1) + "\n");
  folder.commit(replaces);
  summary.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return summary;
}

}  // namespace tessera::quant
