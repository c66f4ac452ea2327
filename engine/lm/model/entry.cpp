#include "decoder.h"
#include "tessera/lm/module.h"
#include "tokens.h"

namespace tessera::lm {
namespace {

class ModelsModule final : public Module {
 public:
  std::shared_ptr<const LanguageModel> load(const LoadRequest& request) const override {
    return Decoder::load(request, make_cpu_backend(request.num_threads));
  }
  std::shared_ptr<const Tokens> load_tokens(const std::string& path) const override {
    return lm::load_tokens(path);
  }
};

}  // namespace

extern "C" const Module* tessera_models_module() {
  static const ModelsModule module;
  return &module;
}

}  // namespace tessera::lm
