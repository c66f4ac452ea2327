#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "tessera/core/files.h"
#include "tessera/serving/traffic_options.h"

namespace tessera::serving {
namespace {

/// A column and how a request stands in it.
struct Column {
  std::string_view name;
  bool optional;  ///< left out where no request says anything
  std::int64_t (*value)(const Request&);
  std::int64_t nothing;  ///< the value that says nothing
};

constexpr Column kColumns[] = {
    {"prompt_tokens", false, [](const Request& r) { return r.prompt_tokens; }, 0},
    {"output_tokens", false, [](const Request& r) { return r.output_tokens; }, 0},
    {"max_tokens", true, [](const Request& r) { return r.max_tokens; }, 0},
    {"priority", true, [](const Request& r) { return std::int64_t{r.priority}; }, 0},
    {"slo_class", true, [](const Request& r) { return std::int64_t{r.slo_class}; }, 0},
    {"prefix_group", true, [](const Request& r) { return r.prefix_group; }, -1},
    {"session", true, [](const Request& r) { return r.stream; }, -1},
    {"after", true, [](const Request& r) { return r.after; }, -1}};

/// Exact: "0.25" for 250000000000 ticks.
void write_seconds(std::string& text, Ticks ticks) {
  text += std::to_string(ticks / kTicksPerSecond);
  const std::string fraction = fmt::format("{:012}", ticks % kTicksPerSecond);
  const std::size_t last = fraction.find_last_not_of('0');
  if (last != std::string::npos) text.append(".").append(fraction, 0, last + 1);
}

/// A text as a field of RFC 4180.
void write_text(std::string& text, std::string_view field) {
  text += '"';
  for (const char c : field) text.append(c == '"' ? 2 : 1, c);
  text += '"';
}

std::vector<Column> columns_of(const Traffic& traffic) {
  std::vector<Column> used;
  for (const Column& column : kColumns) {
    bool said = !column.optional;
    for (std::size_t i = 0; i < traffic.requests.size() && !said; ++i) {
      said = column.value(traffic.requests[i]) != column.nothing;
    }
    if (!said) continue;
    used.push_back(column);
    if (column.name == "prefix_group") {
      used.push_back({"prefix_tokens", true, [](const Request& r) { return r.prefix_tokens; }, 0});
    }
  }
  return used;
}

}  // namespace

void write_trace(const Traffic& traffic, const std::string& path) {
  const std::vector<Column> columns = columns_of(traffic);
  const bool blocks = !traffic.block_ids.empty();
  std::string text = traffic.models.empty() ? "arrival_s" : "arrival_s,model";
  for (const Column& column : columns) text.append(",").append(column.name);
  const bool leave = std::any_of(traffic.requests.begin(), traffic.requests.end(),
                                 [](const Request& r) { return r.cancel_after != kNever; });
  if (leave) text += ",cancel_after_s";
  text += blocks ? ",block_id_tokens,block_ids\n" : "\n";
  for (const Request& r : traffic.requests) {
    write_seconds(text, r.arrival);
    if (!traffic.models.empty()) {
      text += ',';
      write_text(text, traffic.models[static_cast<std::size_t>(r.model)]);
    }
    for (const Column& column : columns) {
      text += ',';
      const std::int64_t value = column.value(r);
      if (!column.optional || value != column.nothing) {
        fmt::format_to(std::back_inserter(text), "{}", value);
      }
    }
    if (leave) text += ',';
    if (r.cancel_after != kNever) write_seconds(text, r.cancel_after);
    if (blocks) {
      text += fmt::format(",{},", traffic.block_id_tokens);
      for (std::int64_t i = 0; i < r.num_block_ids; ++i) {
        const auto at = static_cast<std::size_t>(r.first_block_id + i);
        fmt::format_to(std::back_inserter(text), "{}{}", i > 0 ? " " : "", traffic.block_ids[at]);
      }
    }
    text += '\n';
  }
  write_file(path, text);
}

}  // namespace tessera::serving
