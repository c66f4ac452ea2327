#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/files.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/tokenizer/tokenizer.h"

namespace tessera::test {

/// A file that tests/reference/make_tokenizer_fixtures.py has written.
inline std::string fixture(const std::string& name) {
  return std::string(TESSERA_SOURCE_DIR) + "/tests/reference/tokenizers/" + name;
}

/// The texts of all answers: first those in UTF-8, then those that are not.
inline std::vector<std::string> texts() {
  const Json json = read_json_file(fixture("texts.json"));
  auto texts = json["texts"].get<std::vector<std::string>>();
  for (const Json& bytes : json["invalid"]) {
    std::string text;
    for (const Json& byte : bytes) text += static_cast<char>(byte.get<int>());
    texts.push_back(text);
  }
  return texts;
}

using Ids = std::vector<std::int32_t>;

/// What Python has made of the texts.
struct Answer {
  std::string text;
  Ids ids, plain;  ///< with special tokens around, and without
  std::string decoded, skipped;
};

inline std::vector<Answer> answers(const std::string& family) {
  const Json json = read_json_file(fixture(family + "/answers.json"));
  std::vector<Answer> answers;
  const std::vector<std::string> all = texts();
  EXPECT_EQ(json["ids"].size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto or_else = [&](const char* key, const auto& other) {
      const Json& value = json[key][i];
      return value.is_null() ? other : value.get<std::decay_t<decltype(other)>>();
    };
    const Ids ids = json["ids"][i].get<Ids>();
    const std::string decoded = or_else("decoded", all[i]);
    answers.push_back({all[i], ids, or_else("plain", ids), decoded, or_else("skipped", decoded)});
  }
  return answers;
}

inline std::optional<std::string> wikitext() {
  const std::string path =
      std::string(TESSERA_SOURCE_DIR) + "/../shared/measured/text/wikitext-2.valid.txt";
  if (!std::filesystem::exists(path)) return std::nullopt;
  return read_file(path);
}

/// FNV-1a over whole ids, as the script has it.
inline std::string fnv(const std::vector<std::int32_t>& ids) {
  std::uint64_t value = 0xCBF29CE484222325;
  for (const std::int32_t id : ids) {
    value = (value ^ static_cast<std::uint32_t>(id)) * 0x100000001B3;
  }
  return fmt::format("{:016x}", value);
}

}  // namespace tessera::test
