#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/lm/zero_shot.h"

// Readers of the files in which zero-shot tasks are published.
namespace tessera::lm {
namespace {

constexpr std::int64_t kMostChoices = 100;

struct Line {
  std::string_view text;
  std::string where;  ///< "file:3"
};

/// Without a line end at the end of the file; empty lines elsewhere are refused.
std::vector<Line> lines_of(std::string_view content, const std::string& path, std::int64_t limit) {
  std::vector<Line> lines;
  for (std::size_t at = 0; at < content.size();) {
    if (limit > 0 && static_cast<std::int64_t>(lines.size()) == limit) break;
    const std::size_t end = std::min(content.find('\n', at), content.size());
    std::string_view text = content.substr(at, end - at);
    if (text.ends_with('\r')) text.remove_suffix(1);
    Line& line = lines.emplace_back(Line{text, fmt::format("{}:{}", path, lines.size() + 1)});
    if (text.empty()) refuse(line.where, "the line is empty");
    at = end + 1;
  }
  if (lines.empty()) refuse(path, "holds no items");
  return lines;
}

std::string text_at(JsonFields& fields, const char* key) {
  std::string text = fields.text(key);
  if (text.empty()) refuse(fields.path_of(key), "is empty");
  return text;
}

std::string prompt_of(const std::string& question) {
  return fmt::format("Question: {}\nAnswer:", question);
}

struct Choices {
  std::vector<std::string> texts, labels;
};

/// [{"text", "label"}, ...]
Choices choices_of_list(const Json& list, const std::string& path) {
  check_array(list, path);
  Choices choices;
  for (const Json& choice : list) {
    JsonFields fields(choice, fmt::format("{}[{}]", path, choices.texts.size()));
    choices.texts.push_back(text_at(fields, "text"));
    choices.labels.push_back(text_at(fields, "label"));
  }
  return choices;
}

std::vector<std::string> texts_of(const Json& list, const std::string& path) {
  check_array(list, path);
  std::vector<std::string> texts;
  for (const Json& text : list) {
    const std::string where = fmt::format("{}[{}]", path, texts.size());
    texts.push_back(json_string(text, where));
    if (texts.back().empty()) refuse(where, "is empty");
  }
  return texts;
}

ZeroShotItem arc_item(JsonFields& fields) {
  ZeroShotItem item;
  Choices choices;
  const bool is_published = fields.at("question").is_object();
  if (is_published) {
    JsonFields question(fields.at("question"), fields.path_of("question"));
    item.context = prompt_of(text_at(question, "stem"));
    choices = choices_of_list(question.at("choices"), question.path_of("choices"));
  } else {
    item.context = prompt_of(text_at(fields, "question"));
    JsonFields own(fields.at("choices"), fields.path_of("choices"));
    choices = {texts_of(own.at("text"), own.path_of("text")),
               texts_of(own.at("label"), own.path_of("label"))};
  }
  const auto num_choices = static_cast<std::int64_t>(choices.texts.size());
  if (num_choices < 2 || num_choices > kMostChoices ||
      choices.labels.size() != choices.texts.size())
    refuse(fields.path_of("choices"), "{} texts and {} labels; 2 to {} of both belong there",
           choices.texts.size(), choices.labels.size(), kMostChoices);
  const std::string key = text_at(fields, "answerKey");
  const auto found = std::find(choices.labels.begin(), choices.labels.end(), key);
  if (found == choices.labels.end() || std::count(found, choices.labels.end(), key) > 1) {
    refuse(fields.path_of("answerKey"), "{} is not one of the labels '{}'", quote(key),
           fmt::join(choices.labels, "', '"));
  }
  item.answer = static_cast<std::size_t>(found - choices.labels.begin());
  for (const std::string& text : choices.texts) item.continuations.push_back(" " + text);
  return item;
}

/// The answer stays 0 where the line has no label.
ZeroShotItem piqa_item(JsonFields& fields) {
  ZeroShotItem item;
  item.context = prompt_of(text_at(fields, "goal"));
  for (const char* key : {"sol1", "sol2"}) item.continuations.push_back(" " + text_at(fields, key));
  if (fields.has("label")) item.answer = static_cast<std::size_t>(fields.integer("label", 0, 1));
  return item;
}

ZeroShotItem lambada_item(JsonFields& fields) {
  const std::string text = text_at(fields, "text");
  const std::size_t blank = text.rfind(' ');
  ZeroShotItem item;
  if (blank != std::string::npos) item.context = text.substr(0, blank);
  item.continuations = {" " + text.substr(blank == std::string::npos ? 0 : blank + 1)};
  if (item.continuations[0] == " ") refuse(fields.path_of("text"), "ends with a blank, not a word");
  return item;
}

/// Labels of PIQA beside NAME.jsonl, as published or under its name alone; "" where there are none.
std::string label_file_of(const std::string& path) {
  const std::filesystem::path stem = std::filesystem::path(path).replace_extension();
  for (const char* ending : {"-labels.lst", ".lst"}) {
    if (std::string other = stem.string() + ending; file_kind(other) != FileKind::none)
      return other;
  }
  return "";
}

void read_labels(const std::string& path, std::vector<ZeroShotItem>& items, bool is_limited) {
  const std::string content = read_file(path);
  const std::vector<Line> lines =
      lines_of(content, path, is_limited ? static_cast<std::int64_t>(items.size()) : 0);
  if (lines.size() != items.size())
    refuse(path, "holds {} labels for {} items", lines.size(), items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (lines[i].text != "0" && lines[i].text != "1")
      refuse(lines[i].where, "{} is no label; 0 or 1 belongs there", quote(lines[i].text));
    items[i].answer = lines[i].text == "1" ? 1 : 0;
  }
}

}  // namespace

std::vector<ZeroShotItem> read_zero_shot(ZeroShotTask task, const std::string& path,
                                         std::int64_t limit) {
  if (limit < 0) refuse(ErrorCode::out_of_range, "limit", "{} is negative", limit);
  const std::string content = read_file(path);
  std::vector<ZeroShotItem> items;
  std::size_t num_labels = 0;
  for (const Line& line : lines_of(content, path, limit)) {
    const Json json = parse_json(line.text, line.where);
    JsonFields fields(json, line.where);
    ZeroShotItem& item = items.emplace_back(task == ZeroShotTask::lambada ? lambada_item(fields)
                                            : task == ZeroShotTask::piqa  ? piqa_item(fields)
                                                                          : arc_item(fields));
    item.where = line.where;
    num_labels += task == ZeroShotTask::piqa && fields.has("label") ? 1 : 0;
  }
  if (task != ZeroShotTask::piqa || num_labels == items.size()) return items;
  const std::string labels = label_file_of(path);
  if (num_labels > 0 || labels.empty()) {
    refuse(path, "{} of {} items have a 'label', and {}", num_labels, items.size(),
           labels.empty() ? "no file of labels is beside it (NAME-labels.lst or NAME.lst)"
                          : fmt::format("{} has labels too", quote(labels, 200)));
  }
  read_labels(labels, items, limit > 0);
  return items;
}

}  // namespace tessera::lm
