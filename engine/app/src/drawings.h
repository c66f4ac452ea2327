#pragma once

#include <string>
#include <string_view>

namespace tessera::app {

/// `text` with one ASCII character for each character that only draws (lines, blocks, Braille dots,
/// marks), so that columns stay where they are; for terminals whose locale is not in UTF-8. Other
/// characters are text, and stay.
std::string ascii_drawings(std::string_view text);

}  // namespace tessera::app
