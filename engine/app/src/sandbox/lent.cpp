#include "sandbox/lent.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <optional>

#include "list.h"
#include "script.h"

namespace tessera::app {
namespace fs = std::filesystem;
namespace {

bool is_in_word(char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; }

// Positions behind each occurrence of `word` in `text`.
std::vector<std::size_t> ends_of_word(const std::string& text, const std::string& word) {
  std::vector<std::size_t> ends;
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if (at > 0 && is_in_word(text[at - 1])) continue;
    if (end == text.size() || !is_in_word(text[end])) ends.push_back(end);
  }
  return ends;
}

// The modules that a text loads by their names; nothing where it may load others: what it requires
// is not said in quotes, or it reaches for the tables of all modules and globals.
std::optional<std::vector<std::string>> modules_in(const std::string& text) {
  for (const char* way_round : {"package", "_G", "getfenv"}) {
    if (!ends_of_word(text, way_round).empty()) return std::nullopt;
  }
  std::vector<std::string> names;
  for (const std::size_t end : ends_of_word(text, "require")) {
    const std::size_t quote = text.find_first_not_of(" (", end);
    if (quote == text.npos || text[quote] != '"') return std::nullopt;
    names.push_back(text.substr(quote + 1, text.find('"', quote + 1) - quote - 1));
  }
  return names;
}

using Verdicts = std::map<std::string, bool>;

bool judge(const std::string& folder, const std::string& name, Verdicts& known) {
  const auto [verdict, is_new] = known.try_emplace(name, false);
  if (!is_new) return verdict->second;
  bool& lent = verdict->second;
  for (const std::string& file : module_files(folder + "/?.lua;" + folder + "/?/init.lua", name)) {
    std::error_code ignored;
    if (!fs::is_regular_file(file, ignored)) continue;
    const auto loaded = modules_in(read_script(file));
    lent = loaded.has_value() && std::all_of(loaded->begin(), loaded->end(), [&](const auto& part) {
             return judge(folder, part, known);
           });
    break;
  }
  return lent;
}

Verdicts told() { return {{"tessera", true}, {"tessera.core", true}}; }

}  // namespace

bool is_lent(const Installation& installation, const std::string& name) {
  Verdicts known = told();
  return judge(installation.scripts_dir, name, known);
}

std::vector<std::string> lent_modules(const Installation& installation) {
  Verdicts known = told();
  std::vector<std::string> names;
  const std::string folder = installation.scripts_dir;
  for (const Listed& module : list_scripts(folder + "/tessera", false)) {
    std::string name = "tessera." + module.name;
    std::replace(name.begin(), name.end(), '/', '.');
    if (const std::size_t end = name.rfind(".init"); end + 5 == name.size()) name.resize(end);
    if (judge(folder, name, known)) names.push_back(name);
  }
  return names;
}

}  // namespace tessera::app
