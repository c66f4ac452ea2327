#include "text_option.h"

#include <fmt/format.h>

#include <filesystem>

#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/text.h"

namespace tessera::lm_lua {
namespace {

constexpr std::uint64_t kMostBytes = 1ull << 30;

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
