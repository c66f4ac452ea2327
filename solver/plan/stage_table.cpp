#include "stage_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tessera/core/colour.h"
#include "tessera/core/layout.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"

namespace tessera::solver {
namespace {

constexpr std::size_t kFolded = 3;  ///< neighbours that look the same, from which on they fold
constexpr std::size_t kLongestBar = 20, kShortestBar = 4;

/// How much a table says in a cell, widest first.
enum class Words { all, short_bitwidths, short_memory };

/// "16 x 8-bit, 4 x 4-bit", highest first; short "16x8 4x4".
std::string bitwidth_counts(const PlanStage& stage, Words words) {
  std::map<std::int32_t, int, std::greater<>> counts;
  for (std::int32_t bit : stage.bitwidths) ++counts[bit];
  std::vector<std::string> parts;
  for (const auto& [bit, count] : counts) {
    parts.push_back(words == Words::all ? fmt::format("{} x {}-bit", count, bit)
                                        : fmt::format("{}x{}", count, bit));
  }
  return parts.empty() ? "-" : join(parts, words == Words::all ? ", " : " ");
}

std::string memory_words(const StageMemory& memory, Words words) {
  const std::string share = fmt::format("{:.0f} %", 100 * used_ratio(memory));
  if (words == Words::short_memory) return share;
  return fmt::format("{} of {} ({})", format_bytes(memory.total_bytes),
                     format_bytes(memory.capacity_bytes), share);
}

std::string memory_bar(const StageMemory& memory, std::size_t width) {
  const double share = used_ratio(memory);
  const auto cells = static_cast<double>(width);
  const auto filled = static_cast<std::size_t>(std::clamp(share * cells + 0.5, 0.0, cells));
  std::string used, left;
  for (std::size_t i = 0; i < width; ++i) {
    (i < filled ? used : left) += i < filled ? "█" : "░";
  }
  const Tone tone = share > 0.97 ? Tone::bad : share > 0.85 ? Tone::warning : Tone::good;
  return paint(tone, used) + paint(Tone::faint, left);
}

/// A line of the table: one stage, or several that look the same.
struct Line {
  std::string stage, device, layers, bitwidths, prefill, decode, memory;
  const StageMemory* bar = nullptr;
};

std::string layer_range(const PlanStage& first, const PlanStage& last, bool many) {
  if (first.num_layers == 0) return "none";
  const std::string range =
      fmt::format("{}-{}", first.first_layer, last.first_layer + last.num_layers - 1);
  return many ? fmt::format("{}, {} each", range, first.num_layers) : range;
}

bool look_the_same(const PlanStage& a, const PlanStage& b) {
  return a.device == b.device && a.num_layers == b.num_layers && !a.offload && !b.offload &&
         !a.attention && !b.attention &&
         bitwidth_counts(a, Words::all) == bitwidth_counts(b, Words::all) &&
         format_seconds(a.prefill_s) == format_seconds(b.prefill_s) &&
         format_seconds(a.decode_s) == format_seconds(b.decode_s) &&
         memory_words(a.memory, Words::all) == memory_words(b.memory, Words::all);
}

std::vector<Line> lines_of(const std::vector<PlanStage>& stages, Words words) {
  std::vector<Line> lines;
  for (std::size_t k = 0; k < stages.size();) {
    std::size_t end = k + 1;
    while (end < stages.size() && look_the_same(stages[k], stages[end])) ++end;
    if (end - k < kFolded) end = k + 1;
    const PlanStage& stage = stages[k];
    const bool many = end - k > 1;
    lines.push_back({many ? fmt::format("{}-{}", k, end - 1) : std::to_string(k),
                     many ? fmt::format("{} x {}", end - k, stage.device) : stage.device,
                     layer_range(stage, stages[end - 1], many), bitwidth_counts(stage, words),
                     format_seconds(stage.prefill_s), format_seconds(stage.decode_s),
                     memory_words(stage.memory, words), &stage.memory});
    k = end;
  }
  return lines;
}

struct Widths {
  std::size_t stage = 5, device = 6, layers = 7, bitwidths = 9, time = 9, memory = 0;

  /// Without a bar.
  std::size_t all() const {
    return 2 + stage + 2 + device + 2 + layers + 2 + bitwidths + 2 * (2 + time) + 2 + memory;
  }
};

Widths widths_of(const std::vector<Line>& lines) {
  Widths w;
  for (const Line& line : lines) {
    w.stage = std::max(w.stage, line.stage.size());
    w.device = std::max(w.device, line.device.size());
    w.layers = std::max(w.layers, line.layers.size());
    w.bitwidths = std::max(w.bitwidths, line.bitwidths.size());
    w.memory = std::max(w.memory, line.memory.size());
  }
  return w;
}

/// Cells left for the bars: 0 where they would be too short.
std::size_t bar_width(const Widths& widths, std::size_t columns) {
  if (columns == 0) return kLongestBar;
  const std::size_t taken = widths.all() + 1;
  if (columns < taken + kShortestBar) return 0;
  return std::min(kLongestBar, columns - taken);
}

}  // namespace

double used_ratio(const StageMemory& memory) {
  return memory.capacity_bytes > 0 ? memory.total_bytes / memory.capacity_bytes : 0;
}

std::string stage_table(const PipelinePlan& plan) {
  const std::size_t columns = text_columns();
  std::vector<Line> lines;
  Widths w;
  for (const Words words : {Words::all, Words::short_bitwidths, Words::short_memory}) {
    lines = lines_of(plan.stages, words);
    w = widths_of(lines);
    if (columns == 0 || w.all() <= columns) break;
  }
  const std::size_t bar = bar_width(w, columns);
  std::string text =
      paint(Tone::faint,
            fmt::format("  {:>{}}  {:<{}}  {:<{}}  {:<{}}  {:>{}}  {:>{}}  memory", "stage",
                        w.stage, "device", w.device, "layers", w.layers, "bitwidths", w.bitwidths,
                        "prefill", w.time, "decode", w.time)) +
      "\n";
  for (const Line& line : lines) {
    text += fmt::format("  {:>{}}  {:<{}}  {:<{}}  {:<{}}  {:>{}}  {:>{}}  {}{}{}\n", line.stage,
                        w.stage, line.device, w.device, line.layers, w.layers, line.bitwidths,
                        w.bitwidths, line.prefill, w.time, line.decode, w.time,
                        memory_bar(*line.bar, bar), bar > 0 ? " " : "", line.memory);
  }
  return text;
}

}  // namespace tessera::solver
