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
  /// What `request.elsewhere` of another part of the same request asks for; reads no weights.
  virtual std::unique_ptr<AttentionHeads> load_heads(const LoadRequest& request,
                                                     std::int64_t num_blocks,
                                                     std::int64_t block_size) const = 0;
  /// A folder with tokenizer.json or tokenizer.model, one of these, or a GGUF file.
  virtual std::shared_ptr<const Tokens> load_tokens(const std::string& path) const = 0;
  /// tokenizer::write_gguf_tokenizer
  virtual bool write_gguf_tokens(const std::string& path, const std::string& folder) const = 0;
};

/// Loads it at the first call: from beside the program (../lib/tessera), or $TESSERA_MODELS_MODULE.
/// @throws Error{unsupported} where this build has none, saying how to build it, Error{io} where
/// the file cannot be loaded, with the system's reason
const Module& module();

/// What the shared module exports, under this name.
using ModuleEntry = const Module*();
inline constexpr const char* kModuleEntry = "tessera_models_module";

class Backend;

/// What the module with LibTorch exports: the parts of a decoder by LibTorch, on a device. It is a
/// module of its own, since LibTorch takes 0.3 to 0.5 s and 165 MiB to load and decoders on the CPU
/// need nothing of it; and since the protocol buffers in SentencePiece and those that LibTorch
/// links must not see each other.
using TorchBackendEntry = std::shared_ptr<const Backend>(const std::string& device,
                                                         int num_threads);
inline constexpr const char* kTorchModule = "tessera_torch";
inline constexpr const char* kTorchBackendEntry = "tessera_torch_backend";

/// Where modules lie, in a build and where the program is installed: ../lib/tessera beside it.
std::string modules_folder();

/// Whether there is such a module.
bool has_module(const std::string& name);

/// What a module of the program's version exports as `entry`: of ../lib/tessera/NAME.so beside the
/// program, or of the file that $NAME_MODULE names, in capitals. @throws as module()
void* module_entry(const std::string& name, const char* entry);

}  // namespace tessera::lm
