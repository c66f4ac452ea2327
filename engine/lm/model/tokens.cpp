#include "tokens.h"

#include "tessera/tokenizer/gguf.h"
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

bool write_gguf_tokens(const std::string& path, const std::string& folder) {
  return tokenizer::write_gguf_tokenizer(path, folder);
}

std::shared_ptr<const Tokens> load_tokens(const std::string& path) {
  return std::make_shared<const TokenizerTokens>(tokenizer::Tokenizer::load(path));
}

}  // namespace tessera::lm
