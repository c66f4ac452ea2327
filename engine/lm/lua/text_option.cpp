#include "text_option.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/text.h"

namespace tessera::lm_lua {
namespace {

constexpr std::uint64_t kMostBytes = 1ull << 30;

// What is no text has a perplexity too, which says nothing.
void check_is_text(const std::string& content, const std::string& file, const std::string& path) {
  const std::size_t end = utf8_prefix(content).size(), zero = content.find('\0');
  const std::size_t bad = std::min(end, zero);
  if (bad >= content.size()) return;
  const auto line = 1 + std::count(content.begin(), content.begin() + static_cast<long>(bad), '\n');
  refuse(path,
         "{} is no text in UTF-8: byte {}, in line {}, is 0x{:02x}; give a file of text, or "
         "convert it (iconv -f latin1 -t utf-8)",
         quote(file, 300), bad, line, static_cast<unsigned char>(content[bad]));
}

}  // namespace

std::vector<OptionSpec> text_options() {
  return {{.name = "text", .type = OptionType::text, .doc = "The text", .flag = false},
          {.name = "file", .type = OptionType::text, .doc = "In its place: a file with the text"}};
}

lm::TextInput read_text_file(const std::string& file, const std::string& path) {
  lm::TextInput input;
  input.text = read_file(file, kMostBytes);
  input.name = std::filesystem::path(file).filename().string();
  if (input.text.empty())
    refuse(path, "{} is empty; there is nothing to predict", quote(file, 300));
  check_is_text(input.text, file, path);
  return input;
}

lm::TextInput read_text(const lua_kit::Options& options) {
  if (options.given("text") == options.given("file")) {
    throw Error(ErrorCode::invalid_argument, options.path() + ": give either text or file",
                options.path_of("text"));
  }
  if (options.given("file")) return read_text_file(options.text("file"), options.path_of("file"));
  lm::TextInput input;
  input.text = options.text("text");
  if (input.text.empty()) {
    refuse(options.path_of("text"), "it is empty; there is nothing to predict");
  }
  return input;
}

}  // namespace tessera::lm_lua
