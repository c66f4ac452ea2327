#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera {

/// Tells the text that this thread makes while it lives how wide it may be: whoever writes to a
/// terminal opens one. Without, text is as wide as it likes, for files and pipes.
class WidthScope {
 public:
  /// @param columns 0: as wide as it likes
  explicit WidthScope(std::size_t columns);
  ~WidthScope();
  WidthScope(const WidthScope&) = delete;
  WidthScope& operator=(const WidthScope&) = delete;

 private:
  std::size_t before_;
};

/// Of the innermost WidthScope; 0 where there is none.
std::size_t text_columns();

/// `text` with every line that is longer than `columns` characters broken at spaces; what follows
/// is indented by four more than the line. Words that are longer stay whole; styles of `paint` have
/// no width. 0 columns: as it is.
std::string wrapped(std::string_view text, std::size_t columns);

/// How wide help is, wherever it is read.
constexpr std::size_t kHelpColumns = 80;

/// The words of `text` in lines of at most `columns` characters, each behind `indent` blanks and
/// ended. Words that are longer stay whole.
std::string paragraph(std::string_view text, std::size_t indent, std::size_t columns);

/// A name behind two blanks, and beside it, from the column `indent` on, what is said of it, as
/// paragraph() has it; below it where the name leaves no two blanks between them.
std::string entry(std::string_view name, std::string_view text, std::size_t indent,
                  std::size_t columns);

/// Characters on the screen: bytes that continue one of UTF-8, and styles of `paint`, have no
/// width.
std::size_t shown_width(std::string_view text);

}  // namespace tessera
