#include "decoder.h"

#include "byte_level.h"
#include "model.h"
#include "tessera/core/text.h"

namespace tessera::tokenizer {
namespace {

std::size_t size_of(const std::vector<std::string>& tokens) {
  std::size_t size = 0;
  for (const std::string& token : tokens) size += token.size();
  return size;
}

}  // namespace

std::string decoded(const Decoders& decoders, std::vector<std::string> tokens) {
  const std::size_t size = size_of(tokens);
  for (const auto& decoder : decoders) {
    decoder->apply(tokens);
    check_growth(size, size_of(tokens));
  }
  std::string text;
  for (const std::string& part : tokens) text += part;
  return text;
}

void ByteLevelDecoder::apply(std::vector<std::string>& tokens) const {
  std::string bytes;
  for (const std::string& token : tokens) append_bytes_of(bytes, token);
  tokens = {replace_invalid_utf8(bytes)};
}

void ByteFallback::apply(std::vector<std::string>& tokens) const {
  std::vector<std::string> texts;
  std::string bytes;
  const auto flush = [&] {
    if (is_utf8(bytes)) {
      if (!bytes.empty()) texts.push_back(bytes);
    } else {
      texts.insert(texts.end(), bytes.size(), std::string(kReplacement));
    }
    bytes.clear();
  };
  for (std::string& token : tokens) {
    const int byte = byte_of_token(token);
    if (byte >= 0) {
      bytes += static_cast<char>(byte);
      continue;
    }
    flush();
    texts.push_back(std::move(token));
  }
  flush();
  tokens = std::move(texts);
}

void Fuse::apply(std::vector<std::string>& tokens) const {
  std::string all;
  for (const std::string& token : tokens) all += token;
  tokens = {std::move(all)};
}

void StripDecoder::apply(std::vector<std::string>& tokens) const {
  const std::size_t size = character_.size();
  for (std::string& token : tokens) {
    std::size_t begin = 0, end = token.size();
    for (std::size_t i = 0; i < start_ && token.compare(begin, size, character_) == 0; ++i) {
      begin += size;
    }
    for (std::size_t i = 0;
         i < stop_ && end >= begin + size && token.compare(end - size, size, character_) == 0;
         ++i) {
      end -= size;
    }
    token = token.substr(begin, end - begin);
  }
}

void MetaspaceDecoder::apply(std::vector<std::string>& tokens) const {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    Replace(replacement_, i == 0 && prepended_ ? "" : " ").apply(tokens[i]);
  }
}

void BpeDecoder::apply(std::vector<std::string>& tokens) const {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    Replace(suffix_, i + 1 == tokens.size() ? "" : " ").apply(tokens[i]);
  }
}

void JoinByBlanks::apply(std::vector<std::string>& tokens) const { tokens = {join(tokens, " ")}; }

}  // namespace tessera::tokenizer
