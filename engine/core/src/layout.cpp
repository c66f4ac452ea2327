#include "tessera/core/layout.h"

#include <algorithm>

namespace tessera {
namespace {

thread_local std::size_t columns_allowed = 0;

/// Length of the escape sequence that `text` begins with; 0 where it begins with none.
std::size_t escape_length(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const std::size_t end = text.find_first_not_of("0123456789;", 2);
  return end == std::string_view::npos ? text.size() : end + 1;
}

/// One line without its end.
std::string wrapped_line(std::string_view line, std::size_t columns) {
  const std::size_t start = line.find_first_not_of(' ');
  if (start == std::string_view::npos || shown_width(line) <= columns) return std::string(line);
  const std::string margin(start + 4, ' ');
  std::string text(line.substr(0, start));
  std::size_t used = start;
  bool first = true;
  while (!line.empty()) {
    const std::size_t gap = line.find_first_not_of(' ');
    if (gap == std::string_view::npos) break;
    const std::size_t end = std::min(line.find(' ', gap), line.size());
    const std::string_view word = line.substr(gap, end - gap);
    const std::size_t width = shown_width(word);
    if (first) {
      text += word;
      used += width;
    } else if (used + gap + width > columns) {
      text += '\n' + margin;
      text += word;
      used = margin.size() + width;
    } else {
      text.append(gap, ' ').append(word);
      used += gap + width;
    }
    first = false;
    line.remove_prefix(end);
  }
  return text;
}

}  // namespace

WidthScope::WidthScope(std::size_t columns) : before_(columns_allowed) {
  columns_allowed = columns;
}

WidthScope::~WidthScope() { columns_allowed = before_; }

std::size_t text_columns() { return columns_allowed; }

std::size_t shown_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t escape = escape_length(text.substr(i));
    if (escape == 0 && (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) ++width;
    i += std::max<std::size_t>(escape, 1);
  }
  return width;
}

std::string paragraph(std::string_view text, std::size_t indent, std::size_t columns) {
  std::string result, line;
  const std::string margin(indent, ' ');
  const auto flush = [&] {
    if (!line.empty()) result += margin + line + "\n";
    line.clear();
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (!line.empty() && indent + shown_width(line) + 1 + shown_width(word) > columns) flush();
    if (!line.empty()) line += ' ';
    line += word;
    text = end == text.size() ? std::string_view() : text.substr(end + 1);
  }
  flush();
  return result;
}

std::string entry(std::string_view name, std::string_view text, std::size_t indent,
                  std::size_t columns) {
  constexpr std::size_t kBefore = 2, kBetween = 2;
  std::string said = paragraph(text, indent, columns);
  if (said.empty() || kBefore + name.size() + kBetween > indent) {
    return std::string(kBefore, ' ').append(name) + "\n" + said;
  }
  return said.replace(kBefore, name.size(), name);
}

std::string wrapped(std::string_view text, std::size_t columns) {
  if (columns == 0) return std::string(text);
  std::string result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    result += wrapped_line(text.substr(0, end), columns);
    if (end < text.size()) result += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

}  // namespace tessera
