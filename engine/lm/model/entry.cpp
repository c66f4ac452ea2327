#include "attention_heads.h"
#include "decoder.h"
#include "tessera/lm/module.h"
#include "tessera/lm/module_entry.h"
#include "tokens.h"

namespace tessera::lm {
namespace {

std::shared_ptr<const Backend> backend_of(const LoadRequest& request) {
  if (request.device == "cpu") return make_cpu_backend(request.num_threads);
  const auto make =
      reinterpret_cast<TorchBackendEntry*>(module_entry(kTorchModule, kTorchBackendEntry));
  return make(request.device == "torch" ? "cpu" : request.device, request.num_threads);
}

class ModelsModule final : public Module {
 public:
  std::shared_ptr<const LanguageModel> load(const LoadRequest& request) const override {
    return Decoder::load(request, backend_of(request), lm::load_tokens);
  }
  std::unique_ptr<AttentionHeads> load_heads(const LoadRequest& request, std::int64_t num_blocks,
                                             std::int64_t block_size) const override {
    return make_attention_heads(request, num_blocks, block_size, backend_of(request));
  }
  std::shared_ptr<const Tokens> load_tokens(const std::string& path) const override {
    return lm::load_tokens(path);
  }
  bool write_gguf_tokens(const std::string& path, const std::string& folder) const override {
    return lm::write_gguf_tokens(path, folder);
  }
};

}  // namespace

extern "C" const Module* TESSERA_MODULE_ENTRY(tessera_models_module)() {
  static const ModelsModule module;
  return &module;
}

}  // namespace tessera::lm
