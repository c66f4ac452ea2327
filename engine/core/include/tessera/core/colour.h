#pragma once

#include <string>
#include <string_view>

namespace tessera {

enum class Tone { bold, faint, good, warning, bad };

/// Lets `paint` colour the text that this thread makes while it lives: whoever writes to a terminal
/// that shows colours opens one; without, `paint` changes nothing.
class ColourScope {
 public:
  explicit ColourScope(bool colour);
  ~ColourScope();
  ColourScope(const ColourScope&) = delete;
  ColourScope& operator=(const ColourScope&) = delete;

 private:
  bool before_;
};

/// `text` in ANSI colours where a ColourScope allows it. Pad first: escapes have no width on the
/// terminal, but they do in a format string.
std::string paint(Tone tone, std::string_view text);

}  // namespace tessera
