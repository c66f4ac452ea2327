#include "tessera/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "readers.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/text.h"

namespace tessera::tokenizer {
namespace {

bool is_gguf(const std::string& path) { return std::filesystem::path(path).extension() == ".gguf"; }

std::shared_ptr<const Tokenizer> load_file(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  if (is_gguf(path)) return load_gguf(path);
  if (std::filesystem::path(path).filename() == "tekken.json") return load_tekken(path);
  if (extension == ".json") return load_hugging_face(path);
  if (extension == ".model")
    return is_tiktoken(read_file(path)) ? load_tiktoken(path) : load_sentencepiece(path);
  refuse(ErrorCode::unsupported, quote(path, 300),
         "no tokenizer by its name; tokenizer.json, tokenizer.model, tekken.json and *.gguf are "
         "read");
}

}  // namespace

std::shared_ptr<const Tokenizer> Tokenizer::load(const std::string& path) {
  if (file_kind(path) == FileKind::none) {
    refuse(ErrorCode::not_found, quote(path, 300),
           "no such file or folder; a tokenizer is read from the model's folder on this machine");
  }
  if (file_kind(path) != FileKind::folder) return load_file(path);
  for (const char* name : {"tokenizer.json", "tokenizer.model", "tekken.json"}) {
    const std::string file = (std::filesystem::path(path) / name).string();
    if (file_kind(file) != FileKind::none) return load_file(file);
  }
  std::vector<std::string> gguf;
  std::error_code error;
  for (std::filesystem::directory_iterator it(path, error), end; !error && it != end;
       it.increment(error)) {
    if (is_gguf(it->path().string())) gguf.push_back(it->path().string());
  }
  if (gguf.size() == 1) return load_gguf(gguf.front());
  refuse(ErrorCode::not_found, quote(path, 300),
         gguf.empty() ? "the folder has neither tokenizer.json, tokenizer.model nor tekken.json"
                      : "the folder has several GGUF files and no tokenizer.json; name one");
}

Tokenizer::Tokenizer(Tokens tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.stops.begin(), tokens_.stops.end());
  tokens_.stops.erase(std::unique(tokens_.stops.begin(), tokens_.stops.end()), tokens_.stops.end());
  check_ids(tokens_.stops);
  if (tokens_.bos) check_ids({&*tokens_.bos, 1});
  if (tokens_.eos) check_ids({&*tokens_.eos, 1});
}

Tokenizer::~Tokenizer() = default;

void Tokenizer::check_ids(std::span<const std::int32_t> ids) const {
  for (const std::int32_t id : ids) {
    if (id >= 0 && static_cast<std::size_t>(id) < tokens_.texts.size()) continue;
    refuse(ErrorCode::out_of_range, quote(tokens_.path, 300), "the token id {} is outside [0, {})",
           id, tokens_.texts.size());
  }
}

std::string Tokenizer::token(std::int32_t id) const {
  check_ids({&id, 1});
  return tokens_.texts[static_cast<std::size_t>(id)];
}

bool Tokenizer::is_special(std::int32_t id) const {
  check_ids({&id, 1});
  return tokens_.special[static_cast<std::size_t>(id)];
}

}  // namespace tessera::tokenizer
