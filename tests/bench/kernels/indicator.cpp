// The variance indicator's pass over the weights of a model on disk (in the page cache) against
// sums that do nothing but read them.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "compare.h"
#include "tessera/core/files.h"
#include "tessera/core/json.h"
#include "tessera/indicator/from_weights.h"
#include "tessera/kernels/parallel.h"
#include "tessera/weights/linears.h"
#include "tessera/weights/writer.h"

namespace tessera::kernels::bench {
namespace {

using weights::DType;

constexpr std::int64_t kSlice = 1 << 20;  // bytes

/// A folder that goes away afterwards, with a llama of one layer of the given type.
class ModelFolder {
 public:
  ModelFolder(DType dtype, std::int64_t hidden, std::int64_t ffn) {
    std::string name = (std::filesystem::temp_directory_path() / "tessera_bench.XXXXXX").string();
    check(mkdtemp(name.data()) != nullptr, "cannot make " + name);
    folder_ = name;
    const Json config{{"architectures", {"LlamaForCausalLM"}},
                      {"model_type", "llama"},
                      {"hidden_size", hidden},
                      {"intermediate_size", ffn},
                      {"num_hidden_layers", 1},
                      {"num_attention_heads", hidden / 128},
                      {"vocab_size", 32},
                      {"rms_norm_eps", 1e-5},
                      {"max_position_embeddings", 64},
                      {"tie_word_embeddings", true},
                      {"torch_dtype", "float16"}};
    write_file(folder_ + "/config.json", config.dump());
    const std::string layer = "model.layers.0.";
    std::vector<weights::TensorSpec> specs{
        {"model.embed_tokens.weight", dtype, {32, hidden}},
        {"model.norm.weight", dtype, {hidden}},
        {layer + "input_layernorm.weight", dtype, {hidden}},
        {layer + "post_attention_layernorm.weight", dtype, {hidden}}};
    for (const char* one : {"q", "k", "v", "o"}) {
      specs.push_back({layer + "self_attn." + one + "_proj.weight", dtype, {hidden, hidden}});
    }
    specs.push_back({layer + "mlp.gate_proj.weight", dtype, {ffn, hidden}});
    specs.push_back({layer + "mlp.up_proj.weight", dtype, {ffn, hidden}});
    specs.push_back({layer + "mlp.down_proj.weight", dtype, {hidden, ffn}});
    weights::SafetensorsWriter writer(folder_ + "/model.safetensors", specs);
    for (const weights::TensorSpec& spec : specs) {
      std::vector<std::uint16_t> bits(static_cast<std::size_t>(*weights::num_elements(spec.shape)));
      fill(bits);
      writer.append(spec.name, std::as_bytes(std::span(bits)));
    }
    writer.finish();
  }
  ~ModelFolder() { std::filesystem::remove_all(folder_); }
  ModelFolder(const ModelFolder&) = delete;
  ModelFolder& operator=(const ModelFolder&) = delete;

  const std::string& path() const { return folder_; }

 private:
  /// Finite as f16 and as bf16, of both signs.
  static void fill(std::vector<std::uint16_t>& bits) {
    for (std::size_t i = 0; i < bits.size(); ++i) {
      const auto draw = static_cast<std::uint32_t>(i) * 2654435761u;
      bits[i] = static_cast<std::uint16_t>((draw >> 31 << 15) | (0x2000 + (draw >> 10 & 0x7ff)));
    }
  }
  std::string folder_;
};

class IndicatorBench {
 public:
  explicit IndicatorBench(const std::string& path) : weights_(weights::Weights::open(path)) {
    for (const auto& linear : weights::linears_of(*weights_, weights::model_of(*weights_))) {
      linears_.push_back(linear.tensor);
      bytes_ += static_cast<double>(linear.tensor->size_bytes);
    }
    for (const weights::TensorInfo* tensor : linears_) {
      const auto bytes = weights_->bytes(*tensor);
      memory_.insert(memory_.end(), bytes.begin(), bytes.end());
    }
  }

  void run(const std::string& title, int threads, int rounds) {
    std::vector<Contender> contenders{
        {"plain sum, in memory", [&] { sum(memory_, threads); }, bytes_},
        {"plain sum, in the file",
         [&] {
           for (const weights::TensorInfo* tensor : linears_)
             sum(weights_->bytes(*tensor), threads);
           for (const weights::TensorInfo* tensor : linears_) weights_->release(*tensor);
         },
         bytes_}};
    const std::pair<const char*, quant::Granularity> kinds[] = {
        {"variance, a scale per tensor", quant::Granularity::tensor},
        {"variance, per channel", quant::Granularity::channel},
        {"variance, per group of 128", quant::Granularity::group}};
    for (const auto& [name, granularity] : kinds) {
      indicator::WeightsRequest request;
      request.bitwidths = {3, 4, 8};
      request.scheme.granularity = granularity;
      request.scheme.group_size = 128;
      request.num_threads = threads;
      contenders.push_back({name,
                            [this, request] {
                              const auto made =
                                  indicator::make_from_weights(*weights_, nullptr, request);
                              check(made.at(0, 3) > made.at(0, 4), "indicator");
                            },
                            bytes_});
    }
    compare(title, threads, rounds, contenders);
  }

 private:
  void sum(std::span<const std::byte> bytes, int threads) {
    for_slices(threads, static_cast<std::int64_t>(bytes.size()), kSlice,
               [&](std::int64_t first, std::int64_t last) {
                 const auto part = bytes.subspan(static_cast<std::size_t>(first),
                                                 static_cast<std::size_t>(last - first));
                 sums_[first / kSlice % 64] = plain_sum(part.data(), last - first);
               });
  }

  std::shared_ptr<const weights::Weights> weights_;
  std::vector<const weights::TensorInfo*> linears_;
  std::vector<std::byte> memory_;
  double bytes_ = 0;
  std::int64_t sums_[64] = {};
};

}  // namespace

void bench_indicator(bool quick) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const ModelFolder folder(dtype, quick ? 1024 : 4096, quick ? 2816 : 11008);
    IndicatorBench bench(folder.path());
    for (const int threads : {1, 2}) {
      bench.run(std::string("variance indicator, a layer of Llama-2-7b's size, ") +
                    weights::to_string(dtype),
                threads, quick ? 3 : 7);
    }
  }
  const char* model = std::getenv("TESSERA_MODEL");
  if (model == nullptr) {
    skip("variance indicator of a real model", "TESSERA_MODEL names none");
    return;
  }
  IndicatorBench bench(model);
  for (const int threads : {1, 2}) {
    bench.run(std::string("variance indicator, ") + model, threads, quick ? 3 : 7);
  }
}

}  // namespace tessera::kernels::bench
