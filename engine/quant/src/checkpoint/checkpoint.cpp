#include "tessera/quant/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "../awq.h"
#include "config.h"
#include "fold.h"
#include "folder.h"
#include "layout.h"
#include "matrices.h"
#include "tessera/core/access.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/output.h"
#include "tessera/core/record_json.h"
#include "tessera/core/text.h"
#include "tessera/kernels/parallel.h"

namespace tessera::quant {
namespace fs = std::filesystem;
namespace {

void check_request(const CheckpointRequest& request, const weights::Weights& model,
                   const ModelShape& shape) {
  if (model.is_gguf()) {
    throw Error(
        ErrorCode::unsupported,
        fmt::format("{} is GGUF, which vLLM and llama.cpp read as it is, quantised or not; "
                    "a checkpoint is made from the model's folder with safetensors, "
                    "config.json and tokenizer (`tessera quantise` makes one of Llama's and "
                    "Qwen's files by itself, scripts/convert_gguf.py of others)",
                    quote(request.model, 300)),
        "model");
  }
  if (model.config().contains("quantization_config")) {
    throw Error(ErrorCode::unsupported,
                fmt::format("{} is quantised already; start from the original weights",
                            quote(request.model, 300)),
                "model");
  }
  if (static_cast<std::int64_t>(request.bitwidths.size()) != shape.num_layers) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} bitwidths for the {} layers of {}", request.bitwidths.size(),
                            shape.num_layers, shape.name),
                "bitwidths");
  }
  const bool as_int8 = request.method == Method::smoothquant;
  for (const std::int32_t b : request.bitwidths) {
    if (b == 16 || b == 8 || (!as_int8 && (b == 3 || b == 4))) continue;
    throw Error(ErrorCode::out_of_range,
                fmt::format("bitwidth {} of a layer: {} takes {}", b, name_of(request.method),
                            as_int8 ? "8 or 16" : "3, 4, 8 or 16"),
                "bitwidths");
  }
  if (std::all_of(request.bitwidths.begin(), request.bitwidths.end(),
                  [](int b) { return b == 16; })) {
    throw Error(ErrorCode::invalid_argument,
                "every layer stays at 16 bits: there is nothing to quantise", "bitwidths");
  }
  const bool needed = request.method != Method::rtn;
  if (needed && request.statistics.empty()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("method {} needs a statistics file (tessera man statistics)",
                            name_of(request.method)),
                "statistics");
  }
  if (request.scheme.act_order == ActOrder::group) {
    throw Error(ErrorCode::unsupported,
                "act_order group needs a table of groups (weight_g_idx) in the checkpoint, which "
                "compressed-tensors reads no more since 0.20, nor vLLM; take act_order weight, "
                "which every version reads",
                "act_order");
  }
  std::error_code ignored;
  if (fs::equivalent(request.model, request.out, ignored)) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("out is the model's own folder {}; name another", quote(request.model, 300)),
        "out");
  }
}

/// One run: reads the model, writes the folder.
class Run {
 public:
  explicit Run(const CheckpointRequest& request)
      : request_(request),
        model_(weights::Weights::open(request.model)),
        shape_(weights::model_of(*model_)) {
    check_request(request_, *model_, shape_);
    matrices_ = matrices_of(*model_, shape_, request_);
    if (!request_.statistics.empty()) statistics_ = Statistics::open(request_.statistics);
    const bool folds = request_.method == Method::awq || as_int8();
    if (folds) folds_ = folds_of(shape_.family, model_->config());
    for (const StoredMatrix& matrix : matrices_) quantised_names_.insert(matrix.tensor->name);
    num_threads_ = request_.num_threads > 0 ? request_.num_threads : kernels::hardware_threads();
  }

  CheckpointSummary run() {
    const auto start = std::chrono::steady_clock::now();
    const std::vector<weights::TensorSpec> specs = tensor_specs();
    const bool replaces =
        check_place(request_.out, request_.overwrite, {request_.model, request_.statistics});
    OutputFolder folder(request_.out);
    folder.require_space(bytes_of(specs) + bytes_to_copy());
    summary_.out = request_.out;
    summary_.bytes_before = model_->size_bytes();
    {
      weights::SafetensorsWriter writer(
          folder.scratch_path() + "/model.safetensors", specs,
          {.metadata = {{"format", "pt"}}, .max_shard_bytes = kMaxShardBytes});
      write_matrices(writer);
      copy_tensors(writer);
      writer.finish();
    }
    copy_files(folder.scratch_path());
    summary_.notes = notes();
    summary_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    write_file(folder.scratch_path() + "/config.json", json_text(config(), 2) + "\n");
    Json about = result();
    about["files"] = files_in(folder.scratch_path());
    write_file(folder.scratch_path() + "/" + kResultFile, json_text(about, 1) + "\n");
    folder.commit(replaces);
    return summary_;
  }

 private:
  std::vector<std::string> notes() const {
    std::vector<std::string> notes;
    if (!holds_tokenizer(copied_files_)) {
      notes.push_back(
          "no tokenizer lies beside the model (tokenizer.json, tokenizer.model or vocab.json); "
          "servers want one: copy it into the folder");
    }
    // vLLM's compressed_tensors_wNa16.py lists the bitwidths that it loads; SGLang's copy, too.
    const bool three_bits = std::any_of(matrices_.begin(), matrices_.end(),
                                        [](const auto& m) { return m.scheme.bitwidth == 3; });
    if (three_bits) {
      notes.push_back(
          "layers of 3 bits: transformers loads them, vLLM only in versions whose "
          "compressed-tensors "
          "takes 2 to 8 bits; older ones and SGLang load 4 and 8 alone");
    }
    return notes;
  }

  bool as_int8() const { return request_.method == Method::smoothquant; }

  std::vector<weights::TensorSpec> tensor_specs() const {
    std::vector<weights::TensorSpec> specs;
    for (const weights::TensorInfo& tensor : model_->tensors()) {
      if (!quantised_names_.contains(tensor.name))
        specs.push_back({tensor.name, tensor.dtype, tensor.shape});
    }
    for (const StoredMatrix& m : matrices_) {
      const auto own = specs_of(m.module, m.rows(), m.columns(), m.scheme, as_int8());
      for (const weights::TensorSpec& spec : own) {
        if (spec.name != m.tensor->name && model_->find(spec.name) != nullptr) {
          throw Error(ErrorCode::invalid_argument,
                      fmt::format("the model holds {} already; is it quantised?", spec.name));
        }
        specs.push_back(spec);
      }
    }
    return specs;
  }

  std::uint64_t bytes_of(const std::vector<weights::TensorSpec>& specs) {
    for (const weights::TensorSpec& spec : specs)
      summary_.bytes_after += weights::size_bytes(spec.dtype, spec.shape).value();
    return summary_.bytes_after;
  }

  std::uint64_t bytes_to_copy() {
    std::uint64_t sum = 1 << 20;  // config.json, headers
    copied_files_ = files_to_copy(request_.model);
    for (const std::string& name : copied_files_) sum += fs::file_size(request_.model + "/" + name);
    return sum;
  }

  std::vector<float> read(const StoredMatrix& m) const {
    std::vector<float> values(static_cast<std::size_t>(m.rows() * m.columns()));
    weights::read_f32(*model_, *m.tensor, 0, values);
    model_->release(*m.tensor);
    return values;
  }

  // Of the input that the linears of `m` share; absent only where nothing needs it.
  std::optional<LinearStatistics> inputs_of(const StoredMatrix& m) const {
    if (!statistics_) return std::nullopt;
    for (const std::string& linear : m.linears) {
      if (auto found = statistics_->find(m.layer_index, linear, !as_int8())) return found;
    }
    if (request_.method == Method::rtn) return std::nullopt;
    throw Error(ErrorCode::not_found,
                fmt::format("{} holds nothing of layer {} {}; it was written for {}",
                            quote(request_.statistics, 300), m.layer_index, m.linears.front(),
                            statistics_->model().empty() ? "another model" : statistics_->model()),
                request_.statistics);
  }

  void write_matrices(weights::SafetensorsWriter& writer) {
    std::set<const StoredMatrix*> done;
    for (const StoredMatrix& m : matrices_) {
      if (done.contains(&m)) continue;
      const std::vector<const StoredMatrix*> shared = sharing(m);
      if (shared.empty()) {
        const std::vector<float> values = read(m);
        const auto inputs = inputs_of(m);
        const MatrixView view{values.data(), m.rows(), m.columns()};
        const Method method = request_.method == Method::gptq ? Method::gptq : Method::rtn;
        keep(writer, m, view,
             quantise(view, m.scheme, method, inputs ? &*inputs : nullptr, num_threads_));
        continue;
      }
      write_folded(writer, shared);
      done.insert(shared.begin(), shared.end());
    }
  }

  // The matrices whose input comes from the same norm as that of `m`; none where nothing is folded.
  std::vector<const StoredMatrix*> sharing(const StoredMatrix& m) const {
    const Fold* fold = fold_of(m);
    std::vector<const StoredMatrix*> found;
    if (fold == nullptr) return found;
    for (const StoredMatrix& other : matrices_) {
      if (other.layer_index == m.layer_index && fold_of(other) == fold) found.push_back(&other);
    }
    return found;
  }

  const Fold* fold_of(const StoredMatrix& m) const {
    for (const Fold& fold : folds_) {
      const auto& names = fold.linears;
      if (std::find(names.begin(), names.end(), m.linears.front()) != names.end()) return &fold;
    }
    return nullptr;
  }

  void write_folded(weights::SafetensorsWriter& writer,
                    const std::vector<const StoredMatrix*>& shared) {
    std::vector<std::vector<float>> values;
    std::vector<MatrixView> views;
    std::vector<Scheme> schemes;
    for (const StoredMatrix* m : shared) {
      values.push_back(read(*m));
      views.push_back({values.back().data(), m->rows(), m->columns()});
      schemes.push_back(m->scheme);
    }
    const LinearStatistics inputs = *inputs_of(*shared.front());
    check_inputs(*shared.front(), inputs);
    const std::string layer = fmt::format(".{}.", shared.front()->layer_index);
    const std::string& module = shared.front()->module;
    const std::string prefix = module.substr(0, module.find(layer) + layer.size());
    const Fold& fold = *fold_of(*shared.front());
    Replaced replaced;
    std::vector<Quantised> found;
    if (as_int8()) {
      const auto scales =
          fold_scales(*model_, prefix, fold, smooth_scales(views, inputs), replaced);
      found = round_all(views, schemes, scales, inputs, nullptr);
    } else {
      const AwqScales best = search_awq_scales(views, schemes, inputs, num_threads_);
      const auto scales = fold_scales(*model_, prefix, fold, best.scales, replaced);
      double error = 0;
      found = round_all(views, schemes, scales, inputs, &error);
      // The norm's own rounding moves the scales a little; where that loses, nothing is folded.
      if (error > best.rtn_error) {
        replaced.clear();
        found = round_all(views, schemes, std::vector<float>(scales.size(), 1), inputs, nullptr);
      }
    }
    replaced_.merge(replaced);
    for (std::size_t i = 0; i < shared.size(); ++i)
      keep(writer, *shared[i], views[i], std::move(found[i]));
  }

  void check_inputs(const StoredMatrix& m, const LinearStatistics& inputs) const {
    if (inputs.in_features() == m.columns()) return;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: layer {} {} has {} input features, {} has {}",
                            quote(request_.statistics, 300), m.layer_index, m.linears.front(),
                            inputs.in_features(), m.tensor->name, m.columns()),
                request_.statistics);
  }

  std::vector<Quantised> round_all(const std::vector<MatrixView>& views,
                                   const std::vector<Scheme>& schemes,
                                   const std::vector<float>& scales, const LinearStatistics& inputs,
                                   double* error) const {
    std::vector<Quantised> found;
    for (std::size_t i = 0; i < views.size(); ++i) {
      found.push_back(quantise_scaled(views[i], scales, schemes[i], num_threads_));
      found.back().method = request_.method;
      found.back().output_error = output_error(views[i], found.back(), inputs);
      if (error != nullptr) *error += *found.back().output_error;
    }
    return found;
  }

  void keep(weights::SafetensorsWriter& writer, const StoredMatrix& m, MatrixView view,
            const Quantised& quantised) {
    append(writer, m.module, quantised, as_int8());
    const WeightError error = weight_error(view, quantised);
    summary_.matrices.push_back({m.tensor->name, m.layer_index, m.scheme.bitwidth, quantised.method,
                                 error.mse, error.max_error, quantised.output_error,
                                 quantised.rtn_output_error});
    if (!request_.progress) return;
    request_.progress({static_cast<std::int64_t>(summary_.matrices.size()),
                       static_cast<std::int64_t>(matrices_.size()), m.layer_index});
  }

  void copy_tensors(weights::SafetensorsWriter& writer) const {
    for (const weights::TensorInfo& tensor : model_->tensors()) {
      if (quantised_names_.contains(tensor.name)) continue;
      const auto it = replaced_.find(tensor.name);
      writer.append(tensor.name,
                    it != replaced_.end() ? std::span(it->second) : model_->bytes(tensor));
      model_->release(tensor);
    }
  }

  void copy_files(const std::string& folder) const {
    for (const std::string& name : copied_files_)
      copy_file(request_.model + "/" + name, folder + "/" + name);
  }

  Json config() const {
    std::vector<StoredModule> stored;
    for (const StoredMatrix& m : matrices_)
      stored.push_back({m.module, m.layer_index, m.scheme.bitwidth});
    std::vector<std::string> ignore{"lm_head"};
    for (const weights::TensorInfo& tensor : model_->tensors()) {
      const std::string module = module_of(tensor.name);
      const bool is_kept_matrix = tensor.shape.size() == 2 && module != tensor.name &&
                                  !quantised_names_.contains(tensor.name);
      if (is_kept_matrix && module != "lm_head") ignore.push_back(module);
    }
    Json config = model_->config();
    config["quantization_config"] =
        quantization_config(stored, ignore, matrices_.front().scheme, as_int8());
    return config;
  }

  Json result() const {
    Json json{{"model", shape_.name},
              {"method", name_of(request_.method)},
              {"bitwidths", request_.bitwidths}};
    write_fields(summary_, json);
    return json;
  }

  const CheckpointRequest& request_;
  std::shared_ptr<const weights::Weights> model_;
  ModelShape shape_;
  std::vector<StoredMatrix> matrices_;
  std::set<std::string> quantised_names_;
  std::optional<Statistics> statistics_;
  std::vector<Fold> folds_;
  Replaced replaced_;
  std::vector<std::string> copied_files_;
  int num_threads_ = 1;
  CheckpointSummary summary_;
};

}  // namespace

CheckpointSummary quantise_checkpoint(const CheckpointRequest& request) {
  check(request.scheme);
  check_may_read(request.model);
  Run run(request);
  return run.run();
}

}  // namespace tessera::quant
