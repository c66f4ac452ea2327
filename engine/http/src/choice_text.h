#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/lm/sampling.h"
#include "tessera/lm/text_stream.h"

namespace tessera::http {

/// The text of one answer as its tokens come: whole characters, and nothing that may still become a
/// text at which it stops.
class ChoiceText {
 public:
  /// A token and how likely it was.
  struct Entry {
    std::string text;
    std::optional<double> log_probability = {};  ///< absent: nothing came before it
    std::vector<std::pair<std::string, double>> top = {};
    std::int64_t offset = 0;  ///< characters of the answer before it
  };
  /// What there is to show since it was last asked.
  struct News {
    std::string text;
    std::vector<Entry> entries;
    bool empty() const { return text.empty() && entries.empty(); }
  };

  /// @param prompt what it follows. @param stops texts that end it and are no part of it
  ChoiceText(const lm::Tokens& tokens, const std::vector<std::int32_t>& prompt,
             std::vector<std::string> stops, bool has_entries);

  /// @param log_probabilities null: not wanted
  void add(std::int32_t token, const lm::LogProbabilities* log_probabilities);
  /// No token comes any more: what was held back is part of it. A character that the end cuts is
  /// not.
  void end();
  News take();

  std::int64_t num_tokens() const { return num_tokens_; }
  const std::optional<std::string>& stopped_by() const { return stopped_by_; }

 private:
  void find_stop(std::size_t from);
  std::size_t held_back() const;

  const lm::Tokens& tokens_;
  lm::TextStream stream_;
  std::vector<std::string> stops_;
  bool has_entries_;
  std::string text_ = {};                 ///< all of it
  std::size_t shown_ = 0;                 ///< bytes of it that were taken
  std::int64_t chars_ = 0;                ///< characters of text_
  std::vector<Entry> entries_ = {};       ///< that were not taken
  std::vector<std::size_t> starts_ = {};  ///< [entries_] bytes of text_ before each
  std::int64_t num_tokens_ = 0;
  bool has_ended_ = false;
  std::optional<std::string> stopped_by_ = {};
};

/// Characters of valid UTF-8.
std::int64_t num_characters(std::string_view text);

}  // namespace tessera::http
