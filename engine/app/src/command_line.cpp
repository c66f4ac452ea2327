#include "command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <memory>
#include <utility>

#include "help.h"
#include "tessera/core/text.h"

namespace tessera::app {
namespace {

using Words = std::vector<std::string>;

const Words& verb_names() {
  static const Words names = [] {
    Words all{"run", "repl", "list", "help", "version"};
    for (const LuaVerb& verb : lua_verbs()) all.emplace_back(verb.name);
    return all;
  }();
  return names;
}

bool is_verb(const std::string& word) {
  return std::find(verb_names().begin(), verb_names().end(), word) != verb_names().end();
}

// "llmpq/table4", as `tessera list` shows it.
bool is_shipped_script(const std::string& word) {
  std::error_code ignored;
  const std::string folder = find_installation(executable_path()).experiments_dir;
  return std::filesystem::is_regular_file(folder + "/" + word + ".lua", ignored);
}

bool is_lua_file(const std::string& word) {
  return word.size() > 4 && word.compare(word.size() - 4, 4, ".lua") == 0;
}

// Whether the word is a flag of `tessera run` that takes the next word as its value.
bool takes_next_word(const std::string& word) {
  for (const OptionSpec& spec : run_options().options) {
    if (spec.type != OptionType::boolean && flag_of(spec.name) == word) return true;
  }
  return false;
}

bool is_run_flag(const std::string& word) {
  if (word == "--json" || word == "--help" || word == "-h") return true;
  const std::string flag = word.substr(0, word.find('='));
  for (const OptionSpec& spec : run_options().options) {
    const std::string known = flag_of(spec.name);
    if (flag == known || flag == "--no-" + known.substr(2)) return true;
  }
  return false;
}

// The host's flags, wherever they stand before "--", and the files; the rest are `arguments`.
Words split_run(const Words& words, std::size_t run, Words& arguments) {
  Words head(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(run) + 1);
  bool files = true, any_file = false;
  for (std::size_t i = run + 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") {
      arguments.insert(arguments.end(), words.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                       words.end());
      break;
    }
    const bool is_flag = word.size() > 1 && word.front() == '-';
    if (is_run_flag(word)) {
      head.push_back(word);
      if (takes_next_word(word) && i + 1 < words.size()) head.push_back(words[++i]);
    } else if (!any_file || (files && !is_flag && (is_lua_file(word) || is_shipped_script(word)))) {
      head.push_back(word);
      any_file = any_file || !is_flag;  // an unknown flag before the file is refused
    } else {
      files = false;
      arguments.push_back(word);
    }
  }
  return head;
}

// The words before the script's own arguments; those go to `arguments` untouched, except that
// --json is the host's wherever it stands before "--".
Words split_off_arguments(const Words& words, Words& arguments) {
  std::size_t end = 0;
  while (end < words.size() && words[end].size() > 1 && words[end].front() == '-' &&
         words[end] != "-e") {
    ++end;
  }
  if (end == words.size()) return words;
  if (words[end] == "-e") {
    end = std::min(end + 2, words.size());
  } else if (words[end] == "run") {
    return split_run(words, end, arguments);
  } else if (is_verb(words[end])) {
    return words;
  } else {
    ++end;
  }
  Words head(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(end));
  // In one word, or CLI11 takes code that begins with "--" for an option.
  if (head.size() >= 2 && head[head.size() - 2] == "-e" && !head.back().empty()) {
    head[head.size() - 2] += head.back();
    head.pop_back();
  }
  bool literal = false;
  for (; end < words.size(); ++end) {
    if (!literal && words[end] == "--") {
      literal = true;
    } else if (!literal && words[end] == "--json") {
      head.insert(head.begin(), words[end]);
    } else if (!literal && words[end].rfind("--sandbox", 0) == 0) {
      // As an argument it would protect nobody.
      throw UsageError{fmt::format(
          "{0} is a flag of `tessera run`: tessera run --sandbox FILE; to hand the word "
          "to the script, put it behind --",
          words[end])};
    } else {
      arguments.push_back(words[end]);
    }
  }
  return head;
}

// `values` gets a list per option, empty where it is not given.
void add_flags(CLI::App& verb, const OptionTable& table, FlagValues& values) {
  for (const OptionSpec& spec : table.options) {
    const std::string flag = flag_of(spec.name);
    std::vector<std::string>& texts = values[std::string(spec.name)];
    std::string text = fmt::format("{}: {}", spec.doc, describe_range(spec));
    if (!spec.default_text.empty()) text += fmt::format(" [{}]", spec.default_text);
    if (spec.type == OptionType::boolean) {
      verb.add_flag_function(
          flag + ",!--no-" + flag.substr(2),
          [&texts](std::int64_t count) { texts = {count > 0 ? "true" : "false"}; }, text);
      continue;
    }
    auto* option = verb.add_option(flag, texts, text);
    option->type_name("")->allow_extra_args(false);
    if (spec.required) option->required();
  }
}

/// A flag that may be turned off stands in help as --[no-]flag.
class FlagFormatter final : public CLI::Formatter {
 public:
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    if (is_positional || option->get_fnames().empty()) {
      return CLI::Formatter::make_option_name(option, is_positional);
    }
    return "--[no-]" + option->get_lnames().front();
  }
};

void drop_absent(FlagValues& values) {
  std::erase_if(values, [](const auto& entry) { return entry.second.empty(); });
}

// What a verb takes as a word of its own ("MODEL_DIR") is no flag: says so; "" for others.
std::string hint_on_word(const std::vector<CLI::App*>& verbs, const std::string& flag) {
  std::string word = flag.substr(2);
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  for (const LuaVerb& verb : lua_verbs()) {
    if (verbs.empty() || verb.name != verbs.front()->get_name()) continue;
    const std::string_view words = verb.positional;
    for (std::size_t start = 0; (start = words.find_first_not_of(" []_", start)) != words.npos;) {
      const std::size_t end = std::min(words.find_first_of(" []_", start), words.size());
      if (words.substr(start, end - start) == word) {
        return fmt::format("unknown option {}; it is a word without a flag: tessera {} {}",
                           quote(flag), verb.name, words);
      }
      start = end;
    }
  }
  return "";
}

// What other tools call a flag of ours, where no letters tell; "" of others.
std::string called_elsewhere(const std::string& flag, const Words& flags) {
  static constexpr std::pair<const char*, const char*> kNames[] = {
      {"--price", "--usd-per-hour"},
      {"--prices", "--usd-per-hour"},
      {"--cost", "--usd-per-hour"},
      {"--gpu", "--cluster"},
      {"--gpus", "--cluster"},
      {"--devices", "--cluster"},
      {"--hardware", "--cluster"},
      {"--isl", "--prompt-tokens"},
      {"--input-len", "--prompt-tokens"},
      {"--input-tokens", "--prompt-tokens"},
      {"--osl", "--output-tokens"},
      {"--output-len", "--output-tokens"},
      {"--qps", "--rate"},
      {"--rps", "--rate"},
      {"--tp", "--tensor-parallel"},
      {"--bits", "--bitwidths"},
      {"--quantization", "--bitwidths"},
      {"--dtype", "--bitwidths"},
      {"--kv-cache-dtype", "--kv-bitwidth"},
      {"--ttft", "--ttft-p99"},
      {"--tpot", "--tpot-p99"},
      {"--itl", "--tpot-p99"},
  };
  for (const auto& [theirs, ours] : kNames) {
    if (flag == theirs && std::find(flags.begin(), flags.end(), ours) != flags.end()) return ours;
  }
  return "";
}

// CLI11 names what it does not know, or what is missing before that; the nearest flag is for us to
// find.
std::string describe(const CLI::ParseError& error, const Words& words, const CLI::App& app) {
  const bool may_be_unknown = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
                              dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (!may_be_unknown) return error.what();
  Words flags;
  const std::vector<CLI::App*> verbs = app.get_subcommands();  // at most the one that was given
  for (const CLI::Option* option : (verbs.empty() ? &app : verbs.front())->get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  for (const std::string& word : words) {
    const std::string flag = word.substr(0, word.find('='));
    if (flag.rfind("--", 0) != 0 || flag.size() == 2) continue;
    if (std::find(flags.begin(), flags.end(), flag) != flags.end()) continue;
    if (const std::string hint = hint_on_word(verbs, flag); !hint.empty()) return hint;
    const std::string ours = called_elsewhere(flag, flags);
    return "unknown option " + quote(flag) +
           (ours.empty() ? did_you_mean(flag, flags) : "; did you mean " + quote(ours) + "?");
  }
  return error.what();
}

void check_verb_word(const std::string& word, const Words& files) {
  // A word that is no file and looks like a verb is a typing error, not a missing script.
  const std::vector<std::string> near = nearest_names(word, verb_names(), 1);
  if (near.empty() || files.size() != 1 || word.find_first_of("./-") != std::string::npos) return;
  if (file_kind(word) != FileKind::none) return;
  throw UsageError{
      fmt::format("there is no verb or file {}{}", quote(word), did_you_mean(word, verb_names()))};
}

}  // namespace

FlagValues parse_run_flags(const Words& arguments) {
  CLI::App app;
  FlagValues values;
  add_flags(app, run_options(), values);
  try {
    app.parse(Words(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    throw UsageError{describe(error, arguments, app)};
  }
  drop_absent(values);
  return values;
}

Command parse_command_line(int argc, char** argv) {
  Command command;
  const Words words =
      split_off_arguments(Words(argv + std::min(argc, 1), argv + argc), command.settings.arguments);

  CLI::App app;
  app.set_help_flag("");
  app.formatter(std::make_shared<FlagFormatter>());
  bool help = false, version = false, no_strict = false;
  app.add_flag("-h,--help", help);
  app.add_flag("--version", version);
  auto* code = app.add_option("-e", command.code);
  app.add_option("FILE", command.files);
  app.require_subcommand(0, 1);
  CLI::App* run = app.add_subcommand("run", std::string(run_options().doc));
  run->add_option("FILE", command.files, "Scripts, or names as `tessera list` shows them")
      ->required();
  run->set_help_flag("-h,--help", "This text");
  FlagValues run_flags;
  add_flags(*run, run_options(), run_flags);
  CLI::App* repl = app.add_subcommand("repl");
  CLI::App* list = app.add_subcommand("list");
  CLI::App* topic = app.add_subcommand("help");
  Words topic_words;  // "tessera bench" is one
  topic->add_option("TOPIC", topic_words);
  CLI::App* build = app.add_subcommand("version");
  build->add_flag("--kernels", command.kernels);
  for (CLI::App* plain : {repl, list, topic, build}) plain->add_flag("-h,--help", help);
  std::vector<CLI::App*> any_verb{&app, run, repl, list, topic, build};
  std::vector<FlagValues> verb_flags(lua_verbs().size());
  for (std::size_t i = 0; i < lua_verbs().size(); ++i) {
    const LuaVerb& verb = lua_verbs()[i];
    CLI::App* sub = app.add_subcommand(std::string(verb.name), std::string(verb.options.doc));
    sub->set_help_flag("-h,--help", "This text");
    if (!verb.positional.empty()) sub->add_option(std::string(verb.positional), command.names);
    add_flags(*sub, verb.options, verb_flags[i]);
    any_verb.push_back(sub);
  }

  for (CLI::App* any : any_verb) {
    any->add_flag("--json", command.settings.json, "Prints data as JSON, nothing else on stdout");
    any->add_flag("--no-strict", no_strict)->group("");  // for test frameworks with globals
  }

  try {
    app.parse(Words(words.rbegin(), words.rend()));  // CLI11 takes them from the back
  } catch (const CLI::CallForHelp&) {
    throw UsageError{app.get_subcommands().front()->help("tessera"), kDone};
  } catch (const CLI::ParseError& error) {
    throw UsageError{describe(error, words, app)};
  }
  command.settings.strict = !no_strict;
  command.topic = join(topic_words, " ");
  if (help)
    command.verb = Verb::help;
  else if (version || *build)
    command.verb = Verb::version;
  else if (*code)
    command.verb = Verb::code;
  else if (*repl)
    command.verb = Verb::repl;
  else if (*list)
    command.verb = Verb::list;
  else if (*topic)
    command.verb = Verb::help;
  else if (!command.files.empty())
    command.verb = Verb::run;
  for (std::size_t i = 0; i < lua_verbs().size(); ++i) {
    if (!app.got_subcommand(std::string(lua_verbs()[i].name))) continue;
    command.verb = Verb::lua;
    command.lua_verb = &lua_verbs()[i];
    command.flags = std::move(verb_flags[i]);
  }
  if (*run) command.flags = std::move(run_flags);
  drop_absent(command.flags);
  if (command.verb == Verb::run) {
    command.settings.script = command.files.front();
    if (!*run) check_verb_word(command.files.front(), command.files);
  }
  return command;
}

}  // namespace tessera::app
