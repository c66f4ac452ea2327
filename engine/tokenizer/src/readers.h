#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pipeline.h"
#include "tessera/core/json.h"

namespace tessera::tokenizer {

// Components of a tokenizer.json. `where` names file and component in errors; what is not
// understood is Error{unsupported} with its type.
std::unique_ptr<const Model> read_model(const Json& json, const std::string& where);
Normalizers read_normalizers(const Json& json, const std::string& where);
PreTokenizers read_pre_tokenizers(const Json& json, const std::string& where);
Decoders read_decoders(const Json& json, const std::string& where);

/// Tokenizers of a file each.
std::shared_ptr<const Tokenizer> load_hugging_face(const std::string& path);
std::shared_ptr<const Tokenizer> load_sentencepiece(const std::string& path);
std::shared_ptr<const Tokenizer> load_gguf(const std::string& path);

/// A tokenizer.model in the form of Llama 3, which is tiktoken's, and Mistral's tekken.json.
std::shared_ptr<const Tokenizer> load_tiktoken(const std::string& path);
std::shared_ptr<const Tokenizer> load_tekken(const std::string& path);
/// Whether a file begins like one of tiktoken.
bool is_tiktoken(std::string_view file);

/// How Llama 3 cuts text.
inline constexpr const char* kLlama3Expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// What the files beside a tokenizer say about it; each may be absent.
struct Companions {
  std::optional<std::string> bos_token, eos_token;           // tokenizer_config.json
  std::optional<bool> add_bos_token, add_eos_token, legacy;  // tokenizer_config.json
  std::optional<std::int32_t> bos_token_id;                  // config.json
  std::vector<std::int32_t> eos_token_ids;                   // config.json
  std::optional<std::vector<std::int32_t>> stop_token_ids;   // generation_config.json
};
Companions read_companions(const std::string& tokenizer_path);

/// Which tokens begin and end a text, given what the companions say.
struct Ends {
  std::optional<std::int32_t> bos, eos;
  std::vector<std::int32_t> stops;
};
/// @param id_of gives kNoToken for what is no token
Ends ends_of(const Companions& companions,
             const std::function<std::int32_t(const std::string&)>& id_of);

}  // namespace tessera::tokenizer
