#include "sequences.h"

#include <fmt/format.h>

#include <filesystem>

#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/lm/text_input.h"
#include "tessera/weights/weights.h"

namespace tessera::lm {
namespace fs = std::filesystem;

std::vector<std::int32_t> tokens_of(const TextInput& input, const LanguageModel& model) {
  if (input.text.empty() == input.token_ids.empty()) {
    refuse(input.name, input.text.empty() ? "the text is empty"
                                          : "both a text and tokens are given; one belongs here");
  }
  std::vector<std::int32_t> tokens = input.token_ids;
  if (tokens.empty()) tokens = model.tokens().encode(input.text, input.special);
  const std::int64_t vocab_size = model.shape().vocab_size;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < vocab_size) continue;
    refuse(ErrorCode::out_of_range, input.name,
           "token {} is {}, outside of the model's vocabulary of {}", i, tokens[i], vocab_size);
  }
  return tokens;
}

namespace quality {

std::vector<std::span<const std::int32_t>> pieces_of(std::span<const std::int32_t> tokens,
                                                     const std::string& name, std::int64_t count,
                                                     std::int64_t size, const ModelShape& shape,
                                                     const char* fields) {
  if (size > shape.max_context_tokens) {
    refuse(ErrorCode::out_of_range, fields, "pieces of {} tokens; {} sees {} at most", size,
           shape.name, shape.max_context_tokens);
  }
  const auto available = static_cast<std::int64_t>(tokens.size());
  if (available / size < count) {
    refuse(name, "has {} tokens, and {} pieces of {} take {}; give a longer text or less of {}",
           available, count, size, count * size, fields);
  }
  std::vector<std::span<const std::int32_t>> pieces;
  for (std::int64_t i = 0; i < count; ++i) {
    pieces.push_back(
        tokens.subspan(static_cast<std::size_t>(i * size), static_cast<std::size_t>(size)));
  }
  return pieces;
}

void check_writes_no_input(const std::string& out, const LanguageModel& model) {
  std::error_code error;
  if (!fs::exists(out, error) || !fs::exists(model.request().path, error)) return;
  const auto weights = weights::Weights::open(model.request().path);
  std::vector<std::string> inputs = weights->files();
  inputs.push_back(weights->config_path());
  const fs::path name = fs::path(out).filename();
  if (name.string().starts_with("tokenizer"))
    inputs.push_back((fs::path(model.request().path) / name).string());
  for (const std::string& input : inputs) {
    if (fs::equivalent(input, out, error))
      refuse("out", "{} is a file of the model itself; name another", quote(out, 300));
  }
}

}  // namespace quality
}  // namespace tessera::lm
