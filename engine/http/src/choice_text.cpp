#include "choice_text.h"

#include <algorithm>
#include <utility>

namespace tessera::http {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

std::int64_t num_characters(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; });
}

ChoiceText::ChoiceText(const lm::Tokens& tokens, const std::vector<std::int32_t>& prompt,
                       std::vector<std::string> stops, bool has_entries)
    : tokens_(tokens),
      stream_(tokens, prompt),
      stops_(std::move(stops)),
      has_entries_(has_entries) {}

void ChoiceText::add(std::int32_t token, const lm::LogProbabilities* log_probabilities) {
  if (stopped_by_) return;
  ++num_tokens_;
  if (has_entries_ && log_probabilities != nullptr) {
    Entry entry{.text = tokens_.decode({&token, 1}),
                .log_probability = log_probabilities->chosen,
                .offset = chars_};
    for (const lm::TokenLogProbability& likely : log_probabilities->top)
      entry.top.emplace_back(tokens_.decode({&likely.token, 1}), likely.log_probability);
    entries_.push_back(std::move(entry));
    starts_.push_back(text_.size());
  }
  const std::size_t before = text_.size();
  const std::string piece = stream_.add(token);
  text_ += piece;
  chars_ += num_characters(piece);
  find_stop(before);
}

// The earliest match that the text from there on makes possible.
void ChoiceText::find_stop(std::size_t from) {
  std::size_t first = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t start = from - std::min(from, stop.size() - 1);
    const std::size_t at = text_.find(stop, start);
    if (at >= first) continue;
    first = at;
    stopped_by_ = stop;
  }
  if (first != std::string::npos) text_.resize(first);
}

// Bytes at the end that a text at which it stops may begin with.
std::size_t ChoiceText::held_back() const {
  if (has_ended_ || stopped_by_) return 0;
  std::size_t most = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t n = std::min(stop.size() - 1, text_.size()); n > most; --n) {
      if (text_.ends_with(std::string_view(stop).substr(0, n))) most = n;
    }
  }
  return most;
}

void ChoiceText::end() {
  if (std::exchange(has_ended_, true) || stopped_by_) return;
  std::string rest = stream_.finish();
  while (rest.ends_with(kReplacement)) rest.resize(rest.size() - kReplacement.size());
  const std::size_t before = text_.size();
  text_ += rest;
  find_stop(before);
}

ChoiceText::News ChoiceText::take() {
  News news;
  const std::size_t until = std::max(shown_, text_.size() - held_back());
  // A stop may have taken away what begins in the middle of what was shown: never, as that was held
  // back.
  news.text = text_.substr(shown_, until - shown_);
  shown_ = until;
  const bool is_over = has_ended_ || stopped_by_;
  std::size_t count = 0;
  while (count < entries_.size() && (starts_[count] < until || (is_over && !stopped_by_))) ++count;
  const auto end = entries_.begin() + static_cast<std::ptrdiff_t>(count);
  news.entries.assign(std::make_move_iterator(entries_.begin()), std::make_move_iterator(end));
  entries_.erase(entries_.begin(), end);
  starts_.erase(starts_.begin(), starts_.begin() + static_cast<std::ptrdiff_t>(count));
  return news;
}

}  // namespace tessera::http
