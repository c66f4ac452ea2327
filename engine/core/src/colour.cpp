#include "tessera/core/colour.h"

#include <fmt/format.h>

namespace tessera {
namespace {

thread_local bool colour_allowed = false;

// The terminal's own colours, which its theme keeps readable.
std::string_view code(Tone tone) {
  switch (tone) {
    case Tone::bold:
      return "1";
    case Tone::faint:
      return "2";
    case Tone::good:
      return "32";
    case Tone::warning:
      return "33";
    case Tone::bad:
      return "31";
  }
  return "0";
}

}  // namespace

ColourScope::ColourScope(bool colour) : before_(colour_allowed) { colour_allowed = colour; }

ColourScope::~ColourScope() { colour_allowed = before_; }

std::string paint(Tone tone, std::string_view text) {
  if (!colour_allowed || text.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", code(tone), text);
}

}  // namespace tessera
