#include "sizes.h"

#include <fmt/format.h>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::weights {

void check_embeddings(const Weights& weights, const ModelShape& model, const std::string& prefix) {
  // Llama and its relatives and OPT; BLOOM and Falcon; GPT-2 and GPT-J; GGUF. Then the heads, the
  // second that of Gemma 3 inside a multimodal model.
  const std::vector<std::string> names = {prefix + "embed_tokens.weight",
                                          prefix + "word_embeddings.weight",
                                          prefix + "wte.weight",
                                          "token_embd.weight",
                                          "lm_head.weight",
                                          "language_model.lm_head.weight",
                                          "output.weight"};
  const std::int64_t width = model.token_embedding_parameters / model.vocab_size;
  const std::vector<std::int64_t> expected = {model.vocab_size, width};
  for (const std::string& name : names) {
    const TensorInfo* tensor = weights.find(name);
    if (tensor == nullptr || tensor->shape == expected) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: tensor {} has the shape {}, and {} says {}: {} tokens of {} "
                            "features; one of the two belongs to another model",
                            quote(tensor->file, 300), quote(name, 100),
                            describe_shape(tensor->shape), quote(weights.config_path(), 300),
                            describe_shape(expected), model.vocab_size, width),
                name);
  }
}

}  // namespace tessera::weights
