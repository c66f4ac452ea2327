#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/json_fwd.h"
#include "tessera/core/record.h"
#include "tessera/quant/quantise.h"

namespace tessera::quant {

struct CheckpointProgress {
  std::int64_t done = 0, total = 0;  ///< matrices
  std::int64_t layer_index = 0;      ///< of the last one
};

struct CheckpointRequest {
  std::string model;                    ///< folder of safetensors with config.json
  std::string out;                      ///< folder to write
  std::vector<std::int32_t> bitwidths;  ///< [num_layers]: 3, 4, 8, or 16 to leave a layer as it is
  Method method = Method::rtn;
  /// Bitwidth and scale_type aside, which follow the layer and the type of its weights. SmoothQuant
  /// is symmetric and per channel whatever this says.
  Scheme scheme;
  std::string statistics;  ///< calibration file; "" for none
  bool overwrite = false;  ///< an earlier result of ours in `out` may go
  int num_threads = 0;     ///< 0: as many as there are processors
  std::function<void(const CheckpointProgress&)> progress;
};

/// What became of one stored matrix.
struct MatrixReport {
  std::string tensor;
  std::int64_t layer_index = 0;
  int bitwidth = 0;
  Method method = Method::rtn;    ///< rtn where GPTQ did worse
  double mse = 0, max_error = 0;  ///< of the weights
  std::optional<double> output_error, rtn_output_error;
};

struct CheckpointSummary {
  std::string out;
  std::uint64_t bytes_before = 0, bytes_after = 0;  ///< of all tensors
  std::vector<MatrixReport> matrices;
  double seconds = 0;
  std::vector<std::string> notes;  ///< what whoever loads the copy should know
};

}  // namespace tessera::quant

namespace tessera {

template <>
struct Fields<quant::CheckpointRequest> {
  using Request = quant::CheckpointRequest;
  static constexpr auto list = std::tuple{
      field<&Request::model>({.name = "model",
                              .doc = "Folder with safetensors and config.json",
                              .as_option = AsOption::required}),
      field<&Request::out>({.name = "out",
                            .doc = "Folder to write; it appears complete or not at all",
                            .as_option = AsOption::required}),
      field<&Request::method>(
          {.name = "method",
           .doc = "rtn; gptq, awq: with statistics; smoothquant: W8A8, with statistics",
           .as_option = AsOption::defaulted}),
      field<&Request::statistics>(
          {.name = "statistics", .doc = "Calibration file (tessera man statistics)"}),
      field<&Request::overwrite>(
          {.name = "overwrite",
           .doc = "Whether an earlier result in `out` may go once the new one is complete",
           .as_option = AsOption::defaulted})};
};

template <>
struct Fields<quant::MatrixReport> {
  using Report = quant::MatrixReport;
  static constexpr auto list = std::tuple{
      field<&Report::tensor>({.name = "tensor", .doc = "Its name"}),
      field<&Report::layer_index, NotInFiles>({.name = "layer_index", .doc = "Layer, from 0"}),
      field<&Report::bitwidth>({.name = "bitwidth", .doc = "Of its codes", .unit = "bits"}),
      field<&Report::method>({.name = "method", .doc = "What made them"}),
      field<&Report::mse>({.name = "mse", .doc = "Mean squared difference of the weights"}),
      field<&Report::max_error>({.name = "max_error", .doc = "Largest difference of a weight"}),
      field<&Report::output_error>({.name = "output_error",
                                    .doc = "Squared error of the outputs",
                                    .in_file = InFile::when_set}),
      field<&Report::rtn_output_error>({.name = "rtn_output_error",
                                        .doc = "The same by round-to-nearest",
                                        .in_file = InFile::when_set})};
};

template <>
struct Fields<quant::CheckpointSummary> {
  using Summary = quant::CheckpointSummary;
  static constexpr auto list = std::tuple{
      field<&Summary::out, NotInFiles>({.name = "out", .doc = "The folder"}),
      field<&Summary::bytes_before>({.name = "bytes_before", .doc = "Of all tensors of the model"}),
      field<&Summary::bytes_after>({.name = "bytes_after", .doc = "Of all tensors of the copy"}),
      field<&Summary::seconds, NotInFiles>({.name = "seconds", .doc = "Time it took", .unit = "s"}),
      field<&Summary::notes>({.name = "notes",
                              .doc = "What whoever loads it should know",
                              .in_file = InFile::when_set}),
      field<&Summary::matrices>(
          {.name = "matrices",
           .doc = "{ tensor, layer_index, bitwidth, method, mse, max_error, output_error, "
                  "rtn_output_error } of each, the last two where calibration gave them"})};
};

}  // namespace tessera

namespace tessera::quant {

/// Writes a copy of a model with its decoder layers quantised, in the layout of compressed-tensors,
/// which vLLM and transformers load: `pack-quantized` (W3, W4, W8 with 16-bit activations) or, for
/// SmoothQuant, `int-quantized` (W8A8, activations per token at run time). Embeddings, norms, LM
/// head and 16-bit layers are copied byte for byte, except what AWQ and SmoothQuant rewrite; so are
/// tokenizer and other small files. One matrix is in memory at a time, or those that share an
/// input.
///
/// AWQ and SmoothQuant scale the input channels of q, k, v and of gate, up (fc1 of OPT; gate and up
/// of all experts, which are in memory together, and the router, which stays in its type) and
/// divide the norm before them by the same; other matrices are rounded as they are. Families whose
/// norms are known: see `foldable_families`.
///
/// The folder appears complete or not at all: it is an OutputFolder (core/output.h). What a killed
/// process left is removed by the next one that writes the same folder, which says so.
/// @throws Error{invalid_argument, not_found, unsupported, io} naming what, where, and the numbers
CheckpointSummary quantise_checkpoint(const CheckpointRequest& request);

/// Families that AWQ and SmoothQuant can rewrite.
const std::vector<std::string>& foldable_families();

}  // namespace tessera::quant
