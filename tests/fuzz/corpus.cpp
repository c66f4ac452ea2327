#include "corpus.h"

#include <algorithm>
#include <filesystem>

#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/json.h"

namespace tessera::fuzz {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::invalid_argument, why); }

// Bytes as characters U+0000 to U+00FF, in UTF-8, and back.
std::string text_of(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80) text += static_cast<char>(0xc0 | byte >> 6);
    text += static_cast<char>(byte >= 0x80 ? 0x80 | (byte & 0x3f) : byte);
  }
  return text;
}

std::string bytes_of(const std::string& text, const std::string& where) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto byte = static_cast<unsigned char>(text[i]);
    if (byte > 0xc3) refuse(where + ": a character beyond U+00FF, which is no byte");
    if (byte >= 0x80) {
      byte = static_cast<unsigned char>(byte << 6 | (static_cast<unsigned char>(text[++i]) & 0x3f));
    }
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

std::vector<Input> read_pack(const std::string& path) {
  const Json pack = read_json_file(path);
  if (!pack.is_object()) refuse(path + ": a pack is an object of names and texts");
  std::vector<Input> inputs;
  for (const auto& [name, text] : pack.items()) {
    const std::string where = path + ": " + name;
    if (!text.is_string()) refuse(where + ": an input is a text");
    // It becomes the name of a file.
    if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos) {
      refuse(where + ": no name for a file");
    }
    inputs.push_back({name, bytes_of(text.get<std::string>(), where)});
  }
  return inputs;
}

std::vector<Input> read_folder(const std::string& path) {
  std::vector<Input> inputs;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    inputs.push_back({entry.path().filename(), read_file(entry.path())});
  }
  return inputs;
}

void sort_by_name(std::vector<Input>& inputs) {
  std::sort(inputs.begin(), inputs.end(),
            [](const Input& a, const Input& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(inputs.begin(), inputs.end(),
                         [](const Input& a, const Input& b) { return a.name == b.name; });
  if (twice != inputs.end()) refuse("two inputs are called " + twice->name);
}

}  // namespace

std::vector<Input> read_corpus(const std::vector<std::string>& sources) {
  std::vector<Input> all;
  for (const std::string& source : sources) {
    const bool folder = file_kind(source) == FileKind::folder;
    const std::vector<Input> inputs = folder ? read_folder(source) : read_pack(source);
    if (inputs.empty()) refuse(source + ": no input in it");
    all.insert(all.end(), inputs.begin(), inputs.end());
  }
  sort_by_name(all);
  return all;
}

std::string pack_text(std::vector<Input> inputs) {
  sort_by_name(inputs);
  Json pack = Json::object();
  for (const Input& input : inputs) pack[input.name] = text_of(input.bytes);
  return pack.dump(0, ' ', true) + "\n";
}

}  // namespace tessera::fuzz
