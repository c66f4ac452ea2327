#pragma once

#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

/// For tests that start the program as somebody at a terminal does. They are compiled with its path
/// in TESSERA_PROGRAM.
namespace tessera::test {

struct Screen {
  std::string text;  ///< what came over the line, every byte
  int status = -1;   ///< exit status, or 128 + signal
};

struct TerminalSetup {
  std::vector<std::pair<std::string, std::string>> environment = {};
  unsigned short columns = 100;
  std::string directory = {};
  std::string question = {}, answer = {};  ///< types the answer once the screen shows the question
};

/// Runs the program on a terminal of its own, to its end.
inline Screen on_terminal(std::vector<std::string> arguments, const TerminalSetup& setup = {}) {
  winsize size{};
  size.ws_row = 40;
  size.ws_col = setup.columns;
  int terminal = -1;
  const pid_t pid = forkpty(&terminal, nullptr, nullptr, &size);
  if (pid == 0) {
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    for (const auto& [name, value] : setup.environment) setenv(name.c_str(), value.c_str(), 1);
    if (!setup.directory.empty() && chdir(setup.directory.c_str()) != 0) _exit(126);
    arguments.insert(arguments.begin(), "tessera");
    std::vector<char*> words;
    for (std::string& word : arguments) words.push_back(word.data());
    words.push_back(nullptr);
    execv(TESSERA_PROGRAM, words.data());
    _exit(127);
  }
  Screen screen;
  bool is_answered = setup.question.empty();
  char block[4096];
  for (ssize_t n; (n = ::read(terminal, block, sizeof block)) > 0;) {
    screen.text.append(block, static_cast<std::size_t>(n));
    if (is_answered || screen.text.find(setup.question) == std::string::npos) continue;
    is_answered = ::write(terminal, setup.answer.data(), setup.answer.size()) > 0;
  }
  close(terminal);
  int status = 0;
  waitpid(pid, &status, 0);
  screen.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return screen;
}

}  // namespace tessera::test
