#include "terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace tessera::app {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view{} : std::string_view{value};
}

}  // namespace

Terminal terminal_facts(int fd) {
  Terminal facts;
  facts.is_terminal = ::isatty(fd) == 1;
  winsize size{};
  if (facts.is_terminal && ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    facts.limit = facts.columns = size.ws_col;
  } else if (const int columns = std::atoi(std::string(variable("COLUMNS")).c_str());
             columns > 0 && columns < 10'000) {
    facts.limit = facts.columns = columns;
  }
  facts.redraws = facts.is_terminal && variable("TERM") != "dumb";
  // https://no-color.org: any value but the empty one counts.
  facts.colour = facts.redraws && variable("NO_COLOR").empty();
  return facts;
}

}  // namespace tessera::app
