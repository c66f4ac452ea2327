#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "rows.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::cost::readers {
namespace {

constexpr double kMillisecond = 1e-3;
constexpr double kNoKernel_ms = 99998;  ///< the profiler writes 99999 where nothing could run

/// LLM-PQ's word for a bitwidth: "4", or "8:tc" and "8:tc-li", whose kernels are others than "8"'s.
void set_bitwidth(OpQuery& query, const CsvReader& csv, std::size_t column) {
  const std::string_view text = csv.field(column);
  const std::size_t colon = std::min(text.find(':'), text.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + colon, query.bitwidth);
  if (error != std::errc() || end != text.data() + colon || query.bitwidth < 1 ||
      query.bitwidth > 32) {
    csv.refuse(fmt::format("{} is {}, a bitwidth in [1, 32] such as 4 or 8:tc is needed",
                           csv.name_of(column), quote(text)));
  }
  query.dtype = colon < text.size() ? std::string(text) : "";
}

// The kernels were replaced in July 2023, INT8 by one three times as fast: two kernel sets.
const char* kernel_set_of_date(std::string_view date) {
  return date.substr(0, 7) < "2023-07" ? "llmpq_2023" : "llmpq_2023_08";
}

/// The published table, collected from notebooks and logs.
void read_collected(Rows& rows) {
  const CsvReader& csv = rows.csv;
  const std::size_t kind = csv.column("kind"), gpu = csv.require_column("gpu"),
                    model = csv.require_column("model"), shard = csv.require_column("shard"),
                    bit = csv.require_column("bit"), phase = csv.require_column("phase"),
                    batch = csv.require_column("batch"), tokens = csv.require_column("input_len"),
                    past = csv.require_column("past_len"),
                    latency = csv.require_column("latency_ms"), date = csv.require_column("date"),
                    source = csv.require_column("source");
  const std::vector<std::string>& kinds = rows.options.kinds;
  while (rows.next()) {
    if (kind != CsvReader::none &&
        std::find(kinds.begin(), kinds.end(), csv.field(kind)) == kinds.end()) {
      rows.skip(fmt::format("kind {}", csv.field(kind)));
      continue;
    }
    OpQuery query;
    query.op = Op::layer;
    const auto known_phase = named<Phase>(csv.field(phase));
    if (csv.field(model) == "unknown" || !known_phase) {
      rows.skip("no model or phase stated");
      continue;
    }
    query.model = csv.field(model);
    query.phase = *known_phase;
    if (csv.field(shard) != "attn+ffn")
      query.name = csv.field(shard).substr(0, csv.field(shard).find(' '));
    set_bitwidth(query, csv, bit);
    query.batch_size = rows.size(batch);
    query.tokens = rows.size(tokens);
    query.context_tokens = csv.number(past, 0, 1e9);
    rows.add(query, rows.latency_s(latency, kMillisecond), rows.device(csv.field(gpu)),
             rows.kernel_set(kernel_set_of_date(csv.field(date))),
             fmt::format("LLM-PQ, {}, {}", csv.field(source), csv.field(date)));
  }
}

/// Models that the profiler knows, by hidden and FFN size. OPT-1.3b and BLOOM-1b7 have the same.
std::string model_of_sizes(const Rows& rows, double hidden, double ffn) {
  if (!rows.options.model.empty()) return rows.options.model;
  struct Known {
    double hidden, ffn;
    const char* model;
  };
  static constexpr Known kModels[] = {
      {768, 3072, "opt-125m"},   {1024, 4096, "bloom-560m"}, {2560, 10240, "opt-2.7b"},
      {4096, 16384, "opt-6.7b"}, {5120, 20480, "opt-13b"},   {7168, 28672, "opt-30b"},
      {9216, 36864, "opt-66b"},  {12288, 49152, "opt-175b"}, {14336, 57344, "bloom-176b"}};
  for (const Known& known : kModels) {
    if (known.hidden == hidden && known.ffn == ffn) return known.model;
  }
  rows.csv.refuse(
      fmt::format("h1 {:g} and h2 {:g} are of no model that is known by its sizes; give "
                  "model = \"...\"",
                  hidden, ffn));
}

std::string device_of(const Rows& rows) {
  if (!rows.options.device.empty()) return rows.options.device;
  const std::string& path = rows.csv.path();
  const std::string file = path.substr(path.rfind('/') + 1);
  // "Tesla_V100-SXM2-32GB_profile.csv" and the like: spaces became underscores.
  for (std::size_t end = file.size(); end > 0; --end) {
    std::string name = file.substr(0, end);
    std::replace(name.begin(), name.end(), '_', ' ');
    const std::vector<DriverName> known = called(rows.options.driver_names, name);
    if (!known.empty()) return known.front().device;
  }
  refuse(path,
         "the profiler's tables do not say their device, and the file's name does "
         "not begin with one; give device = \"...\"");
}

/// What the profiler writes: shard 0 is attention, 1 the FFN, 2 the layer.
void read_profiler(Rows& rows) {
  const CsvReader& csv = rows.csv;
  const std::size_t shard = csv.require_column("shard"), hidden = csv.require_column("h1"),
                    ffn = csv.require_column("h2"), bit = csv.require_column("bit"),
                    batch = csv.require_column("batch_size"),
                    tokens = csv.require_column("input_seq_length"),
                    past = csv.require_column("past_seq_length"),
                    latency = csv.require_column("lat_avg");
  const std::string device = device_of(rows);
  const std::string kernel_set = rows.kernel_set("llmpq_2023");
  while (rows.next()) {
    OpQuery query;
    query.op = Op::layer;
    static constexpr const char* kNames[] = {"self_attn", "ffn", ""};
    query.name = kNames[csv.integer(shard, 0, 2)];
    set_bitwidth(query, csv, bit);
    query.batch_size = rows.size(batch);
    query.tokens = rows.size(tokens);
    query.context_tokens = csv.number(past, 0, 1e9);
    query.phase = query.tokens == 1 && query.context_tokens > 0 ? Phase::decode : Phase::prefill;
    const double hidden_size = rows.size(hidden), ffn_size = rows.size(ffn);
    if (rows.empty_row()) continue;
    query.model = model_of_sizes(rows, hidden_size, ffn_size);
    if (rows.latency_s(latency, kMillisecond) > kNoKernel_ms * kMillisecond) {
      rows.skip("no kernel for its bitwidth");
    }
    rows.add(query, rows.latency_s(latency, kMillisecond), device, kernel_set, "LLM-PQ profiler");
  }
}

}  // namespace

void read_llmpq(Rows& rows) {
  if (rows.csv.column("lat_avg") != CsvReader::none) return read_profiler(rows);
  read_collected(rows);
}

}  // namespace tessera::cost::readers
