/// The program `tessera`: parses the command line and hands over to one verb.

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <new>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "command_line.h"
#include "help.h"
#include "host.h"
#include "list.h"
#include "lua_verb.h"
#include "repl.h"
#include "sandbox/sandbox.h"
#include "terminal.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/json.h"
#include "tessera/core/layout.h"
#include "tessera/core/terminal_text.h"
#include "tessera/core/text.h"
#include "tessera/kernels/info.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/nesting.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "version.h"
#include "worker.h"

namespace tessera::app {
namespace {

// Where stdout or stderr is closed, the next file that is opened would take its place and receive
// what is printed; this makes printing fail instead.
void hold_standard_streams() {
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) < 0) ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), fd);
  }
}

void print_text(const std::string& text) { write_styled(stdout, text); }

// While it lives, what is written to stdout goes to stderr.
class StdoutToStderr {
 public:
  StdoutToStderr() : stdout_(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)) {
    std::fflush(stdout);
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
  }
  ~StdoutToStderr() {
    std::fflush(stdout);
    ::dup2(stdout_, STDOUT_FILENO);
    ::close(stdout_);
  }
  StdoutToStderr(const StdoutToStderr&) = delete;
  StdoutToStderr& operator=(const StdoutToStderr&) = delete;

 private:
  int stdout_;
};

// Fields of an experiment that the script declares: num_points, or error. Only scripts that speak
// of ts.experiment are loaded, since others run.
Json describe_experiment(Host& host, Listed& entry) {
  Json fields = Json::object();
  try {
    if (read_file(entry.path, 16u << 20).find("ts.experiment") == std::string::npos) return fields;
  } catch (const Error&) {
    return fields;  // its doc says why
  }
  const StdoutToStderr quiet;  // a script may talk while it loads, and the list is data
  lua_State* L = host.state();
  const lua_kit::StackGuard guard(L);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "tessera.desk.experiment.describe");
  if (host.call(1, 1) != kDone) return fields;
  lua_kit::push_field(L, -1, "of", "tessera.desk.experiment.describe");
  lua_kit::push_text(L, entry.path);
  if (host.call(1, 1) != kDone || lua_isnil(L, -1)) return fields;
  fields = lua_kit::json_from_lua(L, -1, "experiment");
  if (const auto doc = fields.find("doc"); doc != fields.end() && doc->is_string() && *doc != "") {
    entry.doc = doc->get<std::string>();
  }
  fields.erase("doc");
  return fields;
}

// Characters in a line of stdout; `otherwise` where that is not known.
std::size_t columns_or(std::size_t otherwise) {
  const Terminal facts = terminal_facts(STDOUT_FILENO);
  return facts.knows_columns ? static_cast<std::size_t>(facts.columns) : otherwise;
}

std::string list_line(const Listed& entry, const Json& experiment) {
  std::string text = fmt::format("{:<36}", entry.name);
  // A script may pass something of its own for an experiment.
  if (const auto points = experiment.find("num_points");
      points != experiment.end() && points->is_number_integer()) {
    const auto num_points = points->get<std::int64_t>();
    text += fmt::format("  [{} point{}]", num_points, num_points == 1 ? "" : "s");
  }
  if (!entry.doc.empty()) text += "  " + entry.doc;
  if (const auto error = experiment.find("error");
      error != experiment.end() && error->is_string()) {
    text += "\n    does not load: " + error->get<std::string>();
  }
  return text + "\n";
}

ExitStatus print_list(const Command& command) {
  Host host(command.settings);
  std::vector<Listed> found = list_experiments(host.installation().experiments_dir);
  for (const std::string& folder : user_folders()) {
    for (Listed& entry : list_scripts(folder, true)) found.push_back(std::move(entry));
  }
  Json rows = Json::array();
  for (Listed& entry : found) {
    const Json experiment = describe_experiment(host, entry);
    rows.push_back({{"name", entry.name}, {"path", entry.path}, {"doc", entry.doc}});
    rows.back().update(experiment);
    if (!command.settings.json) print_text(wrapped(list_line(entry, experiment), columns_or(0)));
  }
  if (command.settings.json) {
    print_text(shown_json(rows, 2) + "\n");
  } else if (found.empty()) {
    print_text("no experiments found\n");
  } else {
    print_text(wrapped(
        fmt::format("\nThose that ship lie in {}. `tessera examples NAME` copies one, to be "
                    "changed; `tessera run NAME --set theta=10 --as mine` changes one "
                    "assumption.\n",
                    host.installation().experiments_dir),
        columns_or(0)));
  }
  return flush_stdout(kDone);
}

ExitStatus print_help(const Command& command) {
  Host host(command.settings);
  const std::optional<std::string> text =
      command.topic.empty() ? help_overview(host) : help_topic(host, command.topic);
  if (!text.has_value()) {
    throw UsageError{
        fmt::format("no help on {}{}", quote(command.topic), nearest_topics(host, command.topic))};
  }
  if (command.settings.json) {
    const Json fields = {{"topic", command.topic}, {"text", *text}};
    print_text(shown_json(fields, 2) + "\n");
  } else {
    print_text(*text);
  }
  return flush_stdout(kDone);
}

ExitStatus print_version(const Command& command) {
  const bool json = command.settings.json;
  if (command.kernels) {
    print_text(json ? json_text(kernels_json(), 2) + "\n" : kernels_text());
  } else if (json) {
    Json fields;
    for (const auto& [name, value] : version_fields()) fields[name] = value;
    print_text(json_text(fields, 2) + "\n");
  } else {
    print_text(version_text());
  }
  return flush_stdout(kDone);
}

ExitStatus run(const Command& command) {
  switch (command.verb) {
    case Verb::run: {
      const auto sandboxed = command.flags.find("sandbox");
      if (sandboxed != command.flags.end() && sandboxed->second.back() == "true") {
        return run_sandboxed(command);
      }
      Host host(command.settings);
      return host.finish(run_files(host, command));
    }
    case Verb::code: {
      Host host(command.settings);
      return host.finish(host.run_code(command.code));
    }
    case Verb::repl: {
      Host host(command.settings);
      return host.finish(run_repl(host));
    }
    case Verb::lua: {
      Host host(command.settings);
      return host.finish(run_lua_verb(host, *command.lua_verb, command));
    }
    case Verb::list:
      return print_list(command);
    case Verb::help:
      return print_help(command);
    case Verb::version:
      return print_version(command);
    case Verb::usage:
      write_text(stderr, usage_text());
      return kUsage;
  }
  return kUsage;
}

/// What went wrong as data, for who asked for --json; before the command line was understood, too.
void print_error_json(int argc, char** argv, const lua_kit::ErrorReport& report) {
  const bool json = std::any_of(argv + 1, argv + argc, [](const char* argument) {
    return std::string_view(argument) == "--json";
  });
  if (!json) return;
  print_text(shown_json(error_json(report), 2) + "\n");
  flush_stdout(kFailed);
}

// Else the fastest kernels would be taken for those that were asked for.
void check_isa() {
  const char* unknown = kernels::unknown_isa();
  if (unknown == nullptr) return;
  std::set<std::string> names;
  for (const kernels::KernelInfo& kernel : kernels::cpu_kernels()) {
    if (kernel.runs_here) names.insert(kernel.isa);
  }
  throw UsageError{fmt::format("TESSERA_KERNELS_ISA: {} is none of {}, which run here",
                               quote(unknown), fmt::join(names, ", "))};
}

int run_main(int argc, char** argv) {
  try {
    if (is_worker(argc, argv)) return run_worker(argv[1]);
    check_isa();
    return run(parse_command_line(argc, argv));
  } catch (const UsageError& usage) {
    if (usage.status == kDone) {
      print_text(wrapped(usage.message, columns_or(kHelpColumns)));
      return flush_stdout(kDone);
    }
    const std::string text = fmt::format("tessera: {}\nTry 'tessera help'.\n", usage.message);
    write_text(stderr, wrapped(text, terminal_facts(STDERR_FILENO).width()));
    print_error_json(argc, argv, {"usage", usage.message});
    return usage.status;
  } catch (const Error& error) {
    const lua_kit::ErrorReport report{std::string(name_of(error.code())), error.message(),
                                      error.where()};
    print_error(report);
    print_error_json(argc, argv, report);
  } catch (const std::bad_alloc&) {
    print_out_of_memory();
  } catch (const std::exception& error) {
    write_text(stderr, fmt::format("tessera: {}\n", error.what()));
  }
  return kFailed;
}

}  // namespace
}  // namespace tessera::app

int main(int argc, char** argv) {
  tessera::lua_kit::raise_stack_limit();
  tessera::app::hold_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond the limit is an error of write(), with a message
  return tessera::app::run_main(argc, argv);
}
