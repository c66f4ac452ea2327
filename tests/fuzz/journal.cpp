// Journals of a run: whatever the file says, its answers are read back alike from what is left of
// it, or it is refused and stays as it is.
#include "tessera/run/journal.h"

#include "input_folder.h"
#include "target.h"
#include "tessera/core/files.h"

namespace {

using namespace tessera;
using namespace tessera::run;

constexpr std::size_t kPrompts = 4;

using Given = std::vector<std::optional<std::pair<std::vector<std::int32_t>, lm::StopReason>>>;

Given read_journal(const std::string& path) {
  Answers answers{.prompts = std::vector<Prompt>(kPrompts), .done = {}};
  answers.done.resize(kPrompts);
  const Journal journal(path, "a digest", answers);
  Given given;
  for (const auto& answer : answers.done) {
    given.emplace_back();
    if (answer) given.back().emplace(answer->tokens, answer->stop_reason);
  }
  return given;
}

}  // namespace

TESSERA_FUZZ_TARGET(journal) {
  static const fuzz::Folder folder;
  return fuzz::read(data, size, [](std::string_view text) {
    const std::string path = folder.file("journal", text);
    try {
      const Given given = read_journal(path);
      fuzz::require(read_file(path).ends_with('\n'), "a line was left that is cut short");
      fuzz::require(read_journal(path) == given, "it reads back as something else");
    } catch (const Error&) {
      fuzz::require(read_file(path) == text, "a file was changed that was refused");
      throw;
    }
  });
}
