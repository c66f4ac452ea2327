#pragma once

#include <cstdio>
#include <string>
#include <string_view>

/// The one place where text meets a terminal. What is printed may come from a file of somebody
/// else, and control sequences in it could rename the window, fill the clipboard, or draw over what
/// was said; so a terminal gets control characters as '?'. Other streams get every byte as it is.
/// The lint sees to it that everything printed comes by here.
namespace tessera {

/// Control characters as '?', those of C1 too; line ends, tabs and returns stay. `previous` is the
/// byte before the text (0 at the start), and becomes the last one.
void disarm(std::string& text, unsigned char& previous);

/// The same for a whole text, where a return stays only before a line end.
std::string disarmed(std::string_view text);

/// The same, but for the styles that `paint` uses: colours, bold, faint.
std::string disarmed_but_styles(std::string_view text);

/// Writes `text`, disarmed where `stream` is a terminal; false where writing fails.
bool write_text(std::FILE* stream, std::string_view text);

/// The same for text that may be coloured.
bool write_styled(std::FILE* stream, std::string_view text);

/// Takes the line away that the cursor is in, for what is drawn again and again. Only for
/// terminals.
bool erase_line(std::FILE* stream);

}  // namespace tessera
