#pragma once

#include <cstdio>
#include <string>
#include <string_view>

/// The one place where text meets a terminal. What is printed may come from a file of somebody
/// else, and control sequences in it could rename the window, fill the clipboard, or draw over what
/// was said; so a terminal gets control characters as '?'. Other streams get every byte as it is.
/// The lint sees to it that everything printed comes by here.
namespace tessera {

/// `printable`, but for the styles that `paint` uses: colours, bold, faint.
std::string printable_with_styles(std::string_view text);

/// For a text that comes in pieces: control characters as '?', those of C1 too; line ends, tabs and
/// returns stay. `previous` is the byte before the piece (0 at the start), and becomes the last
/// one.
void disarm(std::string& text, unsigned char& previous);

/// Writes `text`, what is printable of it where `stream` is a terminal; false where writing fails.
bool write_text(std::FILE* stream, std::string_view text);

/// The same for text that may be coloured.
bool write_styled(std::FILE* stream, std::string_view text);

/// Takes the line away that the cursor is in, for what is drawn again and again. Only for
/// terminals.
bool erase_line(std::FILE* stream);

}  // namespace tessera
