#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/device_sheet.h"
#include "tessera/core/record.h"
#include "tessera/cost/op.h"

namespace tessera::cost {

/// What the file does not say, or what goes before what it says.
struct ReadOptions {
  std::string format;                             ///< one of `sample_formats`; empty: by the header
  std::string device;                             ///< empty: the file's
  std::string kernel_set;                         ///< empty: the file's, or the format's
  std::string model;                              ///< of layers; empty: the file's
  std::vector<std::string> kinds = {"measured"};  ///< of LLM-PQ's table: which rows count
  std::vector<DriverName> driver_names = {};      ///< that files may have for devices
};

/// "tessera", "aiconfigurator", "vidur", "helix", "llmpq".
std::vector<std::string_view> sample_formats();

/// Rows that were left out, and why.
struct SkippedRows {
  std::string reason;  ///< "zero tokens"
  std::int64_t count = 0;
  std::size_t first_line = 0;
};

struct SampleFile {
  std::string format;
  std::vector<Sample> samples;  ///< in the order of the file, without the shapes of layers
  std::vector<SkippedRows> skipped;
  std::int64_t num_repeats = 0;  ///< rows that were taken into the median of an earlier one

  std::int64_t num_skipped() const;

  /// "t4.csv: left out 1 row with zero tokens (line 1)"; empty where none was.
  std::string warning(const std::string& path) const;
};

}  // namespace tessera::cost

namespace tessera {

template <>
struct Fields<cost::ReadOptions> {
  using Options = cost::ReadOptions;
  static constexpr auto list = std::tuple{
      field<&Options::format>({.name = "format",
                               .doc = "Whose table it is; default: by its header",
                               .choices = cost::sample_formats}),
      field<&Options::device>(
          {.name = "device",
           .doc = "Device that was measured, where the file does not say or says it otherwise"}),
      field<&Options::kernel_set>(
          {.name = "kernel_set",
           .doc = "Kernels that were measured; default: the file's, modern (aiconfigurator), vllm "
                  "(Vidur, Helix), or LLM-PQ's of the row's date"}),
      field<&Options::model>(
          {.name = "model",
           .doc = "Model whose layers were measured, where the file does not say"}),
      field<&Options::kinds>({.name = "kinds",
                              .doc = "Of a table with a column `kind`: the rows to take",
                              .as_option = AsOption::defaulted})};
};

template <>
struct Fields<cost::SkippedRows> {
  using Rows = cost::SkippedRows;
  static constexpr auto list =
      std::tuple{field<&Rows::reason>({.name = "reason", .doc = "Why"}),
                 field<&Rows::count>({.name = "count", .doc = "How many"}),
                 field<&Rows::first_line>({.name = "first_line", .doc = "Where the first is"})};
};

template <>
struct Fields<cost::SampleFile> {
  using File = cost::SampleFile;
  static constexpr auto list = std::tuple{
      field<&File::format>({.name = "format", .doc = "Whose table it is"}),
      field<&File::num_repeats>(
          {.name = "num_repeats", .doc = "Rows taken into the median of an earlier one"}),
      field<&File::skipped>({.name = "skipped", .doc = "Rows that were left out, by reason"}),
      field<&File::num_skipped>({.name = "num_skipped", .doc = "All rows that were left out"})};
};

}  // namespace tessera

namespace tessera::cost {

/// Reads measured latencies:
/// - tessera: device, kernel_set, dtype, op, phase, batch, tokens, context, latency_s, source, and
///   per op n, k, m, num_heads, num_kv_heads, head_dim, window, kv_dtype, model, bitwidth, name,
///   bytes, num_devices. `op` may be absent: n and k make a gemm, num_heads attention, the rest are
///   layers. A gemm without m has batch times tokens rows. A layer without bitwidth has that of its
///   dtype (float16, int8, int4_wo, int3).
/// - aiconfigurator: its gemm, attention, nccl and custom all-reduce tables, in ms.
/// - vidur: its mlp, attention and collectives tables, medians in ms. A row gives a sample per op.
/// - helix: tokens (prompt) or requests (decode), ms per layer; no header, no context. Phase,
///   device and model are in the path: llama1_30b/t4x2/prompt_bs2time.csv.
/// - llmpq: the profiler's CSV (shard, bit, lat_avg in ms), or the collected table with kind, gpu
///   and latency_ms, of which rows of other kinds, or without a model, are skipped.
/// A row with a size of zero is skipped and counted. Rows of one query, device, kernel set and
/// source are one sample, of their median. @throws Error{invalid_argument} naming file and line for
/// a missing column, a size or latency that is no positive number, and rows of one query whose
/// latencies are more than a factor of two apart.
SampleFile read_samples(const std::string& path, const ReadOptions& options);
/// The same of text; `path` is for messages and for what the path says.
SampleFile parse_samples(std::string_view text, const std::string& path,
                         const ReadOptions& options);

/// [sample] the first sample of the same query, device, kernel set and source. `place` says where a
/// sample is from. @throws Error{invalid_argument} for two whose latencies are more than a factor
/// of two apart.
std::vector<std::size_t> first_of_repeats(const std::vector<Sample>& samples,
                                          const std::function<std::string(std::size_t)>& place);

}  // namespace tessera::cost
