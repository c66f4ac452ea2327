// The shared module of models without models: the program loads it where TESSERA_MODELS_MODULE
// names it, so that what scripts and verbs do with a model is tested where nothing can run one.

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "fake_language_model.h"
#include "tessera/core/error.h"
#include "tessera/lm/module.h"
#include "tessera/lm/module_entry.h"
#include "tessera/weights/weights.h"

namespace tessera::lm {
namespace {

class FakeModule final : public Module {
 public:
  std::shared_ptr<const LanguageModel> load(const LoadRequest& request) const override {
    auto model = std::make_shared<fakes::FakeModel>(
        weights::model_of(*weights::Weights::open(request.path)), request);
    // A folder that says so has a tokenizer of another model, or a slow machine.
    if (std::filesystem::exists(request.path + "/foreign_tokenizer")) ++model->own_tokens.size;
    if (std::filesystem::exists(request.path + "/slow_machine")) {
      model->before_step = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
    }
    for (std::int64_t i = 0; i < model->shape().num_layers; ++i) {
      if (request.progress) request.progress(i + 1, model->shape().num_layers);
    }
    return model;
  }
  std::unique_ptr<AttentionHeads> load_heads(const LoadRequest& request, std::int64_t,
                                             std::int64_t) const override {
    throw Error(ErrorCode::unsupported, "the fake model has no heads", request.path);
  }
  std::shared_ptr<const Tokens> load_tokens(const std::string& path) const override {
    std::error_code ignored;  // names too long for a file
    if (!std::filesystem::exists(path, ignored)) {
      throw Error(ErrorCode::not_found, "there is no " + path, path);
    }
    auto tokens = std::make_shared<fakes::FakeTokens>();
    tokens->is_plain = true;
    tokens->size = 260;
    return tokens;
  }
  bool write_gguf_tokens(const std::string& path, const std::string&) const override {
    throw Error(ErrorCode::unsupported, "the fake model has no GGUF files", path);
  }
};

}  // namespace

extern "C" const Module* TESSERA_MODULE_ENTRY(tessera_models_module)() {
  static const FakeModule module;
  return &module;
}

}  // namespace tessera::lm
