#include "tessera/serving/models_summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "parts.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"

namespace tessera::serving {
namespace {

/// What a run would have logged had there been no other model.
Log log_of_model(const Log& log, std::int32_t model) {
  Log part;
  part.end = log.end;
  part.cut_off = log.cut_off;
  part.stuck = log.stuck;
  for (const RequestRecord& r : log.requests) {
    if (r.model == model) part.requests.push_back(r);
  }
  for (const std::int32_t engine : log.models[static_cast<std::size_t>(model)].engines) {
    part.replicas.push_back(log.replicas[static_cast<std::size_t>(engine)]);
  }
  return part;
}

/// Of the requests of a log that were answered, in the summary's window or not.
struct Costs {
  double gpu_s = 0, byte_s = 0;
  std::int64_t count = 0;

  void add(const RequestRecord& r, const ModelRecord& model) {
    if (!finished(r)) return;
    gpu_s += static_cast<double>(model.num_devices) * e2e_s(r);
    byte_s += model.memory_bytes * e2e_s(r);
    ++count;
  }
  std::optional<double> mean(double sum) const {
    return count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
  }
};

ModelSummary model_summary(const Log& log, const SummaryOptions& options, std::int32_t number) {
  const ModelRecord& record = log.models[static_cast<std::size_t>(number)];
  ModelSummary summary;
  summary.name = record.name;
  summary.placed = record.placed != kNever;
  if (summary.placed) summary.placed_at_s = to_seconds(record.placed);
  summary.devices = record.devices;
  summary.layers = record.layers;
  if (!record.configuration.empty()) summary.configuration = Json::parse(record.configuration);
  summary.why = record.why;
  summary.num_gpus = record.num_devices;
  summary.memory_bytes = record.memory_bytes;
  const Log part = log_of_model(log, number);
  Costs costs;
  for (const RequestRecord& r : part.requests) costs.add(r, record);
  summary.gpu_s = costs.mean(costs.gpu_s);
  summary.cost_byte_s = costs.mean(costs.byte_s);
  summary.run = summarise(part, options_of_model(log, options, number));
  return summary;
}

}  // namespace

SummaryOptions options_of_model(const Log& log, const SummaryOptions& options, std::int32_t model) {
  SummaryOptions own = options;
  own.slo_classes.clear();
  own.prompt_tokens.clear();
  own.ranks_gaps = false;  // they are kept of all together
  for (std::size_t i = 0; i < log.requests.size(); ++i) {
    if (log.requests[i].model != model) continue;
    if (!options.slo_classes.empty()) own.slo_classes.push_back(options.slo_classes[i]);
    if (!options.prompt_tokens.empty()) own.prompt_tokens.push_back(options.prompt_tokens[i]);
  }
  return own;
}

ModelsSummary summarise_models(const Log& log, const Summary& whole,
                               const SummaryOptions& options) {
  ModelsSummary summary;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(log.models.size()); ++i) {
    summary.models.push_back(model_summary(log, options, i));
  }
  Costs costs;
  for (const RequestRecord& r : log.requests) {
    costs.add(r, log.models[static_cast<std::size_t>(r.model)]);
  }
  summary.gpu_s = costs.mean(costs.gpu_s);
  summary.cost_byte_s = costs.mean(costs.byte_s);
  summary.memory_bytes = log.peak_memory_bytes;
  for (const DeviceRecord& device : log.devices) {
    const double busy = log.end > 0 ? to_seconds(device.busy) / to_seconds(log.end) : 0;
    summary.gpus.push_back({device.name, busy, device.peak_bytes, device.total_bytes});
    summary.num_gpus_used += device.was_used ? 1 : 0;
  }
  if (summary.num_gpus_used > 0) {
    summary.request_per_s_per_gpu =
        whole.request_per_s / static_cast<double>(summary.num_gpus_used);
  }
  return summary;
}

namespace {

/// As much of a text as has room.
std::string shortened(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 2) + "..";
}

/// "0-3,6"
std::string ranges_of(std::vector<std::int32_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  std::vector<std::string> parts;
  for (std::size_t i = 0, next = 0; i < numbers.size(); i = next) {
    for (next = i + 1; next < numbers.size() && numbers[next] <= numbers[next - 1] + 1;) ++next;
    const std::int32_t first = numbers[i], last = numbers[next - 1];
    parts.push_back(first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last));
  }
  return join(parts, ",");
}

std::string model_row(const ModelSummary& m) {
  const std::string name = shortened(m.name, 22);
  if (!m.placed) {
    return fmt::format("{:<22} {}\n", name, shortened("no place: " + m.why, 57));
  }
  const std::string answered = fmt::format("{}/{}", m.run.num_finished, m.run.num_requests);
  const auto seconds = [](const std::optional<double>& value) {
    return value ? format_seconds(*value) : std::string("-");
  };
  const std::string within =
      m.run.attainment_ratio ? fmt::format("{:.1f} %", 100 * *m.run.attainment_ratio) : "-";
  return fmt::format("{:<22} {:<11} {:>12} {:>10} {:>10} {:>9}\n", name,
                     shortened(ranges_of(m.devices), 11), answered, seconds(m.run.e2e_s.p50),
                     seconds(m.run.e2e_s.p99), within);
}

}  // namespace

std::string describe(const ModelsSummary& s) {
  std::string text = fmt::format("{:<22} {:<11} {:>12} {:>10} {:>10} {:>9}\n", "model", "GPUs",
                                 "answered", "E2E p50", "p99", "in SLO");
  for (const ModelSummary& m : s.models) text += model_row(m);
  double least = 1, most = 0, sum = 0;
  for (const GpuSummary& gpu : s.gpus) {
    least = std::min(least, gpu.busy_ratio);
    most = std::max(most, gpu.busy_ratio);
    sum += gpu.busy_ratio;
  }
  if (s.gpus.empty()) return text;
  text += fmt::format(
      "GPUs         {} of {} used, {} req/s for each; busy {:.1f} % ({:.1f} to {:.1f})\n",
      s.num_gpus_used, s.gpus.size(), format_number(s.request_per_s_per_gpu, 3),
      100 * sum / static_cast<double>(s.gpus.size()), 100 * least, 100 * most);
  return text;
}

}  // namespace tessera::serving
