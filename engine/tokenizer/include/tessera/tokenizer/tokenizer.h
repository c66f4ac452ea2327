#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::tokenizer {

/// Text to token ids and back, exactly as Hugging Face's `tokenizers` does with the same file.
/// Never changes after `load`, so it may be used from several threads.
///
/// Text is UTF-8. Bytes that are not are read as Python's `errors="replace"` does: U+FFFD for each
/// maximal subpart of an ill-formed sequence (Unicode 15, section 3.9). What a tokenizer has no
/// token for becomes its unknown token or its byte tokens; one that has neither refuses the text.
class Tokenizer {
 public:
  virtual ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// @param path a folder with tokenizer.json, tokenizer.model (SentencePiece's, or tiktoken's as
  /// Llama 3 has it) or Mistral's tekken.json (the first of these that is there), one of these
  /// files, or a GGUF file, whose vocabulary is read. Beside tokenizer.json and
  /// tokenizer.model, tokenizer_config.json, config.json and generation_config.json say which
  /// tokens begin and end a text.
  /// @throws Error{not_found} without such a file, Error{io} for what cannot be read,
  /// Error{invalid_argument} for what is broken or contradictory, Error{unsupported} for what is
  /// not understood; the message names file, component and type
  static std::shared_ptr<const Tokenizer> load(const std::string& path);

  /// Token ids of a text. Special tokens that are spelled out in the text become their ids.
  /// @param add_special_tokens also those that belong before and after a text (`<s>`)
  /// @throws Error{invalid_argument} where a character has neither a token nor a substitute, or an
  /// expression of the file gives up on the text
  virtual std::vector<std::int32_t> encode(std::string_view text,
                                           bool add_special_tokens = true) const = 0;

  /// Text of tokens, UTF-8; bytes that form no character become U+FFFD. Ids of no token (holes of
  /// a vocabulary) are nothing.
  /// @throws Error{out_of_range} for ids outside [0, vocab_size)
  virtual std::string decode(std::span<const std::int32_t> ids,
                             bool skip_special_tokens = false) const = 0;

  /// All ids are in [0, vocab_size). A model's matrices may have more rows than this.
  std::int64_t vocab_size() const { return static_cast<std::int64_t>(tokens_.texts.size()); }
  std::optional<std::int32_t> bos_token_id() const { return tokens_.bos; }
  std::optional<std::int32_t> eos_token_id() const { return tokens_.eos; }
  /// Tokens that end a generated text, sorted: the end of a sequence, and what
  /// generation_config.json or a GGUF file has besides (the end of a turn).
  std::vector<std::int32_t> stop_token_ids() const { return tokens_.stops; }
  /// As the file spells it ("Ġthe", "▁the", "<0x0A>"); "" for a hole of the vocabulary.
  /// @throws Error{out_of_range} for ids outside [0, vocab_size)
  std::string token(std::int32_t id) const;
  /// Whether `decode` leaves it out when special tokens are to be skipped.
  /// @throws Error{out_of_range} for ids outside [0, vocab_size)
  bool is_special(std::int32_t id) const;

 protected:
  struct Tokens {
    std::vector<std::string> texts;  // by id
    std::vector<bool> special;       // by id
    std::optional<std::int32_t> bos, eos;
    std::vector<std::int32_t> stops = {};
    std::string path;  // of the file, named in errors
  };
  explicit Tokenizer(Tokens tokens);

  const Tokens& tokens() const { return tokens_; }
  void check_ids(std::span<const std::int32_t> ids) const;

 private:
  Tokens tokens_;
};

}  // namespace tessera::tokenizer
