#include "terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <string>
#include <string_view>

namespace tessera::app {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view{} : std::string_view{value};
}

// Whether the locale's characters are UTF-8. Where no variable names one, what most systems have.
bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string value(variable(name));
    if (value.empty()) continue;
    for (char& c : value) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return true;
}

}  // namespace

Terminal terminal_facts(int fd) {
  Terminal facts;
  facts.is_terminal = ::isatty(fd) == 1;
  winsize size{};
  if (facts.is_terminal && ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    facts.columns = size.ws_col;
    facts.knows_columns = true;
  } else if (const int columns = std::atoi(std::string(variable("COLUMNS")).c_str());
             columns > 0 && columns < 10'000) {
    facts.columns = columns;
    facts.knows_columns = true;
  }
  facts.redraws = facts.is_terminal && variable("TERM") != "dumb";
  facts.utf8 = locale_is_utf8();
  // https://no-color.org: any value but the empty one counts.
  facts.colour = facts.redraws && variable("NO_COLOR").empty();
  return facts;
}

}  // namespace tessera::app
