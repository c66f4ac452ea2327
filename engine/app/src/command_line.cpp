#include "command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>

#include "help.h"
#include "plan_options.h"
#include "tessera/core/text.h"

namespace tessera::app {
namespace {

using Words = std::vector<std::string>;

const Words kVerbs = {"run", "repl", "list", "help", "version", "plan"};

bool is_verb(const std::string& word) {
  return std::find(kVerbs.begin(), kVerbs.end(), word) != kVerbs.end();
}

bool is_lua_file(const std::string& word) {
  return word.size() > 4 && word.compare(word.size() - 4, 4, ".lua") == 0;
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
    end = std::min(end + 2, words.size());
    while (end < words.size() && is_lua_file(words[end])) ++end;
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
    } else {
      arguments.push_back(words[end]);
    }
  }
  return head;
}

void add_plan_flags(CLI::App& plan, std::map<std::string, std::string>& values) {
  for (const OptionSpec& spec : plan_options().options) {
    const std::string name(spec.name);
    std::string text = fmt::format("{}: {}", spec.doc, describe_range(spec));
    if (!spec.default_text.empty()) text += fmt::format(" [{}]", spec.default_text);
    auto* option = plan.add_option_function<std::string>(
        flag_of(spec.name), [&values, name](const std::string& value) { values[name] = value; },
        text);
    option->type_name("");
    if (spec.required) option->required();
  }
}

// CLI11 names what it does not know; the nearest flag is for us to find.
std::string describe(const CLI::ParseError& error, const Words& words, const CLI::App& app) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) return error.what();
  Words flags;
  const std::vector<CLI::App*> verbs = app.get_subcommands();  // at most the one that was given
  for (const CLI::Option* option : (verbs.empty() ? &app : verbs.front())->get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  for (const std::string& word : words) {
    const std::string flag = word.substr(0, word.find('='));
    if (flag.rfind("--", 0) != 0 || flag.size() == 2) continue;
    if (std::find(flags.begin(), flags.end(), flag) != flags.end()) continue;
    return "unknown option " + quote(flag) + did_you_mean(flag, flags);
  }
  return error.what();
}

void check_verb_word(const std::string& word, const Words& files) {
  // A word that is no file and looks like a verb is a typing error, not a missing script.
  const std::vector<std::string> near = nearest_names(word, kVerbs, 1);
  if (near.empty() || files.size() != 1 || word.find_first_of("./-") != std::string::npos) return;
  if (std::FILE* file = std::fopen(word.c_str(), "r")) {
    std::fclose(file);
    return;
  }
  throw UsageError{
      fmt::format("there is no verb or file {}{}", quote(word), did_you_mean(word, kVerbs))};
}

}  // namespace

std::string flag_of(std::string_view option) {
  std::string flag = "--" + std::string(option);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

Command parse_command_line(int argc, char** argv) {
  Command command;
  const Words words =
      split_off_arguments(Words(argv + std::min(argc, 1), argv + argc), command.settings.arguments);

  CLI::App app;
  app.set_help_flag("");
  bool help = false, version = false, no_strict = false;
  app.add_flag("-h,--help", help);
  app.add_flag("--version", version);
  auto* code = app.add_option("-e", command.code);
  app.add_option("FILE", command.files);
  app.require_subcommand(0, 1);
  CLI::App* run = app.add_subcommand("run");
  run->add_option("FILE", command.files)->required();
  CLI::App* repl = app.add_subcommand("repl");
  CLI::App* list = app.add_subcommand("list");
  CLI::App* topic = app.add_subcommand("help");
  topic->add_option("TOPIC", command.topic);
  CLI::App* build = app.add_subcommand("version");
  CLI::App* plan = app.add_subcommand("plan", std::string(plan_options().doc));
  plan->set_help_flag("-h,--help", "This text");
  add_plan_flags(*plan, command.plan_flags);

  for (CLI::App* any : {&app, run, repl, list, topic, build, plan}) {
    any->add_flag("--json", command.settings.json, "Prints data as JSON, nothing else on stdout");
    any->add_flag("--no-strict", no_strict)->group("");  // for test frameworks with globals
  }

  try {
    app.parse(Words(words.rbegin(), words.rend()));  // CLI11 takes them from the back
  } catch (const CLI::CallForHelp&) {
    throw UsageError{plan->help("tessera"), kDone};
  } catch (const CLI::ParseError& error) {
    throw UsageError{describe(error, words, app)};
  }
  command.settings.strict = !no_strict;
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
  else if (*plan)
    command.verb = Verb::plan;
  else if (!command.files.empty())
    command.verb = Verb::run;
  if (command.verb == Verb::run) {
    command.settings.script = command.files.front();
    if (!*run) check_verb_word(command.files.front(), command.files);
  }
  return command;
}

}  // namespace tessera::app
