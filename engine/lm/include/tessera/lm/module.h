#pragma once

#include <memory>
#include <string>

#include "tessera/lm/language_model.h"

namespace tessera::lm {

/// What the shared module of models offers: decoders, and tokenizers with their libraries.
class Module {
 public:
  virtual ~Module() = default;
  virtual std::shared_ptr<const LanguageModel> load(const LoadRequest& request) const = 0;
  /// A folder with tokenizer.json or tokenizer.model, one of these, or a GGUF file.
  virtual std::shared_ptr<const Tokens> load_tokens(const std::string& path) const = 0;
};

/// Loads it at the first call: from beside the program (../lib/tessera), or $TESSERA_MODELS_MODULE.
/// @throws Error{unsupported} where this build has none, saying how to build it, Error{io} where
/// the file cannot be loaded, with the system's reason
const Module& module();

/// What the shared module exports, under this name.
using ModuleEntry = const Module*();
inline constexpr const char* kModuleEntry = "tessera_models_module";

}  // namespace tessera::lm
