#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <mutex>
#include <utility>

#include "model_proto.h"
#include "readers.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/text.h"

namespace tessera::tokenizer {
namespace {

using sentencepiece::SentencePieceProcessor;

constexpr const char* kBlank = "▁";

void check(const sentencepiece::util::Status& status, const std::string& where) {
  if (status.ok()) return;
  refuse(where, "SentencePiece: {}", quote(status.ToString(), 300));
}

std::unique_ptr<SentencePieceProcessor> parse(const std::string& bytes, const std::string& where) {
  check_model_proto(bytes, where);
  auto processor = std::make_unique<SentencePieceProcessor>();
  // What the library says of such a file names its own source.
  if (!processor->LoadFromSerializedProto(bytes).ok()) {
    refuse(where, "no SentencePiece model in {} bytes; it was cut short, or is something else",
           bytes.size());
  }
  if (processor->GetPieceSize() == 0) refuse(where, "a model without pieces");
  return processor;
}

/// A tokenizer.model, cut by SentencePiece's own library; special tokens and decoding are those of
/// Hugging Face's Llama tokenizer.
class SentencePiece : public Tokenizer {
 public:
  using Tokenizer::Tokens;

  SentencePiece(std::unique_ptr<SentencePieceProcessor> processor, const std::string& bytes,
                Tokens tokens, const Companions& companions)
      : Tokenizer(std::move(tokens)),
        processor_(std::move(processor)),
        finder_(control_tokens()),
        prefixes_every_text_(companions.legacy.value_or(true)) {
    std::vector<std::string> pieces;
    check(processor_->Encode("a", &pieces), this->tokens().path);
    has_prefix_ = !pieces.empty() && pieces.front().rfind(kBlank, 0) == 0;
    if (has_prefix_ && !prefixes_every_text_) {
      // ModelProto.normalizer_spec.add_dummy_prefix = false, written once more: the last one
      // counts.
      without_prefix_ = parse(bytes + std::string("\x1A\x02\x18\x00", 4), this->tokens().path);
    }
    adds_bos_ = companions.add_bos_token.value_or(true) && this->tokens().bos;
    adds_eos_ = companions.add_eos_token.value_or(false) && this->tokens().eos;
    decoders_.push_back(std::make_unique<ReplaceDecoder>(std::make_unique<Replace>(kBlank, " ")));
    decoders_.push_back(std::make_unique<ByteFallback>());
    decoders_.push_back(std::make_unique<Fuse>());
    if (has_prefix_) decoders_.push_back(std::make_unique<StripDecoder>(" ", 1, 0));
  }

  std::vector<std::int32_t> encode(std::string_view given, bool add_special_tokens) const override {
    const std::string text = replace_invalid_utf8(given);
    std::vector<std::int32_t> ids;
    if (add_special_tokens && adds_bos_) ids.push_back(*bos_token_id());
    for (const Segment& segment : finder_.split(text)) {
      if (segment.id >= 0) {
        ids.push_back(segment.id);
        continue;
      }
      const bool prefixed = prefixes_every_text_ || segment.begin == 0 || !without_prefix_;
      const SentencePieceProcessor& processor = prefixed ? *processor_ : *without_prefix_;
      std::vector<int> found;
      const std::string_view part =
          std::string_view(text).substr(segment.begin, segment.end - segment.begin);
      check(processor.Encode({part.data(), part.size()}, &found), tokens().path);
      ids.insert(ids.end(), found.begin(), found.end());
    }
    if (add_special_tokens && adds_eos_) ids.push_back(*eos_token_id());
    return ids;
  }

  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const override {
    check_ids(ids);
    std::vector<std::string> texts;
    for (const std::int32_t id : ids) {
      const auto index = static_cast<std::size_t>(id);
      if (!skip_special_tokens || !tokens().special[index]) texts.push_back(tokens().texts[index]);
    }
    return decoded(decoders_, std::move(texts));
  }

 private:
  std::vector<AddedToken> control_tokens() const {
    std::vector<AddedToken> list;
    for (std::size_t id = 0; id < tokens().texts.size(); ++id) {
      if (!tokens().special[id] || tokens().texts[id].empty()) continue;
      AddedToken token;
      token.id = static_cast<std::int32_t>(id);
      token.text = tokens().texts[id];
      list.push_back(std::move(token));
    }
    return list;
  }

  std::unique_ptr<SentencePieceProcessor> processor_, without_prefix_;
  AddedTokenFinder finder_;
  Decoders decoders_;
  bool prefixes_every_text_, has_prefix_ = false, adds_bos_ = false, adds_eos_ = false;
};

}  // namespace

std::shared_ptr<const Tokenizer> load_sentencepiece(const std::string& path) {
  const std::string bytes = read_file(path), where = quote(path, 300);
  auto processor = parse(bytes, where);
  const Companions companions = read_companions(path);
  std::vector<std::string> texts;
  std::vector<bool> special;
  for (int id = 0; id < processor->GetPieceSize(); ++id) {
    texts.push_back(processor->IdToPiece(id));
    if (!is_utf8(texts.back()))
      refuse(where, "piece {}, {}, is not UTF-8", id, quote(texts.back()));
    special.push_back(processor->IsControl(id) || processor->IsUnknown(id));
  }
  Ends ends = ends_of(companions, [&](const std::string& text) {
    const int id = processor->PieceToId(text);
    return processor->IdToPiece(id) == text ? id : kNoToken;
  });
  if (!ends.bos && processor->bos_id() >= 0) ends.bos = processor->bos_id();
  if (!ends.eos && processor->eos_id() >= 0) {
    ends.eos = processor->eos_id();
    ends.stops.push_back(*ends.eos);
  }
  SentencePiece::Tokens tokens{std::move(texts), std::move(special), ends.bos,
                               ends.eos,         ends.stops,         where};
  return std::make_shared<const SentencePiece>(std::move(processor), bytes, std::move(tokens),
                                               companions);
}

}  // namespace tessera::tokenizer
