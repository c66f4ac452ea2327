#include "repl.h"

#include <fmt/format.h>
#include <histedit.h>
#include <luajit.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <filesystem>
#include <iostream>

#include "completion.h"
#include "help.h"
#include "pretty.h"
#include "strict.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/output.h"
#include "tessera/core/terminal_text.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/module.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "version.h"

namespace tessera::app {
namespace fs = std::filesystem;
namespace {

using lua_kit::guarded;
namespace interrupt = lua_kit::interrupt;

enum class Input { line, interrupted, end };

std::string history_path() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  fs::path folder;
  if (state != nullptr && *state == '/') {
    folder = state;
  } else if (home != nullptr && *home != '\0') {
    folder = fs::path(home) / ".local" / "state";
  } else {
    return "";
  }
  std::error_code error;
  fs::create_directories(folder / "tessera", error);
  return error ? "" : (folder / "tessera" / "history").string();
}

/// Lines from a terminal, by libedit.
class LineEditor {
 public:
  explicit LineEditor(lua_State* L)
      : L_(L), history_(history_init()), edit_(el_init("tessera", stdin, stdout, stderr)) {
    HistEvent event;
    history(history_, &event, H_SETSIZE, 2000);
    history(history_, &event, H_SETUNIQUE, 1);
    path_ = history_path();
    if (!path_.empty()) history(history_, &event, H_LOAD, path_.c_str());
    el_set(edit_, EL_CLIENTDATA, this);
    el_set(edit_, EL_PROMPT, prompt);
    el_set(edit_, EL_EDITOR, "emacs");
    el_set(edit_, EL_HIST, history, history_);
    el_set(edit_, EL_GETCFN, read_character);
    // The wide form, because the narrow one copies these texts and never frees them.
    el_wset(edit_, EL_ADDFN, L"tessera-complete", L"Complete the word", complete_word);
    el_set(edit_, EL_BIND, "^I", "tessera-complete", nullptr);
    el_set(edit_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  }
  ~LineEditor() {
    history_end(history_);
    el_end(edit_);
  }
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  /// `code` is what the statement has so far; empty at its first line.
  Input read(const std::string& code, std::string& line) {
    code_ = code;
    int length = 0;
    // Before the prompt shows, or a Ctrl-D typed at once would be the tty's and not the editor's.
    el_set(edit_, EL_PREP_TERM, 1);
    const char* text = el_gets(edit_, &length);
    if (*interrupt::flag()) {
      write_text(stdout, "^C\n");
      return Input::interrupted;
    }
    if (text == nullptr || length <= 0) {
      write_text(stdout, "\n");
      return Input::end;
    }
    line.assign(text, static_cast<std::size_t>(length));
    if (!line.empty() && line.back() == '\n') line.pop_back();
    return Input::line;
  }

  void remember(const std::string& code) {
    HistEvent event;
    history(history_, &event, H_ENTER, code.c_str());
    // At every line, because a second Ctrl-C ends the program at once.
    if (!path_.empty()) save_history();
  }

 private:
  // Where it cannot be saved the lines before stay, and nobody is told: it is a comfort only.
  void save_history() {
    try {
      OutputFile file(path_, 0600);
      HistEvent event;
      // libedit does not say when writing failed: a line that names the format, and one per entry.
      const int num_entries = history(history_, &event, H_SAVE, file.scratch_path().c_str());
      const std::string text = read_file(file.scratch_path());
      if (num_entries + 1 == std::count(text.begin(), text.end(), '\n')) file.commit();
    } catch (const Error&) {
    }
  }

  static LineEditor& of(EditLine* edit) {
    void* self = nullptr;
    el_get(edit, EL_CLIENTDATA, &self);
    return *static_cast<LineEditor*>(self);
  }

  static char* prompt(EditLine* edit) {
    static char first[] = "tessera> ", next[] = "      .. ";
    return of(edit).code_.empty() ? first : next;
  }

  // Whether there is input, rather than a Ctrl-C. The signal is let in only while waiting, so one
  // that comes just before cannot be missed.
  static bool wait_for_input() {
    sigset_t sigint, before;
    sigemptyset(&sigint);
    sigaddset(&sigint, SIGINT);
    pthread_sigmask(SIG_BLOCK, &sigint, &before);
    pollfd file{STDIN_FILENO, POLLIN, 0};
    int ready = -1;
    while (ready < 0 && !*interrupt::flag()) {
      ready = ::ppoll(&file, 1, nullptr, &before);
      if (ready < 0 && errno != EINTR) break;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return ready > 0;
  }

  // libedit's own reader repeats a read that a signal broke off; Ctrl-C has to end the line.
  static int read_character(EditLine*, wchar_t* character) {
    std::mbstate_t state{};
    for (;;) {
      char byte;
      if (!wait_for_input()) return -1;
      const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return static_cast<int>(n);
      const std::size_t used = std::mbrtowc(character, &byte, 1, &state);
      if (used == static_cast<std::size_t>(-2)) continue;  // more bytes of the same character
      if (used == static_cast<std::size_t>(-1)) *character = L'?';
      return 1;
    }
  }

  static unsigned char complete_word(EditLine* edit, int) {
    const LineInfo* info = el_line(edit);
    const std::string_view before(info->buffer,
                                  static_cast<std::size_t>(info->cursor - info->buffer));
    // Nothing to complete: an indent, typed or pasted.
    if (before.find_first_not_of(" \t") == std::string_view::npos) {
      return el_insertstr(edit, "  ") == 0 ? CC_REFRESH : CC_ERROR;
    }
    const std::string& code = of(edit).code_;
    const Completion found = complete(of(edit).L_, before, code.empty() ? "" : code + "\n");
    if (found.words.empty()) return CC_ERROR;
    const std::string common = common_prefix(found.words);
    if (common.size() > found.word_length) {
      return el_insertstr(edit, common.c_str() + found.word_length) == 0 ? CC_REFRESH : CC_ERROR;
    }
    if (found.words.size() == 1) return CC_ERROR;
    std::string list = "\n";
    std::size_t column = 0;
    for (const std::string& word : found.words) {
      if (column + word.size() + 2 > 100) {
        list += '\n';
        column = 0;
      }
      list += word + "  ";
      column += word.size() + 2;
    }
    write_text(stdout, list + "\n");
    return CC_REDISPLAY;
  }

  lua_State* L_;
  History* history_;
  EditLine* edit_;
  std::string path_;
  std::string code_;
};

Input read_piped(std::string& line) {
  if (std::getline(std::cin, line)) return Input::line;
  return *interrupt::flag() ? Input::interrupted : Input::end;
}

enum class Parsed { complete, incomplete, wrong };

// Whether the syntax error on top says that more lines are needed.
bool ends_too_early(lua_State* L) {
  return lua_kit::check_text(L, -1, "message").ends_with("near '<eof>'");
}

// Pushes the code as a function that returns the value of an expression, or runs statements; on a
// syntax error pushes the message.
Parsed parse(lua_State* L, std::string code) {
  const std::size_t first = code.find_first_not_of(" \t\n");
  if (first != std::string::npos && code[first] == '=') code.erase(0, first + 1);
  const std::string expression = "return " + code;
  if (luaL_loadbufferx(L, expression.data(), expression.size(), kPromptChunk, "t") == 0) {
    return Parsed::complete;
  }
  if (ends_too_early(L)) return Parsed::incomplete;
  lua_pop(L, 1);
  if (luaL_loadbufferx(L, code.data(), code.size(), kPromptChunk, "t") == 0) {
    return Parsed::complete;
  }
  return ends_too_early(L) ? Parsed::incomplete : Parsed::wrong;
}

bool evaluate(Host& host, bool timed) {
  lua_State* L = host.state();
  // A compiled loop that calls nothing looks at no hook, so Ctrl-C could only end the program.
  // What is typed at a prompt, and the functions defined in it, is interpreted instead.
  luaJIT_setmode(L, -1, LUAJIT_MODE_ALLFUNC | LUAJIT_MODE_OFF);
  const auto start = std::chrono::steady_clock::now();
  host.watchdog().set_policy(interrupt::Policy::second_signal);
  const bool done = host.call(0, LUA_MULTRET) == kDone;
  if (done) {
    const int num_results = lua_gettop(L);
    for (int i = 1; i <= num_results; ++i) {
      write_text(stdout, pretty(L, i) + "\n");
    }
  }
  if (timed) {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    write_text(stdout, fmt::format("{:.6g} s", taken.count()) + "\n");
  }
  host.watchdog().set_policy(interrupt::Policy::never);
  interrupt::reset(L);
  lua_settop(L, 0);
  return done;
}

// Prints what require("tessera.cli.prompt").method_help says of the value at 1; false where it is
// none of a method.
bool help_on_method(lua_State* L) {
  const lua_kit::StackGuard guard(L);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "tessera.cli.prompt");
  if (lua_kit::protected_call(L, 1, 1) != 0) return false;
  lua_kit::push_field(L, -1, "method_help", "tessera.cli.prompt");
  lua_pushvalue(L, 1);
  if (lua_kit::protected_call(L, 1, 1) != 0 || lua_type(L, -1) != LUA_TSTRING) return false;
  write_text(stdout, lua_kit::check_text(L, -1, "help"));
  return true;
}

// The name of a function of the library, as "ts.plan", or "".
std::string name_of_function(lua_State* L, int index) {
  const lua_kit::StackGuard guard(L);
  lua_kit::push_field(L, LUA_GLOBALSINDEX, "ts", "globals");
  if (!lua_istable(L, -1)) return "";
  std::string name;
  lua_kit::for_each_pair(L, -1, "ts", [&] {
    if (lua_type(L, -2) == LUA_TSTRING && lua_rawequal(L, -1, index)) {
      name = "ts." + lua_kit::check_text(L, -2, "name");
    }
  });
  return name;
}

int show_help(lua_State* L) {
  lua_settop(L, 1);
  Host& host = Host::of(L);
  std::string topic;
  if (lua_isnil(L, 1)) {
    write_text(stdout, help_overview(host));
    return 0;
  }
  if (lua_type(L, 1) == LUA_TSTRING) {
    topic = lua_kit::check_text(L, 1, "help");
  } else if (luaL_getmetafield(L, 1, "__metatable") && lua_type(L, -1) == LUA_TSTRING) {
    topic = lua_kit::check_text(L, -1, "help");
  } else {
    topic = name_of_function(L, 1);
  }
  const auto text = topic.empty() ? std::nullopt : help_topic(host, topic);
  if (text.has_value()) {
    write_text(stdout, *text);
  } else if (help_on_method(L)) {
    return 0;
  } else if (topic.empty()) {
    write_text(stdout, "no help on " + lua_kit::describe_value(L, 1) + "\n");
  } else {
    write_text(stdout, "no help on '" + topic + "'" + nearest_topics(host, topic) + "\n");
  }
  return 0;
}

void open_prompt_globals(Host& host) {
  lua_State* L = host.state();
  lua_pushvalue(L, LUA_GLOBALSINDEX);
  lua_pushliteral(L, "help");
  lua_pushcfunction(L, guarded<show_help>);
  lua_rawset(L, -3);
  lua_settop(L, 0);
  host.open_ts();
  lua_getglobal(L, "require");
  lua_pushliteral(L, "tessera.cli.prompt");
  if (host.call(1, 1) == kDone) {
    for (const char* name : {"describe", "reload", "time"}) {
      lua_kit::push_text(L, name);
      lua_kit::push_field(L, -2, name, "tessera.cli.prompt");
      lua_rawset(L, LUA_GLOBALSINDEX);
    }
  }
  lua_settop(L, 0);
}

std::string trimmed(const std::string& line) {
  const std::size_t first = line.find_first_not_of(" \t;");
  if (first == std::string::npos) return "";
  return line.substr(first, line.find_last_not_of(" \t;") - first + 1);
}

bool ends_session(const std::string& line) {
  const std::string word = trimmed(line);
  return word == "exit" || word == "quit" || word == "exit()" || word == "quit()";
}

// `help` alone, and `help ts.plan` or `help plan` without parentheses; false for any other line.
bool ask_help(Host& host, const std::string& line) {
  const std::string text = trimmed(line);
  if (text == "help") {
    write_text(stdout, help_overview(host));
    return true;
  }
  if (!text.starts_with("help ")) return false;
  const std::string topic = trimmed(text.substr(5));
  if (topic.find_first_of("\"'([{=") != std::string::npos) return false;
  const auto known = help_topic(host, topic);
  write_text(stdout,
             known.value_or("no help on '" + topic + "'" + nearest_topics(host, topic) + "\n"));
  return true;
}

// Adds one line to the code so far; runs it when complete. False where that fails.
bool take_line(Host& host, LineEditor* terminal, std::string& code, const std::string& line) {
  static bool timed = false;
  lua_State* L = host.state();
  if (code.empty() && line == ":time") {
    timed = !timed;
    write_text(stdout, timed ? "prints the time of every line\n" : "prints no times\n");
    return true;
  }
  if (code.empty() && ask_help(host, line)) {
    if (terminal != nullptr) terminal->remember(line);
    return true;
  }
  if (!code.empty()) code += '\n';
  code += line;
  if (code.find_first_not_of(" \t\n") == std::string::npos) {
    code.clear();
    return true;
  }
  const Parsed parsed = parse(L, code);
  if (parsed == Parsed::incomplete) {
    lua_settop(L, 0);
    return true;
  }
  if (terminal != nullptr) terminal->remember(code);
  code.clear();
  if (parsed == Parsed::complete) return evaluate(host, timed);
  write_text(stderr, "tessera: " + lua_kit::check_text(L, -1, "message") + "\n");
  lua_settop(L, 0);
  return false;
}

}  // namespace

ExitStatus run_repl(Host& host) {
  std::setlocale(LC_CTYPE, "");
  open_prompt_globals(host);
  host.watchdog().set_policy(interrupt::Policy::never);
  std::unique_ptr<LineEditor> terminal;
  if (::isatty(STDIN_FILENO) && ::isatty(STDOUT_FILENO)) {
    terminal = std::make_unique<LineEditor>(host.state());
    write_text(stdout,
               fmt::format("tessera {}; help and describe(value) explain, exit or Ctrl-D ends\n",
                           version_fields()[0].second));
  }
  std::string code, line;
  bool all_done = true;
  for (;;) {
    std::fflush(stdout);
    const Input input = terminal != nullptr ? terminal->read(code, line) : read_piped(line);
    if (input == Input::end) break;
    if (input == Input::interrupted) {
      if (terminal == nullptr) return kInterrupted;
      interrupt::reset(host.state());
      code.clear();
      continue;
    }
    if (code.empty() && ends_session(line)) break;
    all_done = take_line(host, terminal.get(), code, line) && all_done;
  }
  // Whoever types has seen what failed; a program that pipes lines in looks at the status.
  if (code.empty()) return terminal != nullptr || all_done ? kDone : kFailed;
  write_text(stderr, "tessera: the input ends in the middle of a statement\n");
  return kFailed;
}

}  // namespace tessera::app
