#include "tokens.h"

#include "shared.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/tokenizer/tokenizer.h"

namespace tessera::lm {
namespace {

class TokenizerTokens final : public Tokens {
 public:
  explicit TokenizerTokens(std::shared_ptr<const tokenizer::Tokenizer> tokenizer)
      : tokenizer_(std::move(tokenizer)) {}

  std::vector<std::int32_t> encode(std::string_view text, bool special) const override {
    return tokenizer_->encode(text, special);
  }
  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const override {
    return tokenizer_->decode(ids, skip_special);
  }
  std::int64_t vocab_size() const override { return tokenizer_->vocab_size(); }
  std::optional<std::int32_t> bos_token_id() const override { return tokenizer_->bos_token_id(); }
  std::vector<std::int32_t> stop_token_ids() const override { return tokenizer_->stop_token_ids(); }
  std::string token(std::int32_t id) const override { return tokenizer_->token(id); }

 private:
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
};

}  // namespace

std::shared_ptr<const Tokens> load_tokens(const std::string& path) {
  return std::make_shared<const TokenizerTokens>(tokenizer::Tokenizer::load(path));
}

std::shared_ptr<const Tokens> load_tokens_of(const Decoder::Shared& shared) {
  auto tokens = load_tokens(shared.weights->path());
  const ModelShape& shape = shared.description.shape;
  if (tokens->vocab_size() > shape.vocab_size) {
    refuse(quote(shared.weights->path(), 300),
           "the tokenizer has {} tokens and {} {}; it belongs to another model",
           tokens->vocab_size(), shape.name, shape.vocab_size);
  }
  return tokens;
}

}  // namespace tessera::lm
