#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/enum_names.h"
#include "tessera/core/json_fwd.h"
#include "tessera/core/record.h"

namespace tessera::quant {

enum class PruneMethod {
  wanda_2_4,   ///< of every four inputs of an output two weights stay
  wanda_4_8,   ///< of every eight, four
  structured,  ///< whole channels of networks and whole groups of heads go: a smaller shape
};

struct PruneRequest {
  std::string model;  ///< folder of safetensors with config.json
  PruneMethod method = PruneMethod::wanda_2_4;
  std::optional<double> ratio;  ///< of the weights of the layers' matrices that go
  std::string statistics;       ///< calibration file
  std::string out;              ///< folder to write
  std::function<void(std::int64_t done, std::int64_t total)> progress;  ///< tensors
};

struct PruneSummary {
  std::string out;
  PruneMethod method = PruneMethod::wanda_2_4;
  double ratio = 0;  ///< as it came out
  std::uint64_t bytes_before = 0, bytes_after = 0;
  std::int64_t num_heads = 0, num_kv_heads = 0, ffn_size = 0;  ///< of the copy
  double seconds = 0;
  std::vector<std::string> notes = {};
};

}  // namespace tessera::quant

namespace tessera {

template <>
inline constexpr auto kEnumNames<quant::PruneMethod> =
    enum_names<quant::PruneMethod>({{quant::PruneMethod::wanda_2_4, "wanda_2_4"},
                                    {quant::PruneMethod::wanda_4_8, "wanda_4_8"},
                                    {quant::PruneMethod::structured, "structured"}});

template <>
struct Fields<quant::PruneRequest> {
  using Request = quant::PruneRequest;
  static constexpr auto list = std::tuple{
      field<&Request::model>({.name = "model",
                              .doc = "Folder with safetensors and config.json",
                              .as_option = AsOption::required}),
      field<&Request::method>(
          {.name = "method",
           .doc = "wanda_2_4, wanda_4_8: half of the weights become zeros, two of four or four of "
                  "eight; structured: channels of the networks and groups of heads go",
           .as_option = AsOption::required}),
      field<&Request::ratio>({.name = "ratio",
                              .doc = "Of the weights of the layers that go, above 0 and below 1; "
                                     "default: 0.5, of structured 0.25"}),
      field<&Request::statistics>(
          {.name = "statistics",
           .doc = "Calibration file of the model, as lm:calibrate writes it",
           .as_option = AsOption::required}),
      field<&Request::out>({.name = "out",
                            .doc = "Folder to write; it appears complete or not at all",
                            .as_option = AsOption::required})};
};

template <>
struct Fields<quant::PruneSummary> {
  using Summary = quant::PruneSummary;
  static constexpr auto list = std::tuple{
      field<&Summary::out, NotInFiles>({.name = "out", .doc = "The folder"}),
      field<&Summary::method>({.name = "method", .doc = "As asked for"}),
      field<&Summary::ratio>({.name = "ratio", .doc = "Of the weights of the layers that went"}),
      field<&Summary::bytes_before>({.name = "bytes_before", .doc = "Of all tensors of the model"}),
      field<&Summary::bytes_after>({.name = "bytes_after", .doc = "Of all tensors of the copy"}),
      field<&Summary::num_heads>({.name = "num_heads", .doc = "Query heads of the copy"}),
      field<&Summary::num_kv_heads>({.name = "num_kv_heads", .doc = "Its KV heads"}),
      field<&Summary::ffn_size>({.name = "ffn_size", .doc = "Width of its networks"}),
      field<&Summary::seconds, NotInFiles>({.name = "seconds", .doc = "Time it took", .unit = "s"}),
      field<&Summary::notes>({.name = "notes",
                              .doc = "What whoever loads it should know",
                              .in_file = InFile::when_set})};
};

}  // namespace tessera

namespace tessera::quant {

/// Writes a pruned copy of a model: safetensors, config.json, tokenizer and other small files.
///
/// Wanda (Sun et al., ICLR 2024, section 3): a weight counts as |weight| times the norm of its
/// input over the calibration text, and is compared with the others of its output. Nothing is
/// trained. The zeros are stored, so that the copy runs wherever the model does and is as large;
/// kernels for 2:4 store 9 bits of 16.
///
/// Structured: a channel of a network counts as the energy that it adds to the output, mean square
/// of its input times the squared weights behind it, and so does a group of query heads with the KV
/// head that they share, which goes or stays as a whole. All layers keep as many, since config.json
/// has one number for them. Groups go in their share of `ratio`, rounded down, and channels make up
/// for the rest. OPT's heads stay: its config has no width of a head.
///
/// The folder appears complete or not at all. Memory: a tensor at a time.
/// @throws Error{invalid_argument, out_of_range, not_found, unsupported, io} naming what and where
PruneSummary prune_model(const PruneRequest& request);

}  // namespace tessera::quant
