#include "request_head.h"

#include <fmt/format.h>

#include <algorithm>

#include "refusal.h"
#include "tessera/core/text.h"

namespace tessera::http {
namespace {

constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";  // that a token may have
constexpr std::size_t kMostFields = 100;
constexpr std::size_t kMostDigits = 18;  // of a length: it stays below 2^63

[[noreturn]] void malformed(const std::string& why) { throw Refusal(400, why); }

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_token(std::string_view text) {
  const auto belongs = [](char c) {
    return is_letter(c) || is_digit(c) || kMarks.find(c) != std::string_view::npos;
  };
  return !text.empty() && std::ranges::all_of(text, belongs);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// What comes before the line's end, which is taken away too.
std::string_view next_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos || end == 0 || text[end - 1] != '\r')
    malformed("a line of the head does not end in CR LF");
  const std::string_view line = text.substr(0, end - 1);
  text.remove_prefix(end + 1);
  for (const char c : line) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\t') || byte == 0x7f)
      malformed("the head has a control character in it");
  }
  return line;
}

void read_request_line(std::string_view line, RequestHead& head) {
  const std::size_t first = line.find(' '), second = line.find(' ', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos ||
      line.find(' ', second + 1) != std::string_view::npos) {
    malformed("the first line is not 'METHOD PATH HTTP/1.1'");
  }
  const std::string_view method = line.substr(0, first), version = line.substr(second + 1);
  const std::string_view target = line.substr(first + 1, second - first - 1);
  if (!is_token(method)) malformed("the method is no token");
  if (version != "HTTP/1.1" && version != "HTTP/1.0") malformed("the version is not HTTP/1.1");
  const auto is_graphic = [](char c) { return c > 0x20 && c < 0x7f; };
  if (target.empty() || target.front() != '/' || !std::ranges::all_of(target, is_graphic))
    malformed("the target is no path");
  head.method = method;
  head.path = target.substr(0, target.find('?'));
  head.is_1_1 = version == "HTTP/1.1";
}

void read_field(std::string_view line, RequestHead& head) {
  if (line.front() == ' ' || line.front() == '\t') malformed("a header field is folded");
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
    malformed("a line of the head is not 'Name: value'");
  if (head.fields.size() == kMostFields)
    throw Refusal(431, fmt::format("more than {} header fields", kMostFields));
  head.fields.emplace_back(lower(line.substr(0, colon)), trimmed(line.substr(colon + 1)));
}

// The one field of this name; null: there is none.
const std::string* only(const RequestHead& head, std::string_view name) {
  const auto is_it = [&](const auto& field) { return field.first == name; };
  if (std::ranges::count_if(head.fields, is_it) > 1)
    malformed(fmt::format("{} stands twice", name));
  return head.find(name);
}

void read_lengths(RequestHead& head) {
  const std::string* length = only(head, "content-length");
  const std::string* coding = only(head, "transfer-encoding");
  if (length != nullptr && coding != nullptr)
    malformed("content-length and transfer-encoding say two lengths");
  if (length != nullptr) {
    if (length->empty() || length->size() > kMostDigits || !std::ranges::all_of(*length, is_digit))
      malformed(fmt::format("content-length is {}, which is no length", quote(*length, 40)));
    head.content_length = std::stoull(*length);
  }
  if (coding == nullptr) return;
  if (lower(*coding) != "chunked" || !head.is_1_1)
    malformed(fmt::format("transfer-encoding is {}; chunked is understood", quote(*coding, 40)));
  head.is_chunked = true;
}

void read_connection(RequestHead& head) {
  head.keep_alive = head.is_1_1;
  for (const auto& [name, value] : head.fields) {
    if (name != "connection") continue;
    const std::string words = "," + lower(value) + ",";
    if (words.find("close") != std::string::npos) head.keep_alive = false;
    if (!head.is_1_1 && words.find("keep-alive") != std::string::npos) head.keep_alive = true;
  }
  if (const std::string* expect = only(head, "expect")) {
    if (lower(*expect) != "100-continue") throw Refusal(417, "expect: 100-continue is understood");
    head.expects_continue = head.is_1_1;
  }
}

}  // namespace

const std::string* RequestHead::find(std::string_view name) const {
  const auto found =
      std::ranges::find_if(fields, [&](const auto& field) { return field.first == name; });
  return found == fields.end() ? nullptr : &found->second;
}

RequestHead read_head(std::string_view text) {
  RequestHead head;
  read_request_line(next_line(text), head);
  while (true) {
    const std::string_view line = next_line(text);
    if (line.empty()) break;
    read_field(line, head);
  }
  if (!text.empty()) malformed("something follows the head");
  if (only(head, "host") == nullptr && head.is_1_1) malformed("there is no Host");
  read_lengths(head);
  read_connection(head);
  return head;
}

bool is_own_host(std::string_view host, std::string_view listens_on) {
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    if (end == std::string_view::npos) return false;
    const std::string_view rest = host.substr(end + 1);
    if (!rest.empty() && !rest.starts_with(':')) return false;
    host = host.substr(1, end - 1);
    return host == "::1" || host == listens_on;
  }
  host = host.substr(0, host.find(':'));
  const std::string name = lower(host);
  if (name == "localhost" || name == listens_on) return true;
  const auto is_of_address = [](char c) { return is_digit(c) || c == '.'; };
  return name.starts_with("127.") && std::ranges::all_of(name, is_of_address);
}

}  // namespace tessera::http
